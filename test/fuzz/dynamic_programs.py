"""Random programs with dynamic shapes: most arrays have one or two dynamic dimensions.

All dynamic dimensions of a program have one size, which is the size of the first dimension of the first argument. The
value `%n` is this size.
"""

import math
from collections.abc import Callable
from random import Random

DYNAMIC = "?"
Shape = tuple[int | str, ...]


def tensor(shape: Shape, element: str = "f64") -> str:
    return f"tensor<{''.join(f'{n}x' for n in shape)}{element}>"


class DynamicProgram:
    """The text of a function `main`, to which ops are added.

    A value is a pair of a name and a shape. The magnitude of its elements is at most about 2.
    """

    def __init__(self, random: Random) -> None:
        self.random, self.lines, self.fresh = random, [], 0
        arguments = [(f"%x{i}", self.shape() if i else (DYNAMIC, 2)) for i in range(random.randint(1, 3))]
        self.values: list[tuple[str, Shape]] = list(arguments)
        first = tensor(arguments[0][1])
        self.lines.append(f"%n = stablehlo.get_dimension_size %x0, dim = 0 : ({first}) -> tensor<i32>")
        self.lines.append("%n1 = stablehlo.reshape %n : (tensor<i32>) -> tensor<1xi32>")
        for _ in range(random.randint(1, 4)):
            self.values.append(self.bounded(*random.choice(FAMILIES)(self)))
        outputs = self.values[-random.randint(1, 2) :]
        given = ", ".join(f"{name}: {tensor(shape)}" for name, shape in arguments)
        types = ", ".join(tensor(shape) for _, shape in outputs)
        names = ", ".join(name for name, _ in outputs)
        body = "\n  ".join([*self.lines, f"return {names} : {types}"])
        self.text = f"func.func @main({given}) -> ({types}) {{\n  {body}\n}}\n"

    def shape(self) -> Shape:
        return self.random.choice([(DYNAMIC,), (DYNAMIC, 2), (DYNAMIC, 3), (DYNAMIC, DYNAMIC), (3,), ()])

    def any(self, rank: int = 0) -> tuple[str, Shape]:
        """Returns a random value of at least this rank.

        A value of lower rank is broadcast along new dynamic dimensions.
        """
        name, shape = self.random.choice(self.values[-3:])
        while len(shape) < rank:
            name, shape = self.broadcast(name, shape)
        return name, shape

    def emit(self, text: str, count: int = 1) -> str:
        name = f"%v{self.fresh}"
        self.fresh += 1
        self.lines.append(f"{name}{f':{count}' if count > 1 else ''} = {text}")
        return name

    def bounded(self, name: str, shape: Shape) -> tuple[str, Shape]:
        return self.emit(f"stablehlo.{self.random.choice(('sine', 'tanh'))} {name} : {tensor(shape)}"), shape

    def broadcast(self, name: str, shape: Shape) -> tuple[str, Shape]:
        """Broadcasts a value along a new first dimension, which is dynamic."""
        given: Shape = (DYNAMIC, *shape)
        parts = ["%n1"]
        for n in shape:
            size = "%n1" if n == DYNAMIC else self.emit(f"stablehlo.constant dense<{n}> : tensor<1xi32>")
            parts.append(size)
        types = ", ".join(["tensor<1xi32>"] * len(parts))
        sizes = f"tensor<{len(parts)}xi32>"
        whole = self.emit(f"stablehlo.concatenate {', '.join(parts)}, dim = 0 : ({types}) -> {sizes}")
        along = ", ".join(str(i + 1) for i in range(len(shape)))
        text = f"stablehlo.dynamic_broadcast_in_dim {name}, {whole}, dims = [{along}] : "
        return self.emit(f"{text}({tensor(shape)}, {sizes}) -> {tensor(given)}"), given

    def like(self, shape: Shape) -> str:
        """Returns the name of a value of this shape: an existing value, or a sum that is broadcast."""
        suitable = [name for name, other in self.values if other == shape]
        if suitable:
            return self.random.choice(suitable)
        name, other = self.any()
        scalar = self.reduced(name, other, list(range(len(other))))[0]
        typed: tuple[str, Shape] = scalar, ()
        static = tuple(n for n in shape if n != DYNAMIC)
        if static:
            type_ = tensor(static)
            text = f"stablehlo.broadcast_in_dim {scalar}, dims = [] : (tensor<f64>) -> {type_}"
            typed = self.emit(text), static
        for _ in range(len(shape) - len(static)):
            typed = self.broadcast(*typed)
        if typed[1] != shape:  # a static dimension of the shape precedes a dynamic one
            types = f"({tensor(typed[1])}) -> {tensor(shape)}"
            typed = self.emit(f"stablehlo.transpose {typed[0]}, dims = [1, 0] : {types}"), shape
        return self.bounded(*typed)[0]

    def reduced(self, name: str, shape: Shape, along: list[int], op: str = "add") -> tuple[str, Shape]:
        init = self.emit(f"stablehlo.constant dense<{ {'add': 0.0, 'maximum': -100.0}[op] }> : tensor<f64>")
        given = tuple(n for i, n in enumerate(shape) if i not in along)
        text = f"stablehlo.reduce({name} init: {init}) applies stablehlo.{op} across dimensions = {along} "
        return self.emit(f"{text}: ({tensor(shape)}, tensor<f64>) -> {tensor(given)}"), given


