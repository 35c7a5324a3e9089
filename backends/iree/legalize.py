"""The driver: applies the patterns to every op of a module and to the ops that patterns emit."""

from typing import Any

from torch_mlir import ir

from tiduc.backends.iree.assertions import assert_sizes
from tiduc.backends.iree.emitter import CPU_ONLY, ON_OPEN_SIZES, ON_SPIRV, PATTERNS, Emitter, Pattern, within
from tiduc.backends.iree.faults.concatenations import starts_apart
from tiduc.backends.iree.faults.conflicting_reads import separate_reads
from tiduc.backends.iree.faults.donation import results_after_reads
from tiduc.backends.iree.faults.float8 import computed_in_f32
from tiduc.backends.iree.faults.reads_before_updates import updates_after_reads
from tiduc.backends.iree.faults.single_iterations import simplify_loops
from tiduc.backends.iree.lapack import CALLBACK, LAPACK, LOOPS
from tiduc.backends.iree.missing.dynamic.arrays import has_open_sizes
from tiduc.backends.iree.refused import check
from tiduc.dialect.context import run_passes, stage
from tiduc.dialect.errors import RequestError

_NATIVE = (
    "builtin.module(func.func("
    "chlo-legalize-to-stablehlo,stablehlo-legalize-deprecated-ops{fail-on-unused=false},"
    "stablehlo-canonicalize-dynamism))"
)
"""StableHLO's own passes: they expand CHLO and deprecated ops, and make dynamic ops of constant sizes static."""


@stage
def legalize_for_iree(
    module: Any, cpu: bool = True, spirv: bool = False, lapack: str = LOOPS, fused: bool = False
) -> None:
    """Rewrites a StableHLO module, in place, so that IREE computes it correctly.

    `cpu` enables the patterns for CPUs, `spirv` those for Vulkan and Metal. `fused` says that the target has a fused
    multiply-add instruction. With `lapack` = "callback", factorizations call LAPACK on the host. Raises `Unsupported`
    for an op that IREE cannot run, `RequestError` for an unknown `lapack`, or for "callback" without `cpu`.
    """
    _check_lapack(lapack, cpu)
    check(module, cpu)
    assert_sizes(module)
    run_passes(module.operation, _NATIVE)
    computed_in_f32(module)
    simplify_loops(module)
    waiting = within(module.operation)[::-1]
    while waiting:
        op = waiting.pop()
        patterns = _patterns(op, cpu, spirv)
        if not patterns:
            continue
        name, b = op.name, Emitter(ir.InsertionPoint(op), op.location, cpu, lapack == CALLBACK, fused)
        results = next((found for pattern in patterns if (found := pattern(b, op)) is not None), None)
        # An emitted op with the replaced op's name is final; emitted ops with other names may need a pattern.
        emitted = [inner for made in b.emitted if made is not None for inner in within(made)]
        waiting += [inner for inner in dict.fromkeys(emitted) if inner.name != name][::-1]
        if results is not None:
            if len(op.regions):
                inside = set(within(op))
                waiting = [inner for inner in waiting if inner not in inside]
            for old, new in zip(op.results, results, strict=True):
                old.replace_all_uses_with(new)
            op.erase()
    separate_reads(module)
    updates_after_reads(module)
    starts_apart(module)
    results_after_reads(module, cpu)
    module.operation.verify()


def _check_lapack(lapack: str, cpu: bool) -> None:
    if lapack not in LAPACK:
        raise RequestError(f"unknown way to factorize {lapack!r}; there are: {', '.join(LAPACK)}")
    if lapack == CALLBACK and not cpu:
        raise RequestError("LAPACK is called back by code for CPUs only")


def _patterns(op: Any, cpu: bool, spirv: bool) -> list[Pattern]:
    """The patterns for an op, in the order in which they are tried."""
    name = op.name
    found = [ON_OPEN_SIZES[name]] if name in ON_OPEN_SIZES and has_open_sizes(op) else []
    if spirv and name in ON_SPIRV:
        found.append(ON_SPIRV[name])
    if name in PATTERNS and (cpu or PATTERNS[name] not in CPU_ONLY):
        found.append(PATTERNS[name])
    return found
