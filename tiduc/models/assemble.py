"""Builds a `Model` from the results of an exporter: StableHLO, names of inputs and outputs, and arrays of weights."""

from collections.abc import Mapping, Sequence
from typing import Any

from torch_mlir import ir

from tiduc.dialect.errors import Unsupported
from tiduc.dialect.mlir.context import parse, stage
from tiduc.dialect.ops.verify import FROZEN, HELD, NAME
from tiduc.models.constants import entry_of, freeze
from tiduc.models.model import Model, model_of
from tiduc.runtime.arrays import Array


@stage
def assemble(
    written: bytes,
    inputs: Sequence[str],
    outputs: Sequence[str | None],
    weights: Mapping[str, Array],
    lift_constants: bool,
    *,
    held: Mapping[str, str] | None = None,
    frozen: Mapping[str, str] | None = None,
) -> Model:
    """The model of a StableHLO module, which is given as bytecode.

    `inputs` has the names of the module's inputs, weights included, and `outputs` the names of its outputs. With
    `lift_constants`, the weights are the first inputs; otherwise they become constants. `held` maps weights that
    training does not update to the reasons. `frozen` maps weights that, in addition, have no gradient to the reasons.
    Raises `Unsupported` if an input or output is not a tensor.
    """
    module = parse(written)
    function = entry_of(module)
    type_ = ir.FunctionType(ir.TypeAttr(function.attributes["function_type"]).value)
    if len(inputs) != len(type_.inputs) or len(outputs) != len(type_.results):
        raise Unsupported("an input or output of the model is not a tensor", function.location)
    function.attributes["sym_name"] = ir.StringAttr.get("main")
    function.attributes["arg_attrs"] = _attributes(inputs, held or {}, frozen or {})
    function.attributes["res_attrs"] = _attributes(outputs, {}, {})
    if lift_constants:
        return model_of(module, weights)
    freeze(module, weights)
    return model_of(module, {})


def _attributes(names: Sequence[str | None], held: Mapping[str, str], frozen: Mapping[str, str]) -> Any:
    def one(name: str | None) -> Any:
        texts = {NAME: name, HELD: held.get(name or ""), FROZEN: frozen.get(name or "")}
        return ir.DictAttr.get({key: ir.StringAttr.get(text) for key, text in texts.items() if text})

    return ir.ArrayAttr.get([one(name) for name in names])
