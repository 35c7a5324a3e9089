"""Text of programs between two runs of IREE's compiler: workgroups are put in, and functions of repeats inlined.

Both rely on invariants, and check them (`invariants.py`):

- each function of a workgroup that the text declares is declared on one line of its own;
- each function that is not to be inlined has one block, which ends in the function's only return;
- only calls name such a function, each on one line, with as many operands and results as the function has.

Without the text of workgroups a program does not run, so that it is refused where the first one does not hold.
"""

import re
from collections.abc import Iterator, Mapping

from tiduc.backends.iree.modules.invariants import or_refuse, require

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
    rb"^    (?P<result>%[\w$.-]+)(?::(?P<count>\d+))? = util\.call @(?P<name>\w+)\((?P<inputs>[^)]*)\) : .*\n$"
)
_VALUE = re.compile(rb'"(?:[^"\\]|\\.)*"|(?P<name>%[\w$.-]+)(?:#(?P<number>\d+))?')
"""A string, or a value: its name, and the number of the result if its op has several."""

_LEFT = re.compile(rb"\bfunc\.func private @(\w+)\([^{\n]*$", re.MULTILINE)
_NEVER_INLINED = re.compile(rb"^ *util\.func .*" + _NEVER, re.MULTILINE)
_SYMBOL = re.compile(rb"@(\w+)")

_END = b"  }\n"
"""The end of a function."""


def with_workgroups(text: bytes, workgroups: Mapping[str, str]) -> bytes:
    """The text of a program after a phase of IREE's compiler, with functions in place of their declarations."""
    return or_refuse(_with_workgroups, text, workgroups)


def _with_workgroups(text: bytes, workgroups: Mapping[str, str]) -> bytes:
    def defined(declaration: re.Match[bytes]) -> bytes:
        function = workgroups.get(declaration["name"].decode())
        return declaration[0] if function is None else function.encode("utf-8", "surrogateescape")

    whole = _DECLARATION.sub(defined, text) if workgroups else text
    names = (match[1].decode() for match in _LEFT.finditer(whole))
    require(not any(name in workgroups for name in names), "a workgroup is declared on a line of its own")
    return whole


def may_be_inlined(text: bytes) -> bytes:
    """The text of a program for IREE, in which IREE inlines the functions of repeats before anything else."""
    return re.sub(_NEVER, b"", text)


def inlined(text: bytes) -> bytes:
    """The text of a program after a phase of IREE's compiler, with the functions of repeats inlined.

    IREE would inline them too late: after it has decided to copy the arrays that they take.
    """
    functions = {function["name"]: function for function in _FUNCTION.finditer(text)}
    returns = all(b"util.return" not in function["body"] for function in functions.values())
    is_known = len(functions) == len(_NEVER_INLINED.findall(text)) and returns
    require(is_known, "functions of repeats have one block, and one return")
    if not functions:
        return text
    whole = b"".join(_lines(_FUNCTION.sub(b"", text), functions))
    left = set(_SYMBOL.findall(whole)) & functions.keys()
    require(not left, "only calls name functions of repeats")
    return whole


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
        count = int(call["count"] or 1)
        require(count == len(values[call["result"]]), "a call has as many results as its function")


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
