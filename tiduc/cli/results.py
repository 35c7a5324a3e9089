"""results: prints the results of a run, or writes them to a file."""

from collections.abc import Mapping

import numpy as np

from tiduc.cli.files import write, write_json
from tiduc.runtime.array_files import write_npz
from tiduc.runtime.arrays import Array, format_array, summary

SHOWN = 1000  # results with more elements are printed as a summary


def write_results(named: Mapping[str, Array], as_data: bool, output: str) -> None:
    """Writes arrays with their names: to the `.npz` file `output`, as lines to standard output, or as JSON."""
    if as_data:
        write_json({name: _as_data(array) for name, array in named.items()}, output)
    elif output == "-":
        write("".join(f"{name}: {_shown(array)}\n" for name, array in named.items()))
    else:
        write_npz(output, named)


def _as_data(array: Array) -> dict[str, object]:
    """An array for JSON: complex numbers are pairs, and numbers that are not finite become null."""
    pairs = np.stack([array.real, array.imag], -1) if array.dtype.kind == "c" else array
    numbers = pairs if pairs.dtype.kind in "biu" else pairs.astype(np.float64)
    values = numbers.astype(object)
    if numbers.dtype.kind == "f":
        values[~np.isfinite(numbers)] = None
    return {"shape": list(array.shape), "dtype": str(array.dtype), "values": values.tolist()}


def _shown(array: Array) -> str:
    return format_array(array) if array.size <= SHOWN else summary(array)
