"""Settings: what passes need to know of the target and of the user's wishes."""

from dataclasses import dataclass, field
from typing import Any

from tiduc.backends.backend import CALLBACK, LAPACK, LOOPS
from tiduc.dialect.errors import RequestError

HELP = "help"
"""The key of a setting's help text in the metadata of its field."""


def _setting(default: Any, text: str) -> Any:
    return field(default=default, metadata={HELP: text})


@dataclass(frozen=True)
class Settings:
    """The settings of passes; each one is an option of `tidu-legalize-for-iree`.

    Raises `RequestError` for an unknown `lapack`, and for "callback" without `cpu`.
    """

    cpu: bool = _setting(True, "the target is a CPU; true by default")
    spirv: bool = _setting(False, "the target's code is SPIR-V; false by default")
    cuda: bool = _setting(False, "the target is an NVIDIA GPU with CUDA; false by default")
    lapack: str = _setting(LOOPS, "how to factorize: loops, or a callback of the host; loops by default")
    fused: bool = _setting(False, "the target has a fused multiply-add; false by default")
    wide: bool = _setting(False, "the target has vectors of 512 bits; false by default")
    fast: bool = _setting(True, "rewrite for speed, too; true by default")

    def __post_init__(self) -> None:
        if self.lapack not in LAPACK:
            raise RequestError(f"unknown way to factorize {self.lapack!r}; there are: {', '.join(LAPACK)}")
        if self.calls_lapack and not self.cpu:
            raise RequestError("LAPACK is called back by code for CPUs only")

    @property
    def calls_lapack(self) -> bool:
        """Whether factorizations call LAPACK on the host."""
        return self.lapack == CALLBACK
