"""Parses MLIR's textual pass pipelines extended by Python passes: `a,b{x=1 y='p q'},func.func(c)`.

MLIR knows only the names of native passes. A pipeline is therefore split at the Python passes, and MLIR parses the text
between them. Options have MLIR's syntax: `key=value` pairs, separated by spaces. A value may be in quotes or in braces,
and commas separate the elements of a list.
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
"""A quoted string, or one character. A match that is a single quote has no closing quote."""

_CLOSING = {"(": ")", "{": "}", "[": "]", "<": ">"}


PassFunction = Callable[[ir.Operation, passmanager.ExternalPass], None]
"""A pass as `PassManager.add` takes it: a function of the op, and of the pass object, which can signal failure."""


@dataclass(frozen=True)
class Option:
    """One option of a pass; `kind` is the type of its value: a string, a number, a boolean, or a list.

    A name is a plain word or a symbol, `@x` or `@"any text"`; a reference is `@graph::@name`.
    """

    name: str
    kind: Literal["string", "number", "bool", "names", "references"]
    description: str

    def read(self, text: str) -> Any:
        """Parses the option's value; raises `ValueError` if the text is malformed."""
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
    """A pass on a module; `function` runs it in place.

    If the pass consists of several steps, `parts` returns the name and function of each step for given options. The
    pass manager then prints, times and verifies each step.
    """

    name: str
    description: str
    function: Callable[..., object]
    options: tuple[Option, ...] = ()
    parts: Callable[..., Sequence[tuple[str, Callable[[Any], object]]]] | None = None

    def options_among(self, passes: Mapping[str, "Pass | Pipeline"]) -> tuple[Option, ...]:
        """The options of the pass."""
        return self.options

    def configured(self, texts: Mapping[str, str]) -> "Configured":
        """The pass with options parsed from `texts`, which has option names as keys.

        Raises `ValueError` for a malformed text.
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
        """Whether the function has a parameter `opset`."""
        return "opset" in inspect.signature(self.function).parameters

    def bound(self, **options: Any) -> PassFunction:
        """The pass with these options, as a function for the `PassManager.add` of a manager of `builtin.module`."""
        return _added(functools.partial(self.function, **options))

    def steps(self, **options: Any) -> list[tuple[str, PassFunction]]:
        """The name and function of each step of the pass with these options; a simple pass is one step."""
        if self.parts is None:
            return [(self.name, self.bound(**options))]
        return [(name, _added(part)) for name, part in self.parts(**options)]


@dataclass(frozen=True)
class PassStep:
    """A pass in a named pipeline.

    `fixed` maps options to texts that a user cannot change; `takes` has the names of the options that a user may set.
    """

    name: str
    fixed: Mapping[str, str] = field(default_factory=dict)
    takes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Pipeline:
    """A named pipeline of Python passes. An option of the pipeline is an option of each step that accepts it."""

    name: str
    description: str
    steps: tuple[PassStep, ...]

    def configured(
        self, given: Mapping[str, str], passes: Mapping[str, "Pass | Pipeline"]
    ) -> list["Configured"]:
        """The passes of the pipeline with options. `given` has the texts of the pipeline's options, by name.

        Raises `ValueError` for a malformed text.
        """
        owned = []
        for step in self.steps:
            pass_ = passes[step.name]
            assert isinstance(pass_, Pass)
            texts = {**step.fixed, **{key: given[key] for key in step.takes if key in given}}
            owned.append(pass_.configured(texts))
        return owned

    def options_among(self, passes: Mapping[str, "Pass | Pipeline"]) -> tuple[Option, ...]:
        """The options of the pipeline: those of its passes that a user may set."""
        return tuple(
            option
            for step in self.steps
            for option in passes[step.name].options_among(passes)
            if option.name in step.takes
        )


def _added(function: Callable[[ir.OpView], object]) -> PassFunction:
    """A function on modules in the form that `PassManager.add` requires."""

    def run(op: ir.Operation, _: passmanager.ExternalPass) -> None:
        function(op.opview)

    return run


@dataclass(frozen=True)
class Native:
    """Adjacent native passes. Leading spaces make the columns in MLIR's errors those of the whole pipeline."""

    text: str


@dataclass(frozen=True)
class Configured:
    """One Python pass with its options, and its text in the pipeline."""

    pass_: Pass
    options: Mapping[str, Any]
    text: str


def elements_of(text: str) -> list[str]:
    """The elements of a pipeline, as texts. The pipeline has no enclosing `builtin.module(...)`."""
    return [element for _, element in _split(text, ",") if element.strip()]


def parse_pipeline(text: str, passes: Mapping[str, Pass | Pipeline]) -> list[Native | Configured]:
    """The elements of a pipeline, with or without an enclosing `builtin.module(...)`. Named pipelines are expanded.

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
    """The offsets at which the module's pipeline begins and ends."""
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
        key, equals, value = word.partition("=")  # a key without a value is true
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
    """Splits at separators outside brackets and quotes. Yields the offset and the text of each part."""
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
    """The name in `@name` or `@"name"`."""
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
    """A function of a pass name and options.

    It returns a decorator that makes a function of a module a pass in `passes`. The first paragraph of the function's
    docstring is the description. The function's keyword parameters are the options.
    """

    def named(name: str, *options: Option) -> Callable[[Callable[..., None]], Callable[..., None]]:
        def add(function: Callable[..., None]) -> Callable[..., None]:
            first = str(inspect.getdoc(function)).partition("\n\n")[0]
            passes[name] = Pass(name, " ".join(first.split()), function, options)
            return function

        return add

    return named
