"""Gradients of PyTorch functions. `torch.compile` traces a function to graphs, which tiduc differentiates."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch.utils import _pytree as pytree

from tiduc.dialect.errors import RequestError
from tiduc.live.torch_graphs import backend

Differentiable = Callable[..., Any]
"""A function of pytrees of tensors."""


def gradient(function: Differentiable, argnums: int | Sequence[int], has_aux: bool) -> Differentiable:
    """The function that `tiduc.grad` returns."""
    compiled = torch.compile(function, backend=backend, options={"fallback": False})
    places = (argnums,) if isinstance(argnums, int) else tuple(argnums)

    def call(*arguments: object, **keywords: object) -> object:
        if torch._C._functorch.peek_interpreter_stack() is not None:
            raise RequestError(
                "tiduc.grad cannot run inside transforms of torch.func; compile the whole transform: "
                'torch.compile(torch.func.vmap(torch.func.grad(f)), backend="tiduc")'
            )
        given = list(arguments)
        tracked: list[torch.Tensor] = []
        with torch.enable_grad():
            for i in places:
                given[i] = pytree.tree_map(lambda x, i=i: _tracked(x, i, tracked), arguments[i])
            result = compiled(*given, **keywords)
            result, aux = result if has_aux else (result, None)
            _check(result)
        is_differentiable = torch.is_grad_enabled() and _reads_others(result, tracked)
        slopes = iter(
            torch.autograd.grad(
                result, tracked, create_graph=is_differentiable, allow_unused=True, materialize_grads=True
            )
        )
        gradients = [pytree.tree_map(lambda _: next(slopes), arguments[i]) for i in places]
        chosen = gradients[0] if isinstance(argnums, int) else tuple(gradients)
        if not is_differentiable:
            aux = pytree.tree_map(lambda x: x.detach() if isinstance(x, torch.Tensor) else x, aux)
        return (chosen, aux) if has_aux else chosen

    # If a traced function calls this function, the traced graph ends before the call.
    found: Callable[..., Any] = torch.compiler.disable(call)
    return found


def _tracked(x: object, i: int, tracked: list[torch.Tensor]) -> torch.Tensor:
    """A new tensor that has the elements of x and requires a gradient. Appends the tensor to `tracked`.

    Raises `RequestError` if x is not a tensor of real or complex floats.
    """
    if not isinstance(x, torch.Tensor) or not (x.is_floating_point() or x.is_complex()):
        raise RequestError(
            f"argument {i} has a leaf that is not a tensor of floats: {x!r}; leave it out of argnums"
        )
    tracked.append(x.view_as(x) if x.requires_grad else x.detach().requires_grad_())
    return tracked[-1]


def _check(result: object) -> None:
    if not isinstance(result, torch.Tensor) or result.numel() != 1 or result.dim() or result.is_complex():
        shape = list(result.shape) if isinstance(result, torch.Tensor) else type(result).__name__
        raise RequestError(f"the function must return a real scalar tensor, not {shape}")
    if not result.requires_grad:
        raise RequestError(
            "the result of the function does not depend differentiably on the arguments of the function"
        )


def _reads_others(result: torch.Tensor, tracked: Sequence[torch.Tensor]) -> bool:
    """Whether the result depends on a tensor that requires a gradient and is not in `tracked`."""
    own = {id(x) for x in tracked if x.is_leaf}
    return any(id(x) not in own for x in _leaves(result.grad_fn))


def _leaves(node: torch.autograd.graph.Node | None) -> Iterator[torch.Tensor]:
    """The leaf tensors on which a node of PyTorch's autograd graph depends."""
    waiting, seen = [node], set()
    while waiting:
        node = waiting.pop()
        if node is None or node in seen:
            continue
        seen.add(node)
        if hasattr(node, "variable"):
            yield node.variable
        waiting += [next_node for next_node, _ in node.next_functions]
