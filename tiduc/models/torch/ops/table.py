"""Completes the table of decompositions, by importing all modules that add to it."""

from tiduc.models.torch.ops import (
    arrays,
    complexes,
    convolutions,
    fills,
    fourier,
    gamma,
    integers,
    kinks,
    linalg,
    losses,
    networks,
    norms,
    pooling,
    random,
    recurrent,
    sampling,
    scatters,
    sorting,
    special,
)
from tiduc.models.torch.ops.framework import TABLE, Absent, torch

_COMPOSED = ("fft_", "linalg_", "stft.", "istft.")
"""Prefixes of the names of functions that PyTorch decomposes and torch-mlir does not decompose."""

for _overload, _function in torch.export.default_decompositions().items():
    if str(_overload).removeprefix("aten.").startswith(_COMPOSED):
        TABLE.setdefault(_overload, _function)

for _overload in [_overload for _overload in TABLE if isinstance(_overload, Absent)]:
    del TABLE[_overload]

__all__ = [
    "TABLE",
    "arrays",
    "complexes",
    "convolutions",
    "fills",
    "fourier",
    "gamma",
    "integers",
    "kinks",
    "linalg",
    "losses",
    "networks",
    "norms",
    "pooling",
    "random",
    "recurrent",
    "sampling",
    "scatters",
    "sorting",
    "special",
]
