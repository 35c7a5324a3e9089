"""LoRA: adds adapters of low rank to linear layers of a model. Names and files are those of the library peft.

    y = dot(x, transpose(W))    ->    y + dot(dot(x, transpose(A)), transpose(alpha / r B)),    A: r x in, B: out x r

A is initially random and B is initially 0, so that the initial outputs are those of the model. All other weights are
frozen. The adapter of the layer `NAME` consists of the inputs `base_model.model.NAME.lora_A.weight` and
`base_model.model.NAME.lora_B.weight`. The input `lora_alpha` is alpha. The adapters of weights narrower than f32 are in
f32. Source: Hu et al., "LoRA: Low-Rank Adaptation of Large Language Models" (2021), section 4.1.
"""

import json
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from zlib import crc32

import numpy as np
from torch_mlir import ir

from tiduc.dialect.errors import InputError, RequestError
from tiduc.dialect.mlir.context import stage
from tiduc.dialect.ops.contractions import Contraction
from tiduc.dialect.shapes.types import is_float
from tiduc.models.model import Model, model_of
from tiduc.runtime.arrays import Array
from tiduc.runtime.files import written_whole
from tiduc.runtime.random_seed import is_random_seed
from tiduc.runtime.signature import SignatureValue, TensorType
from tiduc.runtime.weights import write_weights
from tiduc.training.function_inputs import FunctionInputs
from tiduc.training.integer_layers import Layer, integer_layers
from tiduc.training.precision import NAMES
from tiduc.training.quantization import dequantized

Tensor = ir.Value[ir.RankedTensorType]
ALPHA = "lora_alpha"
"""The name of the input alpha. The quotient alpha / rank scales the adapters."""
_PREFIX, _A, _B, _WEIGHT = "base_model.model.", ".lora_A.weight", ".lora_B.weight", ".weight"
_FILES = "adapter_model.safetensors", "adapter_config.json"
_DOT = "#stablehlo.dot<lhs_contracting_dimensions = [1], rhs_contracting_dimensions = [1]>"


@stage
def with_lora(model: Model, layers: Sequence[str], rank: int = 8, alpha: float = 8.0, seed: int = 0) -> Model:
    """Returns the model with an adapter for each linear layer whose name matches one of the patterns `layers`.

    `layers` are patterns as for file names. As in peft, A has a uniform distribution (Kaiming initialization). Its
    values depend only on `seed`, the layer's name and the shape of A. Raises `RequestError` if a pattern matches no
    layer, if a matched layer is not a `torch.nn.Linear`, or if `rank` is below 1.
    """
    if rank < 1:
        raise RequestError(f"the rank of an adapter is at least 1, not {rank}")
    inputs = FunctionInputs(model)
    added = {ALPHA: np.array(alpha, np.float32)}
    scale = inputs.add(ALPHA, [], ir.F32Type.get(), "the scale of the adapters")
    for name, uses in _matched(model, inputs, layers).items():
        weight = uses[0].product.operands[1].type
        (axis,) = Contraction.of(uses[0].product).summed[1]
        columns, rows = weight.shape[axis], weight.shape[1 - axis]
        element = weight.element_type if isinstance(weight.element_type, ir.F64Type) else ir.F32Type.get()
        wide = np.float64 if isinstance(element, ir.F64Type) else np.float32
        layer = _PREFIX + name
        draw = np.random.default_rng([seed, crc32(layer.encode())])  # independent of the order of the layers
        added[layer + _A] = draw.uniform(-(columns**-0.5), columns**-0.5, (rank, columns)).astype(wide)
        added[layer + _B] = np.zeros((rows, rank), wide)
        a = inputs.add(layer + _A, [rank, columns], element)
        b = inputs.add(layer + _B, [rows, rank], element)
        for use in uses:
            _adapt(use, a, b, scale)
    base = [port.name for port in model.inputs if port.name in model.weights and is_float(port.type)]
    inputs.freeze(base, "the base of adapters")
    adapted = model_of(inputs.finish(), {**model.weights, **added}, model.name, model.opset)
    return replace(adapted, loop_memory=model.loop_memory, memory=model.memory)


