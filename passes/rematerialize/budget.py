"""budget: parses budgets of memory as users write them: `100MB`, `1.5GiB`, `0.3x`, or `min`."""

import re

from tiduc.dialect.errors import RequestError

_UNITS = {"": 1, "K": 10**3, "M": 10**6, "G": 10**9, "T": 10**12}
_BINARY = {"K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40}
_SIZE = re.compile(r"(\d{1,15}(?:\.\d{1,6})?)\s*(?:([KMGT]?)(I?)B|(X))", re.IGNORECASE)

LEAST = "min"
"""The budget that requests the lowest peak."""


def budget_in_bytes(text: str, peak: int, throughout: int = 0) -> int:
    """Returns the bytes of a budget, or 0 for `min`. `peak` is the peak of the program without a memory plan.

    `throughout` is the part of the peak that arguments and results take. The budget `0.3x` allows these bytes, and 0.3
    of the rest of the peak. Raises `RequestError` for a text that is not a budget.
    """
    if text == LEAST:
        return 0
    match = _SIZE.fullmatch(text.strip())
    if match is None or (match[3] and not match[2]):
        raise RequestError(
            f"memory {text!r} is not a size such as 100MB or 1.5GiB, a share such as 0.3x, or {LEAST}"
        )
    number, unit, binary, share = match.groups()
    if share:
        return throughout + int(float(number) * (peak - throughout))
    return int(float(number) * (_BINARY if binary else _UNITS)[unit.upper()])


def shown_bytes(count: int) -> str:
    """Returns the text of a budget: in megabytes, rounded up to 0.01, or in bytes if it is below one megabyte."""
    return f"{-(-count // 10**4) / 100:.2f}MB" if count >= 10**6 else f"{count}B"
