"""Parses textual pass pipelines that may contain Python passes and MLIR's passes: `a,b{x=1 y='p q'},func.func(c)`.

MLIR knows only the names of native passes. A pipeline is therefore split at the Python passes, and MLIR parses the text
between them. Options have MLIR's syntax: `key=value` pairs that are separated by spaces. A value may be in quotes or in
braces. Commas separate the elements of a list.
"""

import difflib
import functools
import inspect
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from torch_mlir import ir, passmanager

from tiduc.dialect.errors import RequestError

_NAME = re.compile(r"\s*([\w.-]*)")
_WHOLE = re.compile(r"\s*builtin\.module\s*\(")
_TOKEN = re.compile(r"""'(?:\\.|[^'\\])*'|"(?:\\.|[^"\\])*"|.""", re.DOTALL)
"""Matches a quoted string, or one character. If the match is a single quote, the closing quote is missing."""

_CLOSING = {"(": ")", "{": "}", "[": "]", "<": ">"}


PassFunction = Callable[[ir.Operation, passmanager.ExternalPass], None]
"""The type of a pass for `PassManager.add`: a function of the op, and of a pass object that can signal failure."""


@dataclass(frozen=True)
class Option:
    """An option of a pass. `kind` is the type of its value: a string, a number, a boolean, or a list.

    An element of "names" is a word or a symbol: `x`, `@x` or `@"any text"`. An element of "references" refers to a
    value: `@graph::@name`.
    """

    name: str
    kind: Literal["string", "number", "bool", "names", "references"]
    description: str

    def read(self, text: str) -> Any:
        """Parses the option's value. Raises `ValueError` if the text is malformed."""
        if self.kind == "bool":
            if text not in ("true", "false", "1", "0"):
                raise ValueError(f"expects true or false, has {text!r}")
            return text in ("true", "1")
        if self.kind == "number":
            if not text.isdecimal():
                raise ValueError(f"expects a number, has {text!r}")
            return int(text)
        if self.kind == "string":
            return _symbol(text) if text.startswith("@") else text
        parts = [part.strip() for _, part in _split(text, ",")]
        if self.kind == "references":
            return [_reference(part) for part in parts]
        return [_symbol(part) if part.startswith("@") else _unquoted(part) for part in parts]


@dataclass(frozen=True)
class Pass:
    """A pass on modules. `function` changes a module in place.

    If the pass consists of several steps, `parts` maps the options to the name and the function of each step. The pass
    manager then prints, times and verifies each step separately.
    """

    name: str
    description: str
    function: Callable[..., object]
    options: tuple[Option, ...] = ()
    parts: Callable[..., Sequence[tuple[str, Callable[[Any], object]]]] | None = None

    def options_among(self, passes: Mapping[str, "Pass | Pipeline"]) -> tuple[Option, ...]:
        """The options of the pass. They do not depend on `passes`."""
        return self.options

    def configured(self, texts: Mapping[str, str]) -> "Configured":
        """Parses values of options. `texts` maps names of options to the texts of their values.

        Raises `ValueError` if a text is malformed.
        """
        options = {option.name: option for option in self.options}
        values = {}
        for name, text in texts.items():
            try:
                values[name.replace("-", "_")] = options[name].read(_unquoted(text))
            except ValueError as error:
                raise ValueError(f"option '{name}' of '{self.name}' {error}") from None
        spelled = " ".join(f"{name}={text}" for name, text in texts.items())
        return Configured(self, values, f"{self.name}{{{spelled}}}" if texts else self.name)

    @property
    def by_rules(self) -> bool:
        """Whether the pass uses derivative rules: its function has a parameter `opset`."""
        return "opset" in inspect.signature(self.function).parameters

    def bound(self, **options: Any) -> PassFunction:
        """The pass with these options, as a function for `PassManager.add`. The manager must run on modules."""
        return _added(functools.partial(self.function, **options))

    def steps(self, **options: Any) -> list[tuple[str, PassFunction]]:
        """The name and the function of each step of the pass with these options. A pass without `parts` is one step."""
        if self.parts is None:
            return [(self.name, self.bound(**options))]
        return [(name, _added(part)) for name, part in self.parts(**options)]


@dataclass(frozen=True)
class PassStep:
    """A pass in a named pipeline.

    `fixed` maps names of options to texts that a user cannot change. `takes` has the names of options that a user can
    set.
    """

    name: str
    fixed: Mapping[str, str] = field(default_factory=dict)
    takes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Pipeline:
    """A named pipeline of Python passes. An option of the pipeline is passed to each step that accepts it."""

    name: str
    description: str
    steps: tuple[PassStep, ...]

    def configured(
        self, given: Mapping[str, str], passes: Mapping[str, "Pass | Pipeline"]
    ) -> list["Configured"]:
        """The passes of the pipeline with their options. `given` maps names of the pipeline's options to texts.

        Raises `ValueError` if a text is malformed.
        """
        owned = []
        for step in self.steps:
            pass_ = passes[step.name]
            assert isinstance(pass_, Pass)
            texts = {**step.fixed, **{key: given[key] for key in step.takes if key in given}}
            owned.append(pass_.configured(texts))
        return owned

    def options_among(self, passes: Mapping[str, "Pass | Pipeline"]) -> tuple[Option, ...]:
        """The options of the pipeline, which are the options of its passes that a user can set."""
        return tuple(
            option
            for step in self.steps
            for option in passes[step.name].options_among(passes)
            if option.name in step.takes
        )


def _added(function: Callable[[ir.OpView], object]) -> PassFunction:
    """Wraps a function on modules in the form that `PassManager.add` requires."""

    def run(op: ir.Operation, _: passmanager.ExternalPass) -> None:
        function(op.opview)

    return run


