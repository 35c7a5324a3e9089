"""Injects relative errors of 1e-4 into derivative rules, and counts how many of them `tiduc check` detects.

    python test/sweep/seeded_errors.py [--rules 60] [--every N]

First, the programs in test/lit and examples are differentiated to count how often each rule is used. Then an error is
injected into each of the most used rules: the tangents of a JVP rule, or the cotangents of a transpose rule, are
multiplied by 1.0001. The smallest program that uses the rule is checked. Its derivatives must pass the check without
the error, and must fail with the error.
"""

import argparse
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from counts import summary

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "test" / "py"))

import numpy as np  # noqa: E402
from harness.xla import by_xla, chosen  # noqa: E402

from tiduc.backends.backend import Lowered  # noqa: E402
from tiduc.backends.named_main import text_with_main  # noqa: E402
from tiduc.backends.reference.interpreter import Interpreted  # noqa: E402
from tiduc.backends.static_shapes import at_each_shape  # noqa: E402
from tiduc.checking.check import check, in_double  # noqa: E402
from tiduc.dialect.errors import TiducError  # noqa: E402
from tiduc.dialect.graph.graph import operations  # noqa: E402
from tiduc.dialect.mlir.context import parse, read  # noqa: E402
from tiduc.passes.rules import OPSET  # noqa: E402
from tiduc.passes.rules.registry import LinearizeRule, OpSet, TransposeRule  # noqa: E402
from tiduc.program import Program, from_module  # noqa: E402
from tiduc.runtime.arrays import Array, random_array  # noqa: E402
from tiduc.runtime.signature import TensorType  # noqa: E402

ERROR = 1e-4
FILES = (*sorted((ROOT / "test" / "lit").rglob("*.mlir")), *sorted((ROOT / "examples").glob("*.mlir")))
Source = Path | str  # a file, or the text of a program
KINDS = ("jvp", "transpose")
_SIZE = 3  # the size of each dynamic dimension
_LEFT_OUT = re.compile(
    r"all_|collective|reduce_scatter|cross_replica|manual_computation|partition|sharding|rng|gtsv|set_dimension_size"
)
"""Matches the names of files that are left out.

Their programs need several devices or CUDA, draw random numbers, or have sizes that depend on data.
"""

_NO_SUBJECT = ("tidu.", "stablehlo.rng")

OWN = (
    """func.func @cholesky(%x: tensor<3x3xf64>) -> tensor<3x3xf64> {
      %t = stablehlo.transpose %x, dims = [1, 0] : (tensor<3x3xf64>) -> tensor<3x3xf64>
      %p = stablehlo.dot %x, %t : (tensor<3x3xf64>, tensor<3x3xf64>) -> tensor<3x3xf64>
      %i = stablehlo.constant dense<[[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]]> : tensor<3x3xf64>
      %a = stablehlo.add %p, %i : tensor<3x3xf64>
      %y = stablehlo.cholesky %a, lower = true : tensor<3x3xf64>
      return %y : tensor<3x3xf64>
    }""",
    """func.func @polygamma(%x: tensor<3xf64>) -> tensor<3xf64> {
      %n = stablehlo.constant dense<2.0> : tensor<3xf64>
      %y = chlo.polygamma %n, %x : tensor<3xf64>, tensor<3xf64> -> tensor<3xf64>
      return %y : tensor<3xf64>
    }""",
    """func.func @pad(%x: tensor<3xf64>, %z: tensor<f64>) -> tensor<5xf64> {
      %one = stablehlo.constant dense<1> : tensor<1xi32>
      %none = stablehlo.constant dense<0> : tensor<1xi32>
      %y = stablehlo.dynamic_pad %x, %z, %one, %one, %none
        : (tensor<3xf64>, tensor<f64>, tensor<1xi32>, tensor<1xi32>, tensor<1xi32>) -> tensor<5xf64>
      return %y : tensor<5xf64>
    }""",
    """func.func @reshape(%x: tensor<6xf64>) -> tensor<2x3xf64> {
      %sizes = stablehlo.constant dense<[2, 3]> : tensor<2xi32>
      %y = stablehlo.dynamic_reshape %x, %sizes : (tensor<6xf64>, tensor<2xi32>) -> tensor<2x3xf64>
      return %y : tensor<2x3xf64>
    }""",
    """func.func @slice(%x: tensor<6xf64>) -> tensor<2xf64> {
      %start = stablehlo.constant dense<1> : tensor<1xi32>
      %limit = stablehlo.constant dense<5> : tensor<1xi32>
      %stride = stablehlo.constant dense<2> : tensor<1xi32>
      %y = stablehlo.real_dynamic_slice %x, %start, %limit, %stride
        : (tensor<6xf64>, tensor<1xi32>, tensor<1xi32>, tensor<1xi32>) -> tensor<2xf64>
      return %y : tensor<2xf64>
    }""",
)
"""Programs for rules whose ops have invalid arguments in all files if the program's arguments are random."""


