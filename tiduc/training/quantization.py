"""Stores frozen weights of linear layers as integers of 8 or 4 bits, with one scale for each group of elements.

    %w: tensor<6x64xf32>    ->    %codes: tensor<6x64xi8>, %scales: tensor<6x2xf32>          groups of 32
                                  %w = reshape(convert(reshape(%codes)) * broadcast(%scales))

A group consists of consecutive elements along the contracted dimension. The scale of a group is its largest magnitude
over 127 for 8 bits, or over 7 for 4 bits. A code is the weight over its scale, rounded to the nearest integer. With 4
bits, a byte holds two codes: its low bits hold a code of the first half of the contracted dimension, and its high bits
hold a code of the second half. Two arrays replace the weight `NAME`: `NAME.scales`, and `NAME.int8` or `NAME.int4`. On
CPUs, `products_in_tiles` dequantizes the weights in parts that fit into a cache. On other targets, the memory must hold
a whole dequantized weight.

Sources: Dettmers et al., "QLoRA: Efficient Finetuning of Quantized LLMs" (2023), for the use; Dettmers et al.,
"LLM.int8(): 8-bit Matrix Multiplication for Transformers at Scale" (2022), section 2.1.1, for the scales.
"""

import itertools
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace

import numpy as np
from torch_mlir import ir

from tiduc.dialect.emitters.bodies import IrEmitter
from tiduc.dialect.errors import RequestError
from tiduc.dialect.mlir.context import stage
from tiduc.dialect.ops.contractions import Contraction
from tiduc.dialect.ops.ir_types import IrOp, IrValue
from tiduc.dialect.shapes.types import element, is_float, shape
from tiduc.models.model import Model, model_of
from tiduc.program import Program
from tiduc.runtime.arrays import Array
from tiduc.training.function_inputs import FunctionInputs
from tiduc.training.losses import wide

SCALES = ".scales"
_CODES = {8: ".int8", 4: ".int4"}
"""The suffixes of the names of arrays of codes, by the number of bits of a code."""
_LEAST = 8
"""The minimal number of elements in a group. With smaller groups, scales would take about as much memory as codes."""
_REASON = "quantized"


@dataclass(frozen=True)
class Quantization:
    """The number of bits of a code, and the size of a group.

    If the size is 0, all elements along the contracted dimension are one group.
    """

    bits: int
    group: int = 0

    @staticmethod
    def named(text: str) -> "Quantization":
        """Returns the quantization for a text: int8, int4, or one of these with the size of a group, such as int4:32.

        Raises `RequestError` for any other text, and for groups of fewer than 8 elements.
        """
        given = re.fullmatch(r"int([84])(?::(\d{1,9}))?", text)
        if given is None:
            raise RequestError(
                f"unknown quantization {text!r}; there are int8, int4, int8:GROUP and int4:GROUP"
            )
        group = int(given[2] or 0)
        if given[2] and group < _LEAST:
            raise RequestError(f"a group of {text!r} has at least {_LEAST} elements, not {group}")
        return Quantization(int(given[1]), group)

    @property
    def most(self) -> int:
        """The largest code. The smallest code is the negative of the largest code."""
        return (1 << (self.bits - 1)) - 1

    def divides(self, count: int) -> bool:
        """Returns whether a contracted dimension of size `count` can be quantized.

        It must be large enough, divisible into groups, and its codes must fill whole bytes.
        """
        return count >= _LEAST and count % (self.group or 1) == 0 and count * self.bits % 8 == 0

    def coded(self, weight: Array, axis: int) -> tuple[Array, Array]:
        """Computes the codes and the scales of a matrix. `axis` is the contracted dimension."""
        x = _grouped(weight.astype(np.float64), axis, self.group or weight.shape[axis])
        largest = np.abs(x).max(axis=axis + 1, keepdims=True)
        scales = (largest / self.most).astype(weight.dtype)
        scales[scales == 0] = 1
        codes = (
            np.rint(x / scales.astype(np.float64))
            .clip(-self.most, self.most)
            .astype(np.int8)
            .reshape(weight.shape)
        )
        if self.bits == 4:
            low, high = np.split(codes, 2, axis)
            codes = (low & 15) | (high << 4)
        return codes, scales.squeeze(axis + 1)


