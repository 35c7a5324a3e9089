"""The table of batching (vmap) rules, and the four forms in which a rule is declared. This module names no op.

    elementwise(*names)       each result element depends on the operands' elements with the same index, or on scalars
    leading(*names)           the op treats leading dimensions as batching dimensions already
    @batch(name)              the op has a rule written by hand, because no form above fits
    refuse(reason, *names)    the op can neither be batched nor run k times in a loop

An op without a rule runs k times, in a loop (`mapped`). A rule emits an op y = f(x) for all examples i < k of a batch:

    batch   (b, op, x, at) -> y      y[i] = f(x[i])

`x` are the operands, then the values that the op's regions capture. `at` has a flag for each value in `x`: whether it
is batched, that is, has a leading batch dimension of size k. `op` is the op for one example. For each result, the rule
returns a batched value, or an `Unbatched` if the value does not depend on the batch. `b.engine` is a `Batching`.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from torch_mlir import ir

from tiduc.dialect.control.control import Loop, emit_loop
from tiduc.dialect.emitters.bodies import RegionBuilder, returned
from tiduc.dialect.emitters.stablehlo import StablehloBuilder
from tiduc.dialect.errors import Unsupported
from tiduc.dialect.graph.cache import Cache
from tiduc.dialect.graph.graph import Definition, Graph, Value
from tiduc.dialect.ops.attributes import without
from tiduc.dialect.ops.control_ops import TARGET
from tiduc.dialect.ops.control_ops import sequence_type as stacked
from tiduc.dialect.ops.verify import ACTIVE
from tiduc.dialect.shapes.types import element, rank, with_element


@dataclass(frozen=True)
class Unbatched:
    """A result without a batch dimension: it is the same for all examples of the batch."""

    value: Any


BatchRule = Callable[[Any, Definition, Sequence[Any], Sequence[bool]], Sequence[Any]]


@dataclass(frozen=True)
class Batched:
    """A closed graph that computes all examples of a batch. `outputs` flags the batched outputs."""

    graph: Graph
    outputs: tuple[bool, ...]


@dataclass(frozen=True)
class Batching:
    """The services that the batching stage offers to rules, as `b.engine`.

    - `size` is the batch size k.
    - `close` builds a closed graph that computes given values.
    - `graph(graph, at, forced)` batches a closed graph. `at` flags the batched inputs. `forced` has an entry for each
      output: True if it must be batched, False if it depends on no batched input, None if either is allowed.
    - `inline` copies the ops that compute given values.
    - `builder` makes a builder of a private graph.
    - `stateful` has the names of ops with a state. Such ops cannot run once per example.
    """

    size: int
    close: Callable[..., Graph]
    graph: Callable[[Graph, tuple[bool, ...], Sequence[bool | None]], Batched]
    inline: Callable[..., dict[Value, Value]]
    builder: Callable[[str], Any]
    stateful: frozenset[str]


@dataclass(frozen=True, eq=False)
class BatchRules:
    """The batching rules of some dialects. `rules` maps the full name of an op to its rule.

    A rule for calls of one callee has the key `"OP @NAME"` instead. `refused` maps ops that cannot be batched to the
    reason, and `forms` maps every declared op to the form of its declaration.
    """

    rules: dict[str, BatchRule] = field(default_factory=dict)
    refused: dict[str, str] = field(default_factory=dict)
    forms: dict[str, str] = field(default_factory=dict)

    def elementwise(self, *names: str) -> None:
        """Declares elementwise ops. Their rule broadcasts unbatched operands, unless they are scalars beside arrays."""
        for name in names:
            self._declare(name, "elementwise")
            self.rules[name] = _elementwise

    def leading(self, *names: str) -> None:
        """Declares ops whose operands may all have one more leading dimension. Unbatched operands are broadcast."""
        for name in names:
            self._declare(name, "leading")
            self.rules[name] = leading

    def batch(self, name: str) -> Callable[[BatchRule], BatchRule]:
        """Returns a decorator that declares a function as the rule of the op `name`."""
        self._declare(name, "by hand")

        def decorate(rule: BatchRule) -> BatchRule:
            self.rules[name] = rule
            return rule

        return decorate

    def refuse(self, reason: str, *names: str) -> None:
        """Declares ops that cannot be batched. The diagnostic prints the reason."""
        for name in names:
            self._declare(name, "refused")
            self.refused[name] = reason

    def _declare(self, name: str, form: str) -> None:
        if name in self.forms:
            raise ValueError(f"{name} is declared twice: {self.forms[name]}, {form}")
        self.forms[name] = form

    def rule(self, op: Definition, key: str) -> BatchRule:
        """Returns the rule for `key`, else the rule for the op's name, else `mapped`, which emits a loop.

        Raises `Unsupported` for an op that was declared by `refuse`.
        """
        for name in (key, op.name):
            if name in self.refused:
                raise unbatchable(op, self.refused[name], name)
            if name in self.rules:
                return self.rules[name]
        return mapped


def unbatchable(op: Definition, reason: str, key: str | None = None) -> Unsupported:
    """Returns the error for an op that cannot be batched. It names the op, its location, and the reason."""
    return Unsupported(f"unsupported batching of {key or op.name}: {reason}", op.location)


# ---- rules are written with these functions ----------------------------------------------------------------


def spread(b: StablehloBuilder, x: Value) -> Value:
    """Broadcasts an unbatched value along a new, leading batch dimension."""
    return b.broadcast_in_dim(x, range(1, rank(x) + 1), stacked(x.type, b.engine.size))


def spread_all(b: StablehloBuilder, x: Sequence[Value], at: Sequence[bool]) -> list[Value]:
    """Returns all values in batched form. Broadcasts those whose flag in `at` is False."""
    return [v if flag else spread(b, v) for v, flag in zip(x, at, strict=True)]


def along(b: StablehloBuilder, x: Value, like: Value) -> Value:
    """Broadcasts x, a vector with one number per example, to the shape of the batched value `like`."""
    return b.broadcast_in_dim(x, [0], with_element(like.type, element(x)))


def results_of(b: StablehloBuilder, op: Definition) -> list[Any]:
    """The batched types of the op's results."""
    return [stacked(y.type, b.engine.size) for y in op.results]


