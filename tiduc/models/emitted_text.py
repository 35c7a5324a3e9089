"""Emits the text of a StableHLO function op by op, for models that need whole functions."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Value:
    """A tensor of static shape in the text."""

    name: str
    sizes: tuple[int, ...]
    element: str

    @property
    def type(self) -> str:
        return f"tensor<{''.join(f'{n}x' for n in self.sizes)}{self.element}>"


class Body:
    """A function body under construction; emitted ops return values, and `arguments` are the function's arguments."""

    def __init__(self, types: Sequence[Any]) -> None:
        self._lines: list[str] = []
        self._count = 0
        self.arguments = [Value(f"%arg{i}", tuple(t.shape), str(t.element_type)) for i, t in enumerate(types)]

    def function(self, name: str, results: Sequence[Value]) -> str:
        """The text of a private function with this name that returns these values."""
        inputs = ", ".join(f"{x.name}: {x.type}" for x in self.arguments)
        outputs, names = ", ".join(y.type for y in results), ", ".join(y.name for y in results)
        lines = "\n".join(self._lines)
        return f'func.func private @"{name}"({inputs}) -> ({outputs}) {{\n{lines}\nreturn {names} : {outputs}\n}}'

    def emit(
        self,
        op: str,
        operands: Sequence[Value],
        sizes: Sequence[int],
        attributes: str = "",
        element: str | None = None,
    ) -> Value:
        """Emits a StableHLO op and returns its result; the element type defaults to the first operand's."""
        y = Value(self._fresh(), tuple(sizes), element or operands[0].element)
        names, types = ", ".join(x.name for x in operands), ", ".join(x.type for x in operands)
        held = f" <{{{attributes}}}>" if attributes else ""
        self._lines.append(f'{y.name} = "stablehlo.{op}"({names}){held} : ({types}) -> {y.type}')
        return y

    def _fresh(self) -> str:
        self._count += 1
        return f"%v{self._count}"

    # ---- elementwise ---------------------------------------------------------------------------------------

    def add(self, x: Value, y: Value) -> Value:
        return self.emit("add", [x, y], x.sizes)

    def subtract(self, x: Value, y: Value) -> Value:
        return self.emit("subtract", [x, y], x.sizes)

    def multiply(self, x: Value, y: Value) -> Value:
        return self.emit("multiply", [x, y], x.sizes)

    def apply(self, function: str, x: Value) -> Value:
        """A unary op, or `relu`, whose derivative at 0 is 0."""
        if function != "relu":
            return self.emit(function, [x], x.sizes)
        zero = self.zeros(x.sizes, x.element)
        return self.select(self.compare(x, zero, "GT"), x, zero)

    def compare(self, x: Value, y: Value, direction: str) -> Value:
        attributes = f"comparison_direction = #stablehlo<comparison_direction {direction}>"
        return self.emit("compare", [x, y], x.sizes, attributes, "i1")

    def select(self, which: Value, x: Value, y: Value) -> Value:
        return self.emit("select", [which, x, y], x.sizes, element=x.element)

    # ---- shapes --------------------------------------------------------------------------------------------

    def zeros(self, sizes: Sequence[int], element: str) -> Value:
        type_ = Value("", tuple(sizes), element).type
        return self.emit("constant", [], sizes, f"value = dense<0.0> : {type_}", element)

    def number(self, n: int) -> Value:
        return self.emit("constant", [], [], f"value = dense<{n}> : tensor<i32>", "i32")

    def slice(self, x: Value, ranges: Sequence[tuple[int, int]]) -> Value:
        starts, ends, steps = (
            f"array<i64: {', '.join(map(str, numbers))}>"
            for numbers in ([a for a, _ in ranges], [b for _, b in ranges], [1] * len(ranges))
        )
        attributes = f"start_indices = {starts}, limit_indices = {ends}, strides = {steps}"
        return self.emit("slice", [x], [b - a for a, b in ranges], attributes)

    def part(self, x: Value, i: int) -> Value:
        """x[i]."""
        row = self.slice(x, [(i, i + 1), *((0, n) for n in x.sizes[1:])])
        return self.reshape(row, x.sizes[1:])

    def reshape(self, x: Value, sizes: Sequence[int]) -> Value:
        return self.emit("reshape", [x], sizes)

    def transpose(self, x: Value, order: Sequence[int]) -> Value:
        attributes = f"permutation = array<i64: {', '.join(map(str, order))}>"
        return self.emit("transpose", [x], [x.sizes[d] for d in order], attributes)

    def concatenate(self, parts: Sequence[Value], d: int) -> Value:
        sizes = list(parts[0].sizes)
        sizes[d] = sum(x.sizes[d] for x in parts)
        return self.emit("concatenate", parts, sizes, f"dimension = {d} : i64")

    def _broadcast(self, x: Value, places: Sequence[int], sizes: Sequence[int]) -> Value:
        listed = f"array<i64: {', '.join(map(str, places))}>" if places else "array<i64>"
        return self.emit("broadcast_in_dim", [x], sizes, f"broadcast_dimensions = {listed}")

    def rows(self, x: Value, like: Value) -> Value:
        """A vector broadcast along the last dimension of the shape of `like`."""
        return self._broadcast(x, [len(like.sizes) - 1], like.sizes)

    def rows_of(self, x: Value, like: Value) -> Value:
        """A vector broadcast along the first dimension of the shape of `like`: element i fills row i."""
        return self._broadcast(x, [0], like.sizes)

    def spread(self, x: Value, like: Value) -> Value:
        """A scalar broadcast to the shape of `like`."""
        return self._broadcast(x, [], like.sizes)

    def dot(self, x: Value, y: Value, of_x: int, of_y: int) -> Value:
        """The product that contracts dimension `of_x` of x with dimension `of_y` of y."""
        numbers = f"lhs_contracting_dimensions = [{of_x}], rhs_contracting_dimensions = [{of_y}]"
        sizes = [n for d, n in enumerate(x.sizes) if d != of_x]
        sizes += [n for d, n in enumerate(y.sizes) if d != of_y]
        return self.emit("dot_general", [x, y], sizes, f"dot_dimension_numbers = #stablehlo.dot<{numbers}>")

    # ---- loops ---------------------------------------------------------------------------------------------

    def at(self, x: Value, t: Value) -> Value:
        """x[t]."""
        zeros = [self.number(0) for _ in x.sizes[1:]]
        listed = ", ".join(map(str, (1, *x.sizes[1:])))
        row = self.emit(
            "dynamic_slice", [x, t, *zeros], [1, *x.sizes[1:]], f"slice_sizes = array<i64: {listed}>"
        )
        return self.reshape(row, x.sizes[1:])

    def put(self, x: Value, row: Value, t: Value) -> Value:
        """x with x[t] replaced by `row`."""
        zeros = [self.number(0) for _ in row.sizes]
        return self.emit("dynamic_update_slice", [x, self.reshape(row, [1, *row.sizes]), t, *zeros], x.sizes)

    def loop(self, count: int, step: Callable[..., Sequence[Value]], initial: Sequence[Value]) -> list[Value]:
        """A loop of `count` iterations over the carried values `initial`; `step(i, *values)` gives the next ones."""
        given = [self.number(0), *initial]
        inside = [Value(self._fresh(), x.sizes, x.element) for x in given]
        types = ", ".join(x.type for x in given)
        arguments = ", ".join(f"{x.name}: {x.type}" for x in inside)
        result = self._fresh()
        names = ", ".join(x.name for x in given)
        self._lines.append(f'{result}:{len(given)} = "stablehlo.while"({names}) ({{')
        self._lines.append(f"^bb0({arguments}):")
        goes = self.compare(inside[0], self.number(count), "LT")
        self._lines.append(f'"stablehlo.return"({goes.name}) : ({goes.type}) -> ()\n}}, {{')
        self._lines.append(f"^bb0({arguments}):")
        results = [self.add(inside[0], self.number(1)), *step(*inside)]
        self._lines.append(f'"stablehlo.return"({", ".join(x.name for x in results)}) : ({types}) -> ()')
        self._lines.append(f"}}) : ({types}) -> ({types})")
        return [Value(f"{result}#{i}", x.sizes, x.element) for i, x in enumerate(given)][1:]
