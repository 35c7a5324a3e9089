"""The input `seed: 2xui64` of a program that draws random numbers.

The random numbers depend on both words of the seed. A training step increments the second word, so that each step draws
different numbers.
"""

import re
import secrets
from typing import Any

import numpy as np

from tiduc.runtime.signature import SignatureValue

TYPE = "2xui64"
MOST = 2**64 - 1
"""The largest number that one word of the seed can hold."""

HINT = "a seed of random numbers is two numbers, such as np.array([0, 0], np.uint64)"

_NAME = re.compile(r"seed(\.\d+)?")  # import appends a number if another input has this name


def is_random_seed(value: SignatureValue) -> bool:
    """Whether the name and the type of an input are those of a seed of random numbers."""
    return str(value.type) == TYPE and _NAME.fullmatch(value.name) is not None


def random_seed(number: int, position: int = 0) -> Any:
    """Returns the seed with the first word `number`, which is at most `MOST`.

    `position` is the position of the seed among the seeds of a program. The second words of two seeds differ by at
    least 2^32, so the seeds remain different during the first 2^32 steps.
    """
    return np.array([number, position << 32], np.uint64)


def drawn() -> int:
    """Returns a random 32-bit number from the operating system, for `random_seed`."""
    return secrets.randbits(32)
