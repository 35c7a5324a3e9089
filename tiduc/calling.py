"""calling: calls a compiled program like a Python function, with arguments by position or by name.

gradient = program.grad("x")
gradient(a, x=x)             compiled for CPUs at the first call
gradient.on("cuda")(a, x)    compiled for another target, once
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from tiduc.backends.backend import Runnable
from tiduc.dialect.errors import InputError
from tiduc.runtime.arrays import Array
from tiduc.runtime.random_seed import HINT, is_random_seed
from tiduc.runtime.signature import SignatureValue

if TYPE_CHECKING:
    import torch


@dataclass(frozen=True, eq=False)
class Call:
    """A compiled program that can be called like a Python function.

    `defaults` maps the names of inputs to arrays, such as the weights of a model. A call may omit these inputs. An
    argument that is given by name replaces the default.
    """

    compiled: Runnable
    defaults: Mapping[str, Array] = field(default_factory=dict)

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        """Calls the program. Returns its output if there is exactly one, and otherwise a tuple of its outputs.

        Arguments are arrays as in `Executable`. Raises `InputError` for a missing, repeated or unknown argument, and
        for an array whose type differs from the type of its input.
        """
        results = self.compiled(*self.ordered(arguments, named))
        return results[0] if len(results) == 1 else results

    def ordered(self, arguments: "Sequence[torch.Tensor]", named: Mapping[str, Any]) -> list[Any]:
        """Returns the arguments of the compiled program in the order of its inputs."""
        free = [value.name for value in self.compiled.signature.inputs if value.name not in self.defaults]
        return ordered(self.compiled.signature.inputs, free, arguments, named, self.defaults)


def ordered(
    inputs: Sequence[SignatureValue],
    positional: Sequence[str],
    arguments: Sequence[object],
    named: Mapping[str, object],
    defaults: Mapping[str, object],
) -> list[object]:
    """Returns an argument for each input, in the order of `inputs`.

    `positional` lists the names of the inputs to which `arguments` belong, in order. `named` and `defaults` map names
    of inputs to arguments. Raises `InputError` for a missing, repeated or unknown argument.
    """
    names = [value.name for value in inputs]
    listed = ", ".join(names) or "none"
    if unknown := [name for name in named if name not in names]:
        raise InputError(f"no input {unknown[0]!r}; the inputs are: {listed}")
    if len(arguments) > len(positional):
        raise InputError(
            f"the program takes {len(positional)} arguments ({', '.join(positional) or 'none'}), "
            f"but the call has {len(arguments)}"
        )
    given = dict(zip(positional, arguments, strict=False))
    if repeated := [name for name in given if name in named]:
        raise InputError(f"argument {repeated[0]!r} is given by position and by name")
    given = {**defaults, **given, **named}
    if missing := [name for name in names if name not in given]:
        seeds = {value.name for value in inputs if is_random_seed(value)}
        hint = "" if seeds.isdisjoint(missing) else f"; {HINT}"
        raise InputError(f"no argument for {', '.join(missing)}; the inputs are: {listed}{hint}")
    return [given[name] for name in names]
