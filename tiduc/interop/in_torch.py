"""A program as a PyTorch function: `backward` and `vmap` call functions of programs that tiduc derives."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import ml_dtypes
import numpy as np
import torch

from tiduc.interop.derived import arguments_of, batched, cotangents, differentiable_outputs, tangents
from tiduc.program import Program
from tiduc.runtime.arrays import Array

if TYPE_CHECKING:
    from torch._functorch.autograd_function import VmapInfo


def function(program: Program) -> Callable[..., Any]:
    """The program as a function of tensors. Errors are those of `Program.__call__`."""

    def run(*arguments: torch.Tensor, **named: torch.Tensor) -> torch.Tensor:
        given = arguments_of(program, arguments, named)
        operands = [from_numpy(x) if isinstance(x, np.ndarray) else x for x in given]  # weights are arrays
        results = _Call.apply(program, *operands)
        return results[0] if len(results) == 1 else results

    run.__name__ = program.name
    return run


class _Call(torch.autograd.Function):
    """One call of a program; a derivative of the call is a call of the derived program."""

    @staticmethod
    def forward(program: Program, *arguments: torch.Tensor) -> tuple[torch.Tensor, ...]:
        results = program.on("cpu").compiled(*map(to_numpy, arguments))
        return tuple([from_numpy(y) for y in results])

    @staticmethod
    def setup_context(
        ctx: torch.autograd.function.FunctionCtx,
        inputs: Sequence[Program | torch.Tensor],
        output: Sequence[torch.Tensor],
    ) -> None:
        ctx.program, *arguments = inputs
        smooth = differentiable_outputs(ctx.program)
        ctx.mark_non_differentiable(*(y for i, y in enumerate(output) if i not in smooth))
        ctx.save_for_backward(*arguments)
        ctx.save_for_forward(*arguments)

    @staticmethod
    def backward(ctx: torch.autograd.function.FunctionCtx, *cts: torch.Tensor) -> tuple[Any, ...]:
        wrt = tuple([i for i, needed in enumerate(ctx.needs_input_grad[1:]) if needed])
        seeds = [cts[i] for i in differentiable_outputs(ctx.program)]
        results = dict(
            zip(wrt, _Call.apply(cotangents(ctx.program, wrt), *ctx.saved_tensors, *seeds), strict=True)
        )
        return None, *(results.get(i) for i in range(len(ctx.saved_tensors)))

    @staticmethod
    def jvp(
        ctx: torch.autograd.function.FunctionCtx, _: torch.Tensor | None, *given: torch.Tensor
    ) -> tuple[torch.Tensor, ...]:
        active = tuple([i for i, dx in enumerate(given) if dx is not None])
        dy = _Call.apply(tangents(ctx.program, active), *ctx.saved_tensors, *(given[i] for i in active))
        of = dict(zip(differentiable_outputs(ctx.program), dy, strict=True))
        return tuple([of.get(i) for i in range(len(ctx.program.outputs))])

    @staticmethod
    def vmap(
        info: "VmapInfo", axes: Sequence[int | None], program: Program, *arguments: torch.Tensor
    ) -> tuple[Any, Any]:
        results = _Call.apply(batched(program, tuple(axes[1:]), info.batch_size), *arguments)
        return results, (0,) * len(results)


def to_numpy(x: torch.Tensor) -> Any:
    """A tensor on the CPU as a NumPy array that shares its memory; bf16 by way of its bits."""
    x = torch.as_tensor(x).detach()
    if x.dtype is torch.bfloat16:
        return x.contiguous().view(torch.int16).numpy().view(ml_dtypes.bfloat16)
    return x.resolve_conj().resolve_neg().numpy()


def from_numpy(x: Array) -> torch.Tensor:
    """A NumPy array as a tensor that shares its memory."""
    if x.dtype == ml_dtypes.bfloat16:
        return torch.from_numpy(x.view(np.int16)).view(torch.bfloat16)
    return torch.from_numpy(x)
