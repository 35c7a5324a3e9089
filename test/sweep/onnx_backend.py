"""Runs ONNX's backend tests: python test/sweep/onnx_backend.py [--every N] [--jobs N] [--light] [NAME...]

Imports the model of each test, and runs the program on the test's inputs with StableHLO's interpreter, or with IREE if
the interpreter lacks an op. The results must equal the expected results of the test. If the import fails because it
needs the value of an input or the size of a result, the test runs again with this value or size, and is counted
separately. Tests of sequences and strings are not counted. Writes docs/onnx_backend.md and docs/onnx.md. The exit
status is 1 if a result is wrong or a process dies.

    --every N    run every N-th test, and print the tables instead of writing the pages
    NAME...      run only tests whose names contain a NAME, and print the tables instead of writing the pages
    --light      also run the nine image models, which take minutes, on the engine that `--engine` names
"""

import argparse
import os
import pickle
import resource
import select
import signal
import sys
import warnings
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from counts import summary
from onnx import numpy_helper
from onnx.backend.test.case.node import collect_testcases

import tiduc
from tiduc.backends.reference.interpreter import evaluate
from tiduc.models.onnx.inputs import needed_constants
from tiduc.runtime import worker

DOCS = Path(__file__).resolve().parents[2] / "docs"
DATA = Path(onnx.__file__).parent / "backend" / "test" / "data"
SECONDS, GIBIBYTES = 120, 8
RIGHT, CONSTANT, WRONG, REFUSED, DIED = "right", "right with constants", "wrong", "refused", "crash"
KINDS = (RIGHT, CONSTANT, WRONG, REFUSED, DIED)
ABOUT = """# ONNX's backend tests

This page has the results of the tests of `onnx.backend.test` whose inputs and outputs are numeric tensors. Models are
imported as ONNX provides them, and get all inputs when the program runs. `python test/sweep/onnx_backend.py --light`
writes this page. *Right with constants* counts tests that need the value of an input when the model is imported
(`--constant INPUT=ARRAY`), or the size of a result that depends on data (`--size RESULT.AXIS=N`), and are right with
this value or size. Random results are compared by type and shape. Tests of sequences and strings are not counted.

"""
OPERATORS = """# Operators of ONNX

This page lists the operators that `tiduc import` and `tiduc.from_onnx` support, with the results of ONNX's own tests.
A test counts for the operator of its first node. `python test/sweep/onnx_backend.py` writes this page. A test is
*right* if the program computes the values that ONNX expects. The other tests are refused, with a diagnostic; the last
column has the first of these diagnostics.

| operator | tests | right | the others |
|---|---|---|---|
"""


@dataclass(frozen=True)
class Case:
    """A test: a model, its inputs, the expected results, and their tolerances."""

    name: str
    model: Any
    inputs: list[Any]
    expected: list[Any]
    rtol: float = 1e-4
    atol: float = 1e-5

    @property
    def operator(self) -> str:
        kinds = [node.op_type for node in self.model.graph.node]
        return next((kind for kind in kinds if kind not in ("Constant", "Identity")), kinds[0])


@dataclass(frozen=True)
class Outcome:
    """The outcome of a test. `kind` is one of `KINDS`, `operator` is the type of the model's first node, and `why` is
    the reason if the test fails."""

    name: str
    operator: str
    kind: str
    why: str = ""


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--every", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--light", action="store_true")
    parser.add_argument("--engine", choices=("iree", "xla"), default="iree")
    parser.add_argument("names", nargs="*")
    given = parser.parse_args(arguments)
    chosen = [case for case in list(cases())[:: given.every] if matches(case.name, given.names)]
    outcomes = list(run_all(chosen, given.jobs))
    text = page(outcomes, given.every) + (light_table(given.names, given.engine) if given.light else "")
    if given.names or given.every > 1:
        print(text)
    else:
        (DOCS / "onnx_backend.md").write_text(text)
        (DOCS / "onnx.md").write_text(operators_page(outcomes))
    bad = [each for each in outcomes if each.kind in (WRONG, DIED)]
    for each in bad:
        print(each.kind, each.name, each.why, file=sys.stderr)
    print(summary(Counter(each.kind for each in outcomes)))
    return int(bool(bad))


def matches(name: str, wanted: Sequence[str]) -> bool:
    return not wanted or any(each in name for each in wanted)


