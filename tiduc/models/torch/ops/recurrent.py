"""Decompositions of PyTorch's recurrent networks into the loops of `tiduc/models/recurrent.py`, one call per layer.

PyTorch and ONNX order the gates differently. The order in PyTorch is i, f, g, o for an LSTM and r, z, n for a GRU. The
order in ONNX is i, o, f, g for an LSTM and z, r, n for a GRU.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from tiduc.dialect.errors import Unsupported
from tiduc.models.emitted_text import Body, TextTensor
from tiduc.models.recurrent import directions
from tiduc.models.torch.ops.calls import call
from tiduc.models.torch.ops.framework import TABLE, aten, torch

_ORDER = {"LSTM": (0, 3, 1, 2), "GRU": (1, 0, 2), "RNN": (0,)}
"""Maps a kind of network to a tuple with, for each gate in ONNX's order, the gate's position in PyTorch's order."""
_ACTIVATIONS = {"LSTM": ["sigmoid", "tanh", "tanh"], "GRU": ["sigmoid", "tanh"], "RNN": ["tanh"]}


def _network(
    kind: str,
    activations: Sequence[str],
    unrolled: Callable[..., tuple[torch.Tensor, ...]],
    x: torch.Tensor,
    states: torch.Tensor | Sequence[torch.Tensor],
    *rest: Any,
) -> Any:
    """Decomposes `aten.lstm.input` and similar ops. Returns the output, and the last states of all layers."""
    parameters, _, num_layers, dropout, train, bidirectional, batch_first = rest
    given = [states] if isinstance(states, torch.Tensor) else list(states)
    count = 2 if bidirectional else 1
    each = len(parameters) // (num_layers * count)
    is_dynamic = not all(isinstance(n, int) for n in x.shape)
    if is_dynamic or each not in (2, 4) or given[0].shape[-1] != parameters[1].shape[-1]:
        return unrolled(x, states, *rest)  # PyTorch's decomposition, which also handles projections
    y = x.transpose(0, 1) if batch_first else x
    lasts: list[list[Any]] = [[] for _ in given]
    for layer in range(num_layers):
        if layer and dropout and train:
            y = torch.nn.functional.dropout(y, dropout, True)
        mine = parameters[layer * count * each : (layer + 1) * count * each]
        first = [s[layer * count : (layer + 1) * count] for s in given]
        y, *last = _layer(
            kind, activations, y, first, [mine[i * each : (i + 1) * each] for i in range(count)]
        )
        for finals, state in zip(lasts, last, strict=True):
            finals.append(state)
    ends = [torch.cat(finals, 0) for finals in lasts]
    return y.transpose(0, 1) if batch_first else y, *ends


def _layer(
    kind: str,
    activations: Sequence[str],
    x: torch.Tensor,
    states: Sequence[torch.Tensor],
    weights: Sequence[Sequence[torch.Tensor]],
) -> tuple[Any, ...]:
    """The output and the last states of one layer. The outputs of two directions are concatenated."""
    w, r, *biases = (torch.stack([one[i] for one in weights]) for i in range(len(weights[0])))
    given = {
        "activations": [*activations] * len(weights),
        "direction": "bidirectional" if len(weights) == 2 else "forward",
        "linear_before_reset": 1,
        "order": _ORDER[kind],
    }
    names = ["x", "w", "r", *(["b"] if biases else []), "h", "c"][: 3 + bool(biases) + len(states)]
    operands = [x, w, r, *([torch.cat(biases, -1)] if biases else []), *states]

    def emit(body: Body, *arguments: TextTensor) -> list[TextTensor]:
        return directions(body, kind, dict(zip(names, arguments, strict=True)), given)

    y, *last = call(kind.lower(), operands, emit)
    return y.transpose(1, 2).flatten(2), *last


def _refused(*arguments: object) -> Any:
    raise Unsupported("a recurrent network on packed sequences is not supported: pad the sequences")


_UNROLLED = torch._decomp.get_decompositions(
    [aten.lstm.input, aten.gru.input, aten.rnn_tanh.input, aten.rnn_relu.input]
)

for _overload, _kind, _function in (
    (aten.lstm, "LSTM", "tanh"),
    (aten.gru, "GRU", "tanh"),
    (aten.rnn_tanh, "RNN", "tanh"),
    (aten.rnn_relu, "RNN", "relu"),
):
    _applied = ["relu"] if _function == "relu" else _ACTIVATIONS[_kind]
    TABLE[_overload.input] = partial(_network, _kind, _applied, _UNROLLED[_overload.input])
    TABLE[_overload.data] = _refused
