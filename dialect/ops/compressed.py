"""`tidu.compressed`: the attribute of a function result whose elements are the nonzeros of a sparse matrix.

The attribute says in which rows and columns the nonzeros are:

    format = "csr", shape = array<i64: 2, 3>, indptr = dense<[0, 1, 3]>, indices = dense<[0, 1, 2]>

The format is that of scipy's `csr_array` and `csc_array`. For "csr", the nonzeros are ordered by row. `indices` has the
column of each nonzero, and the nonzeros of row i have the numbers from `indptr[i]` to `indptr[i + 1] - 1`. For "csc",
rows and columns are exchanged.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from torch_mlir import ir

from tiduc.dialect.errors import RequestError
from tiduc.dialect.ops.attributes import readable

COMPRESSED = "tidu.compressed"
"""Name of an attribute of a function result: the pattern of a sparse matrix, whose nonzeros the result contains."""

CSR, CSC = "csr", "csc"
FORMATS = (CSR, CSC)


@dataclass(frozen=True, eq=False)
class Compressed:
    """The pattern of a sparse matrix in compressed sparse row (csr) or column (csc) form, as in scipy.

    `scipy.sparse.csr_array((values, pattern.indices, pattern.indptr), pattern.shape)` is the matrix.
    """

    format: str
    shape: tuple[int, int]
    indptr: NDArray[np.int32]
    indices: NDArray[np.int32]

    def attribute(self) -> ir.Attribute:
        """Converts the pattern to an attribute for `COMPRESSED`."""
        integer = ir.IntegerType.get_signless(32)
        numbers = {
            name: ir.DenseElementsAttr.get(array, type=integer)
            for name, array in (("indptr", self.indptr), ("indices", self.indices))
        }
        shape = ir.DenseI64ArrayAttr.get(self.shape)
        return ir.DictAttr.get({"format": ir.StringAttr.get(self.format), "shape": shape, **numbers})


def compressed(
    format: str, shape: tuple[int, int], rows: NDArray[np.int64], columns: NDArray[np.int64]
) -> Compressed:
    """The pattern of a matrix with nonzeros at (rows[k], columns[k]).

    The caller must have sorted the nonzeros by row for "csr", and by column for "csc".
    """
    major, minor, count = (rows, columns, shape[0]) if format == CSR else (columns, rows, shape[1])
    indptr = np.zeros(count + 1, np.int32)
    np.cumsum(np.bincount(major, minlength=count), out=indptr[1:])
    return Compressed(format, shape, indptr, minor.astype(np.int32))


def compressed_in(attributes: ir.Attribute | None, name: str) -> Compressed | None:
    """Reads the pattern from the attributes of a function's result. Returns None if the result has no pattern.

    Raises `RequestError` if the pattern is malformed. The message names the result `name`.
    """
    found = None if attributes is None else readable(ir.DictAttr(attributes), COMPRESSED)
    if found is None:
        return None
    try:
        return _read(ir.DictAttr(found))
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise RequestError(f"result {name!r} has a malformed {COMPRESSED}: {error}") from None


def _read(stored: ir.DictAttr) -> Compressed:
    format = ir.StringAttr(stored["format"]).value
    shape = tuple(ir.DenseI64ArrayAttr(stored["shape"]))
    indptr, indices = (
        np.array(ir.DenseIntElementsAttr(stored[name])).reshape(-1) for name in ("indptr", "indices")
    )
    if format not in FORMATS or len(shape) != 2 or indptr.dtype != np.int32 or indices.dtype != np.int32:
        raise ValueError(
            "the format must be csr or csc, the shape must have two sizes, and indptr and indices must be arrays of i32"
        )
    many, few = shape if format == CSR else shape[::-1]
    is_range = len(indptr) == many + 1 and indptr[0] == 0 and indptr[-1] == len(indices)
    if not is_range or (np.diff(indptr) < 0).any() or ((indices < 0) | (indices >= few)).any():
        raise ValueError("indptr and indices do not fit the shape")
    return Compressed(format, (shape[0], shape[1]), indptr, indices)
