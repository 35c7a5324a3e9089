"""Random small programs of array ops on floats, integers and truth values, as StableHLO text.

Each value of a program is also one of its results, as a float. Integers are few and small, since static libraries of
scalar ops refuse sums that may overflow; floats include infinities, NaN and both zeros.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from math import prod
from random import Random

from harness.tensors import tensor

FLOATS, INTEGERS = ("f64", "f32"), ("i8", "i32", "i64")
NUMBERS = "0.0", "-0.0", "1.0", "-1.0", "0.5", "2.0", "-1.5", "3.0"
SPECIAL = {
    "f64": ("0x7FF0000000000000", "0x7FF8000000000000", "0xFFF0000000000000"),
    "f32": ("0x7F800000", "0x7FC00000", "0xFF800000"),
}
_LARGEST = 32


@dataclass(frozen=True)
class Value:
    """A value of a program: its name, its shape and its element type."""

    name: str
    shape: list[int]
    kind: str

    @property
    def type(self) -> str:
        return tensor(self.shape, self.kind)


@dataclass
class Writer:
    """Writes ops with random operands. `values` can be operands, and `lines` are the ops of the current region."""

    draw: Random
    values: list[Value]
    lines: list[str] = field(default_factory=list)
    count: int = 0
    depth: int = 0

    def shape(self) -> list[int]:
        found = [self.draw.choice((1, 2, 3, 4)) for _ in range(self.draw.choice((0, 1, 1, 2, 2, 3)))]
        return found if prod(found) <= _LARGEST else found[:2]

    def add(self, text: str, shape: Sequence[int], kind: str) -> Value:
        self.count += 1
        found = Value(f"%v{self.count}", list(shape), kind)
        self.lines.append(f"{found.name} = {text}")
        self.values.append(found)
        return found

    def move(self, name: str, x: Value, details: str, shape: Sequence[int]) -> Value:
        return self.add(
            f"stablehlo.{name} {x.name}{details} : ({x.type}) -> {tensor(shape, x.kind)}", shape, x.kind
        )

    def constant(self, shape: Sequence[int], kind: str) -> Value:
        def number() -> str:
            if kind == "i1":
                return self.draw.choice(("true", "false"))
            if kind in INTEGERS:
                return str(self.draw.choice((0, 1, -1, 2, 3, 5, -4, 100)))
            return self.draw.choice(SPECIAL[kind] if self.draw.random() < 0.1 else NUMBERS)

        def nested(sizes: Sequence[int]) -> str:
            return f"[{', '.join(nested(sizes[1:]) for _ in range(sizes[0]))}]" if sizes else number()

        text = nested(list(shape)) if kind != "i1" and self.draw.random() < 0.6 else number()
        return self.add(f"stablehlo.constant dense<{text}> : {tensor(shape, kind)}", shape, kind)

    def pick(self, kinds: Sequence[str], shape: Sequence[int] | None = None) -> Value:
        """A value of one of these types. Adds a reshape or a constant if there is none."""
        fits = [v for v in self.values if v.kind in kinds and (shape is None or v.shape == list(shape))]
        if fits:
            return self.draw.choice(fits)
        shape = self.shape() if shape is None else shape
        alike = [v for v in self.values if v.kind in kinds and prod(v.shape) == prod(shape)]
        if alike:
            return self.move("reshape", self.draw.choice(alike), "", shape)
        return self.constant(shape, self.draw.choice(kinds))

    def any(self) -> Value:
        return self.pick((*FLOATS, *FLOATS, *INTEGERS, "i1"))

    def index(self, kind: str) -> Value:
        if self.draw.random() < 0.6:
            x, y = (self.pick(("f64",), ()) for _ in range(2))
            flag = self.add(
                f"stablehlo.compare LT, {x.name}, {y.name} : ({x.type}, {y.type}) -> tensor<i1>", (), "i1"
            )
            more, t = self.pick((kind,), ()), tensor((), kind)
            number = self.add(f"stablehlo.convert {flag.name} : ({flag.type}) -> {t}", (), kind)
            return self.add(f"stablehlo.maximum {number.name}, {more.name} : {t}", (), kind)
        number = self.draw.choice((-2, -1, 0, 1, 1, 2, 3, 5))
        return self.add(f"stablehlo.constant dense<{number}> : {tensor((), kind)}", (), kind)

    def region(self, types: Sequence[Value], known: Sequence[Value] = (), more: Sequence[str] = ()) -> str:
        """The text of a region that returns values of `types`. Its ops read outer values and `known`.

        `more` has lines after these ops, and last the name and the type of a value that is returned first.
        """
        outer, lines = list(self.values), self.lines
        self.values, self.lines, self.depth = [*outer, *known], [], self.depth + 1
        for _ in range(self.draw.randint(0, 3)):
            step(self)
        found = [self.pick((v.kind,), v.shape) for v in types]
        body = "\n".join((*self.lines, *more[:-2]))
        names, of = [*more[-2:-1], *(v.name for v in found)], [*more[-1:], *(v.type for v in found)]
        self.values, self.lines, self.depth = outer, lines, self.depth - 1
        return f"{body}\nstablehlo.return {', '.join(names)} : {', '.join(of)}"

    def results(self, values: Sequence[Value]) -> str:
        """Adds the results of an op, of the types of `values`. Returns the text before the op."""
        self.count += 1
        self.values += [Value(f"%v{self.count}#{i}", v.shape, v.kind) for i, v in enumerate(values)]
        return f"%v{self.count}:{len(values)}"


# ---- ops -------------------------------------------------------------------------------------------------------


def binary(w: Writer) -> None:
    x = w.pick(FLOATS)
    y = w.pick((x.kind,), x.shape)
    name = w.draw.choice(("add", "subtract", "multiply", "divide", "maximum", "minimum"))
    w.add(f"stablehlo.{name} {x.name}, {y.name} : {x.type}", x.shape, x.kind)


def unary(w: Writer) -> None:
    x, name = w.pick(FLOATS), w.draw.choice(("negate", "abs", "sqrt"))
    w.add(f"stablehlo.{name} {x.name} : {x.type}", x.shape, x.kind)


def on_integers(w: Writer) -> None:
    x = w.pick((*INTEGERS, "i1"))
    y, truth = w.pick((x.kind,), x.shape), ("and", "or", "xor")
    name = w.draw.choice(truth if x.kind == "i1" else (*truth, "add", "multiply", "maximum", "minimum"))
    w.add(f"stablehlo.{name} {x.name}, {y.name} : {x.type}", x.shape, x.kind)


def compare(w: Writer) -> None:
    x = w.any()
    y, of = w.pick((x.kind,), x.shape), tensor(x.shape, "i1")
    name = w.draw.choice(("EQ", "NE") if x.kind == "i1" else ("EQ", "NE", "LT", "LE", "GT", "GE"))
    w.add(f"stablehlo.compare {name}, {x.name}, {y.name} : ({x.type}, {x.type}) -> {of}", x.shape, "i1")


def select(w: Writer) -> None:
    x = w.any()
    y, flag = w.pick((x.kind,), x.shape), w.pick(("i1",), w.draw.choice((x.shape, [])))
    w.add(f"stablehlo.select {flag.name}, {x.name}, {y.name} : {flag.type}, {x.type}", x.shape, x.kind)


def convert(w: Writer) -> None:
    x = w.any()
    kind = w.draw.choice(FLOATS if x.kind in FLOATS else (*FLOATS, "i32", "i64"))
    w.add(f"stablehlo.convert {x.name} : ({x.type}) -> {tensor(x.shape, kind)}", x.shape, kind)


def transpose(w: Writer) -> None:
    x = w.any()
    order = w.draw.sample(range(len(x.shape)), len(x.shape))
    w.move("transpose", x, f", dims = {order}", [x.shape[d] for d in order])


def broadcast(w: Writer) -> None:
    x = w.any()
    sizes = [n if n > 1 else w.draw.choice((1, 2, 3)) for n in x.shape]
    at = w.draw.sample(range(len(sizes) + 1), len(sizes))
    shape = [w.draw.choice((1, 2, 4))] * (len(sizes) + 1)
    for d, n in zip(at, sizes, strict=True):
        shape[d] = n
    if prod(shape) <= _LARGEST:
        w.move("broadcast_in_dim", x, f", dims = {at}", shape)


def slice_(w: Writer) -> None:
    x = w.any()
    starts = [w.draw.randrange(n) for n in x.shape]
    parts = [
        (a, w.draw.randint(a + 1, n), w.draw.choice((1, 1, 2))) for a, n in zip(starts, x.shape, strict=True)
    ]
    text = ", ".join(f"{a}:{b}:{step_}" for a, b, step_ in parts)
    if parts:
        w.move("slice", x, f" [{text}]", [-(-(b - a) // step_) for a, b, step_ in parts])


def pad(w: Writer) -> None:
    x = w.any()
    low, high, between = ([w.draw.choice((0, 0, 1, 2)) for _ in x.shape] for _ in range(3))
    shape = [n + a + b + (n - 1) * c for n, a, b, c in zip(x.shape, low, high, between, strict=True)]
    if shape and prod(shape) <= _LARGEST:
        fill, t = w.pick((x.kind,), ()), tensor(shape, x.kind)
        details = f"low = {low}, high = {high}, interior = {between}"
        w.add(
            f"stablehlo.pad {x.name}, {fill.name}, {details} : ({x.type}, {fill.type}) -> {t}", shape, x.kind
        )


def concatenate(w: Writer) -> None:
    x = w.any()
    if x.shape:
        d = w.draw.randrange(len(x.shape))
        y = w.pick((x.kind,), [w.draw.choice((1, 2)) if e == d else n for e, n in enumerate(x.shape)])
        shape = [n + y.shape[d] if e == d else n for e, n in enumerate(x.shape)]
        t = tensor(shape, x.kind)
        w.add(
            f"stablehlo.concatenate {x.name}, {y.name}, dim = {d} : ({x.type}, {y.type}) -> {t}",
            shape,
            x.kind,
        )


def reduce(w: Writer) -> None:
    x = w.any()
    name = w.draw.choice(("and", "or") if x.kind == "i1" else ("add", "multiply", "maximum", "minimum"))
    along, first = [d for d in range(len(x.shape)) if w.draw.random() < 0.6], w.pick((x.kind,), ())
    shape = [n for d, n in enumerate(x.shape) if d not in along]
    details = f"applies stablehlo.{name} across dimensions = {along} : ({x.type}, {first.type})"
    w.add(
        f"stablehlo.reduce({x.name} init: {first.name}) {details} -> {tensor(shape, x.kind)}", shape, x.kind
    )


def dot_general(w: Writer) -> None:
    """The second operand has the batch dimensions and the contracted dimensions in another order."""
    x = w.pick(FLOATS)
    dims = w.draw.sample(range(len(x.shape)), len(x.shape))
    batch, summed = dims[:1], dims[1 : w.draw.choice((1, 2, 3))]
    shared = w.draw.sample([*batch, *summed], len(batch + summed))
    y, free = (
        w.pick((x.kind,), [*(x.shape[d] for d in shared), 2]),
        [d for d in dims if d not in batch + summed],
    )
    shape = [*(x.shape[d] for d in [*batch, *sorted(free)]), 2]
    numbers = [f"{of} x {[shared.index(d) for d in of]}" for of in (batch, summed)]
    details = f"batching_dims = {numbers[0]}, contracting_dims = {numbers[1]} : ({x.type}, {y.type})"
    w.add(f"stablehlo.dot_general {x.name}, {y.name}, {details} -> {tensor(shape, x.kind)}", shape, x.kind)


def dynamic(w: Writer) -> None:
    """A dynamic slice, or an update of it. The start may be outside."""
    x, kind = w.any(), w.draw.choice(INTEGERS)
    sizes, starts = [w.draw.randint(1, n) for n in x.shape], [w.index(kind) for _ in x.shape]
    names, types = (", ".join(each) for each in ((v.name for v in starts), (v.type for v in starts)))
    t = tensor(sizes, x.kind)
    if not sizes:
        return
    if w.draw.random() < 0.5:
        details = f"{names}, sizes = {sizes} : ({x.type}, {types}) -> {t}"
        w.add(f"stablehlo.dynamic_slice {x.name}, {details}", sizes, x.kind)
    else:
        u = w.pick((x.kind,), sizes)
        details = f"{u.name}, {names} : ({x.type}, {t}, {types}) -> {x.type}"
        w.add(f"stablehlo.dynamic_update_slice {x.name}, {details}", x.shape, x.kind)


def branches(w: Writer) -> None:
    """An `if`, or a `case` whose index may be outside."""
    if w.depth > 1:
        return
    results, is_case = [w.any() for _ in range(2)], w.draw.random() < 0.5
    flag = w.index("i32") if is_case else w.pick(("i1",), ())
    regions = ", ".join(f"{{\n{w.region(results)}\n}}" for _ in range(3 if is_case else 2))
    types = ", ".join(v.type for v in results)
    name = "case" if is_case else "if"
    w.lines.append(
        f'{w.results(results)} = "stablehlo.{name}"({flag.name}) ({regions}) : ({flag.type}) -> ({types})'
    )


def loop(w: Writer) -> None:
    """A loop of at most three iterations. Its body reads the counter."""
    if w.depth > 1:
        return
    kind = w.draw.choice(("i8", "i32", "f64"))
    zero, one, limit = (w.add(f"stablehlo.constant dense<{n}{'.0' * (kind == 'f64')}> : tensor<{kind}>", (), kind)
                        for n in (0, 1, w.draw.randint(0, 3)))  # fmt: skip
    first = [w.any() for _ in range(2)]
    w.count += 1
    i, *carried = (Value(f"%c{w.count}_{k}", v.shape, v.kind) for k, v in enumerate((zero, *first)))
    last = f"%n{w.count}"
    more = [f"{last} = stablehlo.add {i.name}, {one.name} : {i.type}", last, i.type]
    body = w.region(first, [i, *carried], more)
    given = ", ".join(f"{a.name} = {b.name}" for a, b in zip((i, *carried), (zero, *first), strict=True))
    types = ", ".join(v.type for v in (zero, *first))
    w.lines.append(f"""{w.results([zero, *first])} = stablehlo.while({given}) : {types} cond {{
      %more = stablehlo.compare LT, {i.name}, {limit.name} : ({i.type}, {i.type}) -> tensor<i1>
      stablehlo.return %more : tensor<i1>
    }} do {{
      {body}
    }}""")


OPS: Sequence[Callable[[Writer], None]] = (
    *(
        binary,
        binary,
        binary,
        unary,
        on_integers,
        compare,
        select,
        convert,
        transpose,
        broadcast,
        slice_,
        pad,
    ),
    *(concatenate, reduce, dot_general, dynamic, branches, loop),
)


def step(w: Writer) -> None:
    w.draw.choice(OPS)(w)


def program(seed: int, steps: int) -> str:
    """The text of a program of about `steps` ops."""
    draw = Random(seed)
    arguments = [
        Value(f"%x{i}", [[], [draw.choice((1, 2, 3, 4))], [2, 3]][i], draw.choice(FLOATS) if i else "f64")
        for i in range(2)
    ]
    w = Writer(draw, list(arguments))
    for _ in range(steps):
        step(w)
    found = [v for v in w.values if v.name.startswith("%v")][-40:] or arguments
    for i, v in enumerate(found):
        w.lines.append(f"%r{i} = stablehlo.convert {v.name} : ({v.type}) -> {tensor(v.shape)}")
    body, types = "\n".join(w.lines), ", ".join(tensor(v.shape) for v in found)
    names, taken = (
        ", ".join(f"%r{i}" for i in range(len(found))),
        ", ".join(f"{v.name}: {v.type}" for v in arguments),
    )
    return f"func.func @main({taken}) -> ({types}) {{\n{body}\nreturn {names} : {types}\n}}"
