"""separate_half_products: if the target is a GPU, computes products and convolutions of f16 and bf16 in f32.

    %z = dot_general %x, %y : f16 -> f32    ->    %u = convert %x : f32
                                                  %v = convert %y : f32
                                                  %b:2 = optimization_barrier %u, %v
                                                  %z = dot_general %b#0, %b#1 : f32

On NVIDIA's GPUs, IREE 3.13 multiplies f16 and bf16 in tensor cores, in tiles of 16 by 16 elements. If IREE must pad the
tiles, some batches of products and some convolutions with one-element windows are wrong. The pass `gpu_products` pads
the contracted dimensions itself and uses only whole tiles of rows and columns. The products that it computes are right,
so they keep f16 and bf16.

On SPIR-V, if the GPU has cooperative matrices, IREE or the driver rejects some products of f16 and bf16. The barrier is
needed, because IREE would otherwise fuse the conversions with the product and multiply the narrow types.
"""

from collections.abc import Sequence

from torch_mlir import ir

from tiduc.backends.iree.emit.emitter import Emitter, rewrite
from tiduc.backends.iree.emit.gpu_tiles import Product
from tiduc.backends.iree.fault import crash, wrong
from tiduc.backends.iree.settings import Settings
from tiduc.dialect.ops.ir_types import IrOp, IrValue
from tiduc.dialect.shapes.types import element

_PRODUCT = "stablehlo.dot_general"
_UNTESTED = "no test runs on such a GPU"


@wrong(
    "On NVIDIA's GPUs, some convolutions and batched products of f16 and bf16 are wrong; tiduc computes in f32.",
    "cuda/half_batches",
    untested=_UNTESTED,
)
@crash(
    "On SPIR-V, some products of f16 and bf16 do not compile; tiduc multiplies in f32.",
    "vulkan/half_product",
    untested=_UNTESTED,
)
def separate_half_products(module: ir.Module | IrOp, settings: Settings) -> None:
    """If the target is a GPU, converts the f16 and bf16 operands of products and convolutions to f32, in place.

    Does not change the products that `gpu_products` computes in tensor cores.
    """
    if not (settings.cuda or settings.spirv):
        return

    def pattern(b: Emitter, op: IrOp) -> Sequence[IrValue] | None:
        half = [i for i, x in enumerate(op.operands) if isinstance(element(x), ir.F16Type | ir.BF16Type)]
        in_tensor_cores = settings.tensor_cores and settings.fast and op.name == _PRODUCT
        if not half or (in_tensor_cores and Product.of(op)):
            return None
        wide = b.barrier(*(b.convert(op.operands[i], ir.F32Type.get()) for i in half))
        return b.clone(op, dict(zip(half, wide, strict=True)))

    rewrite(module, dict.fromkeys((_PRODUCT, "stablehlo.convolution"), pattern))
