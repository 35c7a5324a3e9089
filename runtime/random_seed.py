"""The input `seed: 2xui64`, from which a program draws its random numbers.

The random numbers are a function of both words. A training step increments the second word, so that each step draws
different numbers.
"""

import re
import secrets
from typing import Any

import numpy as np

from tiduc.runtime.signature import SignatureValue

TYPE = "2xui64"
MOST = 2**64 - 1
"""The largest number that fits a word."""

HINT = "a seed of random numbers is two numbers, such as np.array([0, 0], np.uint64)"

_NAME = re.compile(r"seed(\.\d+)?")  # import appends a number if another input has this name


def is_random_seed(value: SignatureValue) -> bool:
    """Whether an input is a seed of random numbers, judged by its name and type."""
    return str(value.type) == TYPE and _NAME.fullmatch(value.name) is not None


def random_seed(number: int, position: int = 0) -> Any:
    """The seed for a number of at most `MOST`. `position` is the seed's position among the seeds of a program.

    The second words of two seeds differ by at least 2^32, so that no two seeds are equal in the first 2^32 steps.
    """
    return np.array([number, position << 32], np.uint64)


def drawn() -> int:
    """A random number for `random_seed`, from the operating system."""
    return secrets.randbits(32)