def binary(c: DynamicProgram) -> tuple[str, Shape]:
    name, shape = c.any()
    op = c.random.choice(("add", "multiply", "subtract", "maximum", "atan2"))
    return c.emit(f"stablehlo.{op} {name}, {c.like(shape)} : {tensor(shape)}"), shape


def unary(c: DynamicProgram) -> tuple[str, Shape]:
    name, shape = c.any()
    op = c.random.choice(("exponential", "cosine", "logistic", "negate", "optimization_barrier", "log"))
    if op == "log":
        name, op = c.emit(f"stablehlo.exponential {name} : {tensor(shape)}"), "log_plus_one"
    return c.emit(f"stablehlo.{op} {name} : {tensor(shape)}"), shape


def reduce(c: DynamicProgram) -> tuple[str, Shape]:
    name, shape = c.any(1)
    along = [i for i in range(len(shape)) if c.random.random() < 0.6] or [0]
    return c.reduced(name, shape, along, c.random.choice(("add", "maximum")))


def transpose(c: DynamicProgram) -> tuple[str, Shape]:
    name, shape = c.any(2)
    order = list(range(len(shape)))
    c.random.shuffle(order)
    given = tuple(shape[i] for i in order)
    return c.emit(f"stablehlo.transpose {name}, dims = {order} : ({tensor(shape)}) -> {tensor(given)}"), given


def product(c: DynamicProgram) -> tuple[str, Shape]:
    """Adds a dot_general that contracts one dimension. Both operands may be the same value."""
    name, shape = c.any(1)
    d = c.random.randrange(len(shape))
    other: Shape = c.random.choice([(shape[d],), (shape[d], 2), (shape[d], DYNAMIC)])
    y = c.like(other)
    given = (*shape[:d], *shape[d + 1 :], *other[1:])
    if len(given) > 3:
        return name, shape
    types = f"({tensor(shape)}, {tensor(other)}) -> {tensor(given)}"
    return c.emit(f"stablehlo.dot_general {name}, {y}, contracting_dims = [{d}] x [0] : {types}"), given


def broadcast(c: DynamicProgram) -> tuple[str, Shape]:
    name, shape = c.any()
    return c.broadcast(name, shape) if len(shape) < 3 else (name, shape)


def select(c: DynamicProgram) -> tuple[str, Shape]:
    name, shape = c.any()
    y, predicate = c.like(shape), tensor(shape, "i1")
    types = f"({tensor(shape)}, {tensor(shape)}) -> {predicate}"
    test = c.emit(f"stablehlo.compare LT, {name}, {c.like(shape)} : {types}")
    return c.emit(f"stablehlo.select {test}, {name}, {y} : {predicate}, {tensor(shape)}"), shape


def concatenate(c: DynamicProgram) -> tuple[str, Shape]:
    """Adds a concatenation along a static dimension, or along a dynamic dimension, which is summed afterwards."""
    name, shape = c.any(1)
    y = c.random.choice((name, c.like(shape)))
    d = c.random.randrange(len(shape))
    size = DYNAMIC if shape[d] == DYNAMIC else 2 * int(shape[d])
    given = (*shape[:d], size, *shape[d + 1 :])
    types = f"({tensor(shape)}, {tensor(shape)}) -> {tensor(given)}"
    result = c.emit(f"stablehlo.concatenate {name}, {y}, dim = {d} : {types}")
    return (result, given) if size != DYNAMIC else c.reduced(c.bounded(result, given)[0], given, [d])