def _matched(model: Model, inputs: FunctionInputs, layers: Sequence[str]) -> dict[str, list[Layer]]:
    """Maps the name of each layer that matches a pattern to the uses of the layer."""
    named = {name.removesuffix(_WEIGHT): name for name in model.weights if name.endswith(_WEIGHT)}
    of_integers = integer_layers(model, inputs)
    known = list(dict.fromkeys([*named, *of_integers]))
    for pattern in layers:
        if not any(fnmatchcase(layer, pattern) for layer in known):
            raise RequestError(f"no layer matches {pattern!r}; the layers are {', '.join(known) or 'none'}")
    matched: dict[str, list[Layer]] = {}
    for layer in (x for x in known if any(fnmatchcase(x, pattern) for pattern in layers)):
        if layer in of_integers:
            matched[layer] = of_integers[layer]
            continue
        name = named[layer]
        if model.weights[name].ndim != 2:
            raise RequestError(f"an adapter needs a linear layer, and {name} is {model.weights[name].ndim}-D")
        matched[layer] = [Layer(each, each) for each in _products(name, inputs[name])]
        if not matched[layer]:
            raise RequestError(f"no product reads {name}, so it cannot have an adapter")
    return matched


def _products(name: str, weight: Tensor, turned: bool = False) -> Iterator[ir.Operation]:
    """Yields the products x transpose(W) that read a weight. Raises `RequestError` if any other op reads it."""
    for use in list(weight.uses):
        op = use.owner.operation
        if op.name == "stablehlo.transpose":
            yield from _products(name, op.results[0], not turned)
            continue
        dims = str(op.attributes["dot_dimension_numbers"]) if op.name == "stablehlo.dot_general" else ""
        contracted = f"rhs_contracting_dimensions = [{1 - turned:d}]"
        if use.operand_number != 1 or "batching" in dims or contracted not in dims:
            raise RequestError(
                f"{op.name} reads {name}, which is not the weight of a torch.nn.Linear,"
                " so it cannot have an adapter"
            )
        if "lhs_contracting_dimensions = [1]" not in dims or op.operands[0].type.rank != 2:
            raise RequestError(
                f"the product with {name} is not a product of matrices, so {name} cannot have an adapter"
            )
        yield op


def _adapt(layer: Layer, a: Tensor, b: Tensor, scale: Tensor) -> None:
    """Adds x transpose(A) transpose(alpha / r B) to the result x transpose(W) of a use of a layer."""
    product, last = layer
    x, y = product.operands[0], last.results[0]
    users = list(y.uses)
    ip = ir.InsertionPoint(product)
    element, rows, rank = a.type.element_type, x.type.shape[0], a.type.shape[0]

    def emit(
        name: str,
        shape: Sequence[int],
        operands: Sequence[Tensor],
        element: ir.Type = element,
        **attributes: ir.Attribute,
    ) -> Tensor:
        type_ = ir.RankedTensorType.get(shape, element)
        op = ir.Operation.create(name, [type_], list(operands), attributes, ip=ip, loc=product.location)
        result: Tensor = op.results[0]
        return result

    def dot(x: Tensor, y: Tensor) -> Tensor:
        numbers = ir.Attribute.parse(_DOT)
        return emit("stablehlo.dot_general", [rows, y.type.shape[0]], (x, y), dot_dimension_numbers=numbers)

    one = ir.DenseElementsAttr.get_splat(
        ir.RankedTensorType.get([], ir.F32Type.get()), ir.FloatAttr.get(ir.F32Type.get(), 1 / rank)
    )
    share = emit("stablehlo.constant", [], (), value=one, element=ir.F32Type.get())
    factor = emit("stablehlo.multiply", [], (scale, share), element=ir.F32Type.get())
    factor = emit("stablehlo.convert", [], (factor,))
    filled = emit(
        "stablehlo.broadcast_in_dim",
        b.type.shape,
        (factor,),
        broadcast_dimensions=ir.DenseI64ArrayAttr.get([]),
    )
    scaled = emit("stablehlo.multiply", b.type.shape, (filled, b))
    low = dot(dot(emit("stablehlo.convert", x.type.shape, (x,)), a), scaled)
    ip = ir.InsertionPoint(_next(last))
    # `emit` inserts the ops above before the product, and the sum after `last`.
    total = emit("stablehlo.add", y.type.shape, (emit("stablehlo.convert", y.type.shape, (y,)), low))
    total = emit("stablehlo.convert", y.type.shape, (total,), element=y.type.element_type)
    for use in users:
        use.owner.operands[use.operand_number] = total


