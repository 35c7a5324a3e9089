"""gpu_products: on NVIDIA's GPUs, computes matrix products in tiles in shared memory, and divides long sums into parts.

    %0 = dot_general %x, %y : (128x3072, 3072x768)
    ->
    %1 = linalg.generic {tiles} (reshape %x : 128x16x192), (reshape %y : 16x192x768) : 16x128x768
    %0 = reduce %1 along [0], by add

IREE's own code reads both operands from global memory for each multiplication, and uses few workgroups if the sums are
long but the result is small. Here, a workgroup copies a tile of each operand to shared memory, and each thread computes
a few elements in registers. A long sum is divided into parts, so that all multiprocessors have work; a second kernel
adds the parts. The tile and the number of parts are those for which the estimate `Product.cycles` is lowest.

The summed dimension is padded with zeros to whole tiles by StableHLO's pad, because IREE's own padding of this
dimension gives wrong values in some batches. IREE pads rows and columns correctly for f32, but not for f16 and bf16,
which tensor cores multiply. The pass `separate_half_products` therefore widens products of f16 and bf16 that have batch
dimensions, or rows and columns that no tile divides.
"""

from collections.abc import Mapping, Sequence

from torch_mlir import ir

from tiduc.backends.iree.emit.emitter import Emitter, is_directly_in, rewrite
from tiduc.backends.iree.emit.gpu_tiles import GpuTile, Product
from tiduc.backends.iree.emit.kernels import KERNEL, Kernel
from tiduc.backends.iree.fault import slow
from tiduc.dialect.mlir.context import context, stage
from tiduc.dialect.ops.contractions import Contraction
from tiduc.dialect.ops.ir_types import IrOp, IrValue
from tiduc.dialect.shapes.types import element, shape, with_shape

_PART, _ROWS, _COLUMNS, _TERMS = "part", "rows", "columns", "terms"
"""The names of the loops over the parts of a sum, over rows, over columns, and over the terms of a part.

The other loops run over batch dimensions.
"""


_INSTRUCTION = "#iree_gpu.mma_layout<NV_MMA_SYNC_F32_16x8x16_{}>"
_INSTRUCTION_TERMS = 16


@slow(
    "IREE reads operands from global memory and does not divide long sums; tiduc uses shared memory and partial sums.",
    "gpu_networks.py: bert",
)
@stage
def gpu_products(module: ir.Module) -> int:
    """Rewrites large matrix products in tiles, in place. Returns the number of rewritten products."""
    context().allow_unregistered_dialects = True  # never reset (`kernels.py` has the reason)
    return rewrite(module, {"stablehlo.dot_general": _in_tiles})


def _in_tiles(b: Emitter, op: IrOp) -> list[IrValue] | None:
    """Computes a product with the best tile. Returns None if `Product` does not support it, or if it is in a kernel."""
    product = None if is_directly_in(op, KERNEL) else Product.of(op)
    if product is None:
        return None
    tile, parts = min(product.choices(), key=lambda choice: product.cycles(*choice))
    x, y = op.operands
    return [_emit(b, x, y, Contraction.of(op), product, tile, parts)]


def _emit(
    b: Emitter, x: IrValue, y: IrValue, of: Contraction, product: Product, tile: GpuTile, parts: int
) -> IrValue:
    """Emits the product as a `linalg.generic` with one loop for each of: batch dimensions, parts, rows, columns, terms.

    Batch dimensions of size 1 have no loop. Parts have one only if there are several; then a second op adds the parts.
    """
    sizes = {f"batch {i}": n for i, n in enumerate(product.batches)} | {_PART: parts}
    outer = [name for name, n in sizes.items() if n > 1]
    sizes |= {_ROWS: product.rows, _COLUMNS: product.columns, _TERMS: product.terms_of_part(tile, parts)}
    zeros_after = parts * sizes[_TERMS] - product.terms
    loops = [*outer, _ROWS, _COLUMNS, _TERMS]

    def operand(v: IrValue, side: int) -> tuple[IrValue, list[str]]:
        """Pads an operand to whole tiles, and reshapes it so that one loop indexes each dimension.

        Returns the operand, and the name of the loop for each of its dimensions.
        """
        names = {d: [f"batch {i}"] for i, d in enumerate(of.batches[side])} | {
            of.summed[side][0]: [_PART, _TERMS]
        }
        kept = [name for d in range(len(shape(v))) for name in names.get(d, [_COLUMNS if side else _ROWS])]
        kept = [name for name in kept if name in loops]
        if zeros_after:
            high = [zeros_after if d in of.summed[side] else 0 for d in range(len(shape(v)))]
            v = b.pad(v, b.zero(with_shape(v.type, [])), [0] * len(high), high, [0] * len(high))
        return b.reshape(v, [sizes[name] for name in kept]), kept

    def places(names: Sequence[str]) -> ir.AffineMap:
        return ir.AffineMap.get(len(loops), 0, [ir.AffineExpr.get_dim(loops.index(name)) for name in names])

    (x, of_x), (y, of_y), of_z = operand(x, 0), operand(y, 1), loops[:-1]
    k = Kernel(b.place, b.location, b.settings)
    zeros = k.zero_array(ir.RankedTensorType.get([sizes[name] for name in of_z], ir.F32Type.get()))
    maps = [places(names) for names in (of_x, of_y, of_z)]
    z = k.contraction(x, y, zeros, maps, _compilation(tile, len(outer), sizes, element(x)))
    if parts > 1:
        z = b.reduce_sum(z, [outer.index(_PART)])
    return b.reshape(z, [*product.batches, product.rows, product.columns])


def _compilation(tile: GpuTile, outer: int, of: Mapping[str, int], operand: IrValue) -> ir.Attribute:
    """Returns IREE's attribute `compilation_info` for a product with this tile.

    The first `outer` loops have tiles of size 1. `of` maps the names of loops to their sizes. `operand` is the element
    type of the operands.
    """

    def sizes(first: int, *last: int) -> str:
        return str([first] * outer + list(last))

    config = {"promote_operands": "[0, 1]", "workgroup": sizes(1, tile.rows, tile.columns, 0)}
    if tile.in_tensor_cores:
        config["mma_kind"] = _INSTRUCTION.format(str(operand).upper())
        config["reduction"] = sizes(0, 0, 0, tile.terms // _INSTRUCTION_TERMS)
        config["subgroup"] = sizes(0, *tile.of_worker, 0)
    else:
        config["reduction"] = sizes(0, 0, 0, tile.terms)
        config["thread"] = sizes(1, *tile.of_worker, 0)
        if of[_ROWS] % tile.rows or of[_COLUMNS] % tile.columns:
            config["padding"] = sizes(1, tile.rows, tile.columns, tile.terms)
    lowering = ", ".join(f"{name} = {config[name]}" for name in sorted(config))
    return ir.Attribute.parse(
        f"#iree_codegen.compilation_info<lowering_config = #iree_gpu.lowering_config<{{{lowering}}}>, "
        "translation_info = #iree_codegen.translation_info<pipeline = #iree_gpu.pipeline<TileAndFuse> "
        f"workgroup_size = [{tile.threads}, 1, 1] subgroup_size = 32>>"
    )
