"""Turns the control flow of an exported program into calls of functions with StableHLO's `if` and `while`.

    torch.ops.higher_order.cond(p, true_graph_0, false_graph_0, (x,))
    ->    func.func private @cond(%p, %x) {
            stablehlo.if %p { func.call @true_graph_0_0(%x) } { func.call @false_graph_0_1(%x) }
          }

Each subgraph becomes a function of the module. Its name is the name of the subgraph's attribute and a unique number.
"""

from collections.abc import Callable, Iterator, Sequence
from itertools import count

from tiduc.dialect.errors import Unsupported
from tiduc.models.emitted_text import Body, TextTensor
from tiduc.models.torch.ops.calls import element, operator
from tiduc.models.torch.ops.framework import torch

Types = list[tuple[Sequence[int], str]]


def lower_control(exported: torch.export.ExportedProgram) -> None:
    """Replaces the control-flow operators in an `ExportedProgram` and in all of its subgraphs.

    Raises `Unsupported` for all other higher-order operators, and if an operator has dynamic shapes.
    """
    _lower(exported.graph_module, count())


def _lower(module: torch.fx.GraphModule, numbers: Iterator[int]) -> None:
    names = {}
    for old, inner in list(module.named_children()):
        _lower(inner, numbers)
        names[old] = f"{old}_{next(numbers)}"  # a name that is unique in the whole program
        delattr(module, old)
        setattr(module, names[old], inner)
    for node in list(module.graph.nodes):
        if node.op == "get_attr":
            node.target = names.get(node.target, node.target)
        elif node.target is torch.ops.higher_order.invoke_subgraph:
            _replace_own_derivative(module.graph, node)
        elif isinstance(node.target, torch._ops.HigherOrderOperator):
            emit = _OPERATORS.get(node.target.name())
            if emit is None:
                raise Unsupported(f"torch.ops.higher_order.{node.target.name()} has no lowering to StableHLO")
            _replace(module.graph, node, emit, set(names.values()))
    module.graph.eliminate_dead_code()


def _replace(
    graph: torch.fx.Graph, node: torch.fx.Node, emit: Callable[..., list[TextTensor]], names: set[str]
) -> None:
    graphs, groups, operands = [], [], []
    for argument in node.args:
        if isinstance(argument, torch.fx.Node) and argument.op == "get_attr" and argument.target in names:
            graphs.append(argument.target)
        else:
            group = list(argument) if isinstance(argument, list | tuple) else [argument]
            groups.append(len(group))
            operands += group
    results = [y.meta["val"] if isinstance(y, torch.fx.Node) else y for y in _results(node)]
    types = [_type(node, y) for y in results]
    body = Body([_type(node, _value(x)) for x in operands])
    arguments, parts = iter(body.arguments), []
    for size in groups:
        parts.append([next(arguments) for _ in range(size)])
    _call_instead(
        graph, node, operands, body.function(node.target.name(), emit(body, types, graphs, *parts)), results
    )


def _replace_own_derivative(graph: torch.fx.Graph, node: torch.fx.Node) -> None:
    """Replaces a call of a subgraph (x, cy) -> (y, cx) by a call of a function x -> y whose VJP is this subgraph.

    A dynamic size of a result must be the size of an operand. Raises `Unsupported` if it is not.
    """
    inner, name, *operands = node.args
    symbol, kept, _ = name.split(":")
    values = _results(node)
    types, results = [_tensor_type(node, y) for y in values], values[: int(kept)]
    smooth = [y for y in results if y.is_floating_point() or y.is_complex()]
    operands = operands[: len(operands) - len(smooth)]
    body = Body([_tensor_type(node, _value(x)) for x in operands])
    zeros = [_zeros(node, body, y) for y in smooth]
    computed = _call(body, inner.target, [*body.arguments, *zeros], types)[: len(results)]
    text = body.function(symbol, computed, f"tidu.vjp = @{inner.target}")
    _call_instead(graph, node, operands, text, results)


def _zeros(node: torch.fx.Node, body: Body, y: torch.Tensor) -> TextTensor:
    """Zeros of the shape of `y`."""
    if all(isinstance(n, int) for n in y.shape):
        return body.zeros(y.shape, element(y))
    shapes, sizes = [x.sizes for x in body.arguments], []
    for n in y.shape:
        if isinstance(n, int):
            sizes.append(body.constant(f"[{n}]", [1], "i64"))
        else:
            i, d = _place(node, shapes, n)
            sizes.append(body.size(body.arguments[i], d))
    operands = body.zeros([], element(y)), body.concatenate(sizes, 0)
    return body.emit("dynamic_broadcast_in_dim", operands, y.shape, "broadcast_dimensions = array<i64>")


def _place(node: torch.fx.Node, shapes: Sequence[Sequence[int]], size: torch.SymInt) -> tuple[int, int]:
    """The index of a shape, and of a dimension of this shape, whose size is the dynamic size `size`."""
    for i, shape in enumerate(shapes):
        for d, n in enumerate(shape):
            if not isinstance(n, int) and n.node.expr == size.node.expr:
                return i, d
    raise Unsupported(
        f"{node.args[1].split(':')[0]} has a result of size {size}, and no operand has this size; "
        "pass no dynamic_shapes for its operands to torch.export"
    )