def cases() -> Iterator[Case]:
    """Yields the tests whose inputs and outputs are numeric tensors."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        collected = collect_testcases(None)
    for case in collected:
        if case.model is not None and case.data_sets:
            inputs, expected = ([array(x) for x in side] for side in case.data_sets[0])
            if all(x is not None and is_numeric(x.dtype) for x in (*inputs, *expected)):
                tolerances = max(case.rtol, 1e-4), max(case.atol, 1e-5)
                yield Case(case.name, case.model, inputs, expected, *tolerances)
    for kind in ("simple", "pytorch-converted", "pytorch-operator"):
        yield from stored_cases(DATA / kind)


def stored_cases(folder: Path) -> Iterator[Case]:
    for path in sorted(folder.iterdir()):
        model, data = onnx.load(path / "model.onnx"), path / "test_data_set_0"
        ends = [*model.graph.input, *model.graph.output]
        if all(x.type.HasField("tensor_type") for x in ends):
            sides = [
                [array(read(p)) for p in sorted(data.glob(f"{side}_*.pb"))] for side in ("input", "output")
            ]
            yield Case(path.name, model, *sides, rtol=1e-3)


def read(path: Path) -> Any:
    tensor = onnx.TensorProto()
    tensor.ParseFromString(path.read_bytes())
    return tensor


def array(x: Any) -> Any:
    """Returns the array of an input or result. Returns None for a sequence or an optional."""
    if isinstance(x, onnx.TensorProto):
        return numpy_helper.to_array(x)
    return np.asarray(x) if isinstance(x, np.ndarray | np.generic) else None


def is_numeric(dtype: Any) -> bool:
    return bool(dtype.kind in "biufc" or dtype.name in (*NARROW, *HELD))


# ---- processes ---------------------------------------------------------------------------------------------


def run_all(chosen: Sequence[Case], jobs: int) -> Iterator[Outcome]:
    """Runs each test in a forked process with limits of time and memory, and yields the outcomes.

    The process imports the model itself, because this is faster than tiduc's worker process. If the process dies, the
    test runs again, and the worker imports the model, as it does for users.
    """
    worker._serving = True
    if chosen:
        outcome(chosen[0])  # imports packages before the forks, so that each process need not import them
    waiting = [(case, False) for case in reversed(chosen)]
    running: dict[int, tuple[int, Case, bool]] = {}
    while waiting or running:
        while waiting and len(running) < jobs:
            case, in_worker = waiting.pop()
            pipe, child = started(case, in_worker)
            running[pipe] = (child, case, in_worker)
        for pipe in select.select(list(running), [], [])[0]:
            data = os.read(pipe, 1 << 12)  # the process writes its outcome by one call
            child, case, in_worker = running.pop(pipe)
            os.close(pipe)
            os.waitpid(child, 0)
            if not data and not in_worker:
                waiting.append((case, True))
                continue
            kind, why = pickle.loads(data) if data else (DIED, "the process ended")
            yield Outcome(case.name, case.operator, kind, why)


def started(case: Case, in_worker: bool) -> tuple[int, int]:
    """Starts a process for a test. Returns the pipe that will receive the outcome, and the id of the process.

    With `in_worker`, tiduc's worker process imports the model.
    """
    receiver, sender = os.pipe()
    child = os.fork()
    if child:
        os.close(sender)
        return receiver, child
    signal.alarm(SECONDS)
    resource.setrlimit(resource.RLIMIT_AS, (GIBIBYTES << 30, GIBIBYTES << 30))
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
    worker._serving = not in_worker
    try:
        kind, why = outcome(case)
        os.write(sender, pickle.dumps((kind, why[:1000])))
    finally:
        os._exit(0)


# ---- one test ----------------------------------------------------------------------------------------------


def outcome(case: Case) -> tuple[str, str]:
    initialized = {x.name for x in case.model.graph.initializer}
    names = [value.name for value in case.model.graph.input if value.name not in initialized]
    arrays = dict(zip(names, case.inputs, strict=True))
    try:
        return (RIGHT if is_right(case, arrays) else WRONG), ""
    except tiduc.TiducError as error:
        why = str(error).removeprefix("error: ").partition("\n")[0]
    if "--constant" not in why and "--size" not in why:
        return REFUSED, why
    constants = {name: arrays[name] for name in needed_constants(case.model.graph)}
    ends = zip(case.model.graph.output, case.expected, strict=True)
    sizes = {f"{y.name}.{d}": n for y, array in ends for d, n in enumerate(array.shape)}
    try:
        return (
            CONSTANT if is_right(case, arrays, constants, sizes if "--size" in why else {}) else WRONG
        ), ""
    except tiduc.TiducError as error:
        return REFUSED, str(error).removeprefix("error: ").partition("\n")[0]


def is_right(
    case: Case,
    arrays: Mapping[str, Any],
    constants: Mapping[str, Any] | None = None,
    sizes: Mapping[str, int] | None = None,
) -> bool:
    """Whether the program has the results of the test. Only types and shapes of random results are compared."""
    model = type(case.model)()
    model.CopyFrom(case.model)
    program = tiduc.from_onnx(model, constants=constants, sizes=sizes)
    given = [held(x) for name, x in arrays.items() if name not in (constants or {})]
    expected = [held(y) for y in case.expected]
    types = [(y.type.shape, y.type.dtype) for y in program.signature.outputs]
    if types != [(y.shape, y.dtype) for y in expected]:
        return False
    if "stablehlo.rng" in str(program):
        return True
    return all(is_close(x, y, case) for x, y in zip(ran(program, given), expected, strict=True))


def held(x: Any) -> Any:
    """Returns the array, with 8-bit integers instead of 2- and 4-bit integers, which tiduc's programs do not take."""
    return x.astype(HELD.get(x.dtype.name, x.dtype))


