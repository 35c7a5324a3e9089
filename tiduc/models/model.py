"""A program together with its weights, which are some of its inputs."""

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any

from torch_mlir import ir

from tiduc.backends.backend import LOOPS, Options
from tiduc.dialect.errors import InputError, RequestError
from tiduc.passes.rules import OPSET
from tiduc.passes.rules.registry import OpSet
from tiduc.ports import described, held_because
from tiduc.program import Program, from_module
from tiduc.runtime.arrays import Array, refuse_masked
from tiduc.runtime.weights import write_weights
from tiduc.vmap import Axes

if TYPE_CHECKING:
    from tiduc.runtime.process import Limits
    from tiduc.runtime.run import Executable


@dataclass(frozen=True, eq=False, repr=False)
class Model(Program):
    """A `Program`, some of whose inputs are weights. `weights` maps the names of these inputs to arrays.

    Programs derived from a model (`vjp`, `grad`, ...) are models with the same weights.
    """

    weights: Mapping[str, Array] = field(default_factory=dict)

    def __reduce__(self) -> tuple[Any, ...]:
        load, arguments = super().__reduce__()
        return _unpickled, (load, arguments, dict(self.weights))

    @property
    def held(self) -> Mapping[str, str]:
        """Maps weights that training skips unless the user names them, such as masks, to the reasons."""
        reasons = {port.name: held_because(port) for port in self.inputs}
        return {name: reason for name, reason in reasons.items() if reason}

    @property
    def defaults(self) -> Mapping[str, Array]:
        """The weights by name. A call may omit these inputs."""
        return self.weights

    def batch(self, in_axes: Axes, size: int, out_axes: Axes = 0) -> "Model":
        """The model for `size` values of some inputs, as by `Program.batch`.

        Weights are not batched unless `in_axes` names them. If `in_axes` is a number, it is the axis of all inputs that
        are not weights. A batched weight becomes an input without an array.
        """
        if isinstance(in_axes, int):
            in_axes = {port.name: in_axes for port in self.inputs if port.name not in self.weights}
        batched = super().batch(in_axes, size, out_axes)
        own = {p.name for p, q in zip(self.inputs, batched.inputs, strict=True) if p.type == q.type}
        weights = {name: x for name, x in self.weights.items() if name in own}
        return _with(batched, weights)

    def arguments(self, *others: Array) -> list[Array]:
        """The arguments of all inputs, in order. `others` are the arguments of inputs that are not weights.

        Raises `InputError` if the number of `others` differs from the number of remaining inputs.
        """
        names = [port.name for port in self.inputs if port.name not in self.weights]
        if len(names) != len(others):
            raise InputError(
                f"expects {len(names)} arrays beside the weights ({', '.join(names)}), got {len(others)}"
            )
        rest = iter(others)
        return [self.weights[x.name] if x.name in self.weights else next(rest) for x in self.inputs]

    def with_weights(self, weights: Mapping[str, Array]) -> "Model":
        """A copy of the model with other weights. Raises `RequestError` if names or types of the weights differ."""
        given = {}
        for port in self.inputs:
            if port.name not in self.weights:
                continue
            if port.name not in weights:
                raise RequestError(f"no array {port.name!r} among the weights")
            x, type_ = weights[port.name], described(port).type
            refuse_masked(x, f"the array {port.name!r}")
            if x.dtype.kind == "V" and type_.dtype is not None and x.dtype.itemsize == type_.dtype.itemsize:
                x = x.view(type_.dtype)  # NumPy's files cannot store some element types
            if x.dtype != type_.dtype or not type_.accepts(x.shape):
                raise RequestError(
                    f"weight {port.name!r} is {type_}, and the array is {x.dtype}{list(x.shape)}"
                )
            given[port.name] = x
        if more := [name for name in weights if name not in given]:
            raise RequestError(f"the model has no weight {more[0]!r}; it has: {', '.join(given) or 'none'}")
        return replace(self, weights=given)

    def compile_with_parameters(
        self,
        archive: str | os.PathLike[str],
        target: str = "cpu",
        *,
        lapack: str = LOOPS,
        limits: "Limits | None" = None,
        cached: bool = True,
    ) -> "Executable":
        """Compiles the model to a module that reads the weights from an archive, and writes the archive.

        The suffix of the archive is `.irpa` or `.safetensors`. The compiled module takes the inputs that are not
        weights. To load the module elsewhere, name the archive: `tiduc.runtime.load(module, parameters=archive)`.
        Raises `CompileError` if IREE cannot compile the model.
        """
        # Imported here, because the import of IREE takes longer than that of all of tiduc.
        from tiduc.backends.iree.build import build
        from tiduc.models.parameters import parameters_of
        from tiduc.runtime.run import Executable

        options = Options(target, lapack, limits, cached)
        vmfb = build(self.lower(), options, parameters=parameters_of(self, self.weights))
        write_weights(archive, self.weights)
        return Executable(vmfb, target, self.name, parameters=archive)


def model_of(
    module: ir.Module, weights: Mapping[str, Array], entry: str | None = None, opset: OpSet = OPSET
) -> Model:
    """The model of a function in a module. `weights` maps names of inputs to arrays."""
    return _with(from_module(module, entry, opset), weights)


def _with(program: Program, weights: Mapping[str, Array]) -> Model:
    """The program as a model with these weights."""
    own = {each.name: getattr(program, each.name) for each in fields(Program)}
    return Model(**own, weights=dict(weights))


def _unpickled(
    load: Callable[..., Program], arguments: tuple[object, ...], weights: Mapping[str, Array]
) -> Model:
    return _with(load(*arguments), weights)
