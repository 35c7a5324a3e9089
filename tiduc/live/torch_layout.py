"""Splits a graph of `torch.compile` into a graph whose outputs are not views, and views of its outputs and inputs.

y = sin(x); return y, y.t(), x[0], x.shape[0]     the graph
y = sin(x); return y                              `GraphLayout.graph`, which tiduc imports
return y, y.as_strided(...), x.as_strided(...), 5 `GraphLayout.arranged`

A run on fake tensors, which have no elements, finds the views, and the results that require a gradient. The results of
a program share no memory. The outputs of the graph must share memory as in PyTorch, because the caller may change them
in place.
"""

import copy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import torch

from tiduc.dialect.errors import Unsupported
from tiduc.models.torch.faults import located

Input: TypeAlias = torch.Tensor | int | float
"""An input of a graph: a tensor or a number."""

Geometry = tuple[tuple[int, ...], tuple[int, ...], int]
"""The sizes, the strides and the offset of a tensor."""


@dataclass(frozen=True)
class Output:
    """Describes an output of the graph.

    The output is the number `value`; or it is result `at` of the program, or input `at`, or a view of one of these.
    `view` is the geometry of a view. `is_detached` says that the output requires no gradient.
    """

    kind: str  # "result", "input" or "value"
    at: int = 0
    view: Geometry | None = None
    is_detached: bool = False
    value: object = None


@dataclass(frozen=True)
class GraphLayout:
    """The graph that a program computes, and descriptions of the outputs of the original graph.

    `strides` has the geometry of each result of the program, or None if the result is contiguous. `constant` identifies
    results without a derivative by index or name. `moved` has the indices of inputs that the graph changes in place, if
    PyTorch records the change for derivatives.
    """

    graph: torch.fx.GraphModule
    outputs: list[Output]
    strides: list[Geometry | None]
    constant: set[int | str]
    moved: set[int]

    def arranged(self, results: Sequence[torch.Tensor], inputs: Sequence[Input]) -> list[Input]:
        """Builds the outputs of the original graph from the results of the program."""
        laid = [
            y if place is None else torch.empty_strided(*place[:2], dtype=y.dtype).copy_(y)
            for y, place in zip(self._with_flags(results), self.strides, strict=True)
        ]
        found: list[Input] = []
        for output in self.outputs:
            if output.kind == "value":
                found.append(output.value)
                continue
            x: torch.Tensor = (laid if output.kind == "result" else inputs)[output.at]
            x = x.detach() if output.is_detached else x
            found.append(x if output.view is None else x.as_strided(*output.view))
        return found

    def _with_flags(self, results: Sequence[torch.Tensor]) -> list[torch.Tensor]:
        return [y.detach() if k in self.constant else y for k, y in enumerate(results)]


def updated_name(i: int) -> str:
    """The name of the program's output that is the new value of argument i."""
    return f"args_{i}.updated"


def layout_of(graph: torch.fx.GraphModule, inputs: Sequence[Input]) -> GraphLayout:
    """The layout of the graph for inputs with these shapes, strides and element types.

    Raises `Unsupported` if the graph changes the shape of an input, or if outputs that share memory are not views of
    one value.
    """
    mode = torch._subclasses.FakeTensorMode(allow_non_fake_inputs=True)
    fakes = [mode.from_tensor(x, static_shapes=True) if isinstance(x, torch.Tensor) else x for x in inputs]
    before = [_state(x) for x in fakes]
    run = torch.fx.Interpreter(_returning(graph, None), garbage_collect_values=False)
    tracing = located("PyTorch cannot trace the graph", Unsupported)
    with tracing, mode, torch.set_grad_enabled(torch.is_grad_enabled()):
        run.run(*fakes)
    if any(_state(x)[:2] != old[:2] for x, old in zip(fakes, before, strict=True)):
        raise Unsupported("the graph changes the shape or the memory of an input")
    values = run.env
    found = _Views({_memory(x): i for i, x in enumerate(fakes) if isinstance(x, torch.Tensor)}, fakes, values)
    outputs = [found.output(x) for x in _returned(run.module)]
    moved = {i for i, (x, old) in enumerate(zip(fakes, before, strict=True)) if _state(x)[2] != old[2]}
    constant: set[int | str] = set()
    if torch.is_grad_enabled() and any(getattr(x, "requires_grad", False) for x in fakes):
        constant |= {i for i, node in enumerate(found.results) if not values[node].requires_grad}
        constant |= {updated_name(i) for i in range(len(fakes)) if i not in moved}
    graph = _returning(run.module, found.results)
    return GraphLayout(graph, outputs, [_strided(values[node]) for node in found.results], constant, moved)


