"""`Product`: a matrix product for tiled CUDA kernels, and the tiles and divisions of sums that they support."""

import math
from collections.abc import Iterator
from dataclasses import dataclass

from torch_mlir import ir

from tiduc.backends.iree.emit.emitter import are_floats
from tiduc.dialect.ops.contractions import Contraction
from tiduc.dialect.ops.ir_types import IrOp
from tiduc.dialect.shapes.types import element, shape

LEAST_WORK = 2**20
"""The fewest multiplications of a product that is rewritten. Smaller products take less time than their start."""

NARROWEST = 16
"""The fewest rows, columns or terms of a product that is rewritten. IREE has other code for products with vectors."""

_SHORTEST = 64
"""The fewest terms of a part, if a sum is divided into parts."""

_MOST_PARTS = 32

_MOST_WORKGROUPS = 2**15

_MULTIPROCESSORS = 132
"""The number of multiprocessors of an H100 or H200. A GPU with fewer multiprocessors also has work for each of them."""

_BYTES_PER_CYCLE = 1500
"""The bytes that kernels read and write in one cycle of the multiprocessors, measured on an H200."""

_START = 2000
"""The cycles that the kernel that adds the parts of sums needs in addition to its reads and writes."""


@dataclass(frozen=True)
class GpuTile:
    """A tile: the numbers of rows and columns that a workgroup computes, and of terms that it copies at a time.

    A term takes `alone` cycles if a multiprocessor runs one workgroup. If it runs several, a term takes `shared` cycles
    for each of them. The cycles were measured. `of_worker` has the numbers of rows and columns that a thread computes.
    With `in_tensor_cores`, these are instead numbers of blocks that each of four subgroups computes: an instruction
    computes a block of 16 rows and 8 columns.
    """

    rows: int
    columns: int
    terms: int
    of_worker: tuple[int, int]
    alone: float
    shared: float
    in_tensor_cores: bool = False

    @property
    def threads(self) -> int:
        """The number of threads of a workgroup."""
        return 128 if self.in_tensor_cores else self.rows * self.columns // math.prod(self.of_worker)


TILES = GpuTile(64, 64, 16, (8, 4), 97, 62), GpuTile(32, 32, 32, (2, 4), 38, 27)

TENSOR_TILES = GpuTile(64, 64, 64, (2, 4), 20, 11, True), GpuTile(32, 32, 64, (1, 2), 14, 5, True)


@dataclass(frozen=True)
class Product:
    """The sizes of a batch of matrix products: batch dimensions, rows, columns, and the number of terms of each sum."""

    batches: tuple[int, ...]
    rows: int
    columns: int
    terms: int
    half: bool = False  # whether the operands are f16 or bf16

    @staticmethod
    def of(op: IrOp) -> "Product | None":
        """The product that an op computes. Returns None if tiled kernels do not support the op or do not pay for it."""
        (x, y), z, of = op.operands, op.results[0], Contraction.of(op)
        if not (are_floats((x, y), ir.F32Type, ir.F16Type, ir.BF16Type) and are_floats([z], ir.F32Type)):
            return None
        rows, columns = (of.kept(side, len(shape(v))) for side, v in enumerate((x, y)))
        if not len(rows) == len(columns) == len(of.summed[0]) == 1:
            return None
        batches = tuple(shape(x)[d] for d in of.batches[0])
        sizes = shape(x)[rows[0]], shape(y)[columns[0]], shape(x)[of.summed[0][0]]
        if min(sizes) < NARROWEST or math.prod(sizes) * math.prod(batches) < LEAST_WORK:
            return None
        product = Product(batches, *sizes, not isinstance(element(x), ir.F32Type))
        return product if any(product.choices()) else None

    def choices(self) -> Iterator[tuple[GpuTile, int]]:
        """Yields the pairs (tile, number of parts into which each sum is divided) that the kernels support."""
        for tile in filter(self._is_divided, TENSOR_TILES if self.half else TILES):
            parts = 1
            while parts == 1 or (parts <= _MOST_PARTS and self.terms // parts >= _SHORTEST):
                if self.workgroups(tile, parts) <= _MOST_WORKGROUPS:
                    yield tile, parts
                parts *= 2

    def _is_divided(self, tile: GpuTile) -> bool:
        """Whether kernels with this tile can compute the product.

        IREE pads f32 tiles, but not tiles for tensor cores. Tiles for tensor cores must therefore divide the rows and
        columns. They do not support batch dimensions, either.
        """
        whole = self.rows % tile.rows == 0 and self.columns % tile.columns == 0
        return not tile.in_tensor_cores or (whole and not self.batches)

    def workgroups(self, tile: GpuTile, parts: int) -> int:
        """The number of workgroups of the product's kernel."""
        tiles = -(-self.rows // tile.rows) * -(-self.columns // tile.columns)
        return parts * math.prod(self.batches) * tiles

    def terms_of_part(self, tile: GpuTile, parts: int) -> int:
        """The number of terms of each part of a sum that is divided into `parts` parts, rounded up to whole tiles."""
        return -(-self.terms // (parts * tile.terms)) * tile.terms

    def cycles(self, tile: GpuTile, parts: int) -> float:
        """The estimated cycles of the product's kernel, plus those of the kernel that adds the parts, if any."""
        waves = -(-self.workgroups(tile, parts) // _MULTIPROCESSORS)
        product = self.terms_of_part(tile, parts) * max(tile.alone, tile.shared * waves)
        moved = 4 * math.prod(self.batches) * self.rows * self.columns * (2 * parts + 1)
        return product if parts == 1 else product + _START + moved / _BYTES_PER_CYCLE
