"""The backend `xla`: compiles StableHLO text with XLA, which may partition a program for several devices."""

from functools import partial

from torch_mlir import ir

from tiduc.backends.backend import Backend, Lowered, Options, Runnable
from tiduc.backends.named_main import with_main
from tiduc.backends.static_shapes import at_each_shape
from tiduc.backends.xla.executable import XlaExecutable, check_target
from tiduc.dialect.errors import RequestError
from tiduc.dialect.mlir.context import stage
from tiduc.dialect.mlir.resources import inlined
from tiduc.dialect.ops.attributes import named_attributes
from tiduc.dialect.ops.ir_types import IrOp
from tiduc.dialect.ops.shardy import partitions_of


def compile_for_xla(program: Lowered, options: Options) -> Runnable:
    """Compiles a program with XLA. A program with dynamic shapes is compiled at the first call with each shape.

    Raises `RequestError` if the options ask for the host's LAPACK, or if XLA lacks the target.
    """
    if options.lapack != Options.lapack:
        raise RequestError("--lapack is for IREE only: XLA has its own LAPACK")
    check_target(options.target)
    return at_each_shape(program, partial(_static, target=options.target))


@stage
def _static(program: Lowered, target: str) -> XlaExecutable:
    """Compiles a program whose shapes are static."""
    text, partitions = for_xla(program.module)
    return XlaExecutable(text, program.signature, target, program.name, partitions)


@stage
def for_xla(given: ir.Module | IrOp) -> tuple[str, int]:
    """Returns the text that XLA compiles for a module, and the number of the module's partitions.

    In the text, the module's first function is called `main`.
    """
    module, function = with_main(given)
    for side in ("arg_attrs", "res_attrs"):  # removes attributes of `tidu`, which XLA does not know
        if side in function.attributes:
            kept = [_without_ours(attributes) for attributes in ir.ArrayAttr(function.attributes[side])]
            function.attributes[side] = ir.ArrayAttr.get(kept)
    return inlined(str(module)), partitions_of(module)


def _without_ours(attributes: ir.DictAttr) -> ir.DictAttr:
    own = named_attributes(attributes)
    return ir.DictAttr.get({name: value for name, value in own.items() if not name.startswith("tidu.")})


BACKEND = Backend("xla", "compile with XLA, which needs JAX: pip install 'tiduc[xla]'", compile_for_xla)
