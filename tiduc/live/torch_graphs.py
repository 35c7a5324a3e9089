"""The backend "tiduc" of `torch.compile`: graphs become programs, which tiduc differentiates for the backward pass.

torch.compile(model, backend="tiduc")
torch.compile(model, backend="tiduc", options={"fallback": False})   raises errors instead of running PyTorch's graph

`torch.compile` traces a function to graphs, and guards them. Parameters and buffers are inputs of a graph. The first
call of a graph with a combination of shapes and scalars compiles a program for this combination.
"""

import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch

from tiduc.dialect.errors import RequestError, TiducError, Unsupported
from tiduc.interop.derived import cotangents, differentiable_outputs
from tiduc.interop.in_torch import called, compiled, parts_for
from tiduc.live.torch_expansion import without_derivatives
from tiduc.live.torch_layout import Input, layout_of, updated_name
from tiduc.models.from_torch import from_graph
from tiduc.ports import described
from tiduc.runtime.random_seed import is_random_seed

MOST = 16
"""The maximum number of programs compiled for one graph. For inputs of further shapes, PyTorch runs the graph."""

_PLAIN = (torch.Tensor, torch.nn.Parameter, torch.nn.Buffer)


def backend(
    graph: torch.fx.GraphModule, inputs: Sequence[Input], *, options: Mapping[str, bool] | None = None
) -> "CompiledGraph":
    """Returns a function that computes a graph of `torch.compile`.

    With the option `fallback`, which is the default, PyTorch runs a graph that tiduc cannot import or compile, after a
    warning. If `fallback` is False, the error is raised. Raises `RequestError` for any other option.
    """
    chosen = dict(options or {})
    fallback = chosen.pop("fallback", True)
    if chosen:
        raise RequestError(f"the backend tiduc has no option {next(iter(chosen))!r}; it has: fallback")
    return CompiledGraph(graph, fallback)


class CompiledGraph:
    """A graph of `torch.compile` as a function of tensors and numbers. It compiles a program for each set of shapes."""

    def __init__(self, graph: torch.fx.GraphModule, fallback: bool) -> None:
        self.graph, self._fallback = graph, fallback
        self._programs: dict[Any, GraphProgram | None] = {}

    def __call__(self, *inputs: Input) -> Sequence[Input]:
        key = torch.is_grad_enabled(), *map(_described, inputs)
        program = self._programs[key] if key in self._programs else self._made(inputs)
        if len(self._programs) < MOST:
            self._programs[key] = program
        if program is None or program.overwrites_another(inputs):
            found: Sequence[Input] = self.graph(*inputs)
            return found
        return program(*inputs)

    def _made(self, inputs: Sequence[Input]) -> "GraphProgram | None":
        """Compiles the graph for the shapes and scalars of these inputs. Returns None if PyTorch must run the graph."""
        try:
            if len(self._programs) >= MOST:
                raise Unsupported(f"the graph was called with over {MOST} combinations of shapes and scalars")
            _refuse(self.graph, inputs)
            with torch.random.fork_rng([]):  # compilation must not change the random numbers of later calls
                return GraphProgram(self.graph, inputs)
        except TiducError as error:
            if not self._fallback:
                raise
            warnings.warn(f"PyTorch runs a graph that tiduc refuses: {error}", stacklevel=3)
            return None