@dataclass(frozen=True)
class Asked(OpSet):
    """An op set that counts how often each rule is used. A rule is identified by its kind and its op."""

    counts: Counter[tuple[str, str]] = field(default_factory=Counter)

    def linearize_rule(self, op: Any) -> LinearizeRule | None:
        rule = super().linearize_rule(op)
        if rule is not None:
            self.counts["jvp", self.key(op)] += 1
        return rule

    def transpose_rule(self, op: Any) -> TransposeRule:
        self.counts["transpose", self.key(op)] += 1
        return super().transpose_rule(op)


@dataclass(frozen=True)
class Seed:
    """A rule, and the programs that use it, the smallest first. A program is a source and the name of a function."""

    kind: str
    op: str
    uses: int
    places: tuple[tuple[Source, str], ...]


def seeds() -> list[list[Seed]]:
    """Returns the rules of each op that are used, the most used op first. An op has one or two rules."""
    total: Counter[tuple[str, str]] = Counter()
    places: dict[tuple[str, str], list[tuple[int, Source, str]]] = {}
    for source, entry, program in _programs():
        asked = program.opset
        assert isinstance(asked, Asked)
        for derive in (program.jvp, program.vjp):
            try:
                derive()
            except TiducError:
                pass
        total += asked.counts
        for key in asked.counts:
            places.setdefault(key, []).append((len(program.text), source, entry))
    most = Counter(
        {op: sum(total[kind, op] for kind in KINDS) for _, op in total if not op.startswith(_NO_SUBJECT)}
    )
    return [
        [
            Seed(kind, op, total[kind, op], _smallest(places[kind, op]))
            for kind in KINDS
            if (kind, op) in places
        ]
        for op, _ in most.most_common()
    ]


def _smallest(places: list[tuple[int, Source, str]]) -> tuple[tuple[Source, str], ...]:
    return tuple(place[1:] for place in sorted(places, key=lambda place: place[0]))


def outcomes(rules: int, every: int = 1) -> Iterator[tuple[Seed, bool | None]]:
    """Injects an error into each rule. Yields the rule, and whether the check detects the error.

    Yields None instead if no program with the rule can be checked.
    """
    count = 0
    for both in seeds():
        verdicts = [(seed, is_caught(seed)) for seed in both] if count % every == 0 else []
        yield from verdicts
        count += not verdicts or any(caught is not None for _, caught in verdicts)
        if count == rules:
            return


def seeded(seed: Seed) -> OpSet:
    """Returns an op set with an error in this rule."""
    opset = OPSET.extended()
    if seed.kind == "jvp":
        linearize = opset.linearize_rules[seed.op]
        opset.linearize_rules[seed.op] = lambda b, op, dx: [_wrong(b, dy) for dy in linearize(b, op, dx)]
    else:
        transpose = opset.transpose_rules[seed.op]
        opset.transpose_rules[seed.op] = lambda b, op, ct, active: [
            _wrong(b, cx() if callable(cx) and is_active else cx) if is_active else None
            for cx, is_active in zip(transpose(b, op, ct, active), active, strict=True)
        ]
    return opset


