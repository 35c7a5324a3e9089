"""Prepares a program for IREE's compiler: runs the pipeline and attaches the program's signature."""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from itertools import accumulate
from typing import Any

from torch_mlir import ir

from tiduc.backends.backend import CALLBACK, Lowered, Options
from tiduc.backends.iree.emitter import within
from tiduc.backends.iree.fast.work import THREADED, work
from tiduc.backends.iree.fast.workgroups import declare_workgroup, detached
from tiduc.backends.iree.faults.functions import NEVER_INLINED
from tiduc.backends.iree.joined import may_be_inlined
from tiduc.backends.iree.linear_algebra.host import calls_back
from tiduc.backends.iree.pipeline import Stage, legalize, walk
from tiduc.backends.iree.refused import refuse_types
from tiduc.backends.iree.settings import Settings
from tiduc.backends.iree.source import Source
from tiduc.backends.iree.targets import (
    IN_ORDER,
    IN_TILES,
    INLINED,
    KERNELS,
    REASSOCIATED,
    SMALL_KERNELS,
    TARGETS,
    TILED,
    Target,
    find_target,
)
from tiduc.dialect.constants import has_resources
from tiduc.dialect.context import stage
from tiduc.dialect.costs import size_in_bytes
from tiduc.dialect.emit import bytecode
from tiduc.dialect.errors import RequestError
from tiduc.dialect.functions import functions_in, symbol
from tiduc.dialect.graph import operations
from tiduc.runtime.signature import DEVICE, LAPACK, REFLECTION, reflection

_PLACED = 2**15
"""The fewest bytes of a program's arrays for which a further step of the compiler, to place them, pays."""


@stage
def source_of(program: Lowered, options: Options) -> Source:
    """The source of a program for the target that the options name.

    If one thread is to run the program, or the loops of a program whose other dispatches have work for several, small
    loops are put into dispatches. IREE rejects some of these dispatches, some products in tiles, and some of the loops
    whose iterations the host counts: the source has alternatives without them and without kernels of vectors
    (`otherwise`). Raises `CompileError` if the target lacks one of the element
    types, `RequestError` if it cannot call LAPACK back and the options ask for that.
    """
    target = find_target(options.target)
    return _source(program, target, _settings(target, options))


@stage
def _source(program: Lowered, target: Target, settings: Settings, by_count: bool = True) -> Source:
    """The source of a program; with `by_count`, the host counts the iterations of loops."""
    module = program.module.operation.clone().operation
    refuse_types(module, target)
    # Products that convolutions become are as fast without data tiling; the work of kernels of vectors is not known.
    planned = work(module)
    data_tiled = settings.cpu and settings.fast and planned.tiled
    in_tiles = walk("speed", module, settings) + walk("tiles", module, settings)
    kernels = detached(module)  # the other passes have nothing to do in them
    one_thread = target.device == "local-sync"
    uncounted = module.clone().operation if settings.fast and settings.cpu else None
    counted = walk("host", module, settings) if by_count else 0
    legalize(module, settings)
    empty = Source("", target.name, f"@{program.name}")
    if not settings.fast:
        return _described(program, module, kernels, empty)
    if not settings.cpu:
        plain_settings = replace(settings, fast=False)
        source = replace(empty, flags=IN_ORDER, otherwise=partial(_source, program, target, plain_settings))
        return _with_text(program, settings, kernels, module, "", source)
    rest = work(module)
    threaded = planned.threaded or rest.threaded
    # Products in tiles outside of loops: threads share their work, although loops run in one thread.
    divided = planned.beside - rest.beside >= THREADED
    flags = (*REASSOCIATED, *IN_ORDER, *(TILED if data_tiled else ()), *(IN_TILES if in_tiles else ()))
    otherwise = None
    if counted:
        otherwise = partial(_source, program, target, settings, by_count=False)
    elif in_tiles and settings.vectors:
        otherwise = partial(_source, program, target, replace(settings, vectors=""))
    finished = partial(_with_text, program, settings, kernels)
    device_for_threads = "local-task" if one_thread else ""
    plain = replace(empty, flags=flags, otherwise=otherwise, threaded=threaded or not one_thread)
    plain = finished(module, device_for_threads if threaded else "", plain)
    if threaded or has_resources(module) or not (one_thread or divided):
        return plain
    if counted:  # loops in kernels need no rewrites for the host
        legalize(uncounted, settings)
        module = uncounted
    if not walk("loops", module, settings):
        return plain
    source = plain
    if one_thread:
        source = finished(
            module, target.device, replace(empty, flags=(*flags, *KERNELS), otherwise=lambda: plain)
        )
    if divided:
        for_one_thread, flags = source, (*flags, *SMALL_KERNELS)
        source = replace(empty, flags=flags, otherwise=lambda: for_one_thread, threaded=True)
        source = finished(module, device_for_threads, source)
    return source


