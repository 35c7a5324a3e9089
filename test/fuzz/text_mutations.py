"""Mutates MLIR text: characters, tokens, lines, or all occurrences of a type, size or op.

If all occurrences are mutated, the text is often a valid program with unusual types and sizes.
"""

import re
from collections.abc import Callable, Sequence
from random import Random

ELEMENTS = (
    *("f64", "f32", "f16", "bf16", "i1", "i4", "i8", "i32", "i64", "ui8", "ui32", "ui64", "ui4", "i2"),
    *("complex<f32>", "complex<f64>", "f8E4M3FN", "f8E5M2", "index", "tf32", "i17", "f128", "none"),
    *("tuple<f32>", "!stablehlo.token", "!quant.uniform<i8:f32, 0.5:3>", "f4E2M1FN"),
)
SIZES = ("0", "1", "2", "3", "7", "?", "65536", "4294967296", "9223372036854775807")
NUMBERS = (
    *("0", "1", "-1", "2", "3", "7", "-0", "255", "1e400", "nan", "0x7FC00000", "9223372036854775807"),
    *("-9223372036854775808", "18446744073709551616", "4294967296", "2147483648", "1.5", "1e-320"),
)
_TOKEN = re.compile(r'%[\w$.#-]+|@[\w$.-]+|"[^"\n]*"|\d+\.\d+(?:[eE][+-]?\d+)?|\d+|[A-Za-z_][\w.$]*|\s+|.')
_ELEMENT = re.compile(
    r"(?<![\w.])(?:complex<f\d+>|bf16|f\d+\w*|u?i\d+)(?!\w)|(?<=\dx)(?:bf16|f\d+\w*|u?i\d+)"
)
_SIZE = re.compile(r"(?<=[<x])(\d+|\?)(?=x)")
_OP = re.compile(r"(?<![\w#!])(?:stablehlo|chlo|tidu|func)\.\w+")
_NUMBER = re.compile(r"(?<![\w%@#.])-?\d+(?:\.\d+)?(?:e[+-]?\d+)?(?![\w.])")
_VALUE = re.compile(r"%[\w$-]+(?:#\d+)?")


class Source:
    """The inputs of mutations besides the text: a random generator, and the texts of other files."""

    def __init__(self, draw: Random, texts: Sequence[str]) -> None:
        self.draw, self.texts = draw, texts

    def other(self) -> str:
        return self.draw.choice(self.texts)


Mutation = Callable[[str, Source], str]


def mutated(text: str, source: Source, most: int = 3) -> str:
    """Returns the text after one to `most` random mutations."""
    for _ in range(source.draw.randint(1, most)):
        text = source.draw.choices(_MUTATIONS, _WEIGHTS)[0](text, source)
    return text


def _replaced(text: str, source: Source, pattern: re.Pattern[str], new: str, throughout: bool) -> str:
    """Replaces a random match of a pattern by `new`. With `throughout`, replaces all matches with the same text."""
    matches = list(pattern.finditer(text))
    if not matches:
        return text
    one = source.draw.choice(matches)
    if throughout:
        return pattern.sub(lambda m: new if m[0] == one[0] else m[0], text)
    return text[: one.start()] + new + text[one.end() :]


def _elements(text: str, source: Source) -> str:
    return _replaced(text, source, _ELEMENT, source.draw.choice(ELEMENTS), True)


def _element(text: str, source: Source) -> str:
    return _replaced(text, source, _ELEMENT, source.draw.choice(ELEMENTS), False)


def _sizes(text: str, source: Source) -> str:
    return _replaced(text, source, _SIZE, source.draw.choice(SIZES), True)


def _size(text: str, source: Source) -> str:
    return _replaced(text, source, _SIZE, source.draw.choice(SIZES), False)


def _number(text: str, source: Source) -> str:
    return _replaced(text, source, _NUMBER, source.draw.choice(NUMBERS), False)


def _op(text: str, source: Source) -> str:
    names = _OP.findall(source.other())
    return _replaced(text, source, _OP, source.draw.choice(names), False) if names else text


def _operand(text: str, source: Source) -> str:
    """Replaces the name of a value by the name of another value in the text."""
    names = _VALUE.findall(text)
    return _replaced(text, source, _VALUE, source.draw.choice(names), False) if names else text


