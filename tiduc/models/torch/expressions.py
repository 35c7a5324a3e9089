"""Parses the expressions for sizes in a `.pt2` archive, without evaluating text.

    "Mul(Integer(2), Symbol('s77', positive=True, integer=True))"
    ->    CalledOp("Mul", (Number(2), Symbol("s77", ...)))

    expression ::= Integer(NUMBER) | Float('NUMBER', precision=NUMBER) | Rational(NUMBER, NUMBER) | true | false
                 | Symbol('NAME', ASSUMPTION=True, ...) | FUNCTION(expression, ...)

PyTorch writes these expressions with SymPy's `srepr`. The parser refuses long texts and expressions with large values:
`_bits` bounds every number that SymPy may compute from an expression, for all 64-bit values of the symbols. Parsing
needs neither PyTorch nor SymPy. `as_sympy` converts a parsed expression to an object of SymPy.
"""

import re
from dataclasses import dataclass
from typing import Any

from tiduc.models.torch.archive import Refused

_LONGEST, _DEEPEST, _MOST_BITS, _LARGEST_POWER = 2**14, 40, 2048, 16
_TOKEN = re.compile(
    r"\s*(?:(?P<word>[A-Za-z_]\w*)|(?P<number>-?\d+)|'(?P<text>[\w.+-]*)'|(?P<sign>[(),=]))", re.ASCII
)
_SYMBOL = re.compile(r"[A-Za-z_]\w{0,63}", re.ASCII)
_DECIMAL = re.compile(r"[+-]?\d{1,40}(?:\.\d{0,40})?(?:[eE][+-]?\d{1,3})?")
_ASSUMPTIONS = frozenset(
    {
        *(
            "integer",
            "positive",
            "negative",
            "nonnegative",
            "nonpositive",
            "nonzero",
            "zero",
            "finite",
            "infinite",
        ),
        *("real", "extended_real", "rational", "commutative", "even", "odd", "complex", "hermitian"),
    }
)

_SYMPY = {
    **dict.fromkeys(("Add", "Mul", "Max", "Min", "And", "Or"), (1, 64)),
    **dict.fromkeys(
        (
            *("Equality", "Unequality", "LessThan", "GreaterThan", "StrictLessThan", "StrictGreaterThan"),
            "Pow",
        ),
        (2, 2),
    ),
    "Not": (1, 1),
}
"""Maps the name of each accepted class of SymPy to the smallest and the largest number of operands."""
_TORCH = {
    **dict.fromkeys(
        ("FloorDiv", "PythonMod", "Mod", "CleanDiv", "CeilDiv", "IntTrueDiv", "FloatTrueDiv", "PowByNatural"),
        (2, 2),
    ),
    **dict.fromkeys(("ModularIndexing", "Where"), (3, 3)),
    **dict.fromkeys(
        ("CeilToInt", "FloorToInt", "TruncToInt", "TruncToFloat", "RoundToInt", "ToFloat", "Identity"), (1, 1)
    ),
}
"""Maps the name of each accepted class of `torch.utils._sympy.functions` to its bounds on the number of operands.

If SymPy has a class of the same name, the class of PyTorch is used.
"""
_POWERS = ("Pow", "PowByNatural")


@dataclass(frozen=True)
class Number:
    """A constant: an integer, a fraction (numerator, denominator), a float (text, precision), or a boolean."""

    value: int | bool | tuple[int, int] | tuple[str, int]


@dataclass(frozen=True)
class Symbol:
    name: str
    assumptions: tuple[tuple[str, bool], ...]


@dataclass(frozen=True)
class CalledOp:
    function: str
    operands: "tuple[Expression, ...]"


Expression = Number | Symbol | CalledOp


def read_expression(text: str) -> Expression:
    """Parses an expression. Raises `TiducError` if the text does not match the grammar, or a value may be too large."""
    if len(text) > _LONGEST:
        raise Refused(f"the expression for a size has more than {_LONGEST} characters")
    tokens, position = [], 0
    while position < len(text.rstrip()):
        match = _TOKEN.match(text, position)
        if match is None:
            raise _refused(text)
        tokens.append((str(match.lastgroup), match[str(match.lastgroup)]))
        position = match.end()
    reader = _Reader(text, [*tokens, ("end", "")])
    expression = reader.expression(0)
    reader.take("end")
    if _bits(expression) > _MOST_BITS:
        raise Refused(f"the expression for a size may have too large values: {text[:80]!r}")
    return expression


