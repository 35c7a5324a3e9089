"""A program as a PyTorch function. Its derivatives and its `vmap` call programs that tiduc derives.

If an argument requires a gradient, a call runs the forward part of the program's VJP, and `backward` runs the backward
part.
"""

import atexit
import weakref
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import ml_dtypes
import numpy as np
import torch

from tiduc.backends.backend import Runnable
from tiduc.interop.derived import (
    TwoParts,
    arguments_of,
    batched,
    cotangents,
    differentiable_outputs,
    parts_of,
    tangents,
)
from tiduc.program import Program
from tiduc.runtime.arrays import Array

if TYPE_CHECKING:
    from torch._functorch.autograd_function import VmapInfo


def function(program: Program) -> Callable[..., Any]:
    """A function of tensors that calls the program. The function raises the errors of `Program.__call__`."""

    def run(*arguments: torch.Tensor, **named: torch.Tensor) -> torch.Tensor:
        given = arguments_of(program, arguments, named)
        operands = [
            from_numpy(x) if isinstance(x, np.ndarray) else x for x in given
        ]  # default weights are NumPy arrays
        results = called(program, operands)
        return results[0] if len(results) == 1 else results

    run.__name__ = program.name
    return run


def called(program: Program, arguments: Sequence[torch.Tensor]) -> tuple[torch.Tensor, ...]:
    """Calls a program, and returns its outputs as tensors that PyTorch can differentiate.

    `arguments` has a tensor for each input.
    """
    parts = parts_for(program, arguments)
    if parts is None:
        return tuple(_Call.apply(program, *arguments))
    is_functional = torch._C._functorch.peek_interpreter_stack() is not None
    return tuple(_Parted.apply(parts, is_functional, *arguments)[: parts.count])


def parts_for(program: Program, arguments: Sequence[torch.Tensor]) -> TwoParts | None:
    """The two parts of the VJP with respect to the arguments that require a gradient.

    Returns None if no gradient is needed, or if the VJP cannot be split into two parts.
    """
    if not torch.is_grad_enabled() or not differentiable_outputs(program):
        return None
    wrt = tuple([i for i, x in enumerate(arguments) if getattr(x, "requires_grad", False)])
    return parts_of(program, wrt) if wrt else None


def compiled(program: Program) -> Runnable:
    """The compiled program. `_release` releases it when the process exits."""
    _COMPILED.add(program)
    return program.on("cpu").compiled


_COMPILED: "weakref.WeakSet[Program]" = weakref.WeakSet()


@atexit.register
def _release() -> None:
    """Releases IREE's objects. PyTorch's graphs may keep them alive until the end, and IREE would report leaks."""
    for program in list(_COMPILED):
        program._calls.clear()


class _Call(torch.autograd.Function):
    """One call of a program. A derivative of the call is a call of a derived program."""

    @staticmethod
    def forward(program: Program, *arguments: torch.Tensor) -> tuple[torch.Tensor, ...]:
        results = compiled(program)(*map(to_numpy, arguments))
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
    ) -> tuple[tuple[torch.Tensor, ...], tuple[int, ...]]:
        results = _Call.apply(batched(program, tuple(axes[1:]), info.batch_size), *arguments)
        return results, (0,) * len(results)


class _Parted(torch.autograd.Function):
    """One call of the forward part of a VJP.

    `backward` calls the backward part of the VJP. In derivatives of higher order, the residuals have cotangents, too;
    then `backward` calls the VJP of the forward part instead.
    """

    @staticmethod
    def forward(parts: TwoParts, _: bool, *arguments: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return _Call.forward(parts.forward, *arguments)

    @staticmethod
    def setup_context(
        ctx: torch.autograd.function.FunctionCtx,
        inputs: Sequence[TwoParts | bool | torch.Tensor],
        output: Sequence[torch.Tensor],
    ) -> None:
        ctx.parts, is_functional, *arguments = inputs
        ctx.program = ctx.parts.forward
        smooth = differentiable_outputs(ctx.program)
        ctx.mark_non_differentiable(*(y for i, y in enumerate(output) if i not in smooth))
        ctx.set_materialize_grads(False)
        ctx.types = [(y.shape, y.dtype) for y in output]
        read = {i for kind, i in ctx.parts.residuals if kind == "input"}
        # Saves only the arguments that `backward` reads. As with PyTorch's own functions, users may then change other
        # arguments in place.
        ctx.saved = [i for i in range(len(arguments)) if is_functional or i in read]
        ctx.save_for_backward(*(arguments[i] for i in ctx.saved), *output)
        ctx.save_for_forward(*arguments)
        ctx.others = {} if is_functional else {i: x for i, x in enumerate(arguments) if i not in read}
        ctx.versions = {i: x._version for i, x in ctx.others.items()}

    @staticmethod
    def backward(
        ctx: torch.autograd.function.FunctionCtx, *cts: torch.Tensor | None
    ) -> tuple[torch.Tensor | None, ...]:
        parts, tensors = ctx.parts, ctx.saved_tensors
        inputs = ctx.others | dict(zip(ctx.saved, tensors, strict=False))
        outputs = tensors[len(ctx.saved) :]
        seeds = [
            torch.zeros(shape, dtype=dtype) if ct is None else ct
            for (shape, dtype), ct in zip(ctx.types, cts, strict=True)
        ]
        smooth = differentiable_outputs(ctx.program)
        if all(ct is None for ct in cts[parts.count :]):
            of = {"input": inputs, "output": outputs}
            residuals = [of[kind][i] for kind, i in parts.residuals]
            read = [seeds[i] for i in smooth if i < parts.count]
            results = _Call.apply(parts.backward, *residuals, *read)
        else:
            if any(ctx.others[i]._version != version for i, version in ctx.versions.items()):
                raise RuntimeError(
                    "an argument of a program was changed in place before a second derivative was computed"
                )
            given = [inputs[i] for i in range(len(inputs))]
            read = [seeds[i] for i in smooth]
            results = _Call.apply(cotangents(ctx.program, parts.wrt), *given, *read)
        found = dict(zip(parts.wrt, results, strict=True))
        return None, None, *(found.get(i) for i in range(len(inputs)))

    @staticmethod
    def jvp(
        ctx: torch.autograd.function.FunctionCtx, *given: torch.Tensor | None
    ) -> tuple[torch.Tensor, ...]:
        return _Call.jvp(ctx, *given[1:])

    @staticmethod
    def vmap(
        info: "VmapInfo", axes: Sequence[int | None], parts: TwoParts, _: bool, *arguments: torch.Tensor
    ) -> tuple[tuple[torch.Tensor, ...], tuple[int, ...]]:
        return _Call.vmap(info, axes[1:], parts.forward, *arguments)


def to_numpy(x: torch.Tensor) -> Any:
    """A tensor on the CPU as a NumPy array.

    The array shares the tensor's memory, unless the elements must be copied, as for a lazily conjugated tensor.
    """
    x = torch.as_tensor(x).detach()
    if x.dtype is torch.bfloat16:
        return x.contiguous().view(torch.int16).numpy().view(ml_dtypes.bfloat16)
    return x.resolve_conj().resolve_neg().numpy()


def from_numpy(x: Array) -> torch.Tensor:
    """A NumPy array as a tensor. The tensor shares the memory of the array."""
    if x.dtype == ml_dtypes.bfloat16:
        return torch.from_numpy(x.view(np.int16)).view(torch.bfloat16)
    return torch.from_numpy(x)
