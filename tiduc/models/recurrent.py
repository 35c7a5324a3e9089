"""Lowers ONNX's LSTM, GRU and RNN to loops over time. A single product before the loop multiplies all inputs by W.

    func @LSTM(x: T x B x I, W, R, ...) -> (y: T x D x B x H, h: D x B x H, c)       for D directions
      xw = x W' + b
      while t < T:  h, c = cell(xw[t] + h R', c);  y[t] = h

Source: ONNX's specification of the operators LSTM, GRU and RNN. Variables are named as in the specification.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from torch_mlir import ir

from tiduc.dialect.errors import Unsupported
from tiduc.dialect.ops.ir_types import IrOp
from tiduc.models.emitted_text import Body, TextTensor
from tiduc.models.expansions import Expansion, detail, present

_ACTIVATIONS = {"sigmoid": "logistic", "tanh": "tanh", "relu": "relu"}
_OPERANDS = ("x", "w", "r", "b", "lengths", "h", "c", "p")


@dataclass(frozen=True)
class _Kind:
    """A cell type: its number of gates, its default activations, its step function, and its number of states."""

    gates: int
    activations: tuple[str, ...]
    step: Callable[[Body, "_Direction", TextTensor, Sequence[TextTensor]], list[TextTensor]]
    states: int = 1


@dataclass(frozen=True)
class _Direction:
    """Loop invariants of one direction: size of the state, recurrent weights, their bias, peepholes, activations.

    `order` has, for each gate in ONNX's order, the gate's position in the weights.
    """

    size: int
    r: TextTensor
    rb: TextTensor | None
    p: TextTensor | None
    activations: tuple[str, ...]
    linear_before_reset: bool
    order: tuple[int, ...]


def _gates(body: Body, d: _Direction, x: TextTensor) -> list[TextTensor]:
    """Splits the last dimension of x into one part for each gate. The parts are in ONNX's order of gates."""
    batch, size = x.sizes[0], d.size
    return [body.slice(x, [(0, batch), (i * size, (i + 1) * size)]) for i in d.order]


def _times(body: Body, x: TextTensor, w: TextTensor) -> TextTensor:
    """The product x w'. It contracts the last dimension of x with the last dimension of w."""
    return body.dot(x, w, len(x.sizes) - 1, 1)


def _lstm(body: Body, d: _Direction, xw: TextTensor, state: Sequence[TextTensor]) -> list[TextTensor]:
    h, c = state
    f, g, hidden = d.activations
    i, o, forget, cell = _gates(body, d, body.add(xw, _times(body, h, d.r)))
    peep = [None] * 3 if d.p is None else [body.rows(v, c) for v in _thirds(body, d.p)]
    if peep[0] is not None and peep[2] is not None:
        i, forget = (body.add(x, body.multiply(v, c)) for x, v in ((i, peep[0]), (forget, peep[2])))
    new_c = body.add(
        body.multiply(body.apply(f, forget), c), body.multiply(body.apply(f, i), body.apply(g, cell))
    )
    if peep[1] is not None:
        o = body.add(o, body.multiply(peep[1], new_c))
    return [body.multiply(body.apply(f, o), body.apply(hidden, new_c)), new_c]


def _thirds(body: Body, p: TextTensor) -> list[TextTensor]:
    size = p.sizes[0] // 3
    return [body.slice(p, [(i * size, (i + 1) * size)]) for i in range(3)]


def _gru(body: Body, d: _Direction, xw: TextTensor, state: Sequence[TextTensor]) -> list[TextTensor]:
    (h,) = state
    f, g = d.activations
    of_x = _gates(body, d, xw)
    whole = _times(body, h, d.r)
    of_h = _gates(body, d, whole if d.rb is None else body.add(whole, body.rows(d.rb, whole)))
    z, r = (body.apply(f, body.add(of_x[i], of_h[i])) for i in (0, 1))
    if d.linear_before_reset:
        inner = body.multiply(r, of_h[2])
    else:
        last = body.slice(d.r, [(2 * d.size, 3 * d.size), (0, d.size)])
        inner = _times(body, body.multiply(r, h), last)
        if d.rb is not None:
            inner = body.add(inner, body.rows(body.slice(d.rb, [(2 * d.size, 3 * d.size)]), inner))
    new = body.apply(g, body.add(of_x[2], inner))
    return [body.add(new, body.multiply(z, body.subtract(h, new)))]


def _rnn(body: Body, d: _Direction, xw: TextTensor, state: Sequence[TextTensor]) -> list[TextTensor]:
    return [body.apply(d.activations[0], body.add(xw, _times(body, state[0], d.r)))]


_KINDS = {
    "LSTM": _Kind(4, ("Sigmoid", "Tanh", "Tanh"), _lstm, states=2),
    "GRU": _Kind(3, ("Sigmoid", "Tanh"), _gru),
    "RNN": _Kind(1, ("Tanh",), _rnn),
}


def _expand(name: str, call: IrOp, module: ir.Module) -> Sequence[Any]:
    """Adds to the module a function that computes the node's results. Returns the results of a call of the function."""
    if not all(x.type.has_static_shape for x in (*call.operands, *call.results)):
        raise Unsupported(f"{name} needs static shapes, including the batch size")
    given = _attributes(name, call)
    symbol = f"onnx.{name}.{len(list(module.body.operations))}"
    body = Body([(x.type.shape, str(x.type.element_type)) for x in call.operands])
    operands = dict(zip((_OPERANDS[i] for i in present(call)), body.arguments, strict=True))
    results = directions(body, name, operands, given)
    module.body.append(ir.Operation.parse(body.function(symbol, results)))
    types = [y.type for y in call.results]
    attributes = {"callee": ir.FlatSymbolRefAttr.get(symbol)}
    return list(ir.Operation.create("func.call", types, list(call.operands), attributes).results)