def _refused(text: str) -> Refused:
    return Refused(f"cannot parse the expression for a size: {text[:80]!r}")


class _Reader:
    """A recursive-descent parser that reads tokens from left to right."""

    def __init__(self, text: str, tokens: list[tuple[str, str]]) -> None:
        self._text, self._tokens, self._at = text, tokens, 0

    def take(self, kind: str, value: str | None = None) -> str:
        """Consumes the next token, and returns the token's text.

        Raises `TiducError` unless the token has this kind and, if `value` is given, this text.
        """
        found, text = self._tokens[self._at]
        if found != kind or value not in (None, text):
            raise _refused(self._text)
        self._at += 1
        return text

    def _next_is(self, value: str) -> bool:
        return self._tokens[self._at] == ("sign", value)

    def expression(self, depth: int) -> Expression:
        word = self.take("word")
        if word in ("true", "false"):
            return Number(word == "true")
        self.take("sign", "(")
        result = self._of(word, depth)
        self.take("sign", ")")
        return result

    def _of(self, word: str, depth: int) -> Expression:
        if word == "Integer":
            return Number(self._integer())
        if word == "Rational":
            numerator = self._integer()
            self.take("sign", ",")
            if not (denominator := self._integer()):
                raise _refused(self._text)
            return Number((numerator, denominator))
        if word == "Float":
            return Number((self._decimal(), self._precision()))
        if word == "Symbol":
            return self._symbol()
        if word not in _SYMPY and word not in _TORCH or depth > _DEEPEST:
            raise _refused(self._text)
        operands = [self.expression(depth + 1)]
        while self._next_is(","):
            self.take("sign", ",")
            operands.append(self.expression(depth + 1))
        least, most = _TORCH.get(word) or _SYMPY[word]
        if not least <= len(operands) <= most:
            raise _refused(self._text)
        return CalledOp(word, tuple(operands))

    def _integer(self) -> int:
        digits = self.take("number")
        if len(digits) > 20 or not -(2**63) <= int(digits) < 2**64:
            raise _refused(self._text)
        return int(digits)

    def _decimal(self) -> str:
        digits = self.take("text")
        if not _DECIMAL.fullmatch(digits):
            raise _refused(self._text)
        return digits

    def _precision(self) -> int:
        self.take("sign", ",")
        self.take("word", "precision")
        self.take("sign", "=")
        if not 1 <= (precision := self._integer()) <= 128:
            raise _refused(self._text)
        return precision

    def _symbol(self) -> Symbol:
        name, assumptions = self.take("text"), []
        if not _SYMBOL.fullmatch(name):
            raise _refused(self._text)
        while self._next_is(","):
            self.take("sign", ",")
            word = self.take("word")
            self.take("sign", "=")
            value = self.take("word")
            if word not in _ASSUMPTIONS or value not in ("True", "False"):
                raise _refused(self._text)
            assumptions.append((word, value == "True"))
        return Symbol(name, tuple(assumptions))


def _bits(expression: Expression) -> int:
    """An upper bound on the number of bits of every number that occurs while the expression is evaluated."""
    if isinstance(expression, Number):
        return 128
    if isinstance(expression, Symbol):
        return 64
    operands = [_bits(x) for x in expression.operands]
    if expression.function in _POWERS:
        exponent = expression.operands[1]
        value = exponent.value if isinstance(exponent, Number) else None
        if isinstance(value, bool) or not isinstance(value, int) or not -1 <= value <= _LARGEST_POWER:
            return _MOST_BITS + 1
        return operands[0] * max(1, value)
    if expression.function == "Mul" or len(operands) == 2:
        return sum(operands)
    return max(operands) + len(operands)


def as_sympy(expression: Expression) -> Any:
    """Converts the expression to a SymPy object, by calls of classes of SymPy and PyTorch."""
    import sympy
    from torch.utils._sympy import functions

    if isinstance(expression, Symbol):
        return sympy.Symbol(expression.name, **dict(expression.assumptions))
    if isinstance(expression, CalledOp):
        holder = functions if expression.function in _TORCH else sympy
        return getattr(holder, expression.function)(*map(as_sympy, expression.operands))
    value = expression.value
    if isinstance(value, bool):
        return sympy.true if value else sympy.false
    if isinstance(value, int):
        return sympy.Integer(value)
    first, second = value
    if isinstance(first, str):
        return sympy.Float(first, precision=second)
    return sympy.Rational(first, second)