def _next(op: ir.Operation) -> ir.OpView:
    """Returns the op that follows `op` in its block. `op` must not be the terminator."""
    following = iter(op.operation.block.operations)
    while next(following).operation != op.operation:
        pass
    return next(following)


# ---- files -------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Adapters:
    """The adapters in a training state. `layers` maps the name of each adapted layer to its arrays A and B."""

    layers: Mapping[str, tuple[Array, Array]]
    alpha: float

    @property
    def rank(self) -> int:
        return int(next(iter(self.layers.values()))[0].shape[0])


def is_adapted(state: Mapping[str, Array]) -> bool:
    """Returns whether the state of a training step has adapters."""
    return ALPHA in state and any(name.endswith(_A) for name in state)


def adapters_in(state: Mapping[str, Array]) -> Adapters:
    """Returns the adapters among the arrays of a state. Raises `InputError` if the state has no adapters."""
    names = [name.removeprefix(_PREFIX).removesuffix(_A) for name in state if name.endswith(_A)]
    if not names or ALPHA not in state:
        raise InputError("the state has no adapters: train with --lora")
    layers = {name: (state[_PREFIX + name + _A], state[_PREFIX + name + _B]) for name in names}
    return Adapters(layers, float(state[ALPHA]))


def write_adapters(state: Mapping[str, Array], folder: str | os.PathLike[str]) -> None:
    """Writes the adapters of a state as the files that `peft.PeftModel.from_pretrained` reads."""
    adapters = adapters_in(state)
    config = {
        "peft_type": "LORA",
        "base_model_name_or_path": None,
        # A regular expression, because peft would compare the names of a list with suffixes of the layers' names.
        "target_modules": "|".join(map(re.escape, adapters.layers)),
        "r": adapters.rank,
        "lora_alpha": adapters.alpha,
        "lora_dropout": 0.0,
        "bias": "none",
        "inference_mode": True,
    }
    os.makedirs(folder, exist_ok=True)
    weights, settings = (os.path.join(folder, name) for name in _FILES)
    pairs = {_PREFIX + name: pair for name, pair in adapters.layers.items()}
    write_weights(
        weights, {name + end: pair[i] for name, pair in pairs.items() for i, end in enumerate((_A, _B))}
    )
    with written_whole(settings) as file:
        file.write(json.dumps(config, indent=2).encode())


def merged(state: Mapping[str, Array]) -> dict[str, Array]:
    """Returns the weights of the model by name. The weight of an adapted layer is W + alpha / r B A.

    Raises `RequestError` if an adapted layer stores its weight as integers.
    """
    adapters, state = adapters_in(state), dequantized(state)
    # `own` are the names of arrays in the state that are not weights.
    own = {ALPHA, *(_last(state, name) for name in ("step", "batches", *NAMES))}
    own |= {name for name, x in state.items() if is_random_seed(SignatureValue(name, TensorType.of(x)))}
    weights = {name: x for name, x in state.items() if not name.startswith(_PREFIX) and name not in own}
    for name, (a, b) in adapters.layers.items():
        if name + _WEIGHT not in weights:
            raise RequestError(
                f"the weight of {name!r} is integers in the model's file: adapters cannot be added to it"
            )
        weight = weights[name + _WEIGHT]
        delta = (adapters.alpha / adapters.rank) * (b @ a)
        weights[name + _WEIGHT] = (weight.astype(delta.dtype) + delta).astype(weight.dtype)
    return weights


def _last(state: Mapping[str, Array], name: str) -> str:
    """Returns the name of the input that a training step added as `name`.

    If a weight of the model is called `name`, the input is called `name.2`, and so on.
    """
    names = [x for x in state if x == name or re.fullmatch(rf"{name}\.\d+", x)]
    return max(names, key=len, default=name)
