"""Keeps PyTorch's gradient stops, which an export would drop: `detach`, `no_grad` and padding rows of embeddings.

y = x.detach()   ->   torch.ops.tiduc.stop_gradient(x)   ->   stablehlo.composite "tidu.stop_gradient"
"""

import functools
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import TYPE_CHECKING, Any

from torch_mlir import ir

from tiduc.dialect.errors import Unsupported
from tiduc.dialect.ops.ir_types import IrOp, IrValue
from tiduc.dialect.ops.verify import STOP_GRADIENT
from tiduc.models.expansions import Expansion

if TYPE_CHECKING:
    import torch


def composite(call: IrOp, module: ir.Module) -> Sequence[IrValue]:
    """Replaces a call of the stop operator by a composite that stops gradients, and adds its decomposition to `module`.

    The decomposition is an identity function. Returns the result of the composite.
    """
    (x,) = call.operands
    function = f"{STOP_GRADIENT}.{len(list(module.body.operations))}"
    text = f'func.func private @"{function}"(%x: {x.type}) -> {x.type} {{ return %x : {x.type} }}'
    module.body.append(ir.Operation.parse(text))
    attributes = {
        "name": ir.StringAttr.get(STOP_GRADIENT),
        "decomposition": ir.FlatSymbolRefAttr.get(function),
    }
    return [ir.Operation.create("stablehlo.composite", [call.result.type], [x], attributes).result]


STOPS: dict[str, Expansion] = {"torch.tiduc.stop_gradient": composite}
"""Maps the name of the stop operator to its expansion."""


def stops(torch: Any) -> dict[Any, Callable[..., Any]]:
    """Maps overloads of PyTorch's operators to decompositions that insert stops.

    The result is an argument of `ExportedProgram.run_decompositions`.
    """
    aten, stop = torch.ops.aten, _operator(torch)

    def detach(x: "torch.Tensor") -> "torch.Tensor":
        return stop(x) if x.is_floating_point() or x.is_complex() else NotImplemented

    def embedding(
        weight: "torch.Tensor",
        indices: "torch.Tensor",
        padding_idx: int = -1,
        scale: bool = False,
        sparse: bool = False,
    ) -> Any:
        if scale:
            raise Unsupported(
                "scale_grad_by_freq of an embedding is not supported, because it changes only the derivative"
            )
        if padding_idx < 0:
            return NotImplemented
        rows = torch.index_select(weight, 0, indices.reshape(-1))
        rows = rows.reshape(*indices.shape, weight.shape[1])
        return torch.where((indices == padding_idx).unsqueeze(-1), stop(rows), rows)

    return {aten.detach.default: detach, aten.embedding.default: embedding}


@functools.cache
def _operator(torch: ModuleType) -> Any:
    """Defines the PyTorch operator `tiduc::stop_gradient`, which torch-mlir cannot look into. Returns its overload."""
    name, schema = "tiduc::stop_gradient", "(Tensor x) -> Tensor"
    operator = torch.library.custom_op(name, lambda x: x.clone(), mutates_args=(), schema=schema)
    operator.register_fake(torch.empty_like)
    return torch.ops.tiduc.stop_gradient.default


def mark_stops(torch: ModuleType, exported: "torch.export.ExportedProgram") -> None:
    """Inserts gradient stops into an `ExportedProgram`, for the results of `torch.no_grad` blocks and for `detach_`."""
    block, in_place = torch.ops.higher_order.wrap_with_set_grad_enabled, torch.ops.aten.detach_.default
    fresh = torch.ops.aten.lift_fresh_copy.default
    for module in list(exported.graph_module.modules()):
        for node in list(getattr(getattr(module, "graph", None), "nodes", ())):
            if node.target is block and not node.args[0]:
                inside = getattr(module, node.args[1].target)
                if any(other.target is block and other.args[0] for other in inside.graph.nodes):
                    raise Unsupported(
                        "torch.enable_grad inside torch.no_grad is not supported: an export loses it"
                    )
                for item in list(node.users):
                    _stop_at(torch, module.graph, item, item, [item])
            elif node.target is in_place and node.args[0].target is not fresh:  # `fresh` copies a constant
                _stop_at(torch, module.graph, node.args[0], node, [node.args[0], node])


def stop_reads(torch: ModuleType, graph: "torch.fx.Graph", placeholder: "torch.fx.Node") -> None:
    """Replaces all reads of an input by reads of a stopped copy, so that no gradient reaches the input."""
    last = [node for node in graph.nodes if node.op == "placeholder"][-1]
    _stop_at(torch, graph, placeholder, last, [placeholder])


def stop_result(torch: ModuleType, output: "torch.fx.Node", value: "torch.fx.Node") -> "torch.fx.Node":
    """Inserts a node before `output`, the node that returns the graph's results. The new node stops `value`'s gradient.

    Returns the new node, or `value` if it has no derivative.
    """
    if not _is_smooth(torch, value):
        return value
    with output.graph.inserting_before(output):
        return _stopped(torch, output.graph, value)


def _stop_at(
    torch: ModuleType,
    graph: "torch.fx.Graph",
    value: "torch.fx.Node",
    place: "torch.fx.Node",
    names: "Sequence[torch.fx.Node]",
) -> None:
    """Inserts a node after `place` that stops the gradient of `value`.

    `names` are nodes that return the same tensor as `value`. Reads of `names` after the new node become reads of it.
    """
    if not _is_smooth(torch, value):
        return
    with graph.inserting_after(place):
        stopped = _stopped(torch, graph, value)
    for each in names:
        each.replace_all_uses_with(stopped, lambda user: stopped < user)


def _is_smooth(torch: ModuleType, value: "torch.fx.Node") -> bool:
    tensor = value.meta["val"]
    return isinstance(tensor, torch.Tensor) and (tensor.is_floating_point() or tensor.is_complex())


def _stopped(torch: ModuleType, graph: "torch.fx.Graph", value: "torch.fx.Node") -> "torch.fx.Node":
    stopped = graph.call_function(_operator(torch), (value,))
    stopped.meta |= value.meta
    return stopped
