"""Text of programs between two runs of IREE's compiler: workgroups are put in, and functions of repeats inlined."""

import re
from collections.abc import Iterator, Mapping

_DECLARATION = re.compile(rb"^ *func\.func private @(?P<name>\w+)\([^{\n]*$", re.MULTILINE)

_NEVER = rb" attributes \{(?:no_inline, noinline|inlining_policy = #util\.inline\.never)\}"
"""The attributes of a function that is not to be inlined, before and after IREE's first phase."""

_FUNCTION = re.compile(
    rb"^  util\.func private @(?P<name>\w+)\((?P<inputs>.*)\) -> .*"
    + _NEVER
    + rb" \{\n(?P<body>(?:    .*\n)*?)    util\.return (?P<results>.*) : .*\n  \}\n",
    re.MULTILINE,
)
_CALL = re.compile(
    rb"^    (?P<result>%[\w$.-]+)(?::\d+)? = util\.call @(?P<name>\w+)\((?P<inputs>[^)]*)\) : .*\n$"
)
_VALUE = re.compile(rb'"(?:[^"\\]|\\.)*"|(?P<name>%[\w$.-]+)(?:#(?P<number>\d+))?')
"""A string, or a value: its name, and the number of the result if its op has several."""

_END = b"  }\n"
"""The end of a function."""


def with_workgroups(text: bytes, workgroups: Mapping[str, str]) -> bytes:
    """The text of a program after a phase of IREE's compiler, with functions in place of their declarations."""

    def defined(declaration: re.Match[bytes]) -> bytes:
        function = workgroups.get(declaration["name"].decode())
        return declaration[0] if function is None else function.encode("utf-8", "surrogateescape")

    return _DECLARATION.sub(defined, text) if workgroups else text


def may_be_inlined(text: bytes) -> bytes:
    """The text of a program for IREE, in which IREE inlines the functions of repeats before anything else."""
    return re.sub(_NEVER, b"", text)


def inlined(text: bytes) -> bytes:
    """The text of a program after a phase of IREE's compiler, with the functions of repeats inlined.

    IREE would inline them too late: after it has decided to copy the arrays that they take.
    """
    functions = {function["name"]: function for function in _FUNCTION.finditer(text)}
    return b"".join(_lines(_FUNCTION.sub(b"", text), functions)) if functions else text


def _lines(text: bytes, functions: Mapping[bytes, re.Match[bytes]]) -> Iterator[bytes]:
    """The lines of a program; a call of a function becomes the lines of its body, with names of their own."""
    # By the name of the result of an earlier call in this function, the values that its body returns.
    values: dict[bytes, list[bytes]] = {}
    calls = 0

    def known(value: re.Match[bytes]) -> bytes:
        given = values.get(value["name"] or b"")
        return value[0] if given is None else given[int(value["number"] or 0)]

    for line in text.splitlines(keepends=True):
        if line == _END:
            values = {}
        here = _VALUE.sub(known, line) if values else line
        call = _CALL.match(here)
        function = functions.get(call["name"]) if call else None
        if call is None or function is None:
            yield here
            continue
        calls += 1
        names = dict(zip(re.findall(rb"%\w+(?=: )", function["inputs"]), _split(call["inputs"]), strict=True))
        yield _renamed(function["body"], names, calls)
        values[call["result"]] = _split(_renamed(function["results"], names, calls))


def _renamed(text: bytes, names: Mapping[bytes, bytes], call: int) -> bytes:
    """Text of a function with other names: those given for its inputs, and names of their own for the other values."""

    def renamed(value: re.Match[bytes]) -> bytes:
        name = value["name"]
        if name is None:
            return value[0]
        if name in names:
            return names[name]
        number = b"" if value["number"] is None else b"#" + value["number"]
        return b"%call" + str(call).encode() + b"_" + name[1:] + number

    return _VALUE.sub(renamed, text)


def _split(values: bytes) -> list[bytes]:
    return values.split(b", ") if values else []
