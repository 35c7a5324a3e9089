"""Collects the scalar ops of a program. Merges equal ops, folds ops on constants, and simplifies ops:

    mul(x, 1) -> x      add(x, neg(y)) -> sub(x, y)      mul(neg(x), y) -> neg(mul(x, y))      mul(x, zero) -> zero

The last rule holds only if `zero` is a structural zero of a derivative: an element of a basis vector, or padding of a
tangent. A product with any other zero constant is computed, because x may be infinite or NaN.

Scalar ops also compute integers and truth values, such as the pivots of a factorization. `TooLarge` is raised for an op
on integers that may overflow.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from tiduc.backends.iree.static.scalars.ranges import LIMITS, Range, decided, range_of

CONSTANT, INPUT, ZERO, BASIS = "constant", "input", "zero", "basis"
FLOATS = "f64", "f32"


def _maximum(x: Any, y: Any) -> Any:
    """The larger number, or NaN if one is NaN. As in IEEE 754, 0 is larger than -0; NumPy may return either zero."""
    return np.where(x == y, np.where(np.signbit(x), y, x), np.maximum(x, y))


def _minimum(x: Any, y: Any) -> Any:
    """The smaller number, or NaN if one is NaN. As in IEEE 754, -0 is smaller than 0."""
    return np.where(x == y, np.where(np.signbit(x), x, y), np.minimum(x, y))


class Operator(NamedTuple):
    """How an op is computed. `fold` computes it if all operands are constants; None means that this is not supported.

    `integers` says that `fold` is right for integers, too. `llvm` and `of_integers` are the ops of LLVM's dialect for
    floats and for integers, or predicates for comparisons. If the op's name is empty, all operands must be constants.
    `library` says that the code calls the C library, which is supported for f64 only.
    """

    fold: Callable[..., Any] | None
    llvm: str = ""
    of_integers: str = ""
    integers: bool = True
    library: bool = False


COMPARISONS = {
    "EQ": Operator(np.equal, "oeq", "eq"),
    "NE": Operator(np.not_equal, "une", "ne"),
    "LT": Operator(np.less, "olt", "slt"),
    "LE": Operator(np.less_equal, "ole", "sle"),
    "GT": Operator(np.greater, "ogt", "sgt"),
    "GE": Operator(np.greater_equal, "oge", "sge"),
}
OPERATORS = COMPARISONS | {
    "add": Operator(np.add, "fadd", "add"),
    "subtract": Operator(np.subtract, "fsub", "sub"),
    "multiply": Operator(np.multiply, "fmul", "mul"),
    "divide": Operator(np.divide, "fdiv", integers=False),
    "negate": Operator(np.negative, "fneg"),
    "abs": Operator(np.abs, "intr.fabs"),
    "maximum": Operator(_maximum, "intr.maximum", "intr.smax"),
    "minimum": Operator(_minimum, "intr.minimum", "intr.smin"),
    "sqrt": Operator(np.sqrt, "intr.sqrt", integers=False),
    "sine": Operator(np.sin, "intr.sin", integers=False, library=True),
    "cosine": Operator(np.cos, "intr.cos", integers=False, library=True),
    "tanh": Operator(np.tanh, "intr.tanh", integers=False, library=True),
    "exponential": Operator(np.exp, "intr.exp", integers=False, library=True),
    "log": Operator(np.log, "intr.log", integers=False, library=True),
    "power": Operator(None, "intr.pow", integers=False, library=True),
    "and": Operator(np.bitwise_and, of_integers="and"),
    "or": Operator(np.bitwise_or, of_integers="or"),
    "xor": Operator(np.bitwise_xor, of_integers="xor"),
    "not": Operator(np.invert),
    "select": Operator(lambda flag, x, y: x if flag else y, "select", "select"),
}


_OF_TRUTH = "EQ", "NE", "and", "or", "xor", "select"
"""The ops that are supported on truth values. Other ops of LLVM's dialect would read `true` as the integer -1."""


class TooLarge(Exception):
    """Raised if a program needs too many scalar ops, or contains an op that scalar ops cannot express."""


class ScalarOp(NamedTuple):
    """A scalar op: its name, the element type of its result, and its operands, which are indices in `ScalarOps.all`.

    The operand of a constant is instead the bytes of its value. The operands of an input are the index of the input and
    the index of the element. The op `basis` is 1 at one place of the lane, and 0 at the others; its operand is the
    index of this place.
    """

    name: str
    kind: str
    operands: tuple[Any, ...]


def _value(number: ScalarOp) -> np.generic:
    data = number.operands[0] if number.name == CONSTANT else bytes(8)
    found: np.generic = np.frombuffer(data, KINDS[number.kind])[0]
    return found


KINDS: dict[str, type[np.generic]] = {
    "f64": np.float64,
    "f32": np.float32,
    "i1": np.bool_,
    "i8": np.int8,
    "i16": np.int16,
    "i32": np.int32,
    "i64": np.int64,
}