HELD = {"int4": np.int8, "uint4": np.uint8, "int2": np.int8, "uint2": np.uint8}


def ran(program: Any, given: Sequence[Any]) -> list[Any]:
    """Returns the results of the program on the interpreter, or on IREE if the interpreter cannot run an op."""
    try:
        return interpreted(program, given)
    except tiduc.Unsupported:
        worker._serving = False  # IREE's compiler needs the worker process
        return [np.asarray(y) for y in program.compile()(*given)]


NARROW = ("bfloat16", "float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz")
NARROW += ("float8_e8m0fnu", "float4_e2m1fn")
"""The float types that NumPy does not have. The interpreter's bindings do not accept arrays of these types."""


def interpreted(program: Any, given: Sequence[Any]) -> list[Any]:
    """Returns the results of the program on the interpreter.

    Inputs of the types `NARROW` are passed as f32, and converted in the program. Outputs of these types are converted
    to f32 in the program.
    """
    text, ends = str(program), (program.signature.inputs, program.signature.outputs)
    if not any(v.type.dtype.name in NARROW for side in ends for v in side):
        return list(evaluate(text, given))
    inputs, outputs = ([f"tensor<{v.type}>" for v in side] for side in ends)
    wide_inputs, wide_outputs = ([wide(v.type) for v in side] for side in ends)
    lines = [f"func.func @main({', '.join(f'%x{i}: {t}' for i, t in enumerate(wide_inputs))}) -> "]
    lines += [f"({', '.join(wide_outputs)}) {{"]
    for i, (old, new) in enumerate(zip(wide_inputs, inputs, strict=True)):
        lines.append(f"%n{i} = stablehlo.convert %x{i} : ({old}) -> {new}")
    operands = ", ".join(f"%n{i}" for i in range(len(inputs)))
    lines.append(
        f"%y:{len(outputs)} = func.call @narrow({operands}) : ({', '.join(inputs)}) -> ({', '.join(outputs)})"
    )
    for i, (old, new) in enumerate(zip(outputs, wide_outputs, strict=True)):
        lines.append(f"%z{i} = stablehlo.convert %y#{i} : ({old}) -> {new}")
    lines.append(f"return {', '.join(f'%z{i}' for i in range(len(outputs)))} : {', '.join(wide_outputs)} }}")
    body = text.replace("func.func @main", "func.func private @narrow", 1)
    whole = body[: body.rindex("}")] + "\n".join(lines) + "\n}"
    return list(evaluate(whole, [x.astype(np.float32) if x.dtype.name in NARROW else x for x in given]))


def wide(type_: Any) -> str:
    written = f"tensor<{type_}>"
    return written.replace(type_.element, "f32") if type_.dtype.name in NARROW else written


