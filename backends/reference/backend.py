"""The backend `reference`: StableHLO's interpreter, which compiles nothing and computes each op as specified."""

from functools import partial

from numpy.typing import ArrayLike

from tiduc.backends.backend import Backend, Lowered, Options, Runnable
from tiduc.backends.named_main import text_with_main
from tiduc.backends.reference.interpreter import Interpreted
from tiduc.backends.static_shapes import at_each_shape
from tiduc.dialect.errors import RequestError
from tiduc.runtime.arrays import Array
from tiduc.runtime.checks import check_count, check_sizes, checked
from tiduc.runtime.process import Limits
from tiduc.runtime.signature import Signature


class InterpretedProgram:
    """A program that the interpreter runs. Each call checks the arguments against `signature`."""

    def __init__(self, program: Lowered, limits: Limits | None = None) -> None:
        self.signature: Signature = program.signature
        self.entry = program.name
        self._main = Interpreted(text_with_main(program.module), limits)

    def __call__(self, *arguments: ArrayLike) -> tuple[Array, ...]:
        """Runs the program and returns the outputs.

        Raises `InputError`, which names the argument, for a wrong number of arguments, a wrong dtype or a wrong shape.
        """
        check_count(self.entry, self.signature, arguments)
        inputs = self.signature.inputs
        arrays = [checked(x, value, i) for i, (x, value) in enumerate(zip(arguments, inputs, strict=True))]
        check_sizes(self.signature, arrays)
        return self._main(arrays)


def interpreted(program: Lowered, options: Options) -> Runnable:
    """Prepares a program for the interpreter.

    A program with dynamic shapes is prepared at the first call with each combination of argument shapes. Raises
    `RequestError` for a target other than `cpu`, or if `lapack` is not the default.
    """
    if options.target != "cpu":
        raise RequestError(f"the reference interpreter has no target {options.target!r}; it has: cpu")
    if options.lapack != Options.lapack:
        raise RequestError("--lapack is for IREE only: the reference interpreter does not call LAPACK")
    return at_each_shape(program, partial(InterpretedProgram, limits=options.limits))


BACKEND = Backend(
    "reference", "use the reference interpreter of StableHLO, which is slow and exact", interpreted
)
