"""Defines `Program`, a StableHLO program whose methods `jvp`, `vjp`, `grad`, `jet` and others return new programs."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Unpack, overload

from torch_mlir import ir

from tiduc.backends.backend import LOOPS, CompileOptions, Lowered, Options, Runnable, compile_program
from tiduc.calling import Call
from tiduc.derivatives.jacobians import Sparsity, hessian, jacobian
from tiduc.derivatives.jets import derivatives_of, flow_of, jet_of
from tiduc.derivatives.optimization import (
    gauss_newton,
    hvp,
    lagrangian,
    laplacian,
    patterns_of,
    second_directional,
)
from tiduc.derivatives.products import grad, jvp, vjp
from tiduc.derivatives.tensors import tensor
from tiduc.derivatives.together import together
from tiduc.dialect.graph.graph import Graph, operations
from tiduc.dialect.graph.view import View
from tiduc.dialect.mlir.constants import has_resources
from tiduc.dialect.mlir.context import stage
from tiduc.dialect.mlir.emit import bytecode
from tiduc.dialect.turns import computed_once, turn
from tiduc.passes.chunk import chunk
from tiduc.passes.importing.import_stablehlo import import_stablehlo
from tiduc.passes.lowerings import apply_lowerings
from tiduc.passes.resolve import resolve
from tiduc.passes.rules import OPSET
from tiduc.passes.rules.registry import OpSet
from tiduc.pipeline import lowering, run_stages, written
from tiduc.ports import InputPort, OutputPort, Wrt, differentiated, ports_of, shown, with_ports
from tiduc.reading import entry_in, module_in
from tiduc.runtime.files import written_whole
from tiduc.runtime.signature import Signature
from tiduc.signatures import signature_of
from tiduc.vmap import Axes, vmap

if TYPE_CHECKING:
    from tiduc.explain.costs import Cost
    from tiduc.runtime.process import Limits
    from tiduc.runtime.run import Executable


@dataclass(frozen=True, eq=False, repr=False)
class Program:
    """An immutable StableHLO program.

    All programs derived from one file share a view, so that each graph is computed only once. `inputs` and `outputs`
    are the signature. Graphs are merged and lowered only when the program's text or module is read.
    """

    view: View
    name: str
    inputs: tuple[InputPort, ...]
    outputs: tuple[OutputPort, ...]
    beside: tuple[Any, ...] = ()  # other ops of the module: functions for custom calls, and Shardy's meshes
    opset: OpSet = OPSET  # the derivative rules of ops
    loop_memory: str = "auto"  # how reverse-mode loops store residuals: stack, sqrt, log or auto
    memory: str = ""  # the memory budget, such as 100MB, 0.3x or min; empty for no limit

    # ---- derivatives and batches ---------------------------------------------------------------------------

    @stage
    def jvp(self, wrt: Wrt = None, batch: int | None = None) -> "Program":
        """(primals..., tangents of wrt...) -> (outputs..., tangents of the differentiable outputs...).

        Each tangent has the shape of its primal. With `batch`, it has an additional leading dimension of that size, as
        under vmap. Raises `RequestError` if `wrt` is unknown, repeated or not differentiable, and `Unsupported`, with
        the op and its location, if an op that a tangent reaches has no rule.
        """
        tangents, results = jvp(self, wrt, batch)
        return self._with_inputs(tangents, results)

    @stage
    def vjp(self, wrt: Wrt = None, conjugate: bool = False, batch: int | None = None) -> "Program":
        """(primals..., cotangents of the differentiable outputs...) -> (outputs..., cotangents of wrt...).

        With `conjugate`, complex seeds and results are conjugated, as in JAX. With `batch`, cotangents have an
        additional leading dimension of that size. Raises the errors of `jvp`.
        """
        cotangents, results = vjp(self, wrt, conjugate, batch)
        return self._with_inputs(cotangents, results)

    @stage
    def grad(self, wrt: Wrt = None, value: bool = False, conjugate: bool = False) -> "Program":
        """(primals...) -> (the output if `value`, gradients of wrt...), for a program with one real scalar output.

        `conjugate` is as in `vjp`. Raises `RequestError` if the program has other outputs, and the errors of `jvp`.
        """
        return self._with_results(grad(self, wrt, conjugate), value)

    @stage
    def jet(self, order: int, wrt: Wrt = None) -> "Program":
        """(primals..., series of wrt...) -> (outputs..., series of the differentiable outputs...): Taylor mode.

        The series of x has the shape [order, shape of x...]. It has the coefficients x_1, ..., x_order of the curve
        x(t) = x + x_1 t + ... + x_order t^order, where x_k is the k-th derivative at t = 0 divided by k!. Raises
        `RequestError` if the order is not between 1 and 100, and the errors of `jvp`.
        """
        series, outputs, results = jet_of(self, order, wrt)
        return replace(self, outputs=tuple(outputs))._with_inputs(series, results)

    @stage
    def derivatives(self, order: int, wrt: Wrt = None) -> "Program":
        """(primals...) -> (y and its derivatives of orders 1 to `order`, for each differentiable output y).

        The derivatives are with respect to `wrt`, a scalar input. Raises `RequestError` if `wrt` is not one scalar
        input, or if the factorial of the order exceeds the range of an output's type.
        """
        return self._with_results(derivatives_of(self, order, wrt), value=False)

    @stage
    def flow(self, order: int, wrt: Wrt = None) -> "Program":
        """(primals...) -> (series of x(t)), where x(t) solves dx/dt = f(x) with the input x as initial value.

        f is the only output of the program, and has the type of the input x, which is `wrt`. All other inputs are
        parameters. The series has the coefficients of t^1 to t^order, as in `jet`. Raises `RequestError` for all other
        outputs.
        """
        return self._with_results(flow_of(self, order, wrt), value=False)

    @stage
    def jacobian(
        self,
        wrt: Wrt = None,
        mode: str = "auto",
        value: bool = False,
        sparsity: Sparsity = None,
        compressed: str | None = None,
    ) -> "Program":
        """(primals...) -> (outputs... if `value`, Jacobian of each output with respect to each of wrt...).

        The shape of a Jacobian is the shape of its output followed by the shape of its input. `mode` is "forward",
        "reverse" or "auto": the cheapest of forward mode, reverse mode, and a product of Jacobians at a bottleneck.
        With `sparsity` "auto" or a pattern, columns or rows without common nonzeros share a seed; "diagonal" and
        "block-diagonal" return only the diagonal or the diagonal blocks. With `compressed` "csr" or "csc", a Jacobian
        is the vector of its nonzeros, whose positions are in `patterns`. Raises `RequestError` for complex inputs or
        dynamic shapes.
        """
        return self._with_results(jacobian(self, wrt, mode, sparsity, compressed), value)

    @stage
    def hessian(
        self,
        wrt: Wrt = None,
        value: bool = False,
        sparsity: Sparsity = None,
        compressed: str | None = None,
    ) -> "Program":
        """(primals...) -> (outputs... if `value`, second derivatives of each output for each pair of wrt...).

        The shape of a second derivative is the shape of its output followed by the shapes of its two inputs. Options
        and errors are as in `jacobian`.
        """
        return self._with_results(hessian(self, wrt, sparsity, compressed), value)

    def rematerialize(self, memory: str) -> "Program":
        """The program with a memory budget. Derivatives of the returned program have the same budget.

        `memory` is a text in one of three forms:

        - "100MB": the number of bytes, including arguments and results;
        - "0.3x": a share of the bytes that the program needs without a budget, excluding arguments and results;
        - "min": the lowest peak that rematerialization reaches.

        Lowering raises `RequestError` for other texts and for infeasible budgets.
        """
        return replace(self, memory=memory)

    @stage
    def batch(self, in_axes: Axes, size: int, out_axes: Axes = 0) -> "Program":
        """The program for a batch of `size` values of some inputs, like `jax.vmap`. Ports keep their names.

        `in_axes` and `out_axes` give the position of the batch dimension in each input and output: one number for all,
        a list in order, or a mapping by name. None means that an input is not batched. Raises `RequestError` if an axis
        does not fit or a shape is dynamic, and `Unsupported` if an op cannot be batched.
        """
        inputs, outputs = vmap(self, size, in_axes, out_axes)
        return replace(self, inputs=tuple(inputs), outputs=tuple(outputs))

    together = stage(together)
    hvp = stage(hvp)
    laplacian = stage(laplacian)
    lagrangian = stage(lagrangian)
    gauss_newton = stage(gauss_newton)
    second_directional = stage(second_directional)
    tensor = stage(tensor)

    # ---- graphs and text -----------------------------------------------------------------------------------

    @property
    @stage
    def graphs(self) -> Any:
        """The `ir.Module` with the graphs of the program before they are merged."""
        return self.view.module

    @computed_once
    @stage
    def merged(self) -> Graph:
        """The flat graph that results from merging the program's graphs."""
        merged: Graph = run_stages(self, lowering("materialize_merge"))
        return merged

    @property
    @stage
    def flat(self) -> Any:
        """The `ir.Module` with the flat graph before lowering, and the graphs that the flat graph calls."""
        return self.module_after("materialize_merge")

    @property
    @stage
    def structured(self) -> Any:
        """The `ir.Module` with the flat graph after the stage `structure`, whose loops are StableHLO's loops."""
        return self.module_after("structure")

    @computed_once
    @stage
    def module(self) -> Any:
        """The `ir.Module` with one public function of plain StableHLO."""
        return self.lowered()

    @stage
    def lowered(self, separated: Sequence[InputPort] = ()) -> Any:
        """Lowers the program and returns the module.

        Loops and branches that depend on inputs in `separated` are not fused with those that do not.
        """
        keys = [port.key for port in separated]
        return run_stages(self, lowering("lower")[1:], self.merged, keys)

    @stage
    def module_after(self, name: str) -> Any:
        """The `ir.Module` after the stage `name` of `pipeline.STAGES`: the graphs, the flat graph, or the function."""
        if name == "lower":
            return self.module
        stages = lowering(name)
        return written(self, run_stages(self, stages[1:], self.merged)) if stages else self.graphs

    @computed_once
    @stage
    def text(self) -> str:
        """The StableHLO text of the lowered program."""
        return str(self.module.operation.get_asm(assume_verified=True))  # printing would verify again

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name}{shown(self.inputs)} -> {shown(self.outputs)}>"

    def __reduce__(self) -> tuple[Any, ...]:
        # MLIR's objects cannot be pickled, so the pickle has bytecode, and the op set unless it is the default.
        opset = None if self.opset is OPSET else self.opset
        with turn():
            return _unpickled, (bytecode(self.module), self.name, opset, self.loop_memory)

    @computed_once
    def signature(self) -> Signature:
        """The names and types of the inputs and outputs. Raises `RequestError` if one of them is not a tensor."""
        return signature_of(self)

    patterns = property(stage(patterns_of))

    def cost(self) -> "Cost":
        """The FLOPs, transcendentals and bytes of the lowered program. docs/explain.md has the formulas."""
        from tiduc.explain.costs import find_cost

        return find_cost(lowered(self))

    def _repr_html_(self) -> str:
        """The HTML that a notebook shows for the program: its signature and a picture."""
        from tiduc.pictures import as_html

        return as_html(self)

    # ---- files and compiled modules ------------------------------------------------------------------------

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the lowered program to a file: as StableHLO text, or as bytecode if a constant is a resource.

        On failure, raises `TiducError` and writes no file.
        """
        with turn():
            is_text = not has_resources(self.module)
            contents = self.text.encode("utf-8", "surrogateescape") if is_text else bytecode(self.module)
        with written_whole(path) as file:
            file.write(contents)

    @overload
    def compile(self, target: str = ..., **options: Unpack[CompileOptions]) -> "Executable": ...

    @overload
    def compile(self, target: str = ..., *, engine: str, **options: Unpack[CompileOptions]) -> Runnable: ...

    def compile(
        self,
        target: str = "cpu",
        *,
        engine: str = "iree",
        lapack: str = LOOPS,
        limits: "Limits | None" = None,
        cached: bool = True,
        fast: bool = True,
    ) -> Runnable:
        """Compiles the program to a function of NumPy arrays. Raises `CompileError` if the engine cannot compile it.

        `engine` is "iree", "xla" or "reference". IREE's result has the attribute `vmfb` with the bytes of the module.
        If `lapack` is "callback", the module calls NumPy for factorizations, on CPUs only. `limits` are limits for the
        process of IREE's compiler. If `cached` is false, the cache is neither read nor written. If `fast` is false,
        only those rewrites run that IREE needs for correct values.
        """
        return compile_program(self.lower(), engine, Options(target, lapack, limits, cached, fast))

    def on(self, target: str) -> Call:
        """The compiled program for a target. The first call for a target compiles. Raises the errors of `compile`."""
        if target not in self._calls:
            self._calls[target] = Call(self.compile(target), self.defaults)
        return self._calls[target]

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        """Runs the program on this CPU. Takes arrays by position or by input name.

        Returns the output, or a tuple if there are several outputs. The first call compiles the program. Raises
        `InputError` if an argument does not fit its input.
        """
        return self.on("cpu")(*arguments, **named)

    @computed_once
    def _calls(self) -> dict[str, Call]:
        """Maps targets to compiled functions."""
        return {}

    @property
    def defaults(self) -> Mapping[str, Any]:
        """Maps the names of inputs that a call may omit to arrays. Empty for a `Program`; the weights for a `Model`."""
        return {}

    def lower(self) -> Lowered:
        """The lowered program for a backend. Raises `Unsupported` if a custom op has no lowering to StableHLO."""
        with turn():
            module = self.module.operation.clone().operation
            apply_lowerings(module, self.opset)
            return Lowered(module, self.signature, self.name)

    def differentiated(self, wrt: Wrt) -> list[InputPort]:
        """The inputs that `wrt` names. Raises `RequestError` if an input is unknown, repeated or not differentiable."""
        return differentiated(self, wrt)

    def _with_inputs(self, given: Sequence[InputPort], results: Sequence[OutputPort]) -> "Program":
        """A program with the additional inputs `given` and the additional outputs `results`."""
        return replace(self, inputs=with_ports(self.inputs, given), outputs=with_ports(self.outputs, results))

    def _with_results(self, results: Sequence[OutputPort], value: bool) -> "Program":
        """A program with the outputs `results`. With `value`, the outputs of this program precede them."""
        return replace(self, outputs=with_ports(self.outputs if value else (), results))


# ---- loading -----------------------------------------------------------------------------------------------


@stage
def from_module(
    module: ir.Module,
    entry: str | None = None,
    opset: OpSet = OPSET,
    inline: bool = False,
    loop_memory: str = "auto",
    relu: bool = False,
    equal_within: float | None = None,
) -> Program:
    """Loads a program from an `ir.Module` that has functions (`func.func`), or graphs from `import_stablehlo`.

    `entry` is the name of the function; see `entry_in`. Large arrays are computed in chunks (`passes/chunk.py`), unless
    `loop_memory` is "stack". Raises `RequestError` if the function is not found.
    """
    module, entry = entry_in(module, entry)
    imported = import_stablehlo(module, entry, opset, inline, relu, equal_within)
    if loop_memory != "stack":
        chunk(imported)
    view = resolve(imported)
    graph = view.graph(entry)
    beside = tuple(op for op in operations(imported.body) if not op.name.startswith("tidu."))
    return Program(view, graph.name, *ports_of(graph), beside, opset, loop_memory)


def lowered(program: Program) -> Program:
    """Lowers the program and loads the result, so that loops are StableHLO's loops, and each value is computed once."""
    return from_module(program.module, program.name, program.opset)


def _unpickled(stablehlo: bytes, name: str, opset: OpSet | None, loop_memory: str) -> Program:
    opset = opset or OPSET
    return from_module(module_in(stablehlo, opset.dialects), name, opset, loop_memory=loop_memory)