class ScalarOps:
    """The scalar ops of a program, at most `most`. Each op is identified by its index in `all`."""

    def __init__(self, most: int, finite: bool = False) -> None:
        """With `finite`, zero constants are structural zeros, too."""
        self.all: list[ScalarOp] = []
        self.is_finite = finite
        self._most = most
        self._index: dict[ScalarOp, int] = {}
        self._ranges: list[Range] = []
        # For each op, its value if it is a constant or a structural zero, and whether it is a structural zero.
        self._known: list[np.generic | None] = []
        self._zeros: list[bool] = []

    def constant(self, value: float | np.generic, kind: str) -> int:
        # Compares constants by their bytes: 0 and -0 differ, and a NaN equals itself.
        try:
            array: Any = np.asarray(value, KINDS[kind])
        except OverflowError:
            raise TooLarge(f"the number {value} in {kind}") from None
        return self._of(ScalarOp(CONSTANT, kind, (array.tobytes(),)))

    def input(self, which: int, element: int, kind: str) -> int:
        return self._of(ScalarOp(INPUT, kind, (which, element)))

    def zero(self, kind: str) -> int:
        return self._of(ScalarOp(ZERO, kind, ()))

    def basis(self, place: int, kind: str) -> int:
        return self._of(ScalarOp(BASIS, kind, (place,)))

    def operands(self, i: int) -> tuple[int, ...]:
        """The indices of the ops whose results op i reads."""
        number = self.all[i]
        return () if number.name in (CONSTANT, INPUT, ZERO, BASIS) else number.operands

    def value(self, i: int) -> np.generic | None:
        """The value of op i if it is a constant or a structural zero. None for other ops."""
        return self._known[i]

    def range(self, i: int) -> Range:
        """The least and the greatest integer that op i may compute."""
        return self._ranges[i]

    def is_zero(self, i: int) -> bool:
        """Whether op i is a structural zero."""
        return self._zeros[i]

    def apply(self, name: str, kind: str, *operands: int) -> int:
        """Returns the index of the op `name` on these operands, or of a simpler op that computes the same value.

        Adds the op if it is new.
        """
        if name == "convert" and self.all[operands[0]].kind == kind:
            return operands[0]
        found = self._short(name, kind, operands)
        if found is not None:
            return found
        values = [value for value in map(self.value, operands) if value is not None]
        if len(values) == len(operands):
            return self._folded(name, kind, values)
        self._check(name, kind, self.all[operands[-1]].kind)
        if name in ("add", "multiply", "and", "or", "xor"):
            operands = (min(operands), max(operands))
        return self._of(ScalarOp(name, kind, operands))

    def _check(self, name: str, kind: str, of: str) -> None:
        """Raises `TooLarge` if the generated code does not support an op. `of` is the type of the last operand."""
        operator = OPERATORS.get(name)
        if name == "convert":
            known = of not in FLOATS or kind in FLOATS
        elif operator is None:
            known = False
        elif of in FLOATS:
            known = bool(operator.llvm) and not (of == "f32" and operator.library)
        else:
            known = bool(operator.of_integers) and (of != "i1" or name in _OF_TRUTH)
        if not known:
            raise TooLarge(f"{name} of {of}")

    def _of(self, number: ScalarOp) -> int:
        found = self._index.get(number)
        if found is None:
            range_ = self._range_of(number)
            found = self._index[number] = len(self.all)
            value = _value(number) if number.name in (CONSTANT, ZERO) else None
            self.all.append(number)
            self._ranges.append(range_)
            self._known.append(value)
            self._zeros.append(number.name == ZERO or bool(self.is_finite and value == 0))
            if found >= self._most:
                raise TooLarge(f"{found} scalar ops")
        return found

    def _range_of(self, number: ScalarOp) -> Range:
        """Returns the least and the greatest integer that an op may compute, or (0, 0) for a float.

        Raises `TooLarge` if the op may overflow.
        """
        if number.kind in FLOATS:
            return 0, 0
        if number.name in (CONSTANT, ZERO):
            value = int(_value(number))
            return value, value
        least, most = LIMITS[number.kind]
        if number.name == INPUT:
            return least, most
        found = range_of(number.name, number.kind, [self._ranges[i] for i in number.operands])
        if not least <= found[0] <= found[1] <= most:
            raise TooLarge(f"{number.name} of integers that may overflow")
        return found

    def _folded(self, name: str, kind: str, values: Sequence[np.generic]) -> int:
        with np.errstate(all="ignore"):
            if name == "convert":
                return self._converted(values[0], kind)
            operator = OPERATORS.get(name)
            if operator is None or operator.fold is None or not (operator.integers or kind in FLOATS):
                raise TooLarge(f"{name} of constants")
            return self.constant(operator.fold(*values), kind)

    def _converted(self, value: np.generic, kind: str) -> int:
        if isinstance(value, np.floating) and kind not in FLOATS:
            raise TooLarge("a conversion of a float to an integer")
        return self.constant(value, kind)

    def _short(self, name: str, kind: str, operands: Sequence[int]) -> int | None:
        """Returns the index of a simpler op that computes the same value as this op, or None if there is none."""
        x, *rest = operands
        if name == "select":
            return self._selected(kind, x, *rest)
        if self.all[x].kind not in FLOATS:
            return self._short_of_integers(name, kind, operands)
        if name == "negate":
            return self._negated(x)
        if name in ("sine", "cosine"):
            return self._mirrored(name, kind, x)
        if name not in ("add", "subtract", "multiply", "divide"):
            return None
        return getattr(self, f"_{name}")(x, rest[0])  # type: ignore[no-any-return]

    def _selected(self, kind: str, flag: int, x: int, y: int) -> int | None:
        chosen, inverse = self.value(flag), self._inverse(flag)
        if chosen is not None:
            return x if chosen else y
        if x == y:
            return x
        if inverse is not None:
            return self.apply("select", kind, inverse, y, x)
        first, second = self.value(x), self.value(y)
        if kind != "i1" or first is None or second is None:
            return None
        if first == second:  # x is a structural zero and y a constant, or the other way round
            return x
        return flag if first else self.apply("xor", kind, flag, y)

    def _short_of_integers(self, name: str, kind: str, operands: Sequence[int]) -> int | None:
        """Like `_short`, for an op on integers or truth values."""
        if name == "not" and kind == "i1":
            return self.apply("xor", kind, operands[0], self.constant(True, kind))
        if len(operands) != 2:
            return None
        x, y = operands
        first, second = self._ranges[x], self._ranges[y]
        if name in COMPARISONS:
            found = decided(name, first, second)
            return None if found is None else self.constant(found, "i1")
        if name in ("maximum", "minimum"):
            if decided("GE", first, second) or decided("LE", second, first):
                return x if name == "maximum" else y
            return (y if name == "maximum" else x) if decided("LE", first, second) else None
        if name == "subtract":
            return x if self.value(y) == 0 else None
        for a, b in ((x, y), (y, x)):
            value = self.value(a)
            if value == 0 and name in ("add", "or", "xor"):
                return b
            if value == 0 and name == "and":
                return a
            if value == 1 and kind == "i1" and name in ("and", "or", "xor"):
                return {"and": b, "or": a, "xor": self._inverse(b)}[name]
        return None

    def _inverse(self, i: int) -> int | None:
        """Returns the index of x if op i computes `not x` for a truth value x. Returns None for other ops."""
        number = self.all[i]
        if number.name != "xor" or number.kind != "i1":
            return None
        x, y = number.operands
        return y if self.value(x) else x if self.value(y) else None

    def _negated(self, x: int) -> int | None:
        if self.is_zero(x):
            return x
        of = self.all[x]
        return of.operands[0] if of.name == "negate" else None

    def _mirrored(self, name: str, kind: str, x: int) -> int | None:
        """Returns cos(y) for cos(-y), and -sin(y) for sin(-y). Differences are mirrored to one order of their operands.

        Mirroring sin(a - b) may change the sign of a zero result, which is only done if all is finite.
        """
        of, is_even = self.all[x], name == "cosine"
        if of.name == "negate":
            inner = self.apply(name, kind, of.operands[0])
        elif of.name == "subtract" and of.operands[0] > of.operands[1] and (is_even or self.is_finite):
            inner = self.apply(name, kind, self.apply("subtract", kind, *reversed(of.operands)))
        else:
            return None
        return inner if is_even else self.apply("negate", kind, inner)

    def _add(self, x: int, y: int) -> int | None:
        if self.is_zero(x) or self.is_zero(y):
            return y if self.is_zero(x) else x
        for a, b in ((x, y), (y, x)):
            if self.all[b].name == "negate":
                return self.apply("subtract", self.all[x].kind, a, self.all[b].operands[0])
        return None

    def _subtract(self, x: int, y: int) -> int | None:
        if self.is_zero(y):
            return x
        if self.is_zero(x):
            return self.apply("negate", self.all[y].kind, y)
        if x == y and self.is_finite:
            return self.constant(0, self.all[x].kind)
        if self.all[y].name == "negate":
            return self.apply("add", self.all[x].kind, x, self.all[y].operands[0])
        return None

    def _multiply(self, x: int, y: int) -> int | None:
        kind = self.all[x].kind
        for a, b in ((x, y), (y, x)):
            if self.is_zero(a):
                return a
            if self.value(a) == 1:
                return b
            if self.value(a) == -1:
                return self.apply("negate", kind, b)
            if self.all[a].name == "negate":
                return self.apply("negate", kind, self.apply("multiply", kind, self.all[a].operands[0], b))
        return None

    def _divide(self, x: int, y: int) -> int | None:
        if self.is_zero(x) or self.value(y) == 1:
            return x
        kind = self.all[x].kind
        for i, a in enumerate((x, y)):
            if self.all[a].name == "negate":
                inner = self.all[a].operands[0]
                pair = (x, inner) if i else (inner, y)
                return self.apply("negate", kind, self.apply("divide", kind, *pair))
        return None
