"""`call`: calls a whole program from an eager program. The trace records the call as one invocation."""

from numpy.typing import ArrayLike

from tiduc.dialect.errors import InputError
from tiduc.eager.array import Array, valued
from tiduc.eager.session import session
from tiduc.program import Program
from tiduc.runtime.signature import TensorType


def call(program: Program, *arguments: ArrayLike) -> tuple[Array, ...]:
    """Runs a program on arrays, and returns its outputs.

    The trace has one record for the call. The record keeps only the arguments and the outputs, so `backward` recomputes
    intermediate values. Raises `InputError` if the arguments do not match the program's inputs, and `RequestError` for
    a program with dynamic shapes.
    """
    graph = session().recorder.graphs.program(program)
    values = [valued(x) for x in arguments]
    given = [TensorType.of(x.data) for x in values]
    if given != list(graph.input_types):
        raise InputError(f"{program.name} takes {program.signature}, got ({', '.join(map(str, given))})")
    return tuple(Array.of(y) for y in session().invoke(graph, values))
