"""Selects the inputs that a compiled module reads from an archive when the module is loaded.

See `backends/iree/parameters.py`.
"""

from collections.abc import Mapping

from tiduc.backends.iree.parameters import without_parameters
from tiduc.dialect.errors import RequestError
from tiduc.ports import described
from tiduc.program import Program
from tiduc.runtime.arrays import Array
from tiduc.runtime.signature import Signature


def parameters_of(program: Program, arrays: Mapping[str, Array]) -> list[str]:
    """The names of the inputs that `arrays` supplies.

    Raises `RequestError` if the program has no input of such a name, or if the input's type differs from the array's.
    """
    ports = {port.name: port for port in program.inputs}
    for name, array in arrays.items():
        if name not in ports:
            raise RequestError(f"the program has no input {name!r}; the inputs are {', '.join(ports)}")
        type_ = described(ports[name]).type
        if array.dtype != type_.dtype or not type_.accepts(array.shape):
            raise RequestError(
                f"input {name!r} has the type {type_}, but the parameter is {array.dtype}{list(array.shape)}"
            )
    return list(arrays)


def signature_with_parameters(program: Program, arrays: Mapping[str, Array]) -> Signature:
    """The program's signature without the inputs that `arrays` supplies. Raises the errors of `parameters_of`."""
    return without_parameters(program.signature, parameters_of(program, arrays))