def _attributes(name: str, call: IrOp) -> dict[str, Any]:
    """Maps the names of the node's attributes to values. `activations` has an entry for each direction and function.

    Raises `Unsupported` for attributes and activations that are not implemented.
    """
    given: dict[str, Any] = {}
    for key, attribute in detail(call).items():
        if isinstance(attribute, ir.ArrayAttr):
            given[key] = [getattr(x, "value", None) for x in attribute]
        else:
            given[key] = getattr(attribute, "value", None)
    for key in ("clip", "input_forget"):
        if given.get(key):
            raise Unsupported(f"{name} with {key} is not supported")
    count = 2 if given.get("direction") == "bidirectional" else 1
    given["activations"] = [x.lower() for x in given.get("activations") or _KINDS[name].activations * count]
    unknown = [x for x in given["activations"] if x not in _ACTIVATIONS]
    if unknown or given.get("activation_alpha") or given.get("activation_beta"):
        raise Unsupported(
            f"{name} with the activation {unknown[0] if unknown else 'parameters alpha or beta'} is not supported"
        )
    return given


def directions(
    body: Body, name: str, operands: Mapping[str, TextTensor], given: Mapping[str, Any]
) -> list[TextTensor]:
    """Emits the loops of all directions. Returns the outputs and the last states, in the node's layout.

    `given` has ONNX's attributes: `activations` has the functions of all directions in lower case. Attributes with
    ONNX's default values may be absent. If the gates in weights and biases are not in ONNX's order, `given["order"]`
    has, for each gate in ONNX's order, its position in the weights.
    """
    kind = _KINDS[name]
    by_batch = bool(given.get("layout"))
    x = body.transpose(operands["x"], [1, 0, 2]) if by_batch else operands["x"]
    states = {key: operands[key] for key in ("h", "c") if key in operands}
    if by_batch:
        states = {key: body.transpose(v, [1, 0, 2]) for key, v in states.items()}
    count = operands["w"].sizes[0]
    first = {"reverse": 1}.get(given.get("direction", "forward"), 0)
    outputs: list[TextTensor] = []
    lasts: list[list[TextTensor]] = [[] for _ in range(kind.states)]
    for i in range(count):
        y, last = _one_direction(body, kind, {**operands, **states, "x": x}, given, i, first + i == 1)
        outputs.append(body.reshape(y, [y.sizes[0], 1, *y.sizes[1:]]))
        for finals, state in zip(lasts, last, strict=True):
            finals.append(body.reshape(state, [1, *state.sizes]))
    y, ends = body.concatenate(outputs, 1), [body.concatenate(finals, 0) for finals in lasts]
    if by_batch:
        return [body.transpose(y, [2, 0, 1, 3]), *(body.transpose(v, [1, 0, 2]) for v in ends)]
    return [y, *ends]


def _one_direction(
    body: Body,
    kind: _Kind,
    operands: Mapping[str, TextTensor],
    given: Mapping[str, Any],
    i: int,
    is_back: bool,
) -> tuple[TextTensor, list[TextTensor]]:
    """Emits the loop of direction i. Returns the outputs of all steps and the last states."""

    def own(key: str) -> TextTensor | None:
        value = operands.get(key)
        return None if value is None else body.part(value, i)

    x, w, r, bias, p = operands["x"], own("w"), own("r"), own("b"), own("p")
    assert w is not None and r is not None
    steps, batch, size = x.sizes[0], x.sizes[1], r.sizes[1]
    xw, rb = _times(body, x, w), None
    if bias is not None:
        half = kind.gates * size
        wb, rb = body.slice(bias, [(0, half)]), body.slice(bias, [(half, 2 * half)])
        xw = body.add(xw, body.rows(wb, xw))
        if kind.gates != 3:
            xw, rb = body.add(xw, body.rows(rb, xw)), None
    share = len(given["activations"]) // operands["w"].sizes[0]
    applied = [_ACTIVATIONS[name] for name in given["activations"][i * share : (i + 1) * share]]
    order = tuple(given.get("order", range(kind.gates)))
    direction = _Direction(size, r, rb, p, tuple(applied), bool(given.get("linear_before_reset")), order)
    keys = ("h", "c")[: kind.states]
    initial = [own(key) or body.zeros([batch, size], x.element) for key in keys]
    lengths = operands.get("lengths")

    def step(t: TextTensor, *state: TextTensor) -> list[TextTensor]:
        if is_back:
            t = body.subtract(body.number(steps - 1), t)
        new = kind.step(body, direction, body.at(xw, t), state[:-1])
        y = new[0]
        if lengths is not None:  # after the end of a sequence, the state is kept and the output is 0
            runs = body.rows_of(body.compare(body.spread(t, lengths), lengths, "LT"), y)
            new = [body.select(runs, v, old) for v, old in zip(new, state[:-1], strict=True)]
            y = body.select(runs, y, body.zeros(y.sizes, y.element))
        return [*new, body.put(state[-1], y, t)]

    *last, y = body.loop(steps, step, [*initial, body.zeros([steps, batch, size], x.element)])
    return y, last


def _expansion(name: str) -> Expansion:
    return lambda call, module: _expand(name, call, module)


RECURRENT: dict[str, Expansion] = {f"onnx.{name}": _expansion(name) for name in _KINDS}
"""Maps the name of each operator to its expansion."""
