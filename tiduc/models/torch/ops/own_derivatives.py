"""Keeps the user-defined derivative of each `torch.autograd.Function`, which an export would drop.

    y = F.apply(x)                                          in the module
    y, cx = invoke_subgraph(graph, "F:1:0", x, zeros)       in the exported program; graph is (x, cy) -> (y, cx)
    func.func private @F(%x) attributes {tidu.vjp = @graph} in the module that torch-mlir returns

`graph` traces the function's `forward` and `backward`.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import count
from typing import Any

from tiduc.dialect.errors import Unsupported
from tiduc.models.torch.ops.framework import torch

_NUMBERS = count()


class _Context:
    """The argument `ctx` of `forward` and `backward`. Stores the tensors and attributes that `forward` sets on it."""

    def __init__(self, needs_input_grad: tuple[bool, ...]) -> None:
        self.needs_input_grad = needs_input_grad
        self.saved_tensors: tuple[Any, ...] = ()

    def save_for_backward(self, *tensors: torch.Tensor) -> None:
        self.saved_tensors = tensors

    def save_for_forward(self, *tensors: torch.Tensor) -> None:
        """Does nothing, because forward-mode derivatives of these functions are not supported."""

    def mark_non_differentiable(self, *outputs: torch.Tensor) -> None:
        if any(map(_is_active, outputs)):
            raise Unsupported(
                "mark_non_differentiable of floats is not supported; detach the result of apply instead"
            )

    def mark_dirty(self, *inputs: torch.Tensor) -> None:
        raise Unsupported("mark_dirty is not supported; return a new tensor from forward")

    def set_materialize_grads(self, value: bool) -> None:
        """Does nothing, because every cotangent that `backward` gets is a tensor."""


@contextmanager
def own_derivatives() -> Iterator[None]:
    """Context manager for an export. In its body, `torch.autograd.Function.apply` keeps the function's derivative."""

    def apply(cls: type[torch.autograd.Function], /, *args: torch.Tensor | float, **kwargs: object) -> Any:
        if cls.__module__.startswith(
            ("torch._higher_order_ops", "torch._library")
        ):  # classes of torch.cond and of custom operators
            return own.__get__(None, cls)(*args, **kwargs)
        return _applied(cls, args, kwargs)

    own = torch.autograd.Function.__dict__["apply"]
    torch.autograd.Function.apply = classmethod(apply)
    try:
        yield
    finally:
        torch.autograd.Function.apply = own


def _applied(
    cls: type[torch.autograd.Function], args: Sequence[torch.Tensor | float], kwargs: Mapping[str, object]
) -> tuple[torch.Tensor, torch.Tensor]:
    """Calls the function through a subgraph and returns the results. The subgraph also computes the VJP."""
    places = [i for i, x in enumerate(args) if isinstance(x, torch.Tensor)]
    needs = tuple(isinstance(x, torch.Tensor) and _is_active(x) for x in args)

    def forward(tensors: Sequence[torch.Tensor]) -> tuple[tuple[torch.Tensor, torch.Tensor], _Context]:
        given, context = list(args), _Context(needs)
        for i, x in zip(places, tensors, strict=True):
            given[i] = x
        if cls.setup_context is torch.autograd.Function.setup_context:
            return cls.forward(context, *given, **kwargs), context
        results = cls.forward(*given, **kwargs)
        cls.setup_context(context, tuple(given), results)
        return results, context

    def derivative(*operands: torch.Tensor) -> tuple[torch.Tensor, ...]:
        """Returns the function's results, followed by the cotangents of the float arguments."""
        tensors, seeds = operands[: len(places)], iter(operands[len(places) :])
        results, context = forward(tensors)
        given = cls.backward(context, *(next(seeds) if _is_active(y) else None for y in _all(cls, results)))
        given = given if isinstance(given, tuple) else (given,)
        cotangents = [(given[i], x) for i, x in zip(places, tensors, strict=True) if _is_active(x)]
        return tuple(
            y.clone()
            for y in (
                *_all(cls, results),
                *(torch.zeros_like(x) if c is None else c.to(x.dtype) for c, x in cotangents),
            )
        )

    operands = [args[i] for i in places]
    with torch._C._AutoDispatchBelowAutograd():
        results = forward(operands)[0]  # only the types of these results are used; their ops are dead
        tensors = _all(cls, results)
        seeds = [torch.zeros_like(y) for y in tensors if _is_active(y)]
        name = f"{cls.__name__}:{len(tensors)}:{next(_NUMBERS)}"  # unique, because PyTorch traces a name once
        computed = torch.ops.higher_order.invoke_subgraph(derivative, name, *operands, *seeds)
    return tuple(computed[: len(tensors)]) if isinstance(results, tuple | list) else computed[0]


def _all(cls: type, results: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    """Converts the results to a list. Raises `Unsupported` if a result is not a tensor."""
    found = list(results) if isinstance(results, tuple | list) else [results]
    if not all(isinstance(y, torch.Tensor) for y in found):
        raise Unsupported(
            f"{cls.__name__}.forward returns a result that is not a tensor; return tensors only"
        )
    return found


def _is_active(x: torch.Tensor) -> bool:
    return bool(x.is_floating_point() or x.is_complex())
