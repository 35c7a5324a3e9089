"""`Program.together`: merges programs derived from one program, such as a gradient and a Hessian-vector product."""

from dataclasses import replace
from typing import Any, TypeVar

from tiduc.dialect.errors import RequestError
from tiduc.ports import Function, InputPort, with_ports

P = TypeVar("P", bound=Function)


def together(self: P, *others: P) -> P:
    """(inputs of all programs...) -> (outputs of all programs...). Computes shared values once.

    An input that several programs have occurs once. If two inputs or two outputs have the same name, a number is
    appended to the name of the second. Raises `RequestError` for a program that is not derived from the same loaded
    program. Example: `program.together(program.grad(), program.hvp(), program.jacobian())`.
    """
    inputs: dict[str, InputPort] = {}
    for other in (self, *others):
        if other.view is not self.view:
            raise RequestError(f"@{other.name} and @{self.name} are not derived from one loaded program")
        for port in other.inputs:
            inputs.setdefault(port.key, port)
    outputs = [port for other in (self, *others) for port in other.outputs]
    ports: Any = {"inputs": with_ports((), list(inputs.values())), "outputs": with_ports((), outputs)}
    return replace(self, **ports)  # type: ignore[type-var]