class _Views:
    """Finds the value of which each output is a view. `results` collects the values that the program must return."""

    def __init__(
        self, inputs: Mapping[int, int], fakes: Sequence[Input], values: Mapping[torch.fx.Node, object]
    ) -> None:
        self._inputs, self._fakes, self._values = inputs, fakes, values
        self._readers: dict[int, list[Any]] = {}
        for node in list(values):
            for x in _returned_by(node):
                if isinstance(x, torch.fx.Node) and isinstance(values.get(x), torch.Tensor):
                    self._readers.setdefault(_memory(values[x]), []).append(x)
        self.results: list[torch.fx.Node] = []

    def output(self, x: torch.fx.Node | Input) -> Output:
        """The description of an output: a node of the graph, or a constant."""
        tensor = self._values[x] if isinstance(x, torch.fx.Node) else x
        if not isinstance(tensor, torch.Tensor):
            return Output("value", value=tensor)
        memory = _memory(tensor)
        if memory in self._inputs:
            i = self._inputs[memory]
            return self._view("input", i, self._fakes[i], tensor)
        if len(self._readers[memory]) == 1:
            return Output("result", self._result(x))
        whole = next((node for node, y in self._values.items() if _is_whole(y, memory)), None)
        if whole is None:
            raise Unsupported("outputs of the graph share memory, and no value of the graph has all of it")
        return self._view("result", self._result(whole), self._values[whole], tensor)

    def _view(self, kind: str, at: int, base: torch.Tensor, tensor: torch.Tensor) -> Output:
        if (
            tensor.dtype != base.dtype
            or tensor.is_conj() != base.is_conj()
            or tensor.is_neg() != base.is_neg()
        ):
            raise Unsupported("an output of the graph views the memory of another value as another type")
        if tensor.requires_grad and not base.requires_grad:
            raise Unsupported(
                "an output of the graph has a derivative, but the value whose memory the output shares has none"
            )
        is_detached = base.requires_grad and not tensor.requires_grad
        view = _geometry(tensor)
        return Output(kind, at, None if view == _geometry(base) else view, is_detached)

    def _result(self, node: torch.fx.Node) -> int:
        if node not in self.results:
            self.results.append(node)
        return self.results.index(node)


def _returned(graph: torch.fx.GraphModule) -> tuple[torch.fx.Node | Input, ...]:
    """The nodes and constants that the graph returns."""
    (output,) = [node for node in graph.graph.nodes if node.op == "output"]
    return tuple(output.args[0])


def _returned_by(node: torch.fx.Node) -> tuple[torch.fx.Node | Input, ...]:
    return tuple(node.args[0]) if node.op == "output" else ()


def _returning(graph: torch.fx.GraphModule, nodes: Sequence[torch.fx.Node] | None) -> torch.fx.GraphModule:
    """A copy of the graph that returns `nodes`. If `nodes` is None, the copy has the outputs of the graph.

    PyTorch's activation checkpoints become plain calls, because tiduc itself chooses which values to recompute.
    """
    copied = copy.deepcopy(graph)
    if nodes is not None:
        of = dict(zip(graph.graph.nodes, copied.graph.nodes, strict=True))
        (output,) = [node for node in copied.graph.nodes if node.op == "output"]
        output.args = (tuple(of[node] for node in nodes),)
    for module in copied.modules():
        if isinstance(module, torch.fx.GraphModule):
            _call_checkpointed(module)
    return copied


def _call_checkpointed(module: torch.fx.GraphModule) -> None:
    checkpoint = torch.ops.higher_order.tag_activation_checkpoint
    for node in list(module.graph.nodes):
        if node.target is checkpoint:
            function, *arguments = node.args
            with module.graph.inserting_before(node):
                call = module.graph.call_module(function.target, tuple(arguments))
            node.replace_all_uses_with(call)
            module.graph.erase_node(node)
    module.recompile()


# ---- facts of tensors


def _memory(x: torch.Tensor) -> int:
    return int(x.untyped_storage()._cdata)


def _geometry(x: torch.Tensor) -> Geometry:
    return tuple(x.shape), tuple(x.stride()), int(x.storage_offset())


def _state(x: Input) -> tuple[object, object, object]:
    """The geometry of an input, its memory, and its state in autograd. Returns (x, None, None) for a number x."""
    if not isinstance(x, torch.Tensor):
        return x, None, None
    return _geometry(x), _memory(x), (x.requires_grad, x.grad_fn)


def _is_whole(x: object, memory: int) -> bool:
    """Whether x is a tensor that occupies all of this memory."""
    return (
        isinstance(x, torch.Tensor)
        and _memory(x) == memory
        and x.numel() * x.itemsize == x.untyped_storage().nbytes()
        and _is_dense(x)
    )


def _strided(x: torch.Tensor) -> Geometry | None:
    """The geometry of a result that is dense but not contiguous. Returns None for others, which become contiguous."""
    return None if x.is_contiguous() or not _is_dense(x) else _geometry(x)


def _is_dense(x: torch.Tensor) -> bool:
    """Whether the elements are adjacent in memory, in any order of the dimensions."""
    size = 1
    for stride, n in sorted((stride, n) for stride, n in zip(x.stride(), x.shape, strict=True) if n != 1):
        if stride != size:
            return False
        size *= n
    return True
