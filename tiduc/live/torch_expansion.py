"""Replaces gradients that a graph of `torch.compile` takes, as by `torch.func.grad`, by PyTorch's derivatives."""

from collections.abc import Sequence

import torch
from torch._decomp import decomposition_table
from torch.fx.experimental.proxy_tensor import make_fx

from tiduc.dialect.errors import Unsupported
from tiduc.live.torch_layout import Input
from tiduc.models.torch.faults import located


def without_derivatives(graph: torch.fx.GraphModule, inputs: Sequence[Input]) -> torch.fx.GraphModule:
    """The graph in which PyTorch operators compute the gradients that the graph takes.

    A graph that takes no gradients is returned unchanged. Raises `Unsupported` if the graph takes gradients and an
    input requires a gradient, because the operators would not show where derivatives stop (`detach`).
    """
    names = {getattr(node.target, "__name__", "") for node in graph.graph.nodes}
    if "_grad_increment_nesting" not in names:
        return graph
    if torch.is_grad_enabled() and any(getattr(x, "requires_grad", False) for x in inputs):
        raise Unsupported(
            "the graph takes a gradient by torch.func, and an input requires a gradient; detach the input"
        )
    examples = [x.detach() if isinstance(x, torch.Tensor) else x for x in inputs]
    derivatives = {op: of for op, of in decomposition_table.items() if "backward" in str(op)}
    with located("PyTorch cannot trace a gradient", Unsupported):
        found: torch.fx.GraphModule = make_fx(graph, derivatives, tracing_mode="fake")(*examples)
    for name, value in [(name, x) for name, x in vars(found).items() if isinstance(x, torch.Tensor)]:
        delattr(found, name)
        found.register_buffer(name, value)  # `torch.export` finds only tensors that are buffers or parameters
    return found
