"""Programs for what runs a function `main` and nothing else: XLA, and the reference interpreter."""

from typing import TYPE_CHECKING, Any

from torch_mlir import ir

from tiduc.dialect.context import stage
from tiduc.passes.import_stablehlo import NAME
from tiduc.runtime.resources import inlined
from tiduc.runtime.xla import XlaExecutable

if TYPE_CHECKING:
    from tiduc.program import Program

_PARTITIONS = "mhlo.num_partitions"


@stage
def compile_for_xla(program: "Program", target: str) -> XlaExecutable:
    """The program as XLA compiles it, for as many devices as it is partitioned for."""
    text, partitions = _text(program)
    return XlaExecutable(text, program.signature, target, program.name, partitions)


def _text(program: "Program") -> tuple[str, int]:
    """Its text as XLA takes it, whose function is `main`, and the number of its devices."""
    module, function = _with_main(program)
    for side in ("arg_attrs", "res_attrs"):  # XLA does not know the dialect of our names
        if side in function.attributes:
            kept = [_without_name(attributes) for attributes in ir.ArrayAttr(function.attributes[side])]
            function.attributes[side] = ir.ArrayAttr.get(kept)
    count = module.attributes[_PARTITIONS] if _PARTITIONS in module.attributes else None
    return inlined(str(module)), ir.IntegerAttr(count).value if count is not None else 1


@stage
def text_with_main(program: "Program") -> str:
    """Its text, with the name `main` for its function."""
    return str(_with_main(program)[0])


def _with_main(program: "Program") -> tuple[Any, Any]:
    """A copy of its module, and of the function in it, which is named `main`."""
    module = program.module.operation.clone().operation
    function = next(iter(module.regions[0].blocks[0].operations)).operation
    function.attributes["sym_name"] = ir.StringAttr.get("main")
    return module, function


def _without_name(attributes: Any) -> Any:
    return ir.DictAttr.get({a.name: a.attr for a in ir.DictAttr(attributes) if a.name != NAME})