def emit_batched(
    b: StablehloBuilder,
    op: Definition,
    x: Sequence[Value],
    types: Sequence[ir.Type] | None = None,
    **changed: ir.Attribute | None,
) -> tuple[Any, ...]:
    """Emits the op on batched operands. `changed` replaces attributes, or removes those that it maps to None.

    `types` are the types of the results. By default, all results are batched. The op's regions may capture constants
    only; if they capture other values, use `mapped`.
    """
    replaced = {**without(op.attributes, ACTIVE), **changed}
    given = {name: value for name, value in replaced.items() if value is not None}
    types = results_of(b, op) if types is None else types
    emitted: tuple[Any, ...] = b.emit_all(op.name, x[: len(op.operands)], types, given, _regions(b, op))
    return emitted


Fill = Callable[[Any], None]
"""A function that fills a region of an op that is being emitted."""

_FILLS = Cache[tuple[Any, tuple[Value, ...]], tuple[Fill, ...]]()
"""Caches the functions that fill an op's regions. The key is the op that holds the regions, and its captured values."""


def _regions(b: StablehloBuilder, op: Definition) -> tuple[Fill, ...]:
    """Returns one function for each region of the op, which copies the region. Copies of an op share the functions."""
    if op.source is None:
        return ()
    key = op.source, op.captures
    return _FILLS.get(b.view, key, lambda: tuple([_filling(op, i) for i in range(len(op.regions))]))


def _filling(op: Definition, i: int) -> Fill:
    def fill(region: ir.Region) -> None:
        arguments = op.regions[i].blocks[0].arguments
        body = RegionBuilder(region, [x.type for x in arguments], op.location)
        values = body.copy_of(op, i, body.arguments)
        body.returns(*[values[x] for x in returned(op, i)])

    return fill


# ---- these are the rules of ops that are declared by a form or not declared --------------------------------


def _elementwise(
    b: StablehloBuilder, op: Definition, x: Sequence[Value], at: Sequence[bool]
) -> Sequence[Value]:
    (result,) = results_of(b, op)
    operands = []
    for v, flag, source in zip(x, at, op.operands, strict=False):
        if rank(source) < rank(op.result):  # a scalar operand beside arrays
            v = along(b, v, Value(result, b.graph)) if flag else v
        elif not flag:
            v = spread(b, v)
        operands.append(v)
    return emit_batched(b, op, operands)


def leading(b: StablehloBuilder, op: Definition, x: Sequence[Value], at: Sequence[bool]) -> Sequence[Value]:
    """Emits the op on batched operands. Their leading batch dimension is one more batch dimension of the op."""
    count = len(op.operands)
    return emit_batched(b, op, spread_all(b, x[:count], at[:count]))


def mapped(b: StablehloBuilder, op: Definition, x: Sequence[Value], at: Sequence[bool]) -> Sequence[Value]:
    """Emits a loop that runs the op once for each of the k examples. Returns the batched results.

    Raises `Unsupported` if the op is stateful, or if a value cannot have a batch dimension (`can_be_stacked`).
    """
    if op.name in b.engine.stateful and TARGET not in op.attributes:
        raise unbatchable(op, "it is stateful, so it cannot be repeated for each example")
    for y in (*op.operands, *op.captures, *op.results):
        if not can_be_stacked(y.type):
            raise unbatchable(op, f"a value of type {y.type} cannot be batched")
    values = {source: (v, flag) for source, v, flag in zip((*op.operands, *op.captures), x, at, strict=True)}
    return in_loop(b, op.results, values)


def can_be_stacked(type_: ir.Type) -> bool:
    """Whether values of the type can have a batch dimension. Only tensors of static shape can."""
    return isinstance(type_, ir.RankedTensorType) and type_.has_static_shape


def in_loop(
    b: StablehloBuilder, wanted: Sequence[Value], given: dict[Value, tuple[Value, bool]]
) -> tuple[Value, ...]:
    """Emits a loop that computes the wanted values for one example after another. Returns them in batched form.

    `given` maps each value that the computation reads to a pair: its replacement in the graph of `b`, and whether the
    replacement is batched. Constants may be omitted.
    """
    read = {x: pair for x, pair in given.items() if pair[1] or not x.is_constant}
    order = sorted(read, key=lambda x: not read[x][1])
    body = b.engine.close(b.view, list(wanted), order, name="M")
    sequences, invariants = ([read[x][0] for x in order if read[x][1] is flag] for flag in (True, False))
    loop = Loop((), tuple(sequences), tuple(invariants), body, None, False, None, body.name)
    return emit_loop(b, loop)
