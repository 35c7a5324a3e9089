"""XLA as a backend: compiles StableHLO text for as many devices as the program is partitioned for."""

from torch_mlir import ir

from tiduc.backends.backend import Backend, Lowered, Options
from tiduc.backends.named_main import with_main
from tiduc.backends.xla.executable import XlaExecutable
from tiduc.dialect.errors import RequestError, Unsupported
from tiduc.dialect.mlir.context import stage
from tiduc.dialect.mlir.resources import inlined
from tiduc.dialect.ops.attributes import named_attributes

_PARTITIONS = "mhlo.num_partitions"


@stage
def compile_for_xla(program: Lowered, options: Options) -> XlaExecutable:
    """Compiles the program with XLA.

    Raises `RequestError` if the options ask for the host's LAPACK, and `Unsupported` if an input has a dynamic
    dimension.
    """
    if options.lapack != Options.lapack:
        raise RequestError("--lapack is for IREE only: XLA has its own LAPACK")
    if dynamic := [port.name for port in program.signature.inputs if None in port.type.shape]:
        raise Unsupported(
            f"XLA compiles static shapes only, and {dynamic[0]} has a dynamic dimension; make its shape static, or use "
            "the engine iree"
        )
    module, function = with_main(program.module)
    for side in ("arg_attrs", "res_attrs"):  # XLA does not know the dialect `tidu`
        if side in function.attributes:
            kept = [_without_ours(attributes) for attributes in ir.ArrayAttr(function.attributes[side])]
            function.attributes[side] = ir.ArrayAttr.get(kept)
    count = module.attributes[_PARTITIONS] if _PARTITIONS in module.attributes else None
    partitions = ir.IntegerAttr(count).value if count is not None else 1
    return XlaExecutable(inlined(str(module)), program.signature, options.target, program.name, partitions)


def _without_ours(attributes: ir.DictAttr) -> ir.DictAttr:
    own = named_attributes(attributes)
    return ir.DictAttr.get({name: value for name, value in own.items() if not name.startswith("tidu.")})


BACKEND = Backend("xla", "compile with XLA, which needs JAX: pip install 'tiduc[xla]'", compile_for_xla)