class GraphProgram:
    """The compiled programs of a graph, and of the graph's backward pass, for inputs of fixed shapes."""

    def __init__(self, graph: torch.fx.GraphModule, inputs: Sequence[Input]) -> None:
        self._layout = layout_of(without_derivatives(graph, inputs), inputs)
        examples = [  # the examples share no memory, because `torch.export` would preserve the sharing
            torch.empty_strided(x.shape, x.stride(), dtype=x.dtype) if isinstance(x, torch.Tensor) else x
            for x in inputs
        ]
        self._program = from_graph(_Positional(self._layout.graph), examples, self._layout.constant)
        given = {f"args_{i}": i for i in range(len(inputs))}
        self._inputs = [given.get(port.name) for port in self._program.inputs]
        values = [described(port) for port in self._program.inputs]
        for value, i in zip(values, self._inputs, strict=True):
            if i is None and not is_random_seed(value):
                raise Unsupported(
                    f"the program has an input {value.name!r} that is not an input of the graph"
                )
        updated = {updated_name(i): i for i in range(len(inputs))}
        self._updated = [
            (k, updated[port.name]) for k, port in enumerate(self._program.outputs) if port.name in updated
        ]
        self._compile(inputs)

    def _compile(self, inputs: Sequence[Input]) -> None:
        """Compiles the programs that a call with these inputs runs, and the programs of the backward pass."""
        operands = self._operands(inputs)
        parts = parts_for(self._program, operands)
        wrt = tuple([i for i, x in enumerate(operands) if x.requires_grad])
        if parts is not None:
            programs = [parts.forward, parts.backward]
        elif torch.is_grad_enabled() and wrt and differentiable_outputs(self._program):
            programs = [self._program, cotangents(self._program, wrt)]
        else:
            programs = [self._program]
        for program in programs:
            compiled(program)

    def __call__(self, *inputs: Input) -> list[Input]:
        results = called(self._program, self._operands(inputs))
        for k, i in self._updated:
            with torch.set_grad_enabled(torch.is_grad_enabled() and i in self._layout.moved):
                changed: torch.Tensor = inputs[i]
                changed.copy_(results[k])
        return self._layout.arranged(results[: len(self._layout.strides)], inputs)

    def overwrites_another(self, inputs: Sequence[Input]) -> bool:
        """Whether an input that the graph changes shares memory with another input."""
        if not self._updated:
            return False
        memory = [x.untyped_storage().data_ptr() if isinstance(x, torch.Tensor) else None for x in inputs]
        return any(memory.count(memory[i]) > 1 for _, i in self._updated)

    def _operands(self, inputs: Sequence[Input]) -> list[torch.Tensor]:
        """The arguments of the program: inputs and new random seeds. Inputs that the graph changes are copied."""
        changed = {i for _, i in self._updated}
        tensors: Sequence[torch.Tensor] = inputs
        return [
            _seed() if i is None else tensors[i].clone() if i in changed else tensors[i] for i in self._inputs
        ]


class _Positional(torch.nn.Module):
    """A module that calls a graph. `torch.export` names the inputs of the module `args_0`, `args_1`, and so on."""

    def __init__(self, graph: torch.fx.GraphModule) -> None:
        super().__init__()
        self.wrapped = graph

    def forward(self, *args: Input) -> Sequence[Input]:
        found: Sequence[Input] = self.wrapped(*args)
        return found


def _refuse(graph: torch.fx.GraphModule, inputs: Sequence[Input]) -> None:
    """Raises `Unsupported` if the graph contains weights, or if an input is not a plain, dense tensor on the CPU."""
    if any(True for _ in graph.parameters()) or any(True for _ in graph.buffers()):
        raise Unsupported("the graph holds tensors that are not its inputs")
    for x in inputs:
        if not isinstance(x, torch.Tensor):
            continue
        if type(x) not in _PLAIN or x.layout is not torch.strided or x.is_quantized:
            raise Unsupported(f"an input is a {type(x).__name__} of layout {x.layout}")
        if x.device.type != "cpu":
            raise Unsupported(f"an input is on the device {x.device}; tensors must be on the CPU")


def _described(x: Input) -> object:
    """The properties of an input that determine which program is run."""
    if not isinstance(x, torch.Tensor):
        return type(x), x
    return x.shape, x.dtype, x.requires_grad, x.stride(), x.storage_offset()


def _seed() -> torch.Tensor:
    """A random seed, drawn by PyTorch's random number generator."""
    words = torch.randint(0, 2**62, (2,), dtype=torch.int64)
    return torch.from_numpy(words.numpy().view(np.uint64))