@dataclass(frozen=True)
class Native:
    """The text of consecutive native passes. Leading spaces keep their columns, which errors of MLIR mention."""

    text: str


@dataclass(frozen=True)
class Configured:
    """A Python pass with parsed options, and its text in the pipeline."""

    pass_: Pass
    options: Mapping[str, Any]
    text: str


def elements_of(text: str) -> list[str]:
    """Splits the text of a pipeline into its elements. The text must not have an enclosing `builtin.module(...)`."""
    return [element for _, element in _split(text, ",") if element.strip()]


def parse_pipeline(text: str, passes: Mapping[str, Pass | Pipeline]) -> list[Native | Configured]:
    """Parses the text of a pipeline, and expands named pipelines. `builtin.module(...)` may enclose the text.

    Raises `RequestError`, located in the pipeline, for an unknown `tidu-` pass, for an unknown or malformed option of a
    Python pass, and for unbalanced brackets. MLIR checks native passes later.
    """
    start, end = _inside(text)
    try:
        elements = list(_split(text[start:end], ","))
    except ValueError as error:
        raise _misspelled(str(error), 0) from None
    parsed: list[Native | Configured] = []
    for offset, element in elements:
        position = start + offset + len(element) - len(element.lstrip())
        name = _NAME.match(element)[1]  # type: ignore[index]
        if name.startswith("tidu-") or name in passes:
            parsed += _configured(element.strip(), name, position, passes)
        elif parsed and isinstance(parsed[-1], Native):
            parsed[-1] = Native(f"{parsed[-1].text},{element}")
        elif element.strip() or len(elements) > 1:
            parsed.append(Native(" " * (start + offset) + element))
    return parsed


def _inside(text: str) -> tuple[int, int]:
    """The start and end offsets of the text inside `builtin.module(...)`, or of the whole text."""
    whole = _WHOLE.match(text)
    stripped = text.rstrip()
    if whole and stripped.endswith(")"):
        return whole.end(), len(stripped) - 1
    return 0, len(text)


def _configured(
    element: str, name: str, position: int, passes: Mapping[str, Pass | Pipeline]
) -> list[Configured]:
    known = passes.get(name)
    if known is None:
        close = [each for each in passes if each.startswith(name)] or difflib.get_close_matches(
            name, passes, 1
        )
        raise _misspelled(
            f"unknown pass '{name}'" + (f"; did you mean '{close[0]}'?" if close else ""), position
        )
    rest = element[len(name) :].strip()
    if rest and not (rest.startswith("{") and rest.endswith("}")):
        raise _misspelled(f"expected '{{' and options after '{name}', has {rest!r}", position)
    names = [option.name for option in known.options_among(passes)]
    texts = {}
    for _, word in _split(rest[1:-1], " "):
        if not word:
            continue
        key, equals, value = word.partition("=")  # a key without a value means true
        if key not in names:
            known_ones = ", ".join(f"'{option}'" for option in names) or "none"
            raise _misspelled(f"no option '{key}' in '{name}'; there are: {known_ones}", position)
        texts[key] = value if equals else "true"
    try:
        return known.configured(texts, passes) if isinstance(known, Pipeline) else [known.configured(texts)]
    except ValueError as error:
        raise _misspelled(str(error), position) from None


def _unquoted(value: str) -> str:
    for opening, closing in ("''", '""', "{}"):
        if len(value) > 1 and value.startswith(opening) and value.endswith(closing):
            inner = value[1:-1]
            if opening not in inner.replace("\\" + opening, ""):
                return inner
    return value


def _split(text: str, separator: str) -> Iterator[tuple[int, str]]:
    """Splits a text at separators outside brackets and quotes. Yields the offset and the text of each part."""
    closing: list[str] = []
    begin = 0
    for token in _TOKEN.finditer(text):
        c = token[0]
        if c in ("'", '"'):
            raise ValueError(f"expected '{c}' before the end")
        if c in _CLOSING:
            closing.append(_CLOSING[c])
        elif c in _CLOSING.values():
            if not closing or closing.pop() != c:
                raise ValueError(f"'{c}' at {token.start() + 1} has no opening partner")
        elif c == separator and not closing:
            yield begin, text[begin : token.start()]
            begin = token.end()
    if closing:
        raise ValueError(f"expected '{closing[-1]}' before the end")
    yield begin, text[begin:]


def _symbol(text: str) -> str:
    """The name in a symbol `@name` or `@"name"`. Raises `ValueError` if the text is not a symbol."""
    reference = _reference(text)
    if not isinstance(reference, ir.FlatSymbolRefAttr):
        raise ValueError(f"expects one symbol, has {text}")
    return str(reference.value)


def _reference(text: str) -> ir.Attribute:
    try:
        reference = ir.Attribute.parse(text)
    except ir.MLIRError:
        reference = None
    if not isinstance(reference, ir.SymbolRefAttr | ir.FlatSymbolRefAttr):
        raise ValueError(f"expects a reference such as @main::@v0, has {text!r}")
    return reference


def _misspelled(message: str, position: int) -> RequestError:
    return RequestError(message, f"pass-pipeline:1:{position + 1}")


def adds_to(
    passes: dict[str, Pass],
) -> Callable[..., Callable[[Callable[..., None]], Callable[..., None]]]:
    """A function (name, *options) that returns a decorator. The decorator adds a function to `passes` as a pass.

    The decorated function takes a module, and the options as keyword arguments. The first paragraph of its docstring is
    the description of the pass.
    """

    def named(name: str, *options: Option) -> Callable[[Callable[..., None]], Callable[..., None]]:
        def add(function: Callable[..., None]) -> Callable[..., None]:
            first = str(inspect.getdoc(function)).partition("\n\n")[0]
            passes[name] = Pass(name, " ".join(first.split()), function, options)
            return function

        return add

    return named
