"""Decomposes the VJP of a convolution, because torch-mlir lowers it only for some strides, dilations and groups.

y = conv(x, w)   ->   cx = conv_transpose(cy, w)
                      cw = conv(x, cy), with batch and channels exchanged, and stride and dilation exchanged
"""

from collections.abc import Sequence
from typing import Any

from tiduc.models.torch.ops.framework import aten, decomposes, torch


@decomposes(aten.convolution_backward.default)
def convolution_backward(
    ct: torch.Tensor,
    x: torch.Tensor,
    w: torch.Tensor,
    bias_sizes: Sequence[int] | None,
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    transposed: bool,
    output_padding: Sequence[int],
    groups: int,
    needed: Sequence[bool],
) -> tuple[Any, Any, Any]:
    """The cotangents of the operand, the kernel and the bias. A cotangent is None if its flag in `needed` is false."""
    rank = w.dim() - 2
    stride, padding, dilation = (_of_rank(rank, given) for given in (stride, padding, dilation))
    zeros = [0] * rank
    cx = cw = cb = None
    if needed[0] and transposed:
        cx = torch.convolution(ct, w, None, stride, padding, dilation, False, zeros, groups)
    elif needed[0]:
        cx = torch.convolution(ct, w, None, stride, zeros, dilation, True, zeros, groups)
        for d in range(rank):  # crops the result, because torch-mlir exchanges dimensions if paddings differ
            missing = padding[d] + x.shape[2 + d] - cx.shape[2 + d]
            if missing > 0:
                shape = [*cx.shape[: 2 + d], missing, *cx.shape[3 + d :]]
                cx = torch.cat([cx, cx.new_zeros(shape)], 2 + d)
            cx = cx.narrow(2 + d, padding[d], x.shape[2 + d])
    if needed[1]:
        image, kernel = (ct, x) if transposed else (x, ct)
        parts = [
            torch.convolution(
                a.transpose(0, 1), b.transpose(0, 1), None, dilation, padding, stride, False, zeros, 1
            )
            for a, b in zip(image.chunk(groups, 1), kernel.chunk(groups, 1), strict=True)
        ]
        cw = torch.cat([part.transpose(0, 1) for part in parts])
        for d in range(rank):
            cw = cw.narrow(2 + d, 0, w.shape[2 + d])
    if needed[2]:
        cb = ct.sum([0, *range(2, 2 + rank)])
    return cx, cw, cb


def _of_rank(rank: int, given: Sequence[int]) -> list[int]:
    return list(given) * rank if len(given) == 1 else list(given)
