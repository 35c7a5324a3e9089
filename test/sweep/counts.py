"""Writes and reads the last line of each sweep, such as `counts: 3 ok, 1 refused`.

A sweep that is a pytest plugin ends with pytest's own line, such as `2 failed, 30 passed in 4.10s`.
"""

import re
from collections.abc import Mapping

MARK = "counts: "

RIGHT = (
    "ok",
    "right",
    "right with constants",
    "answer",
    "passed",
    "caught",
    "differentiated",
    "equal",
    "within rounding",
)
REFUSED = ("refused", "rejected", "skipped", "usage", "isolated", "reported")
WRONG = (
    *("wrong", "traceback", "death", "memory", "invalid", "silent", "unplaced"),
    *("crash", "crashed", "died", "error", "errors", "failed", "hang", "missed", "differs"),
    "not needed",
)
"""The outcomes that are failures. Outcomes that are in none of RIGHT, REFUSED and WRONG do not judge a program."""

_PYTEST = re.compile(r"^=* ?(\d+ [a-z]+(?:, \d+ [a-z]+)*) in [\d.]+s")


def summary(counts: Mapping[str, int]) -> str:
    """Returns the line with these counts, such as `counts: 3 ok, 1 refused`. It leaves out counts of zero."""
    return MARK + (", ".join(f"{count} {name}" for name, count in counts.items() if count) or "0 programs")


def counts_in(text: str) -> dict[str, int]:
    """Returns the counts in a sweep's output.

    If several lines have counts, the last line is read. If no line has counts, returns {}.
    """
    for line in reversed(text.splitlines()):
        of_pytest = _PYTEST.match(line)
        if line.startswith(MARK) or of_pytest:
            listed = of_pytest[1] if of_pytest else line.removeprefix(MARK)
            pairs = [each.strip().partition(" ") for each in listed.split(",")]
            return {name: int(count) for count, _, name in pairs}
    return {}


def total(counts: Mapping[str, int], names: tuple[str, ...]) -> int:
    return sum(counts.get(name, 0) for name in names)
