"""Errors that comments in a file expect, in the syntax of MLIR's tools: `// expected-error @+1 {{unknown graph}}`.

In `expected-error-re`, parts in inner braces are regular expressions: `// expected-error-re {{graph {{@.*}}}}`.

`@+1` or `@below` denotes the next line, and `@-1` or `@above` the previous line. `@unknown` means that the error has no
line. Otherwise, the error is expected at the line of the comment. The text may be a part of the message.
"""

import re
from dataclasses import dataclass

from tiduc.dialect.errors import RequestError, TiducError

_AT = r"\s*(?:@([+-]\d+|above|below|unknown))?\s*"
_EXPECTED = re.compile(r"expected-error" + _AT + r"\{\{(.*?)\}\}")
_EXPECTED_RE = re.compile(r"expected-error-re" + _AT + r"\{\{((?:[^{}]|\{\{.*?\}\}|[{}](?![{}]))*)\}\}")
_EXPRESSION = re.compile(r"\{\{(.*?)\}\}")
_LINE = re.compile(r":(\d+):\d+$")


@dataclass(frozen=True)
class Expected:
    """An expected error.

    `line` is None if the error has no line. `pattern` is a regular expression that matches a part of the message.
    """

    line: int | None
    text: str  # the expected part of the message, as it is written in the comment
    pattern: str

    def met_by(self, error: TiducError) -> bool:
        """Whether an error is at this line and its message contains the expected part."""
        match = _LINE.search(error.location)
        return bool(re.search(self.pattern, error.message)) and self.line == (
            int(match[1]) if match else None
        )


def expected_errors(contents: str) -> list[Expected]:
    """Returns the errors that the comments in a file, or in a part of a file, expect."""
    errors = []
    for number, line in enumerate(contents.split("\n"), 1):
        found = [(at, text, re.escape(text)) for at, text in _EXPECTED.findall(line)]
        found += [(at, text, _expression(text)) for at, text in _EXPECTED_RE.findall(line)]
        for at, text, pattern in found:
            offset = {"": 0, "above": -1, "below": 1, "unknown": 0}.get(at)
            where = number + (int(at) if offset is None else offset)
            errors.append(Expected(None if at == "unknown" else where, text, pattern))
    return errors


def _expression(text: str) -> str:
    """Returns the regular expression for a text in which `{{...}}` encloses regular expressions."""
    parts = _EXPRESSION.split(text)  # literal text and expressions alternate
    pattern = "".join(f"(?:{part})" if i % 2 else re.escape(part) for i, part in enumerate(parts))
    try:
        re.compile(pattern)
    except re.error as error:
        raise RequestError(f"expected-error-re {{{{{text}}}}}: {error}") from None
    return pattern


def disagreement(contents: str, error: TiducError | None, file: str) -> TiducError | None:
    """Returns the error to report if `error` is not the error that the comments of a file expect.

    Returns None if they agree. `error` is None if no error occurred.
    """
    unmet = expected_errors(contents)
    if error is not None:
        met = next((expected for expected in unmet if expected.met_by(error)), None)
        if met is None:
            return TiducError(f"unexpected error: {error.message}", error.location)
        unmet.remove(met)
    if unmet:
        line = unmet[0].line
        message = f'expected error "{unmet[0].text}" was not produced'
        return TiducError(message, file if line is None else f"{file}:{line}:1")
    return None