def is_close(x: Any, y: Any, case: Case) -> bool:
    tolerance = {"float16": 5e-3, "bfloat16": 2e-2}.get(y.dtype.name, case.rtol)
    if y.dtype.name in NARROW:
        x, y = x.astype(np.float32), y.astype(np.float32)
    return x.shape == y.shape and np.allclose(x, y, rtol=tolerance, atol=max(case.atol, 1e-5), equal_nan=True)


# ---- the image models --------------------------------------------------------------------------------------


def light_table(names: Sequence[str], engine: str) -> str:
    """Returns the section of the page about the image models of the package onnx.

    It compares their outputs with the stored outputs, and counts the ops of the gradient with respect to the image.
    """
    rows = [
        "\n## Image models\n\nThe models of `onnx/backend/test/data/light`, with the input of ONNX's runner. "
    ]
    rows.append(
        "The error is the largest difference from the stored output, relative to its largest element.\n\n"
    )
    rows.append("| model | nodes | error | engine | ops of the gradient |\n|---|---|---|---|---|\n")
    for path in sorted((DATA / "light").glob("*.onnx")):
        name = path.stem.removeprefix("light_")
        if matches(name, names):
            try:
                rows.append(light_row(name, path, engine))
            except tiduc.TiducError as error:
                rows.append(f"| {name} | | refused: {shortened(str(error))} | {engine} | |\n")
            print(rows[-1], end="", file=sys.stderr, flush=True)
    return "".join(rows)


def light_row(name: str, path: Path, engine: str) -> str:
    model = onnx.load(path)
    program = tiduc.from_onnx(path)
    (port,) = program.signature.inputs
    sizes = [int(n or 1) for n in port.type.shape]
    image = (np.arange(np.prod(sizes)).reshape(sizes) / np.prod(sizes)).astype(np.float32)
    (y,) = program.compile(engine=engine)(image)
    wanted = array(read(path.with_name(f"{path.stem}_output_0.pb")))
    error = np.abs(np.asarray(y) - wanted).max() / np.abs(wanted).max()
    ops = str(program.vjp()).count(" = stablehlo.")
    return f"| {name} | {len(model.graph.node)} | {error:.1e} | {engine} | {ops} |\n"


# ---- the pages ---------------------------------------------------------------------------------------------


def page(outcomes: Sequence[Outcome], every: int) -> str:
    counts = Counter(each.kind for each in outcomes)
    total = len(outcomes) or 1
    sample = f"These are the figures of one test in {every} (`--every {every}`).\n\n" if every > 1 else ""
    rows = [sample, "| | tests | share |\n|---|---|---|\n"]
    rows += [f"| {kind} | {counts[kind]} | {counts[kind] / total:.1%} |\n" for kind in KINDS]
    rows.append(f"| all | {len(outcomes)} | |\n\n")
    rows.append("## Tests that are not right\n\n")
    rows.append("| first node | tests | outcome | reason of the first |\n|---|---|---|---|\n")
    groups: dict[tuple[str, str], list[Outcome]] = {}
    for each in sorted(outcomes, key=lambda o: (o.operator, o.kind)):
        if each.kind not in (RIGHT, CONSTANT):
            groups.setdefault((each.operator, each.kind), []).append(each)
    for (operator, kind), members in groups.items():
        rows.append(f"| {operator} | {len(members)} | {kind} | {shortened(members[0].why)} |\n")
    return ABOUT + "".join(rows)


def operators_page(outcomes: Sequence[Outcome]) -> str:
    groups: dict[str, list[Outcome]] = {}
    for each in sorted(outcomes, key=lambda o: o.operator):
        if "expanded" not in each.name:
            groups.setdefault(each.operator, []).append(each)
    rows = []
    for operator, members in groups.items():
        right = [each for each in members if each.kind in (RIGHT, CONSTANT)]
        why = next((each.why for each in members if each.kind == REFUSED), "")
        rows.append(f"| {operator} | {len(members)} | {len(right)} | {shortened(why)} |\n")
    return OPERATORS + "".join(rows)


def shortened(why: str, width: int = 130) -> str:
    why = why.replace("|", r"\|")
    return why if len(why) <= width else why[: why.rindex(" ", 0, width)] + " ..."


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