def sort(c: DynamicProgram) -> tuple[str, Shape]:
    """Adds a sort along a static dimension. IREE does not support sorts along dynamic dimensions."""
    name, shape = c.any(1)
    static = [i for i, n in enumerate(shape) if n != DYNAMIC]
    if not static:
        return unary(c)
    compare = "stablehlo.compare LT, %a, %b : (tensor<f64>, tensor<f64>) -> tensor<i1>"
    text = (
        f'"stablehlo.sort"({name}) <{{dimension = {static[0]} : i64, is_stable = true}}> ({{\n'
        f"  ^bb0(%a: tensor<f64>, %b: tensor<f64>):\n    %p = {compare}\n"
        f"    stablehlo.return %p : tensor<i1>\n  }}) : ({tensor(shape)}) -> {tensor(shape)}"
    )
    return c.emit(text), shape


def gather(c: DynamicProgram) -> tuple[str, Shape]:
    """Adds a gather of rows 0 and 1 of an array. The index 1 is out of range if the array has only one row."""
    name, shape = c.any(1)
    if DYNAMIC in shape[1:]:
        return unary(c)
    given = (2, *shape[1:])
    indices = c.emit("stablehlo.constant dense<[[0], [1]]> : tensor<2x1xi32>")
    offset, sizes = list(range(1, len(shape))), ", ".join(map(str, (1, *shape[1:])))
    text = (
        f'"stablehlo.gather"({name}, {indices}) {{dimension_numbers = #stablehlo.gather<offset_dims = {offset}, '
        "collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1>, "
        f"slice_sizes = array<i64: {sizes}>}} : ({tensor(shape)}, tensor<2x1xi32>) -> {tensor(given)}"
    )
    return c.emit(text), given


def flatten(c: DynamicProgram) -> tuple[str, Shape]:
    """Adds ops that flatten an array of dynamic shape, multiply it by the positions of its elements, and sum it."""
    name, shape = c.any(1)
    count = c.emit(
        f"stablehlo.constant dense<{math.prod(int(n) for n in shape if n != DYNAMIC)}> : tensor<1xi32>"
    )
    for n in shape:
        if n == DYNAMIC:
            count = c.emit(f"stablehlo.multiply {count}, %n1 : tensor<1xi32>")
    flat, row = tensor(shape), tensor((DYNAMIC,))
    x = c.emit(f"stablehlo.dynamic_reshape {name}, {count} : ({flat}, tensor<1xi32>) -> {row}")
    positions = c.emit(f"stablehlo.dynamic_iota {count}, dim = 0 : (tensor<1xi32>) -> {row}")
    y = c.emit(f"stablehlo.multiply {x}, {positions} : {row}")
    return c.reduced(c.bounded(y, (DYNAMIC,))[0], (DYNAMIC,), [0])


def loop(c: DynamicProgram) -> tuple[str, Shape]:
    """Adds a loop that carries an array of static shape. Its trip count is the dynamic size or 3."""
    name, shape = c.any()
    if DYNAMIC in shape:  # reverse mode does not support stacks of arrays of dynamic shape
        name, shape = c.reduced(name, shape, [i for i, n in enumerate(shape) if n == DYNAMIC])
    zero, one, three = (c.emit(f"stablehlo.constant dense<{i}> : tensor<i32>") for i in (0, 1, 3))
    count, t = c.random.choice(("%n", three)), tensor(shape)
    result = c.emit(
        f"stablehlo.while(%i = {zero}, %a = {name}) : tensor<i32>, {t}\n"
        f"  cond {{\n    %p = stablehlo.compare LT, %i, {count} : (tensor<i32>, tensor<i32>) -> tensor<i1>\n"
        "    stablehlo.return %p : tensor<i1>\n  } do {\n"
        f"    %j = stablehlo.add %i, {one} : tensor<i32>\n    %b = stablehlo.multiply %a, {name} : {t}\n"
        f"    %d = stablehlo.{c.random.choice(('sine', 'cosine'))} %b : {t}\n"
        f"    stablehlo.return %j, %d : tensor<i32>, {t}\n  }}",
        2,
    )
    return f"{result}#1", shape


FAMILIES: tuple[Callable[[DynamicProgram], tuple[str, Shape]], ...] = (
    unary,
    binary,
    binary,
    reduce,
    transpose,
    product,
    broadcast,
    select,
    concatenate,
    sort,
    gather,
    flatten,
    loop,
)
