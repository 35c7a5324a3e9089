"""The role of each input of a training step. It is an attribute of the input, so that files keep it.

func.func @main(%w: tensor<3xf32> {tidu.name = "w", tidu.role = "parameter"}, ...)
"""

from typing import Any

from torch_mlir import ir

from tiduc.dialect.ops.attributes import readable
from tiduc.dialect.ops.verify import ROLE
from tiduc.ports import Function, InputPort, with_attributes

PARAMETER, OPTIMIZER, BUFFER, SEED = "parameter", "optimizer", "buffer", "seed"
FROZEN, INPUT, TARGET, RATE = "frozen", "input", "target", "rate"
"""The roles: trained weights, the optimizer's state, weights that the model updates, seeds of random numbers, frozen
weights, inputs of the model, inputs of the loss, the learning rate."""

STATE = (PARAMETER, OPTIMIZER, BUFFER, SEED)
"""The roles of inputs that a step updates."""
STORED = (*STATE, FROZEN)
"""The roles of inputs that the state file contains."""


def with_role(port: InputPort, role: str) -> InputPort:
    """The input with a role."""
    return with_attributes(port, {ROLE: ir.StringAttr.get(role)})


def role_of(port: InputPort) -> str:
    """The role of an input; "" if it has none."""
    role: Any = None if port.attributes is None else readable(ir.DictAttr(port.attributes), ROLE)
    return role.value if isinstance(role, ir.StringAttr) else ""


def of_roles(program: Function, *roles: str) -> list[str]:
    """The names of the inputs with one of these roles, in order."""
    return [port.name for port in program.inputs if role_of(port) in roles]