def _call_instead(
    graph: torch.fx.Graph,
    node: torch.fx.Node,
    operands: Sequence[torch.fx.Node],
    text: str,
    results: Sequence[torch.Tensor],
) -> None:
    """Replaces a node by a call of the function in `text`. Each user of the node must be a `getitem` of one result."""
    shapes = [_value(x).shape for x in operands]
    with graph.inserting_before(node):
        sizes = [_size(graph, node, operands, shapes, n) for y in results for n in y.shape]
        call = graph.call_function(operator(len(operands), len(results)), (*operands, sizes, text))
    call.meta = {**node.meta, "val": tuple(results) if len(results) > 1 else results[0]}
    for user in list(node.users):
        if user.args[1] >= len(results) or not user.users:
            graph.erase_node(user)
        elif len(results) == 1:
            user.replace_all_uses_with(call)
            graph.erase_node(user)
        else:
            user.args = (call, user.args[1])
    graph.erase_node(node)


def _size(
    graph: torch.fx.Graph,
    node: torch.fx.Node,
    operands: Sequence[torch.fx.Node],
    shapes: Sequence[Sequence[int]],
    n: int | torch.SymInt,
) -> int | torch.fx.Node:
    """A static size, or a node that computes a dynamic size as a size of an operand."""
    if isinstance(n, int):
        return n
    i, d = _place(node, shapes, n)
    size = graph.call_function(torch.ops.aten.sym_size.int, (operands[i], d))
    size.meta["val"] = n
    return size


def _results(node: torch.fx.Node) -> list[torch.Tensor]:
    value = node.meta["val"]
    return list(value) if isinstance(value, list | tuple) else [value]


def _value(x: torch.fx.Node) -> torch.Tensor:
    return x.meta["val"] if isinstance(x, torch.fx.Node) else x


def _type(node: torch.fx.Node, x: torch.Tensor) -> tuple[Sequence[int], str]:
    """The type of an operand or a result of a control-flow operator. Raises `Unsupported` for dynamic sizes."""
    found = _tensor_type(node, x)
    if not all(isinstance(n, int) for n in x.shape):
        raise Unsupported(
            f"torch.{node.target.name()} needs static shapes; pass no dynamic_shapes for its operands to torch.export"
        )
    return found


def _tensor_type(node: torch.fx.Node, x: torch.Tensor) -> tuple[Sequence[int], str]:
    if not isinstance(x, torch.Tensor):
        name, kind = f"torch.{node.target.name()}", type(x).__name__
        raise Unsupported(f"{name} has an operand or a result of type {kind}; make it a tensor")
    return tuple(x.shape), element(x)


# ---- operators ---------------------------------------------------------------------------------------------


def _call(body: Body, symbol: str, operands: Sequence[TextTensor], types: Types) -> list[TextTensor]:
    return body.emit_all("func.call", operands, types, f"callee = @{symbol}")


def _types(values: Sequence[TextTensor]) -> Types:
    return [(x.sizes, x.element) for x in values]


def _cond(
    body: Body, types: Types, graphs: list[str], which: list[TextTensor], operands: list[TextTensor]
) -> list[TextTensor]:
    branches = [body.region([], lambda g=graph: _call(body, g, operands, types)) for graph in graphs]
    return body.emit_all("if", which, types, regions=branches)


def _while(
    body: Body, types: Types, graphs: list[str], carried: list[TextTensor], fixed: list[TextTensor]
) -> list[TextTensor]:
    goes, step = graphs
    flag: Types = [((), "i1")]
    regions = [
        body.region(_types(carried), lambda *xs: _call(body, goes, [*xs, *fixed], flag)),
        body.region(_types(carried), lambda *xs: _call(body, step, [*xs, *fixed], types)),
    ]
    return body.emit_all("while", carried, types, regions=regions)


def _scan(
    body: Body,
    types: Types,
    graphs: list[str],
    first: list[TextTensor],
    rows: list[TextTensor],
    fixed: list[TextTensor],
) -> list[TextTensor]:
    """Emits a loop over the rows. Each iteration computes the carried values, and one row of each stacked result."""
    kept = len(first)
    steps = rows[0].sizes[0]
    of_step = [*types[:kept], *((shape[1:], kind) for shape, kind in types[kept:])]

    def step(t: TextTensor, *values: TextTensor) -> list[TextTensor]:
        given = [*values[:kept], *(body.at(x, t) for x in rows), *fixed]
        new = _call(body, graphs[0], given, of_step)
        return [*new[:kept], *(body.put(y, row, t) for y, row in zip(values[kept:], new[kept:], strict=True))]

    return body.loop(steps, step, [*first, *(body.zeros(shape, kind) for shape, kind in types[kept:])])


def _map(
    body: Body, types: Types, graphs: list[str], rows: list[TextTensor], fixed: list[TextTensor]
) -> list[TextTensor]:
    return _scan(body, types, graphs, [], rows, fixed)


_OPERATORS: dict[str, Callable[..., list[TextTensor]]] = {
    "cond": _cond,
    "map_impl": _map,
    "scan": _scan,
    "while_loop": _while,
}
"""Maps an operator's name to its emitter: (body, result types, names of subgraphs, *groups of operands) -> results."""
