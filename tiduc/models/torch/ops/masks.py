"""Rewrites masked assignments as selects.

    r[m] = f(x[m])    ->    r = where(m, f(x), r)

The size of x[m] depends on data, but the size of f(x) is that of x. f must consist of elementwise functions, as in
torchvision's `complete_box_iou_loss`. Both sides must use the same mask. The select drops the derivative, and any NaN,
of elements outside the mask. This rewrite runs before the decompositions.
"""

import operator
from collections.abc import Sequence
from typing import Any

from tiduc.dialect.errors import Unsupported
from tiduc.models.torch.ops.framework import aten, torch

_PARTS = (aten.index.Tensor, aten.masked_select.default)
_PUTS = (aten.index_put.default, aten.index_put_.default)
_SAME_SHAPE = {
    *(aten.clone.default, aten.detach.default, aten._to_copy.default, aten.to.dtype),
    *(aten.full_like.default, aten.zeros_like.default, aten.ones_like.default),
}
"""Elementwise ops that lack PyTorch's tag `pointwise`."""

_CHECKS = {
    *(aten.sym_size.int, aten._assert_scalar.default, aten.sym_constrain_range_for_size.default),
    *(operator.ge, operator.le, operator.eq, aten._assert_tensor_metadata.default),
}
"""Functions of the nodes that an export adds to check a size that depends on data."""


def select_masked(exported: torch.export.ExportedProgram) -> None:
    """Rewrites masked assignments in all graphs of an `ExportedProgram`, and removes the checks of sizes of x[mask]."""
    for module in exported.graph_module.modules():
        graph: Any = getattr(module, "graph", None)
        nodes = [n for n in graph.nodes if n.target in _PUTS] if graph is not None else []
        if any([_rewrite(graph, node) for node in nodes]):
            graph.eliminate_dead_code()
            _remove_checks(graph)
            module.recompile()


def assigned(
    x: torch.Tensor, indices: Sequence[torch.Tensor | None], values: torch.Tensor, accumulate: bool
) -> Any:
    """The tensor x after the assignment x[:, mask] = values, or with `accumulate`, x[:, mask] += values.

    All positions where the mask is true get the same value, such as a number or a row. Otherwise raises `Unsupported`.
    """
    lead, mask = next((d, index) for d, index in enumerate(indices) if index is not None)
    trail = x.dim() - lead - mask.dim()
    rows = values.dim() - trail  # dimensions of x before the mask, and one dimension for the masked positions
    if any(index is not None for index in indices[lead + 1 :]) or (rows > 0 and values.shape[rows - 1] != 1):
        raise Unsupported(
            "y[mask] = x is supported only if all masked positions get the same value; use torch.where(mask, x, y)"
        )
    if rows > 0:
        values = values.reshape(*values.shape[: rows - 1], *[1] * mask.dim(), *values.shape[rows:])
    mask = mask.reshape(*mask.shape, *[1] * trail)
    return torch.where(mask, x + values if accumulate else values, x)


def _rewrite(graph: torch.fx.Graph, node: torch.fx.Node) -> bool:
    """Replaces an assignment by a select if its values are an elementwise function of tensors x[mask].

    Returns whether the assignment was replaced.
    """
    target, indices, values, *accumulate = node.args
    mask = indices[0] if len(indices) == 1 else None
    if not (_is_mask(mask) and isinstance(values, torch.fx.Node)) or _is_static(values):
        return False
    chain: dict[Any, None] = {}
    if not _is_elementwise(mask, values, chain) or _is_changed([mask, *chain], {node, *chain}):
        return False
    copies: dict[Any, Any] = {}
    for old in chain:
        with graph.inserting_before(old):  # nodes after `old` may change its operands in place
            if _is_part(old, mask):
                copies[old] = _filled(graph, mask, old.args[0])
            else:
                copies[old] = graph.node_copy(old, lambda x: copies.get(x, x))
    with graph.inserting_before(node):
        new = copies[values]
        if accumulate and accumulate[0]:
            new = graph.call_function(aten.add.Tensor, (target, new))
        result = graph.call_function(aten.where.self, (_reshaped(graph, mask, target), new, target))
        if node.target is aten.index_put_.default:
            result = graph.call_function(aten.copy_.default, (target, result))
    result.meta = dict(node.meta)
    node.replace_all_uses_with(result)
    graph.erase_node(node)
    return True


