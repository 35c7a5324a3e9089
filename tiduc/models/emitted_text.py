"""Emits the text of a StableHLO function op by op, for importers that add functions to a model."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

Type = tuple[Sequence[int], str]
"""The sizes and the element type of a tensor."""


@dataclass(frozen=True)
class TextTensor:
    """A tensor in the text. A size that is not an `int`, such as a `torch.SymInt`, is dynamic."""

    name: str
    sizes: tuple[int, ...]
    element: str

    @property
    def type(self) -> str:
        sizes = (f"{n}x" if isinstance(n, int) else "?x" for n in self.sizes)
        return f"tensor<{''.join(sizes)}{self.element}>"


class Body:
    """Builds the body of a function. A method that emits an op returns the results of the op.

    `arguments` are the arguments of the function.
    """

    def __init__(self, types: Sequence[Type]) -> None:
        """`types` are the sizes and element types of the function's arguments."""
        self._lines: list[str] = []
        self._count = 0
        self.arguments = [TextTensor(f"%arg{i}", tuple(sizes), kind) for i, (sizes, kind) in enumerate(types)]

    def function(self, name: str, results: Sequence[TextTensor], attributes: str = "") -> str:
        """The text of a private function with this name and these attributes, which returns `results`."""
        inputs = ", ".join(f"{x.name}: {x.type}" for x in self.arguments)
        outputs, names = ", ".join(y.type for y in results), ", ".join(y.name for y in results)
        lines, held = "\n".join(self._lines), f" attributes {{{attributes}}}" if attributes else ""
        head = f'func.func private @"{name}"({inputs}) -> ({outputs}){held}'
        return f"{head} {{\n{lines}\nreturn {names} : {outputs}\n}}"

    def emit(
        self,
        op: str,
        operands: Sequence[TextTensor],
        sizes: Sequence[int],
        attributes: str = "",
        element: str | None = None,
    ) -> TextTensor:
        """Emits an op and returns its result. The default element type is that of the first operand."""
        return self.emit_all(op, operands, [(sizes, element or operands[0].element)], attributes)[0]

    def emit_all(
        self,
        op: str,
        operands: Sequence[TextTensor],
        types: Sequence[Type],
        attributes: str = "",
        regions: Sequence[str] = (),
    ) -> list[TextTensor]:
        """Emits an op with results of these types. An op name without a dialect belongs to StableHLO."""
        name, count = self._fresh(), len(types)
        names = [name] if count == 1 else [f"{name}#{i}" for i in range(count)]
        ys = [TextTensor(y, tuple(sizes), kind) for y, (sizes, kind) in zip(names, types, strict=True)]
        given, of_x = ", ".join(x.name for x in operands), ", ".join(x.type for x in operands)
        held, nested = (
            f" <{{{attributes}}}>" if attributes else "",
            f" ({', '.join(regions)})" if regions else "",
        )
        full = op if "." in op else f"stablehlo.{op}"
        result = name if count == 1 else f"{name}:{count}"
        of_y = ", ".join(y.type for y in ys)
        self._lines.append(f'{result} = "{full}"({given}){held}{nested} : ({of_x}) -> ({of_y})')
        return ys

    def _fresh(self) -> str:
        self._count += 1
        return f"%v{self._count}"

    # ---- elementwise ---------------------------------------------------------------------------------------

    def add(self, x: TextTensor, y: TextTensor) -> TextTensor:
        return self.emit("add", [x, y], x.sizes)

    def subtract(self, x: TextTensor, y: TextTensor) -> TextTensor:
        return self.emit("subtract", [x, y], x.sizes)

    def multiply(self, x: TextTensor, y: TextTensor) -> TextTensor:
        return self.emit("multiply", [x, y], x.sizes)

    def apply(self, function: str, x: TextTensor) -> TextTensor:
        """Applies the unary op `function` to x. `relu` is emitted as a `select`, whose derivative at 0 is 0."""
        if function != "relu":
            return self.emit(function, [x], x.sizes)
        zero = self.zeros(x.sizes, x.element)
        return self.select(self.compare(x, zero, "GT"), x, zero)

    def compare(self, x: TextTensor, y: TextTensor, direction: str) -> TextTensor:
        attributes = f"comparison_direction = #stablehlo<comparison_direction {direction}>"
        return self.emit("compare", [x, y], x.sizes, attributes, "i1")

    def select(self, which: TextTensor, x: TextTensor, y: TextTensor) -> TextTensor:
        return self.emit("select", [which, x, y], x.sizes, element=x.element)

    # ---- shapes --------------------------------------------------------------------------------------------

    def zeros(self, sizes: Sequence[int], element: str) -> TextTensor:
        complex_ = "(0.0, 0.0)" if element.startswith("complex") else ""
        return self.constant(complex_ or ("0.0" if "f" in element else "0"), sizes, element)

    def number(self, n: int) -> TextTensor:
        return self.constant(str(n), [], "i32")

    def constant(self, written: str, sizes: Sequence[int], element: str) -> TextTensor:
        """A constant. `written` is the list of elements in MLIR's syntax, such as `[1, 2]`, or one number for all."""
        type_ = TextTensor("", tuple(sizes), element).type
        return self.emit("constant", [], sizes, f"value = dense<{written}> : {type_}", element)

    def convert(self, x: TextTensor, element: str) -> TextTensor:
        return x if x.element == element else self.emit("convert", [x], x.sizes, element=element)

    def slice(self, x: TextTensor, ranges: Sequence[tuple[int, int]]) -> TextTensor:
        starts, ends, steps = (
            f"array<i64: {', '.join(map(str, numbers))}>"
            for numbers in ([a for a, _ in ranges], [b for _, b in ranges], [1] * len(ranges))
        )
        attributes = f"start_indices = {starts}, limit_indices = {ends}, strides = {steps}"
        return self.emit("slice", [x], [b - a for a, b in ranges], attributes)

    def part(self, x: TextTensor, i: int) -> TextTensor:
        """x[i], the part of x at index i of the first dimension."""
        row = self.slice(x, [(i, i + 1), *((0, n) for n in x.sizes[1:])])
        return self.reshape(row, x.sizes[1:])

    def reshape(self, x: TextTensor, sizes: Sequence[int]) -> TextTensor:
        return self.emit("reshape", [x], sizes)

    def transpose(self, x: TextTensor, order: Sequence[int]) -> TextTensor:
        attributes = f"permutation = array<i64: {', '.join(map(str, order))}>"
        return self.emit("transpose", [x], [x.sizes[d] for d in order], attributes)

    def concatenate(self, parts: Sequence[TextTensor], d: int) -> TextTensor:
        sizes = list(parts[0].sizes)
        sizes[d] = sum(x.sizes[d] for x in parts)
        return self.emit("concatenate", parts, sizes, f"dimension = {d} : i64")

    def iota(self, sizes: Sequence[int], d: int) -> TextTensor:
        """An array in which each element is its own index along dimension `d`."""
        return self.emit("iota", [], sizes, f"iota_dimension = {d} : i64", "i32")

    def size(self, x: TextTensor, d: int) -> TextTensor:
        """The size of dimension `d` of x, static or dynamic, as a vector of one i64."""
        if isinstance(x.sizes[d], int):
            return self.constant(f"[{x.sizes[d]}]", [1], "i64")
        n = self.emit("get_dimension_size", [x], [], f"dimension = {d} : i64", "i32")
        return self.convert(self.reshape(n, [1]), "i64")

    def sum(self, x: TextTensor, d: int) -> TextTensor:
        """The sum along dimension `d`."""
        zero = self.zeros([], x.element)
        adder = self.region([((), x.element)] * 2, lambda a, b: [self.add(a, b)])
        sizes = [*x.sizes[:d], *x.sizes[d + 1 :]]
        types, attributes = [(sizes, x.element)], f"dimensions = array<i64: {d}>"
        return self.emit_all("reduce", [x, zero], types, attributes, [adder])[0]

    def broadcast(self, x: TextTensor, places: Sequence[int], sizes: Sequence[int]) -> TextTensor:
        """x broadcast to the shape `sizes`. Dimension i of x becomes dimension `places[i]` of the result."""
        listed = f"array<i64: {', '.join(map(str, places))}>" if places else "array<i64>"
        return self.emit("broadcast_in_dim", [x], sizes, f"broadcast_dimensions = {listed}")

    def rows(self, x: TextTensor, like: TextTensor) -> TextTensor:
        """The vector x broadcast to the shape of `like`. Element i of x fills index i of the last dimension."""
        return self.broadcast(x, [len(like.sizes) - 1], like.sizes)

    def rows_of(self, x: TextTensor, like: TextTensor) -> TextTensor:
        """The vector x broadcast to the shape of `like`. Element i of x fills index i of the first dimension."""
        return self.broadcast(x, [0], like.sizes)

    def spread(self, x: TextTensor, like: TextTensor) -> TextTensor:
        """The scalar x broadcast to the shape of `like`."""
        return self.broadcast(x, [], like.sizes)

    def dot(self, x: TextTensor, y: TextTensor, of_x: int, of_y: int) -> TextTensor:
        """The product that contracts dimension `of_x` of x with dimension `of_y` of y."""
        numbers = f"lhs_contracting_dimensions = [{of_x}], rhs_contracting_dimensions = [{of_y}]"
        sizes = [n for d, n in enumerate(x.sizes) if d != of_x]
        sizes += [n for d, n in enumerate(y.sizes) if d != of_y]
        return self.emit("dot_general", [x, y], sizes, f"dot_dimension_numbers = #stablehlo.dot<{numbers}>")

    # ---- loops ---------------------------------------------------------------------------------------------

    def at(self, x: TextTensor, t: TextTensor) -> TextTensor:
        """x[t], where t is a scalar tensor."""
        zeros = [self.number(0) for _ in x.sizes[1:]]
        listed = ", ".join(map(str, (1, *x.sizes[1:])))
        row = self.emit(
            "dynamic_slice", [x, t, *zeros], [1, *x.sizes[1:]], f"slice_sizes = array<i64: {listed}>"
        )
        return self.reshape(row, x.sizes[1:])

    def put(self, x: TextTensor, row: TextTensor, t: TextTensor) -> TextTensor:
        """A copy of x in which x[t] is replaced by `row`."""
        zeros = [self.number(0) for _ in row.sizes]
        return self.emit("dynamic_update_slice", [x, self.reshape(row, [1, *row.sizes]), t, *zeros], x.sizes)

    def loop(
        self, count: int, step: Callable[..., Sequence[TextTensor]], initial: Sequence[TextTensor]
    ) -> list[TextTensor]:
        """A loop of `count` iterations over the carried values `initial`.

        `step(i, *values)` returns the next values.
        """
        carried = [self.number(0), *initial]
        types = [(x.sizes, x.element) for x in carried]
        regions = [
            self.region(types, lambda i, *_: [self.compare(i, self.number(count), "LT")]),
            self.region(types, lambda i, *values: [self.add(i, self.number(1)), *step(i, *values)]),
        ]
        return self.emit_all("while", carried, types, regions=regions)[1:]

    def region(self, types: Sequence[Type], fill: Callable[..., Sequence[TextTensor]]) -> str:
        """The text of a region with arguments of these types, which returns `fill(*arguments)`."""
        outer, self._lines = self._lines, []
        arguments = [TextTensor(self._fresh(), tuple(sizes), kind) for sizes, kind in types]
        results = fill(*arguments)
        listed = ", ".join(f"{x.name}: {x.type}" for x in arguments)
        names, kinds = ", ".join(y.name for y in results), ", ".join(y.type for y in results)
        lines = [*self._lines, f'"stablehlo.return"({names}) : ({kinds}) -> ()']
        self._lines = outer
        return "\n".join([f"{{\n^bb0({listed}):", *lines, "}"])
