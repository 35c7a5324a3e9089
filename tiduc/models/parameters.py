"""The inputs that a compiled module reads from an archive when it is loaded (see `backends/iree/parameters.py`)."""

from collections.abc import Mapping

from tiduc.backends.iree.parameters import without_parameters
from tiduc.dialect.errors import RequestError
from tiduc.ports import described
from tiduc.program import Program
from tiduc.runtime.arrays import Array
from tiduc.runtime.signature import Signature


def parameters_of(program: Program, arrays: Mapping[str, Array]) -> list[str]:
    """The names of the inputs that `arrays` supplies.

    Raises `RequestError` if an input does not exist or its type differs from the type of the array.
    """
    ports = {port.name: port for port in program.inputs}
    for name, array in arrays.items():
        if name not in ports:
            raise RequestError(f"no input {name!r} for a parameter; the inputs are {', '.join(ports)}")
        type_ = described(ports[name]).type
        if array.dtype != type_.dtype or not type_.accepts(array.shape):
            raise RequestError(
                f"input {name!r} is {type_}, and the parameter is {array.dtype}{list(array.shape)}"
            )
    return list(arrays)


def signature_with_parameters(program: Program, arrays: Mapping[str, Array]) -> Signature:
    """The signature of the module whose parameters are the given arrays. Raises the errors of `parameters_of`."""
    return without_parameters(program.signature, parameters_of(program, arrays))
