"""TrainStep: a training step, and functions that compute the model's loss and outputs from the state of the step.

    step     (state..., inputs..., targets..., rate) -> (loss, new state...)
    loss     (weights..., inputs..., targets...) -> loss
    infer    (weights..., inputs...) -> outputs

One module, or one static library, contains all three functions. `loss` and `infer` use the model in evaluation mode:
its batch norm reads the running statistics, and it has no dropout.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, replace

from torch_mlir import ir

from tiduc.backends.backend import Lowered
from tiduc.dialect.errors import RequestError
from tiduc.dialect.graph.functions import functions_in, symbol
from tiduc.dialect.mlir.context import stage
from tiduc.dialect.shapes.types import is_float, rank
from tiduc.dialect.turns import computed_once
from tiduc.models.model import Model
from tiduc.ports import InputPort, described
from tiduc.program import Program
from tiduc.runtime.arrays import Array
from tiduc.runtime.random_seed import is_random_seed
from tiduc.training.compose import move
from tiduc.training.losses import UPDATED, with_loss
from tiduc.training.roles import INPUT, PARAMETER, STORED, TARGET, of_roles, role_of, with_role

STEP, LOSS, INFER = "step", "loss", "infer"
"""The names of the functions in a module. A step without `loss` and `infer` is called `main` instead."""


@dataclass(frozen=True, eq=False, repr=False)
class TrainStep(Model):
    """The program of a training step. Its `weights` are the initial state.

    `further` contains the programs `loss` and `infer` if the step was built with them. Their weights have the names of
    arrays in the state. `identity` is the name of the model that files of the state contain. By default, it is the
    hash that `identity_of` computes.
    """

    further: Mapping[str, Program] = field(default_factory=dict)
    identity: str = ""

    @computed_once
    @stage
    def module(self) -> ir.Module:
        """Returns the `ir.Module` with the function of the step, followed by the functions in `further`."""
        if not self.further:
            alone: ir.Module = super().module
            return alone
        joined = ir.Module.create()
        for name, program in {STEP: replace(self, further={}), **self.further}.items():
            entry = move(program, joined, f"{name}.")
            ir.SymbolTable.replace_all_symbol_uses(entry, name, joined.operation)
            function = next(each for each in functions_in(joined) if symbol(each) == entry)
            function.attributes["sym_name"] = ir.StringAttr.get(name)
            del function.attributes["sym_visibility"]
        return joined

    def lower(self) -> Lowered:
        """Lowers the step and the functions in `further` to StableHLO for a backend."""
        lowered = super().lower()
        if not self.further:
            return lowered
        others = {name: program.signature for name, program in self.further.items()}
        return replace(lowered, name=STEP, others=others)

    def __reduce__(self) -> tuple[object, ...]:
        alone = replace(self, further={}) if self.further else self
        return _unpickled, (*Model.__reduce__(alone), dict(self.further), self.identity)


def _unpickled(
    make: Callable[..., Model], arguments: tuple[object, ...], further: Mapping[str, Program], identity: str
) -> TrainStep:
    model = make(*arguments)
    return replace(as_step(model, model.weights, identity), further=further)


def as_step(program: Program, arrays: Mapping[str, Array], identity: str) -> TrainStep:
    """Makes a `TrainStep` from its program. `arrays` maps names to the initial state. Other arrays are ignored."""
    known = {each.name: getattr(program, each.name) for each in fields(Program)}
    state = {port.name: arrays[port.name] for port in program.inputs if port.name in arrays}
    return TrainStep(**known, weights=state, identity=identity)


def with_inference(step: TrainStep, model: Program, loss: str | Program) -> TrainStep:
    """Adds the functions `infer` and `loss` to a step. `model` is the model in evaluation mode.

    `loss` is the loss that the step minimizes. If the name of an input of the model is the name of an array in the
    step's state, the input reads this array. With the loss "none", there is no function `loss`, unless the model's only
    output is a float scalar. Raises `RequestError` if the model is in training mode, or if its weights differ from the
    step's weights.
    """
    _check_mode(model)
    _check_state(step, model)
    plain = _without_arrays(model)
    further = {INFER: _described(step, plain, plain)}
    if loss != "none" or _is_loss(model):
        evaluated = with_loss(plain, loss)
        further = {
            LOSS: _described(step, plain, replace(evaluated, outputs=evaluated.outputs[:1])),
            **further,
        }
    return replace(step, further=further)


def _without_arrays(model: Program) -> Program:
    return Program(**{each.name: getattr(model, each.name) for each in fields(Program)})


def _is_loss(model: Program) -> bool:
    types = [port.type for port in model.outputs]
    return len(types) == 1 and is_float(types[0]) and not rank(model.outputs[0].value)


def _check_mode(model: Program) -> None:
    updates = [port.name.removesuffix(UPDATED) for port in model.outputs if port.name.endswith(UPDATED)]
    if updates:
        raise RequestError(
            f"the model for inference is in training mode: it updates {', '.join(updates)}; export it after "
            "model.eval()"
        )
    if any(is_random_seed(described(port)) for port in model.inputs):
        raise RequestError(
            "the model for inference draws random numbers, such as those of dropout: export it after model.eval()"
        )


def _check_state(step: TrainStep, model: Program) -> None:
    """Raises `RequestError` unless the step's state has all weights of the model, with equal types and values.

    Also raises it if the model reads no parameter of the step.
    """
    weights = model.weights if isinstance(model, Model) else {}
    stored = {port.name: port for port in step.inputs if role_of(port) in STORED}
    for port in model.inputs:
        known = stored.get(port.name)
        if known is None and port.name in weights:
            raise RequestError(
                f"the model for inference has a weight {port.name!r}, which the training step lacks: export both "
                "from one module"
            )
        if known is not None and known.type != port.type:
            raise RequestError(
                f"{port.name!r} is {port.type} in the model for inference, and {known.type} in the training step"
            )
        if port.name in weights and not _equal(weights[port.name], step.weights[port.name]):
            raise RequestError(
                f"the weight {port.name!r} has other values in the model for inference: export both from one module"
            )
    trained = of_roles(step, PARAMETER)
    if not any(port.name in trained for port in model.inputs):
        raise RequestError(f"the model for inference reads no parameter of the step: {', '.join(trained)}")


def _equal(x: Array, y: Array) -> bool:
    return x.tobytes() == y.tobytes()


def _described(step: TrainStep, model: Program, program: Program) -> Program:
    """Gives each input of `program` a role.

    An input with the name of an array in the step's state has the role of this array. Other inputs have the role
    `INPUT` if `model` has them, else `TARGET`.
    """
    roles = {port.name: role_of(port) for port in step.inputs if role_of(port) in STORED}
    own = {port.name for port in model.inputs}

    def one(port: InputPort) -> InputPort:
        return with_role(port, roles.get(port.name) or (INPUT if port.name in own else TARGET))

    return replace(program, inputs=tuple(one(port) for port in program.inputs))