def _with_text(
    program: Lowered, settings: Settings, kernels: Sequence[Any], module: Any, device: str, source: Source
) -> Source:
    """The source with the text of a module after the last stages of the pipeline.

    If loops update carries in place, the first alternative lets IREE copy carries, since its compiler crashes on some
    nested loops that update them in place.
    """

    def after(*stages: Stage) -> tuple[int, Source]:
        copy = module.clone().operation
        counts = [walk(stage, copy, settings) for stage in stages]
        return counts[0], _described(program, copy, kernels, source, device)

    in_place, described = after("carries", "regions")
    if not in_place:
        return described
    _, alternative = after("regions")
    return replace(described, otherwise=lambda: alternative)


def _settings(target: Target, options: Options) -> Settings:
    """The pipeline's settings for a target."""
    # A system's linker finds the C library, which some of what is emitted for CPUs calls.
    cpu = target.shared
    if options.lapack == CALLBACK and not cpu:
        cpus = ", ".join(known.name for known in TARGETS.values() if known.shared)
        raise RequestError(f"target {target.name!r} cannot call LAPACK back, as these can: {cpus}")
    return Settings(
        cpu=cpu,
        spirv=target.spirv,
        cuda=target.name.partition(":")[0] == "cuda",
        tensor_cores=target.tensor_cores,
        lapack=options.lapack,
        fused=target.fused,
        vectors=target.vectors,
        fast=options.fast,
    )


def _described(
    program: Lowered, module: Any, kernels: Sequence[Any], source: Source, device: str = ""
) -> Source:
    """The source with a module, which has locations for diagnostics and the signature as reflection attributes.

    Copies of the kernels are put at the module's end. If the text has functions of repeats, the first alternative has
    none: IREE's compiler rejects some functions that take a constant apart.
    """
    copies = [kernel.clone(ir.InsertionPoint(module.regions[0].blocks[0])).operation for kernel in kernels]
    of_module = {DEVICE: ir.StringAttr.get(device)} if device else {}
    if calls_back(module):
        of_module[LAPACK] = ir.StringAttr.get(CALLBACK)
    first, *rest = functions_in(module)
    signatures = {symbol(first): program.signature, **program.others}
    for function in (first, *(each for each in rest if symbol(each) in program.others)):
        said = {REFLECTION: ir.StringAttr.get(reflection(signatures[symbol(function)])), **of_module}
        function.attributes["iree.reflection"] = ir.DictAttr.get(said)
    if kernels:
        source = replace(source, flags=(*source.flags, *INLINED))
    if has_resources(module):
        return replace(source, stablehlo=bytecode(module))
    workgroups = dict(map(declare_workgroup, copies))
    repeats = any(NEVER_INLINED in op.attributes for op in operations(module.regions[0].blocks[0]))
    # MLIR may choose the generic form because of ops that it does not know; the other ops do not need it.
    text = str(module.get_asm(enable_debug_info=True, assume_verified=True))
    places = _has_arrays_to_place(module, source)
    result = replace(source, stablehlo=text, workgroups=workgroups, places_arrays=places)
    if not repeats:
        return result

    def inlined() -> Source:
        return replace(result, stablehlo=may_be_inlined(result.text).decode("utf-8", "surrogateescape"))

    return replace(result, repeats=True, otherwise=inlined)


def _has_arrays_to_place(module: Any, source: Source) -> bool:
    """Whether a program is for CPUs and has arrays that are worth placing."""
    if not {*IN_ORDER, *REASSOCIATED} <= set(source.flags):
        return False
    sizes = (size_in_bytes(y) for op in within(module) for y in op.results)
    return any(total >= _PLACED for total in accumulate(sizes))