def _filled(graph: torch.fx.Graph, mask: torch.fx.Node, x: torch.fx.Node) -> torch.fx.Node:
    """Replaces elements of x outside the mask by 1, because f or its derivative may be undefined at these elements."""
    if x.meta["val"].dtype == torch.bool:
        return graph.call_function(aten.clone.default, (x,))
    return graph.call_function(aten.where.ScalarOther, (_reshaped(graph, mask, x), x, 1))


def _reshaped(graph: torch.fx.Graph, mask: torch.fx.Node, like: torch.fx.Node) -> torch.fx.Node:
    """Reshapes the mask to the rank of `like` by dimensions of size 1 at the end."""
    sizes = list(mask.meta["val"].shape)
    rest = like.meta["val"].dim() - len(sizes)
    return graph.call_function(aten.reshape.default, (mask, [*sizes, *[1] * rest]))


def _is_mask(node: torch.fx.Node) -> bool:
    return isinstance(node, torch.fx.Node) and node.meta["val"].dtype == torch.bool


def _is_part(node: torch.fx.Node, mask: torch.fx.Node) -> bool:
    """Whether the node computes x[mask] for some x."""
    if node.target is aten.masked_select.default:
        return node.args[1] is mask and node.args[0].meta["val"].shape == mask.meta["val"].shape
    return node.target is aten.index.Tensor and list(node.args[1]) == [mask]


def _is_static(node: torch.fx.Node) -> bool:
    return all(isinstance(n, int) for n in node.meta["val"].shape)


def _is_elementwise(mask: torch.fx.Node, node: torch.fx.Node, chain: dict[torch.fx.Node, None]) -> bool:
    """Whether the node is computed from tensors x[mask] by elementwise functions.

    Adds the node and the nodes from which it is computed to `chain`, in order.
    """
    if node in chain:
        return True
    if not _is_part(node, mask):
        if not _is_pointwise(node.target) or (_is_mutable(node.target) and not _is_last(node)):
            return False
        rank = node.meta["val"].dim()
        for operand in node.all_input_nodes:
            value = operand.meta["val"]
            if not isinstance(value, torch.Tensor):
                return False
            if _is_static(operand):
                if value.dim() >= rank:
                    return False  # one element of the operand is combined with each masked position
            elif value.dim() != rank or not _is_elementwise(mask, operand, chain):
                return False
    chain[node] = None
    return True


def _is_pointwise(function: object) -> bool:
    if not isinstance(function, torch._ops.OpOverload) or torch.Tag.nondeterministic_seeded in function.tags:
        return False
    named = function in _SAME_SHAPE or "stop_gradient" in str(function)
    return named or torch.Tag.pointwise in function.tags


def _is_mutable(function: torch._ops.OpOverload) -> bool:
    return bool(function._schema.is_mutable)


def _is_last(node: torch.fx.Node) -> bool:
    """Whether the value that this node changes in place is read only by this node and by checks."""
    return all(user is node or user.target in _CHECKS for user in node.args[0].users)


def _is_changed(nodes: Sequence[torch.fx.Node], known: set[torch.fx.Node]) -> bool:
    """Whether a user of one of the nodes returns a view of it or changes it in place. Ignores the users in `known`."""
    users = {user for node in nodes for user in node.users} - known
    schemas = [getattr(user.target, "_schema", None) for user in users]
    return any(s is not None and any(y.alias_info is not None for y in s.returns) for s in schemas)


def _remove_checks(graph: torch.fx.Graph) -> None:
    """Erases nodes x[mask] that only checks read, directly or through elementwise functions, and all their readers."""
    for node in [n for n in graph.nodes if n.target in _PARTS]:
        readers, todo = {node: None}, [node]
        while todo:
            for user in todo.pop().users:
                if user not in readers:
                    readers[user] = None
                    todo.append(user)
        if all(each is node or each.target in _CHECKS or _is_pointwise(each.target) for each in readers):
            for each in sorted(readers, reverse=True):
                graph.erase_node(each)