def _token(text: str, source: Source) -> str:
    """Deletes, repeats or replaces one token. The new token is from this text or from another file."""
    tokens = _TOKEN.findall(text)
    places = [i for i, token in enumerate(tokens) if not token.isspace()]
    if not places:
        return text
    i, how = source.draw.choice(places), source.draw.randrange(4)
    other = _TOKEN.findall(source.other())
    tokens[i] = ("", tokens[i] * 2, source.draw.choice(other), source.draw.choice(tokens))[how]
    return "".join(tokens)


def _line(text: str, source: Source) -> str:
    """Deletes or repeats a line, swaps two lines, or inserts a line of another file."""
    lines, draw = text.splitlines(keepends=True), source.draw
    if not lines:
        return text
    i, j, how = draw.randrange(len(lines)), draw.randrange(len(lines)), draw.randrange(4)
    if how == 0:
        del lines[i]
    elif how == 1:
        lines.insert(j, lines[i])
    elif how == 2:
        lines[i], lines[j] = lines[j], lines[i]
    elif other := source.other().splitlines(keepends=True):
        lines.insert(i, draw.choice(other))
    return "".join(lines)


def _splice(text: str, source: Source) -> str:
    """Concatenates the text and another text, or the beginning of the text and the end of another text."""
    other = source.other()
    if source.draw.randrange(2):
        return text + "\n" + other
    return text[: source.draw.randint(0, len(text))] + other[source.draw.randint(0, len(other)) :]


def _character(text: str, source: Source) -> str:
    i, how = source.draw.randint(0, len(text)), source.draw.randrange(4)
    odd = source.draw.choice('\0\x7f\udcff"<>(){}[]%@#!?:,x=é\N{ZERO WIDTH SPACE}\r\t\\-')
    return text[:i] + ("", odd, odd, odd * 40)[how] + text[i + (how < 2) :]


def _truncated(text: str, source: Source) -> str:
    return text[: source.draw.randint(0, len(text))]


def _nested(text: str, source: Source) -> str:
    """Replaces or encloses the text by deeply nested modules, types, attributes or brackets."""
    depth = source.draw.choice([10, 100, 1000, 10_000])
    opening, middle, closing = source.draw.choice(
        [
            ("module {\n", text, "}\n"),
            ("tuple<", "f32", ">"),
            ("[", "1 : i32", "]"),
            ("{a = ", "1 : i32", "}"),
            ("(", "", ")"),
            ("loc(fused[", '"a"', "])"),
            ('"a.b"() ({\n', "", "}) : () -> ()\n"),
        ]
    )
    if middle is text:
        return opening * depth + text + closing * depth
    return _replaced(text, source, _ELEMENT, opening * depth + middle + closing * depth, False)


def _attribute(text: str, source: Source) -> str:
    """Adds a random attribute to an argument or a function."""
    added = source.draw.choice(
        [
            *(
                'tidu.name = "x"',
                "tidu.name = 3 : i32",
                "tf.aliasing_output = 0 : i32",
                "tidu.active = array<i1>",
            ),
            *('mhlo.sharding = "{replicated}"', "iree.abi.output = 9 : index", 'sym_visibility = "private"'),
            *('tidu.loop_memory = "log"', 'jax.result_info = "a"', "no_inline", 'tidu.name = ""'),
        ]
    )
    matches = list(re.finditer(r"%\w+: [^,)(]+(?=[,)])", text))
    if matches and source.draw.randrange(3):
        one = source.draw.choice(matches)
        return f"{text[: one.end()]} {{{added}}}{text[one.end() :]}"
    return re.sub(
        r"\) (->[^{\n]*)?\{$", lambda m: f"{m[0][:-1]}attributes {{{added}}} {{", text, count=1, flags=re.M
    )


_TABLE: tuple[tuple[Mutation, int], ...] = (
    (_elements, 12),
    (_element, 3),
    (_sizes, 14),
    (_size, 3),
    (_number, 12),
    (_op, 12),
    (_operand, 10),
    (_token, 8),
    (_line, 9),
    (_splice, 3),
    (_character, 4),
    (_truncated, 1),
    (_nested, 1),
    (_attribute, 4),
)
_MUTATIONS = [mutation for mutation, _ in _TABLE]
_WEIGHTS = [weight for _, weight in _TABLE]
