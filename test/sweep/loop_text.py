"""Writes the text of StableHLO ops and regions, and of conversions between shapes and element types.

If results must be exact, sums and products are clamped to small integers, which every element type can represent. If
the program must be differentiable, tanh is applied to sums and products instead, so that values in loops are bounded
and smooth.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from random import Random

FLOATS = ("f16", "bf16", "f32", "f64")
PARTS = {"complex<f32>": "f32", "complex<f64>": "f64"}
LARGEST = 12
"""The largest magnitude of a number in programs whose results must be exact."""


@dataclass(frozen=True)
class Kind:
    """The shape and element type of a value."""

    shape: tuple[int, ...]
    element: str

    def __str__(self) -> str:
        return f"tensor<{''.join(f'{n}x' for n in self.shape)}{self.element}>"

    @property
    def size(self) -> int:
        return math.prod(self.shape)

    def of(self, element: str) -> "Kind":
        return Kind(self.shape, element)

    @property
    def is_complex(self) -> bool:
        return self.element in PARTS

    @property
    def is_unsigned(self) -> bool:
        return self.element.startswith("ui")

    @property
    def comparison(self) -> str:
        """The attribute `comparison_type` of comparisons between values of this kind."""
        if self.element in FLOATS or self.is_complex:
            return "FLOAT"
        return "UNSIGNED" if self.is_unsigned or self.element == "i1" else "SIGNED"


COUNTER, PREDICATE = Kind((), "i32"), Kind((), "i1")


@dataclass(frozen=True)
class Value:
    """An SSA value: its name, such as `%v3`, and its kind."""

    name: str
    kind: Kind


def integers(values: Sequence[int]) -> str:
    """Returns the text of an attribute that is a list of integers, such as `array<i64: 1, 2>`."""
    return f"array<i64: {', '.join(map(str, values))}>" if values else "array<i64>"


class Text:
    """The text of a program: lines of ops in MLIR's generic form. The generator `random` makes all random choices."""

    def __init__(self, random: Random, smooth: bool) -> None:
        self.random, self.smooth = random, smooth
        self.lines: list[str] = []
        self._count = 0

    # ---- ops and regions

    def fresh(self) -> str:
        self._count += 1
        return f"%v{self._count}"

    def several(
        self,
        op: str,
        operands: Sequence[Value],
        kinds: Sequence[Kind],
        attributes: str = "",
        regions: Sequence[str] = (),
    ) -> list[Value]:
        """Adds an op with results of the given kinds, and returns these. `attributes` are in MLIR's syntax."""
        name, count = self.fresh(), len(kinds)
        line = f"{name}:{count} = " if count > 1 else f"{name} = "
        line += f'"{op if "." in op else f"stablehlo.{op}"}"({", ".join(x.name for x in operands)})'
        line += f" <{{{attributes}}}>" if attributes else ""
        line += f" ({', '.join(regions)})" if regions else ""
        types = ", ".join(str(x.kind) for x in operands)
        self.lines.append(f"{line} : ({types}) -> ({', '.join(map(str, kinds))})")
        return [Value(f"{name}#{i}" if count > 1 else name, kind) for i, kind in enumerate(kinds)]

    def op(
        self,
        op: str,
        operands: Sequence[Value],
        kind: Kind | None = None,
        attributes: str = "",
        regions: Sequence[str] = (),
    ) -> Value:
        """Adds an op with one result, and returns it. By default, it has the kind of the first operand."""
        return self.several(op, operands, [kind or operands[0].kind], attributes, regions)[0]

    def region(
        self, kinds: Sequence[Kind], fill: Callable[..., Sequence[Value]], end: str = "stablehlo.return"
    ) -> str:
        """Returns the text of a region with one block, whose arguments have the given kinds.

        `fill` adds the ops of the block, and returns the values that the block returns.
        """
        arguments = [Value(self.fresh(), kind) for kind in kinds]
        outside, self.lines = self.lines, []
        results = fill(*arguments)
        types = ", ".join(str(x.kind) for x in results)
        self.lines.append(f'"{end}"({", ".join(x.name for x in results)}) : ({types}) -> ()')
        head = f"^bb0({', '.join(f'{x.name}: {x.kind}' for x in arguments)}):\n" if arguments else ""
        body, self.lines = "\n".join(self.lines), outside
        return f"{{\n{head}{body}\n}}"

    def combined(self, element: str, op: str) -> str:
        """Returns the text of a region that combines two scalars by `op`. For "set", it returns the second scalar."""
        scalar = Kind((), element)
        return self.region([scalar, scalar], lambda x, y: [y if op == "set" else self.op(op, [x, y])])

    # ---- numbers

    def constant(self, kind: Kind, value: int | None = None) -> Value:
        """Returns a constant of this kind whose elements are all `value`.

        By default, its elements are small random numbers.
        """
        low = 0 if kind.is_unsigned else -4
        if kind.size == 0:
            return self.op("constant", [], kind, f"value = dense<> : {kind}")
        if value is None and (not kind.shape or self.random.random() < 0.5):
            value = self.random.choice([0, 0, 1, self.random.randint(low, 4)])
        if value is not None:
            return self.op("constant", [], kind, f"value = dense<{number(value, kind.element)}> : {kind}")

        def nested(shape: Sequence[int]) -> str:
            if not shape:
                return number(self.random.randint(low, 6), kind.element)
            return f"[{', '.join(nested(shape[1:]) for _ in range(shape[0]))}]"

        return self.op("constant", [], kind, f"value = dense<{nested(kind.shape)}> : {kind}")

    def bounded(self, x: Value) -> Value:
        """x, clamped to magnitudes of at most `LARGEST`. For floats in a differentiable program, 2 tanh x instead."""
        kind = x.kind
        if kind.element == "i1":
            return x
        if kind.is_complex:
            part = kind.of(PARTS[kind.element])
            return self.op(
                "complex", [self.bounded(self.op(name, [x], part)) for name in ("real", "imag")], kind
            )
        if self.smooth and kind.element in FLOATS:
            return self.op("multiply", [self.op("tanh", [x]), self.constant(kind, 2)])
        return self.clamped(x, 0 if kind.is_unsigned else -LARGEST, LARGEST)

    def clamped(self, x: Value, low: int, high: int) -> Value:
        scalar = Kind((), x.kind.element)
        return self.op("clamp", [self.constant(scalar, low), x, self.constant(scalar, high)], x.kind)

    def compared(self, direction: str, x: Value, y: Value) -> Value:
        kind = x.kind.of("i1")
        comparison = f"#stablehlo<comparison_direction {direction}>"
        how = f"#stablehlo<comparison_type {x.kind.comparison}>"
        return self.op("compare", [x, y], kind, f"comparison_direction = {comparison}, compare_type = {how}")

    # ---- making values fit

    def fit(self, x: Value, kind: Kind) -> Value:
        """x, converted to the shape and element type of `kind`."""
        return self.reshaped(self.converted(x, kind.element), kind.shape)

    def converted(self, x: Value, element: str) -> Value:
        """x, converted to an element type.

        Complex numbers are converted to their real parts, and signed numbers to unsigned types by their absolute
        values.
        """
        if x.kind.element == element:
            return x
        if x.kind.is_complex:
            x = self.op("real", [x], x.kind.of(PARTS[x.kind.element]))
        if element in PARTS:
            x = self.converted(x, PARTS[element])
            return self.op("complex", [x, self.constant(x.kind)], x.kind.of(element))
        if element.startswith("ui") and not x.kind.is_unsigned and x.kind.element != "i1":
            x = self.op("abs", [x])
        return x if x.kind.element == element else self.op("convert", [x], x.kind.of(element))

    def reshaped(self, x: Value, shape: tuple[int, ...]) -> Value:
        """Returns an array of this shape with the elements of x in row-major order.

        The elements are truncated, padded or repeated to fit.
        """
        kind, count = Kind(shape, x.kind.element), x.kind.size
        if x.kind == kind:
            return x
        if count == kind.size:
            return self.op("reshape", [x], kind)
        if count == 0:
            return self.constant(kind)
        if count == 1:
            return self.broadcast(self.op("reshape", [x], Kind((), kind.element)), [], kind)
        flat = self.op("reshape", [x], Kind((count,), kind.element))
        if count > kind.size:
            first = self.random.randint(0, count - kind.size)
            flat = self.slice(flat, [first], [first + kind.size])
        elif self.random.random() < 0.5:
            flat = self.pad(flat, [self.random.randint(0, kind.size - count)], [0], (kind.size,))
        else:
            times = -(-kind.size // count)
            whole = Kind((times * count,), kind.element)
            flat = self.slice(
                self.op("concatenate", [flat] * times, whole, "dimension = 0 : i64"), [0], [kind.size]
            )
        return flat if flat.kind == kind else self.op("reshape", [flat], kind)

    def broadcast(self, x: Value, dimensions: Sequence[int], kind: Kind) -> Value:
        return self.op("broadcast_in_dim", [x], kind, f"broadcast_dimensions = {integers(dimensions)}")

    def slice(
        self, x: Value, first: Sequence[int], last: Sequence[int], steps: Sequence[int] | None = None
    ) -> Value:
        steps = [1] * len(first) if steps is None else steps
        shape = tuple(-(-(b - a) // step) for a, b, step in zip(first, last, steps, strict=True))
        attributes = f"start_indices = {integers(first)}, limit_indices = {integers(last)}, strides = {integers(steps)}"
        return self.op("slice", [x], Kind(shape, x.kind.element), attributes)

    def pad(
        self,
        x: Value,
        low: Sequence[int],
        inside: Sequence[int],
        shape: tuple[int, ...],
        value: Value | None = None,
    ) -> Value:
        """x, padded or cropped to this shape by a pad op. The default padding value is 0 or 1."""
        sizes = zip(shape, x.kind.shape, low, inside, strict=True)
        high = [n - (m + max(m - 1, 0) * i) - a for n, m, a, i in sizes]
        attributes = (
            f"edge_padding_low = {integers(low)}, edge_padding_high = {integers(high)}, "
            f"interior_padding = {integers(inside)}"
        )
        if value is None:
            value = self.constant(Kind((), x.kind.element), self.random.choice([0, 1]))
        return self.op("pad", [x, value], Kind(shape, x.kind.element), attributes)


def number(value: int, element: str) -> str:
    """Returns the text of a number in a constant with this element type."""
    if element == "i1":
        return "true" if value % 2 else "false"
    if element in PARTS:
        return f"({value}.0, {value * 3 % 5}.0)"
    return f"{value}.0" if element in FLOATS else str(value)
