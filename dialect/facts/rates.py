"""rates: how fast a machine moves data and computes. Estimates of time use these rates.

    {"bytes": 1e10, "flops": 1e11, "functions": 1e9, "launches": 2e5}        per second

`tiduc calibrate` measures the rates of a machine and writes such a file; a user may also write one by hand. The
environment variable TIDUC_COSTS names the file. If the variable is not set, the rates are those of one core of a
current CPU. They do not depend on the machine, so that tiduc compiles a program in the same way on every machine.
"""

import functools
import json
import math
import os
from dataclasses import asdict, dataclass, fields
from pathlib import Path

from tiduc.dialect.errors import RequestError

VARIABLE = "TIDUC_COSTS"


@dataclass(frozen=True)
class Rates:
    """How many bytes a machine moves, and how many FLOPs and transcendental functions it computes, per second.

    `launches` is how many ops of a loop the host launches per second.
    """

    bytes: float = 1e10
    flops: float = 1e11
    functions: float = 1e9
    launches: float = 2e5


_DEFAULT = Rates()


def rates() -> Rates:
    """The rates in the file that TIDUC_COSTS names, else the default rates. Raises `RequestError` for an invalid file.

    If the file has no entry `launches`, the default value of `launches` is used.
    """
    return given_rates() or _DEFAULT


def given_rates() -> Rates | None:
    """The rates in the file that TIDUC_COSTS names; None if the variable is not set or empty.

    Raises `RequestError` for an invalid file.
    """
    path = os.environ.get(VARIABLE)
    return _read(path) if path else None


@functools.cache
def _read(path: str) -> Rates:
    names = [field.name for field in fields(Rates)]
    try:
        data = json.loads(Path(path).read_text())
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or "it is not JSON"
        message = f"cannot read the file of rates that the environment variable {VARIABLE} names: {why}"
        raise RequestError(message, path) from None
    is_complete = isinstance(data, dict) and {*data, "launches"} == set(names)
    if not is_complete or not all(map(_is_rate, data.values())):
        raise RequestError(
            f"the file that {VARIABLE} names must hold positive numbers {', '.join(names)}", path
        )
    return Rates(**data)


def _is_rate(x: object) -> bool:
    return type(x) in (int, float) and 0 < x < math.inf  # type: ignore[operator]


def as_json(measured: Rates) -> str:
    """The rates as the text of a file, as TIDUC_COSTS requires."""
    return json.dumps(asdict(measured), indent=2) + "\n"