@stage
def quantized(model: Program, kind: str, kept: Collection[str] = ()) -> Model:
    """Returns the model with codes and scales instead of the weights that are matrices and that only products read.

    `kind` is int8 or int4, or one of these with the size of a group, such as int4:32. Weights named in `kept` are not
    quantized. Matrices whose contracted dimension cannot be divided into such groups are not quantized, either. Raises
    `RequestError` if no matrix is quantized, if a matrix has elements that are not finite, and for any other `kind`.
    """
    quantization = Quantization.named(kind)
    if not isinstance(model, Model):
        raise RequestError("only weights with values can be quantized, and the model has none")
    inputs = FunctionInputs(model)
    weights = dict(model.weights)
    for name, weight in model.weights.items():
        axis = _summed(inputs[name]) if weight.ndim == 2 and is_float(inputs[name].type) else None
        if name in kept or axis is None or not quantization.divides(weight.shape[axis]):
            continue
        if not np.isfinite(weight.astype(np.float64)).all():
            raise RequestError(f"the weight {name!r} has numbers that are not finite: it cannot be quantized")
        codes, scales = quantization.coded(weight, axis)
        arrays = {name + _CODES[quantization.bits]: codes, name + SCALES: scales}
        if taken := arrays.keys() & {port.name for port in model.inputs}:
            raise RequestError(
                f"the weight {name!r} cannot be quantized: the model has an input {min(taken)!r}"
            )
        del weights[name]
        types = ir.IntegerType.get_signless(8), element(inputs[name])
        coded, scaled = (
            inputs.add(each, x.shape, type_, _REASON)
            for (each, x), type_ in zip(arrays.items(), types, strict=True)
        )
        weights |= arrays
        b = IrEmitter(ir.InsertionPoint.at_block_begin(inputs.block), ir.Location.unknown())
        old = inputs[name]
        old.replace_all_uses_with(_dequantized(b, coded, scaled, quantization.bits, axis))
        inputs.remove(name)
    if len(weights) == len(model.weights):
        raise RequestError(
            "no matrix is left to quantize: all are trained, have other readers than products, or have sizes that "
            "groups do not divide"
        )
    made = model_of(inputs.finish(), weights, model.name, model.opset)
    return replace(made, loop_memory=model.loop_memory, memory=model.memory)


def _summed(weight: IrValue, turned: bool = False) -> int | None:
    """Returns the dimension of a matrix that products contract.

    Returns None if nothing reads the matrix, or if an op reads it that is not a transpose or such a product.
    """
    found = None
    for use in weight.uses:
        op: IrOp = use.owner.operation
        if op.name == "stablehlo.transpose":
            axis = _summed(op.results[0], not turned)
        elif op.name == "stablehlo.dot_general" and len(Contraction.of(op).summed[use.operand_number]) == 1:
            axis = Contraction.of(op).summed[use.operand_number][0]
            axis = 1 - axis if turned else axis
        else:
            return None
        if axis is None:
            return None
        found = axis if found is None else found
    return found


def _dequantized(b: IrEmitter, codes: IrValue, scales: IrValue, bits: int, axis: int) -> IrValue:
    """Emits ops that compute the weight from its codes and scales. The weight has the element type of the scales."""
    if bits == 4:
        left = b.emit("stablehlo.shift_left", (codes, 4), codes.type)
        halves = [b.emit("stablehlo.shift_right_arithmetic", (x, 4), codes.type) for x in (left, codes)]
        codes = b.concatenate(halves, axis)
    sizes, count = shape(codes), shape(scales)[axis]
    wide_, narrow = wide(element(scales)), element(scales)
    x, s = b.convert(codes, wide_), b.convert(scales, wide_)
    if count == 1:
        return b.convert(b.multiply(x, b.broadcast_in_dim(s, [0, 1], x)), narrow)
    x = b.reshape(x, [*sizes[:axis], count, sizes[axis] // count, *sizes[axis + 1 :]])
    product = b.multiply(x, b.broadcast_in_dim(s, [d + (d > axis) for d in (0, 1)], x))
    return b.convert(b.reshape(product, sizes), narrow)


def _grouped(x: Array, axis: int, group: int) -> Array:
    """Reshapes a matrix: dimension `axis` becomes two dimensions, whose indices are the group and the element in it."""
    sizes = list(x.shape)
    return x.reshape([*sizes[:axis], sizes[axis] // group, group, *sizes[axis + 1 :]])


def dequantized(state: Mapping[str, Array]) -> dict[str, Array]:
    """Returns the arrays of a training state, with each dequantized weight instead of its codes and scales."""
    found = dict(state)
    for code, bits in itertools.product(state, _CODES):
        name = code.removesuffix(_CODES[bits])
        if name == code or name + SCALES not in state:
            continue
        codes, scales = found.pop(code), found.pop(name + SCALES)
        axis = next(d for d in (0, 1) if codes.shape[d] != scales.shape[d])
        if bits == 4:
            codes = np.concatenate([(codes << 4) >> 4, codes >> 4], axis)
        wide_ = scales.astype(np.promote_types(scales.dtype, np.float32))
        group = codes.shape[axis] // scales.shape[axis]
        x = _grouped(codes, axis, group) * np.expand_dims(wide_, axis + 1)
        found[name] = x.reshape(codes.shape).astype(scales.dtype)
    return found