def is_caught(seed: Seed, tries: int = 8) -> bool | None:
    """Returns whether the check detects an error in the rule.

    Returns None if no program passes the check without the error.
    """
    for source, entry in seed.places[:tries]:
        module = _read(source)
        try:
            right, arguments = from_module(module, entry), None
            for arguments in _arguments(in_double(right)):
                comparisons = list(check(right, arguments, _run))
                if all(c.agrees for c in comparisons):
                    break
            else:
                continue
            assert arguments is not None
            wrong = from_module(module, entry, seeded(seed))
            return not all(c.agrees for c in check(wrong, arguments, _run))
        except (TiducError, RuntimeError, ValueError):  # such as a program that no engine runs
            continue
    return None


def _wrong(b: Any, tangent: Any | None) -> Any | None:
    return None if tangent is None else b.multiply(b.constant(1 + ERROR, tangent), tangent)


def _read(source: Source) -> Any:
    return parse(source) if isinstance(source, str) else read(source)


def _programs() -> Iterator[tuple[Source, str, Program]]:
    """Yields the public functions of all files, each as a program with a separate op set.

    Leaves out files that cannot be parsed, and functions that cannot be printed.
    """
    given = {f.name: getattr(OPSET, f.name) for f in fields(OpSet)}
    for source in (*OWN, *(path for path in FILES if not _LEFT_OUT.search(path.stem))):
        try:
            module = _read(source)
        except TiducError:
            continue
        for op in operations(module.body):
            if op.name != "func.func" or "sym_visibility" in op.attributes:
                continue
            name = op.attributes["sym_name"].value
            try:
                program = from_module(module, name, Asked(**given))
                program.text  # noqa: B018  (raises an error if the program cannot be printed)
            except TiducError:
                continue
            yield source, name, program


def _arguments(program: Program) -> Iterator[list[Array]]:
    """Yields four sets of random arguments, because functions may have small domains.

    Their floats are normal, positive, between 0 and 1, and above 1.
    """
    changes: tuple[Callable[[Any], Any], ...] = (
        lambda x: x,
        np.abs,
        lambda x: 1 / (1 + np.abs(x)),
        lambda x: 1 + np.abs(x),
    )
    for change in changes:
        generator = np.random.default_rng(0)
        types = [value.type for value in program.signature.inputs]
        static = [TensorType(tuple(n or _SIZE for n in t.shape), t.element) for t in types]
        drawn = [random_array(t, generator) for t in static]
        yield [change(x).astype(x.dtype) if x.dtype.kind in "fc" else x for x in drawn]


def _run(program: Program) -> Callable[..., Sequence[Array]]:
    return at_each_shape(program.lower(), _static)  # type: ignore[arg-type]  # a function serves


def _static(program: Lowered) -> Callable[..., Sequence[Array]]:
    text = text_with_main(program.module)
    engine = chosen(text)
    if engine is None and "custom_call" not in text:  # unknown calls crash the interpreter
        evaluate = Interpreted(text)
        return lambda *arrays: evaluate(arrays)
    by = engine or by_xla
    return lambda *arrays: by(text, arrays)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rules", type=int, default=60, help="how many of the most used rules")
    parser.add_argument("--every", type=int, default=1, help="take only every Nth rule")
    options = parser.parse_args()
    counts = Counter[str]()
    for seed, caught in outcomes(options.rules, options.every):
        outcome = {True: "caught", False: "missed", None: "not run"}[caught]
        counts[outcome] += 1
        print(f"{outcome:8} {seed.kind:9} {seed.op} ({seed.uses} uses)", flush=True)
    print(summary(counts))
    return int(counts["missed"] > 0)


if __name__ == "__main__":
    sys.exit(main())
