"""The role of each input of a training step. It is an attribute of the input, so that it is also in `.mlir` files.

func.func @main(%w: tensor<3xf32> {tidu.name = "w", tidu.role = "parameter"}, ...)
"""

from typing import Any

from torch_mlir import ir

from tiduc.dialect.ops.attributes import readable
from tiduc.dialect.ops.verify import ROLE
from tiduc.ports import Function, InputPort, with_attributes

PARAMETER, OPTIMIZER, BUFFER, SEED = "parameter", "optimizer", "buffer", "seed"
FROZEN, INPUT, TARGET, RATE = "frozen", "input", "target", "rate"
"""The roles, in this order: trained weights, the optimizer's state, weights that the model itself updates (such as the
running mean of batch norm), seeds of random numbers, frozen weights, inputs of the model, inputs of the loss, and the
learning rate."""

STATE = (PARAMETER, OPTIMIZER, BUFFER, SEED)
"""The roles of the inputs that a training step updates."""
STORED = (*STATE, FROZEN)
"""The roles of the inputs that a file with a training state contains."""


def with_role(port: InputPort, role: str) -> InputPort:
    """Returns the input with the attribute for `role`."""
    return with_attributes(port, {ROLE: ir.StringAttr.get(role)})


def role_of(port: InputPort) -> str:
    """Returns the role of an input. Returns "" if it has no role."""
    role: Any = None if port.attributes is None else readable(ir.DictAttr(port.attributes), ROLE)
    return role.value if isinstance(role, ir.StringAttr) else ""


def of_roles(program: Function, *roles: str) -> list[str]:
    """Returns the names of the inputs that have one of these roles, in the order of the inputs."""
    return [port.name for port in program.inputs if role_of(port) in roles]
