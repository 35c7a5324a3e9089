"""Composes random StableHLO programs of ops on a few small real or complex inputs.

Each value has a known bound on the magnitude of its elements. The bound of inputs is 1.5. A value whose bound exceeds 4
is scaled down. Operands of functions are away from their poles and branch cuts. Therefore, all derivatives are
moderate, and central differences are accurate enough to check them, except near a kink.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any

SIZES = (1, 2, 3)
ELEMENTS = 40  # the largest number of elements of a value
LIMIT = 4.0


@dataclass(frozen=True)
class Value:
    """An SSA value. `bound` is a bound on the magnitude of its elements."""

    name: str
    shape: tuple[int, ...]
    is_complex: bool
    bound: float

    @property
    def element(self) -> str:
        return "complex<f64>" if self.is_complex else "f64"

    @property
    def type(self) -> str:
        return tensor(self.shape, self.element)

    @property
    def rank(self) -> int:
        return len(self.shape)


def tensor(shape: Sequence[int], element: str = "f64") -> str:
    return f"tensor<{''.join(f'{n}x' for n in shape)}{element}>"


class Composer:
    """The text of a function `main`, to which ops are added. The generator `random` makes all random choices."""

    def __init__(self, random: Random) -> None:
        self.random = random
        self._lines: list[str] = []
        self._fresh = 0
        self._functions: list[str] = []
        self._read: set[Value] = set()
        self.inputs: list[Value] = []
        self.values: list[Value] = []

    # ---- choices

    def choose(self, options: Sequence[Any]) -> Any:
        return self.random.choice(list(options))

    def integer(self, low: int, high: int) -> int:
        return self.random.randint(low, high)

    def flag(self) -> bool:
        return self.random.random() < 0.5

    def shape(self, low: int = 0, high: int = 3) -> tuple[int, ...]:
        return tuple(self.choose(SIZES) for _ in range(self.integer(low, high)))

    def integers(self, count: int, low: int, high: int) -> list[int]:
        return [self.integer(low, high) for _ in range(count)]

    def any(self, rank: int = 0) -> Value:
        """Returns a random value of at least this rank. If the chosen value has a lower rank, it is broadcast."""
        x = self.choose(self.values[-3:] if self.flag() else self.values)
        self._read.add(x)
        while x.rank < rank:
            x = self.broadcast(x, (*x.shape, self.choose(SIZES)), range(x.rank))
        return x

    def real(self, rank: int = 0) -> Value:
        x = self.any(rank)
        if not x.is_complex:
            return x
        part = self.choose(("real", "imag"))
        return self.emit(
            f"stablehlo.{part} {x.name} : ({x.type}) -> {tensor(x.shape)}", x.shape, bound=x.bound
        )

    # ---- emitting

    def emit(
        self, text: str, shape: Sequence[int] = (), is_complex: bool = False, bound: float = 1.0
    ) -> Value:
        """Adds an op and returns its result. `any` cannot choose the result until `result` is called with it."""
        name = f"%v{self._fresh}"
        self._fresh += 1
        self._lines.append(f"  {name} = {text}")
        return Value(name, tuple(shape), is_complex, bound)

    def function(self, signature: str, lines: Sequence[str]) -> str:
        """Adds a private function and returns its symbol, such as `@f0`."""
        name = f"@f{len(self._functions)}"
        body = "\n".join(f"  {line}" for line in lines)
        self._functions.append(f"func.func private {name}{signature} {{\n{body}\n}}\n")
        return name

    def several(self, x: Value, count: int) -> None:
        """Changes the last op, whose result is x, to an op with `count` results."""
        self._lines[-1] = self._lines[-1].replace(f"{x.name} =", f"{x.name}:{count} =", 1)

    def result(self, x: Value) -> Value:
        """Makes a value available to `any`. If it is too large, it is first summed over dimensions and scaled down."""
        while math.prod(x.shape) > ELEMENTS:
            x = self.reduce(x, [0], "add")
        if x.bound > LIMIT:
            x = self.binary("multiply", x, self.constant(1 / x.bound, x.shape, x.is_complex), 1.0)
        self.values.append(x)
        return x

    def constant(self, value: float, shape: Sequence[int] = (), is_complex: bool = False) -> Value:
        text = f"({value!r}, 0.0)" if is_complex else repr(float(value))
        element = "complex<f64>" if is_complex else "f64"
        text = f"stablehlo.constant dense<{text}> : {tensor(shape, element)}"
        return self.emit(text, shape, is_complex, abs(value))

    def unary(self, op: str, x: Value, bound: float) -> Value:
        dialect = "" if "." in op else "stablehlo."
        text = f"{dialect}{op} {x.name} : "
        if dialect == "" and op.startswith("chlo"):
            text += f"{x.type} -> {x.type}"
        else:
            text += x.type
        return self.emit(text, x.shape, x.is_complex, bound)

    def binary(self, op: str, x: Value, y: Value, bound: float) -> Value:
        text = f"stablehlo.{op} {x.name}, {y.name} : {x.type}"
        return self.emit(text, x.shape, x.is_complex, bound)

    def add(self, x: Value, y: Value) -> Value:
        return self.binary("add", x, y, x.bound + y.bound)

    def complex(self, re: Value, im: Value) -> Value:
        text = f"stablehlo.complex {re.name}, {im.name} : {tensor(re.shape, 'complex<f64>')}"
        return self.emit(text, re.shape, True, math.hypot(re.bound, im.bound))

    # ---- making operands fit

    def broadcast(self, x: Value, shape: Sequence[int], dimensions: Sequence[int]) -> Value:
        along = ", ".join(map(str, dimensions))
        type_ = tensor(shape, x.element)
        text = f"stablehlo.broadcast_in_dim {x.name}, dims = [{along}] : ({x.type}) -> {type_}"
        return self.emit(text, shape, x.is_complex, x.bound)

    def fit(self, x: Value, shape: tuple[int, ...], is_complex: bool = False) -> Value:
        """Returns a value of this shape that is computed from x.

        The ops are a reshape, a broadcast, or a sum followed by a broadcast.

        It is complex if `is_complex`, else real.
        """
        if x.is_complex and not is_complex:
            x = self.emit(f"stablehlo.abs {x.name} : ({x.type}) -> {tensor(x.shape)}", x.shape, bound=x.bound)
            x = self.binary("multiply", x, x, x.bound**2)  # unlike abs, abs^2 has no kink
        elif is_complex and not x.is_complex:
            x = self.complex(x, x if self.flag() else self.constant(0.5, x.shape))
        if x.shape == shape:
            return x
        if math.prod(x.shape) == math.prod(shape):
            return self.reshape(x, shape)
        if x.rank <= len(shape):
            last = range(len(shape) - x.rank, len(shape))
            if all(n in (1, shape[i]) for n, i in zip(x.shape, last, strict=True)):
                return self.broadcast(x, shape, last)
        return self.broadcast(self.reduce(x, range(x.rank), "add"), shape, [])

    def reshape(self, x: Value, shape: Sequence[int]) -> Value:
        text = f"stablehlo.reshape {x.name} : ({x.type}) -> {tensor(shape, x.element)}"
        return self.emit(text, shape, x.is_complex, x.bound)

    def positive(self, x: Value) -> Value:
        """Returns the positive value 0.5 + x^2, for a real value x."""
        return self.add(self.constant(0.5, x.shape), self.binary("multiply", x, x, x.bound**2))

    def reduce(self, x: Value, dimensions: Sequence[int], op: str, init: Value | None = None) -> Value:
        kept = tuple(n for i, n in enumerate(x.shape) if i not in dimensions)
        count = math.prod(x.shape) // max(1, math.prod(kept))
        init = init or self.constant(1.0 if op == "multiply" else 0.0, (), x.is_complex)
        along = ", ".join(map(str, dimensions))
        text = (
            f"stablehlo.reduce({x.name} init: {init.name}) applies stablehlo.{op} across dimensions = [{along}] "
            f": ({x.type}, {init.type}) -> {tensor(kept, x.element)}"
        )
        bound = {
            "add": x.bound * count + init.bound,
            "multiply": x.bound**count * init.bound,
        }.get(op, x.bound + init.bound)
        return self.emit(text, kept, x.is_complex, bound)

    def scalars(self, op: str) -> str:
        """Returns the text of a region that combines two scalars by `op`."""
        scalar = "tensor<f64>"
        return (
            f"{{\n  ^bb0(%a: {scalar}, %b: {scalar}):\n    %c = stablehlo.{op} %a, %b : {scalar}\n"
            f"    stablehlo.return %c : {scalar}\n  }}"
        )

    # ---- the whole

    def leaves(self) -> list[Value]:
        """Returns the values that no op reads. Inputs are left out."""
        return [x for x in self.values if x not in self._read and x not in self.inputs]

    def text(self, outputs: Sequence[Value]) -> str:
        arguments = ", ".join(f"{x.name}: {x.type}" for x in self.inputs)
        types = ", ".join(x.type for x in outputs)
        names = ", ".join(x.name for x in outputs)
        body = "\n".join(self._lines)
        return (
            f"func.func @main({arguments}) -> ({types}) {{\n{body}\n  return {names} : {types}\n}}\n"
            + "".join(self._functions)
        )


def composed(random: Random, families: Sequence[Callable[[Composer], Value]], most: int = 8) -> str:
    """Returns the text of a random program with up to `most` ops of these families.

    Further ops adapt the operands.
    """
    c = Composer(random)
    for i in range(c.integer(1, 3)):
        c.inputs.append(Value(f"%x{i}", c.shape(), c.integer(0, 4) == 4, 1.5))
    c.values = list(c.inputs)
    for _ in range(min(c.integer(1, most), c.integer(1, most))):  # small programs compile faster
        c.result(c.choose(families)(c))
    outputs = c.leaves()[-4:]
    if c.flag() or not outputs:
        outputs.append(c.choose(c.values))
    return c.text(outputs)
