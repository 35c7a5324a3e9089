"""Prepares a program for IREE's compiler: rewrites it for speed, legalizes it, and attaches its signature."""

from typing import Any

from torch_mlir import ir

from tiduc.backends.backend import CALLBACK, LOOPS, Lowered
from tiduc.backends.iree import legalize_for_iree
from tiduc.backends.iree.compile import Source
from tiduc.backends.iree.element_types import refuse_types
from tiduc.backends.iree.fast.barriers import barriers_at_reductions
from tiduc.backends.iree.fast.convolution import convolutions_to_products
from tiduc.backends.iree.fast.lanes import reductions_in_lanes
from tiduc.backends.iree.fast.loops import loops_to_kernels
from tiduc.backends.iree.fast.sines import sines_to_kernels
from tiduc.backends.iree.fast.work import work
from tiduc.backends.iree.lapack import calls_back
from tiduc.backends.iree.targets import KERNELS, TARGETS, TILED, find_target
from tiduc.dialect.constants import has_resources
from tiduc.dialect.context import stage
from tiduc.dialect.emit import bytecode
from tiduc.dialect.errors import RequestError
from tiduc.runtime.signature import DEVICE, LAPACK, REFLECTION, reflection


@stage
def source_of(program: Lowered, target: str, lapack: str = LOOPS) -> Source:
    """The source of a program for a target.

    If one thread is to run the program, small loops and sines of large arrays are put into dispatches, and the source
    without these dispatches is compiled if they do not compile. With `lapack` = "callback", factorizations call LAPACK
    on the host. Raises `CompileError` if the target lacks one of the program's element types, `RequestError` for
    "callback" on a target that is not a CPU.
    """
    chosen = find_target(target)
    # A system's linker finds the C library, which some of what is emitted for CPUs calls.
    cpu = chosen.linker == "system"
    if lapack == CALLBACK and not cpu:
        cpus = ", ".join(known.name for known in TARGETS.values() if known.linker == "system")
        raise RequestError(f"target {target!r} cannot call LAPACK back, as these can: {cpus}")
    module = program.module.operation.clone().operation
    refuse_types(module, chosen)
    if cpu:
        convolutions_to_products(module)
        barriers_at_reductions(module)
        reductions_in_lanes(module)
    alone = chosen.device == "local-sync"
    others = module.clone().operation if alone and chosen.fused else None
    legalize_for_iree(module, cpu, chosen.spirv, lapack, chosen.fused)
    name = f"@{program.name}"
    if not cpu:
        return Source(_described(program, module), target, name)
    much = work(module)
    flags = TILED if much.tiled else ()
    device = "local-task" if alone and much.threaded else ""
    plain = Source(_described(program, module, device), target, name, flags)
    if not alone or much.threaded or has_resources(module):
        return plain
    made = 0
    if others is not None and (made := sines_to_kernels(others)):
        legalize_for_iree(others, cpu, chosen.spirv, lapack, chosen.fused)
        module = others
    if loops_to_kernels(module) + made:
        kernels = _described(program, module, chosen.device)
        return Source(kernels, target, name, (*flags, *KERNELS), plain)
    return plain


def _described(program: Lowered, module: Any, device: str = "") -> str | bytes:
    """The module as text or bytecode, with locations for diagnostics and the signature as reflection attributes."""
    function = next(iter(module.regions[0].blocks[0].operations)).operation
    described = {REFLECTION: ir.StringAttr.get(reflection(program.signature))}
    if device:
        described[DEVICE] = ir.StringAttr.get(device)
    if calls_back(module):
        described[LAPACK] = ir.StringAttr.get(CALLBACK)
    function.attributes["iree.reflection"] = ir.DictAttr.get(described)
    if has_resources(module):
        return bytecode(module)
    # MLIR may choose the generic form because of ops that it does not know; the other ops do not need it.
    return str(module.get_asm(enable_debug_info=True, assume_verified=True))
