"""The ONNX operators that `tiduc import` accepts: python test/sweep/onnx_operators.py

Runs ONNX's own test cases of every operator, each in a separate process, and writes docs/onnx.md. A case's
first float array is the input; its other arrays become part of the model. Exits with 1 where results differ
from ONNX's or a process dies. Takes about ten minutes; with names of operators, only these are run, and the
page is printed instead.
"""

import os
import pickle
import signal
import sys
import warnings
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
from onnx import numpy_helper
from onnx.backend.test.case.node import collect_testcases

import tiduc
from tiduc.backends.reference.interpreter import evaluate

PAGE = Path(__file__).resolve().parents[2] / "docs" / "onnx.md"
SECONDS = 60
NOT_RUN = "not run here"
ABOUT = """# Operators of ONNX

Which operators `tiduc import` and `tiduc.from_onnx` take, by ONNX's own cases of each; written by
`python test/sweep/onnx_operators.py`. *Right* are cases whose program computes what ONNX says. Others are refused, with
a diagnostic that says why; the first of the reasons is here. Cases that draw at random, of sequences, and of elements
that StableHLO's interpreter has none of are not counted.

| operator | cases | right | the others |
|---|---|---|---|
"""


def main(wanted: list[str]) -> int:
    by_outcome: dict[str, list[tuple[str, str, str]]] = defaultdict(list)
    outcome(next(case for operator, _, case in cases() if operator == "Add"))  # imports what all cases need
    for operator, name, case in cases():
        if not wanted or operator in wanted:
            by_outcome[operator].append((name, *apart(case)))
    text = page(by_outcome)
    print(text) if wanted else PAGE.write_text(text)
    bad = [row for rows in by_outcome.values() for row in rows if row[1] in ("wrong", "ended")]
    for row in bad:
        print(*row, file=sys.stderr)
    return int(bool(bad))


def cases() -> Iterator[tuple[str, str, Any]]:
    """(operator, name, case) of the cases with one node whose inputs and outputs are arrays."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        collected = collect_testcases(None)
    for case in collected:
        if case.model is None or not case.data_sets or "expanded" in case.name:
            continue
        nodes = [node for node in case.model.graph.node if node.op_type != "Constant"]
        ends = [x for side in case.data_sets[0] for x in side]
        if (
            len(nodes) == 1
            and not nodes[0].domain
            and all(isinstance(x, np.ndarray | np.generic) for x in ends)
        ):
            yield nodes[0].op_type, case.name, case


def apart(case: Any) -> tuple[str, str]:
    """The outcome of a case and its reason, in a separate process: some of torch-mlir's errors end the process."""
    receiver, sender = os.pipe()
    if not (child := os.fork()):
        signal.alarm(SECONDS)
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
        os.write(sender, pickle.dumps(outcome(case)))
        os._exit(0)
    os.close(sender)
    with os.fdopen(receiver, "rb") as pipe:
        data = pipe.read()
    os.waitpid(child, 0)
    return pickle.loads(data) if data else ("ended", "the process ended")


def outcome(case: Any) -> tuple[str, str]:
    inputs, expected = case.data_sets[0]
    graph = case.model.graph
    arrays = dict(zip([value.name for value in graph.input], map(np.asarray, inputs), strict=True))
    floats = [name for name, x in arrays.items() if x.dtype.kind == "f"]
    kept = (floats or [*arrays, None])[0]
    if any(is_narrow(x) for x in (*arrays.values(), *map(np.asarray, expected))):
        return NOT_RUN, ""
    values = [value for value in graph.input if value.name == kept]
    del graph.input[:]
    graph.input.extend(values)
    graph.initializer.extend(numpy_helper.from_array(x, name) for name, x in arrays.items() if name != kept)
    try:
        program = tiduc.from_onnx(case.model, lift_constants=True)
        if "stablehlo.rng" in str(program):
            return NOT_RUN, ""
        results = evaluate(str(program), program.arguments(*([arrays[kept]] if kept else [])))
    except tiduc.TiducError as error:
        return "refused", str(error).removeprefix("error: ").partition("\n")[0]
    return ("right" if all(map(is_close, results, expected)) else "wrong"), ""


def is_narrow(x: Any) -> bool:
    return x.dtype.kind not in "biufc" or x.dtype in (ml_dtypes.bfloat16, np.dtype("O"))


def is_close(x: Any, y: Any) -> bool:
    y = np.asarray(y)
    tolerance = 5e-3 if y.dtype == np.float16 else 1e-4
    return x.shape == y.shape and np.allclose(
        x.astype(np.complex128), y.astype(np.complex128), rtol=tolerance, atol=tolerance, equal_nan=True
    )


def page(by_outcome: Mapping[str, list[tuple[str, str, str]]]) -> str:
    rows = []
    for operator, outcomes in sorted(by_outcome.items()):
        counts = Counter(kind for _, kind, _ in outcomes if kind != NOT_RUN)
        reasons = Counter(why for _, kind, why in outcomes if kind == "refused")
        first = next(iter(reasons), "").replace("|", r"\|")
        others = [f"{counts['wrong']} give other numbers"] if counts["wrong"] else []
        others += [shortened(first)] if first else []
        if counts:
            rows.append(f"| {operator} | {counts.total()} | {counts['right']} | {'; '.join(others)} |\n")
    return ABOUT + "".join(rows)


def shortened(why: str, width: int = 110) -> str:
    return why if len(why) <= width else why[: why.rindex(" ", 0, width)] + " ..."


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
