"""Turns ONNX's If, Loop and Scan into calls of functions with StableHLO's `if` and `while`.

    y = If(p) {...}, p a constant    the nodes of the branch
    y = If(p) {...}                  stablehlo.if %p { func.call @If_graph0 } { func.call @If_graph1 }
    xs, rows = Loop(m, p, xs) {...}  stablehlo.while { func.call @Loop_graph0 }
    xs, rows = Scan(xs, rows) {...}  stablehlo.while { func.call @Scan_graph0 }

Each subgraph becomes a model, which is prepared like the main model, and then becomes a function of the module. Values
that a subgraph reads from the enclosing graph become inputs of the function. Constants are copied into the subgraph.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import TYPE_CHECKING, Any

import numpy as np

from tiduc.dialect.errors import Unsupported
from tiduc.models.emitted_text import Body, TextTensor, Type
from tiduc.models.onnx.nodes import Nodes, element, operand
from tiduc.runtime.arrays import Array

if TYPE_CHECKING:
    import onnx


@dataclass(frozen=True)
class _Function:
    """A subgraph as a function.

    `outside` has the names of the values that the function reads from the enclosing graph. `model` is the subgraph as a
    model.
    """

    symbol: str
    outside: list[str]
    results: list[Type]
    model: Any

    def call(self, body: Body, operands: Sequence[TextTensor]) -> list[TextTensor]:
        return body.emit_all("func.call", operands, self.results, f"callee = @{self.symbol}")


def if_(nodes: Nodes, node: "onnx.NodeProto") -> list[str] | None:
    graphs = {a.name: a.g for a in node.attribute}
    branches = [graphs["then_branch"], graphs["else_branch"]]
    condition = nodes.constant(node, 0)
    if condition is not None:
        return _inlined(nodes, branches[0 if bool(np.all(condition)) else 1])
    functions = [_outlined(nodes, branch, "If", []) for branch in branches]
    then, otherwise = (f.results for f in functions)
    if then != otherwise:
        raise Unsupported(
            f"its branches give {_listed(then)} and {_listed(otherwise)}; make their types equal, or make the "
            "condition a constant (--constant)"
        )
    outside = list(dict.fromkeys(x for f in functions for x in f.outside))

    def emit(body: Body, condition: TextTensor, *values: TextTensor) -> list[TextTensor]:
        held = dict(zip(outside, values, strict=True))
        regions = [body.region([], lambda f=f: f.call(body, [held[x] for x in f.outside])) for f in functions]
        return body.emit_all("if", [body.reshape(condition, [])], then, regions=regions)

    return nodes.call("If", [node.input[0], *outside], emit)


def loop(nodes: Nodes, node: "onnx.NodeProto") -> list[str]:
    """Rewrites Loop. If the trip count is unknown, the model must declare the number of rows of each scan output."""
    graph = node.attribute[0].g
    most, condition = nodes.constant(node, 0), nodes.constant(node, 1)
    initial = list(node.input[2:])
    carried = [_type(nodes, x) for x in initial]
    step = _outlined(nodes, graph, "Loop", [((), "i64"), ((), "i1"), *carried])
    _check_carried(step.results[1 : 1 + len(carried)], carried, graph.output[1:])
    last = step.model.graph.output[0].name
    goes = _always_goes(nodes.onnx, step.model.graph, last, graph.input[1].name, condition, operand(node, 1))
    rows = step.results[1 + len(carried) :]
    count = int(most.reshape(-1)[0]) if most is not None and goes else None
    names = [name for name in (operand(node, 0), operand(node, 1)) if name]
    sizes = [_row_count(nodes, node, y, count) for y in node.output[len(carried) :]]
    scans: list[Type] = [((n, *shape), kind) for n, (shape, kind) in zip(sizes, rows, strict=True)]

    def emit(body: Body, *values: TextTensor) -> list[TextTensor]:
        given = dict(zip(names, values, strict=False))
        first, outside = values[len(names) :][: len(carried)], values[len(names) + len(carried) :]
        true = body.constant("true", [], "i1")
        state = [*first, *(body.zeros(shape, kind) for shape, kind in scans)]

        def next_of(i: TextTensor, going: TextTensor, *state: TextTensor) -> list[TextTensor]:
            wide = body.convert(i, "i64")
            going, *new = step.call(body, [wide, going, *state[: len(carried)], *outside])
            kept = zip(state[len(carried) :], new[len(carried) :], strict=True)
            return [body.reshape(going, []), *new[: len(carried)], *(body.put(y, row, i) for y, row in kept)]

        if count is not None:
            return body.loop(count, next_of, [true, *state])[1:]
        start = body.reshape(given[names[-1]], []) if operand(node, 1) else true
        limit = body.reshape(given[node.input[0]], []) if operand(node, 0) else None
        return _open_loop(body, limit, next_of, [start, *state])

    return nodes.call("Loop", [*names, *initial, *step.outside], emit)


def _open_loop(
    body: Body, limit: TextTensor | None, step: Callable[..., list[TextTensor]], initial: Sequence[TextTensor]
) -> list[TextTensor]:
    """Emits a loop that runs while its first carried value is true, and at most `limit` times."""
    carried = [body.number(0), *initial]
    types: list[Type] = [(x.sizes, x.element) for x in carried]

    def goes(i: TextTensor, going: TextTensor, *_: TextTensor) -> list[TextTensor]:
        if limit is None:
            return [going]
        return [body.emit("and", [going, body.compare(body.convert(i, limit.element), limit, "LT")], [])]

    regions = [
        body.region(types, goes),
        body.region(types, lambda i, *values: [body.add(i, body.number(1)), *step(i, *values)]),
    ]
    return body.emit_all("while", carried, types, regions=regions)[2:]


def scan(nodes: Nodes, node: "onnx.NodeProto") -> list[str]:
    given = nodes.attributes(node)
    scanned = given["num_scan_inputs"]
    kept = len(node.input) - scanned
    graph = given["body"]
    first, rows = list(node.input[:kept]), list(node.input[kept:])
    carried = [_type(nodes, x) for x in first]
    axes = [
        a % len(nodes.shape(x))
        for x, a in zip(rows, given.get("scan_input_axes", [0] * scanned), strict=True)
    ]
    ranks = [_type(nodes, x) for x in rows]
    of_row: list[Type] = [
        ([n for d, n in enumerate(shape) if d != axis], kind)
        for (shape, kind), axis in zip(ranks, axes, strict=True)
    ]
    step = _outlined(nodes, graph, "Scan", [*carried, *of_row])
    _check_carried(step.results[:kept], carried, graph.output)
    steps = nodes.sizes(rows[0])[axes[0]]
    results = step.results[kept:]
    backward = given.get("scan_input_directions", [0] * scanned)
    back_out = given.get("scan_output_directions", [0] * len(results))
    out_axes = given.get("scan_output_axes", [0] * len(results))

    def emit(body: Body, *values: TextTensor) -> list[TextTensor]:
        state, scans, outside = values[:kept], values[kept : kept + scanned], values[kept + scanned :]
        moved = [_moved(body, x, axis, 0) for x, axis in zip(scans, axes, strict=True)]

        def at(i: TextTensor, is_back: int) -> TextTensor:
            return body.subtract(body.number(steps - 1), i) if is_back else i

        def next_of(i: TextTensor, *state: TextTensor) -> list[TextTensor]:
            read = [body.at(x, at(i, is_back)) for x, is_back in zip(moved, backward, strict=True)]
            new = step.call(body, [*state[:kept], *read, *outside])
            written = zip(state[kept:], new[kept:], back_out, strict=True)
            return [*new[:kept], *(body.put(y, row, at(i, is_back)) for y, row, is_back in written)]

        last = body.loop(
            steps, next_of, [*state, *(body.zeros([steps, *shape], kind) for shape, kind in results)]
        )
        ys = zip(last[kept:], out_axes, strict=True)
        return [*last[:kept], *(_moved(body, y, 0, axis % len(y.sizes)) for y, axis in ys)]

    return nodes.call("Scan", [*first, *rows, *step.outside], emit)


def _moved(body: Body, x: TextTensor, old: int, new: int) -> TextTensor:
    """x with its dimension `old` moved to position `new`."""
    order = [d for d in range(len(x.sizes)) if d != old]
    order.insert(new, old)
    return x if old == new else body.transpose(x, order)


# ---- types -------------------------------------------------------------------------------------------------


def _type(nodes: Nodes, name: str) -> Type:
    return tuple(nodes.sizes(name)), element(nodes.dtype(name))


def _listed(types: Sequence[Type]) -> str:
    return ", ".join("x".join([*map(str, sizes), kind]) for sizes, kind in types)


def _check_carried(found: Sequence[Type], carried: Sequence[Type], outputs: Sequence[Any]) -> None:
    for new, old, output in zip(found, carried, outputs, strict=False):
        if new != old:
            raise Unsupported(
                f"an iteration changes {output.name!r} from {_listed([old])} to {_listed([new])}, and a loop of "
                "StableHLO carries values of one type; give the loop a buffer of the final size"
            )


def _row_count(nodes: Nodes, node: "onnx.NodeProto", output: str, count: int | None) -> int:
    """The number of rows of a scan output: the trip count if it is known, else the declared size."""
    if count is not None:
        return count
    declared = nodes.shape(output)[0] if nodes.has_rank(output) and nodes.shape(output) else None
    if declared is None:
        raise Unsupported(
            f"the number of rows of {output!r} depends on data; give the trip count with "
            f"--constant {node.input[0]}=N, or declare the size of the output"
        )
    return declared


# ---- subgraphs ---------------------------------------------------------------------------------------------


def _inlined(nodes: Nodes, graph: "onnx.GraphProto") -> list[str]:
    """Emits the nodes of a subgraph, and returns the names of its results."""
    prefix = nodes.fresh()
    own = {x.name for x in graph.initializer} | {y for inner in graph.node for y in inner.output if y}
    names = {name: f"{prefix}.{name}" for name in own}
    for x in graph.initializer:
        nodes.constants[names[x.name]] = nodes.onnx.numpy_helper.to_array(x)
        copy = nodes.graph.initializer.add()
        copy.CopyFrom(x)
        copy.name = names[x.name]
    for inner in graph.node:
        copy = nodes.onnx.NodeProto()
        copy.CopyFrom(inner)
        _rename(copy, {**nodes.renamed, **names})
        nodes.emitted.append(copy)
    nodes.again = True
    return [names.get(y.name, nodes.renamed.get(y.name, y.name)) for y in graph.output]


def _rename(node: "onnx.NodeProto", names: dict[str, str]) -> None:
    """Renames the values that a node and its subgraphs read and write, in place."""
    for field in (node.input, node.output):
        for i, name in enumerate(field):
            field[i] = names.get(name, name)
    for attribute in node.attribute:
        if attribute.HasField("g"):
            _rename_graph(attribute.g, names)


def _rename_graph(graph: "onnx.GraphProto", names: dict[str, str]) -> None:
    own = {x.name for x in (*graph.input, *graph.initializer)}
    own |= {y for inner in graph.node for y in inner.output}
    left = {old: new for old, new in names.items() if old not in own}
    for inner in graph.node:
        _rename(inner, left)
    for y in graph.output:
        y.name = left.get(y.name, y.name)


def _outlined(nodes: Nodes, graph: "onnx.GraphProto", kind: str, inputs: Sequence[Type]) -> _Function:
    """Converts a subgraph to a function.

    The first inputs of the function have the types `inputs`. The other inputs are values of the enclosing graph.
    """
    onnx = nodes.onnx
    _rename_graph(graph, nodes.renamed)
    model = onnx.ModelProto()
    model.CopyFrom(nodes.model)
    model.graph.Clear()
    model.graph.CopyFrom(graph)
    model.graph.name = f"{kind}_graph{len(nodes.functions)}"
    del model.graph.input[:], model.graph.value_info[:]
    for value, (sizes, of) in zip(graph.input, inputs, strict=True):
        model.graph.input.append(nodes.info(value.name, sizes, of))
    for value in model.graph.output:
        if any(not d.HasField("dim_value") for d in value.type.tensor_type.shape.dim):
            value.type.tensor_type.ClearField("shape")
    outside = []
    for name in dict.fromkeys(_read_outside(graph)):
        if name in nodes.constants:
            model.graph.initializer.append(onnx.numpy_helper.from_array(nodes.constants[name], name))
        else:
            outside.append(name)
            model.graph.input.append(nodes.info(name, *_type(nodes, name)))
    nodes.functions.append(None)  # reserves the number that is part of the function's name
    place = len(nodes.functions) - 1
    nodes.functions[place] = model = nodes.prepare(model)
    results: list[Type] = []
    for value in model.graph.output:
        type_ = value.type.tensor_type
        sizes = [d.dim_value for d in type_.shape.dim if d.HasField("dim_value")]
        if not type_.HasField("shape") or len(sizes) < len(type_.shape.dim):
            raise Unsupported(
                f"the shape of {value.name!r} in its subgraph is not known when the model is imported"
            )
        results.append((tuple(sizes), element(onnx.helper.tensor_dtype_to_np_dtype(type_.elem_type))))
    return _Function(model.graph.name, outside, results, model)


def _read_outside(graph: "onnx.GraphProto") -> Iterator[str]:
    """The names of values that a graph reads but does not define."""
    own = {x.name for x in (*graph.input, *graph.initializer)}
    for node in graph.node:
        yield from (x for x in node.input if x and x not in own)
        for attribute in node.attribute:
            if attribute.HasField("g"):
                yield from (x for x in _read_outside(attribute.g) if x not in own)
        own.update(node.output)
    yield from (y.name for y in graph.output if y.name not in own)


def _always_goes(
    onnx: ModuleType, graph: "onnx.GraphProto", name: str, argument: str, condition: Array | None, given: str
) -> bool:
    """Whether the condition of a loop is always true.

    This is so if the initial condition is true or absent, and the body returns a true constant or its own argument.
    `name` is the condition that the body returns, and `argument` is the condition that the body takes. `given` is the
    name of the initial condition, or "" if it is absent. `condition` is the value of the initial condition if that is
    constant, else None.
    """
    if given and (condition is None or not np.all(condition)):
        return False
    constants = {x.name: x for x in graph.initializer}
    makers = {y: node for node in graph.node for y in node.output}
    while name in makers and makers[name].op_type == "Identity":
        name = makers[name].input[0]
    return name == argument or (
        name in constants and bool(np.all(onnx.numpy_helper.to_array(constants[name])))
    )
