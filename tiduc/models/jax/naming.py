"""Sets attributes on functions of a module that name the exported derivatives of these functions."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from torch_mlir import ir

from tiduc.dialect.graph.functions import functions_in, replace_by_call, symbol, within
from tiduc.dialect.ops.control_ops import DERIVATIVES, TRANSPOSE_SOLVE

_COMPOSITE = "stablehlo.composite"


@dataclass(frozen=True)
class OwnDerivative:
    """A derivative to export. `function` computes it, and `arguments` are the types of the arguments of `function`.

    The derivative belongs to the composites with the name `of`, or to the derivative with the name `of`. If `of` is
    empty, it belongs to the composites with the name `name`. `attribute` is the entry of `NAMED_GRAPHS` for this kind
    of derivative. `level` is the level of the derivative. `inputs` is the number of arguments of the composites. If
    `is_symmetric`, the function is a linear map that equals its adjoint, and the composites solve its system.
    """

    name: str
    attribute: str
    function: Callable[..., Any]
    arguments: tuple[Any, ...]
    level: int
    inputs: int
    of: str = ""
    is_symmetric: bool = False

    @property
    def first_tangent(self) -> int | None:
        """The index of the first tangent among the arguments of a JVP. None for other derivatives."""
        return self.inputs if self.attribute == DERIVATIVES[0] else None


def name_derivatives(module: ir.Module, derivatives: Sequence[OwnDerivative]) -> None:
    """Replaces each composite that has a derivative by a call of its decomposition.

    Sets attributes on the decomposition that name the derivatives. The name of a derivative is also the name of the
    function in the module that computes it.
    """
    functions = {symbol(op): op for op in functions_in(module)}
    of_name: dict[str, list[OwnDerivative]] = {}
    for own in derivatives:
        of_name.setdefault(own.of or own.name, []).append(own)
        functions[own.name].attributes["sym_visibility"] = ir.StringAttr.get("private")
    for composite in within(module.operation, [_COMPOSITE]):
        name = ir.StringAttr(composite.attributes["name"]).value
        if name in of_name:
            callee = ir.FlatSymbolRefAttr(composite.attributes["decomposition"]).value
            for own in of_name[name]:
                functions[callee].attributes[own.attribute] = ir.FlatSymbolRefAttr.get(own.name)
                if own.is_symmetric:
                    functions[callee].attributes[TRANSPOSE_SOLVE] = ir.FlatSymbolRefAttr.get(callee)
                if own.attribute == TRANSPOSE_SOLVE:
                    functions[own.name].attributes[TRANSPOSE_SOLVE] = ir.FlatSymbolRefAttr.get(callee)
            replace_by_call(composite.operation, callee)
    of_derivatives = {own.name for own in derivatives if own.of}
    for own in derivatives:
        if own.of in of_derivatives:
            functions[own.of].attributes[own.attribute] = ir.FlatSymbolRefAttr.get(own.name)
