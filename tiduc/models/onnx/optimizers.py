"""Rewrites the optimizers of `ai.onnx.preview.training` as arithmetic.

Source: ONNX's specification of the operators Adagrad, Adam and Momentum. Variables are named as in the specification.
"""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from tiduc.models.onnx.nodes import Nodes
from tiduc.models.onnx.tensors import Tensor, held, sqrt, tensor, where

if TYPE_CHECKING:
    import onnx


_Step = Callable[[Tensor, Tensor, list[Tensor], Mapping[str, Any]], list[Tensor]]
"""One update of a parameter: (learning rate, iteration, values, attributes) -> [new parameter, new states...].

`values` are the parameter, its gradient with the L2 penalty, and the states.
"""


def _adagrad(r: Tensor, t: Tensor, values: list[Tensor], given: Mapping[str, Any]) -> list[Tensor]:
    x, g, h = values
    rate = r / (t.astype(r.dtype) * given.get("decay_factor", 0.0) + 1)
    new_h = h + g * g
    return [x - rate * g / (sqrt(new_h) + given.get("epsilon", 1e-6)), new_h]


def _adam(r: Tensor, t: Tensor, values: list[Tensor], given: Mapping[str, Any]) -> list[Tensor]:
    x, g, v, h = values
    alpha, beta = given.get("alpha", 0.9), given.get("beta", 0.999)
    new_v, new_h = v * alpha + g * (1 - alpha), h * beta + g * g * (1 - beta)
    count = t.astype(r.dtype)
    powers = (
        held(r.nodes, np.asarray(each, r.dtype)).emit("Pow", count, shape=r.shape) for each in (alpha, beta)
    )
    of_alpha, of_beta = powers
    is_later = t > 0
    safe = where(is_later, 1 - of_alpha, np.ones((), r.dtype))
    rate = where(is_later, r * sqrt(1 - of_beta) / safe, r)
    new_x = x - rate * new_v / (sqrt(new_h) + given.get("epsilon", 1e-6))
    return [new_x * (1 - given.get("norm_coefficient_post", 0.0)), new_v, new_h]


def _momentum(r: Tensor, t: Tensor, values: list[Tensor], given: Mapping[str, Any]) -> list[Tensor]:
    x, g, v = values
    alpha, beta = given["alpha"], np.asarray(given["beta"], r.dtype)
    new_v = v * alpha + g * where(t > 0, beta, np.ones((), r.dtype))
    step = g + new_v * alpha if given["mode"] == "nesterov" else new_v
    return [x - r * step, new_v]


def _rewrite(step: _Step, states: int) -> Callable[[Nodes, Any], list[str]]:
    def rewrite(nodes: Nodes, node: "onnx.NodeProto") -> list[str]:
        given = nodes.attributes(node)
        r, t, *rest = (held(nodes, tensor(nodes, name)) for name in node.input)
        count = len(rest) // (2 + states)
        results = []
        for i in range(count):
            x, g, *state = rest[i::count]
            g = x * given.get("norm_coefficient", 0.0) + g
            results.append(step(r, t, [x, g, *state], given))
        return [y.name for group in zip(*results, strict=True) for y in group]

    return rewrite


OPTIMIZERS: dict[str, Callable[[Nodes, Any], list[str]]] = {
    "Adagrad": _rewrite(_adagrad, 1),
    "Adam": _rewrite(_adam, 2),
    "Momentum": _rewrite(_momentum, 1),
}
"""Maps the operator type of each optimizer to the function that rewrites its nodes."""
