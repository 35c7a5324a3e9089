"""The settings on which passes depend: properties of the target, and options of the user."""

from dataclasses import dataclass, field
from typing import NamedTuple, TypeVar

from tiduc.backends.backend import CALLBACK, LAPACK, LOOPS
from tiduc.dialect.errors import RequestError

T = TypeVar("T")

HELP = "help"
"""The key of a setting's help text in the metadata of its field."""


def _setting(default: T, text: str) -> T:
    return field(default=default, metadata={HELP: text})


class Registers(NamedTuple):
    """The vector registers of a CPU: the width of a register in bits, and the number of registers."""

    bits: int
    number: int

    @property
    def are_masked_slowly(self) -> bool:
        """Whether IREE masks lanes although masked stores are slow, as on x86 CPUs without AVX-512.

        For Arm's CPUs, which have 32 registers, IREE does not mask lanes.
        """
        return self.number == 16


@dataclass(frozen=True)
class Settings:
    """The settings of passes; each one is an option of `tidu-legalize-for-iree`.

    Raises `RequestError` if `lapack` is unknown, and if it is "callback" although `cpu` is false.
    """

    cpu: bool = _setting(True, "the target is a CPU; true by default")
    spirv: bool = _setting(False, "the target's code is SPIR-V; false by default")
    cuda: bool = _setting(False, "the target is an NVIDIA GPU with CUDA; false by default")
    tensor_cores: bool = _setting(False, "the GPU has tensor cores for f16 and bf16; false by default")
    lapack: str = _setting(LOOPS, "what factorizes matrices: loops, or callback (the host); loops by default")
    fused: bool = _setting(False, "the target has a fused multiply-add; false by default")
    vectors: str = _setting("", "the bits and number of vector registers, as in 512x32; none by default")
    fast: bool = _setting(True, "also run rewrites for speed; true by default")

    def __post_init__(self) -> None:
        if self.lapack not in LAPACK:
            raise RequestError(f"unknown way to factorize {self.lapack!r}; there are: {', '.join(LAPACK)}")
        if self.calls_lapack and not self.cpu:
            raise RequestError("only code for CPUs can call LAPACK on the host")

    @property
    def registers(self) -> Registers:
        """The vector registers that the setting `vectors` describes. The setting must not be empty."""
        bits, number = self.vectors.split("x")
        return Registers(int(bits), int(number))

    @property
    def calls_lapack(self) -> bool:
        """Whether factorizations call LAPACK on the host."""
        return self.lapack == CALLBACK
