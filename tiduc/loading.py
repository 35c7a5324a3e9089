"""load: reads a program from a file, text, bytecode, or an exported program of JAX or PyTorch."""

from typing import TYPE_CHECKING, TypeAlias

from torch_mlir import ir

from tiduc.dialect.errors import RequestError
from tiduc.passes.rules import OPSET
from tiduc.passes.rules.registry import OpSet
from tiduc.program import Program, from_module
from tiduc.reading import READABLE, Readable, isolated_module, module_in

if TYPE_CHECKING:
    import jax
    import torch

    from tiduc.runtime.process import Limits

    Traced: TypeAlias = jax.stages.Lowered | jax.export.Exported | torch.export.ExportedProgram


def load(
    source: "Readable | Traced",
    entry: str | None = None,
    opset: OpSet = OPSET,
    inline: bool = False,
    loop_memory: str = "auto",
    *,
    memory: str = "",
    relu: bool = False,
    equal_within: float | None = None,
    isolated: bool = False,
    limits: "Limits | None" = None,
) -> Program:
    """Reads a program from a file, StableHLO text (a `str` with newlines or braces), bytecode, or an exported object.

    Exported objects are JAX's `Lowered` and `Exported`, and PyTorch's `ExportedProgram`, whose weights become
    constants. `entry` names the public function; the default is `main`, or else the only public function. `opset` holds
    the derivative rules. With `inline`, every call that can be inlined is inlined. `memory` is a budget, as in
    `Program.rematerialize`. `loop_memory` selects how derivatives of loops store residuals: "stack", "sqrt", "log" or
    "auto". With `relu`, a maximum of a value and 0 has derivative 0 at a tie. In derivatives, eigenvalues count as
    equal if they differ by at most `equal_within` units in the last place of the largest eigenvalue. With `isolated`, a
    separate process first reads an untrusted file, text or bytecode, within `limits`. Raises `TiducError` if the source
    contains no valid program.
    """
    if isinstance(source, READABLE):
        dialects = opset.dialects
        module = isolated_module(source, entry, dialects, limits) if isolated else module_in(source, dialects)
    else:
        module = _module_of(source, limits)
    return from_module(module, entry, opset, inline, loop_memory, relu, equal_within).rematerialize(memory)


def _module_of(source: "Traced", limits: "Limits | None") -> ir.Module:
    """The module of an exported program. Raises `RequestError` for any other object."""
    kinds = {f"{kind.__module__}.{kind.__name__}" for kind in type(source).__mro__}
    framework = {
        kind.partition(".")[0] for kind in kinds if kind.endswith((".Lowered", ".Exported", "Program"))
    }
    if "jax" in framework:
        from tiduc.models.from_jax import from_jax

        module: ir.Module = from_jax(source).module
        return module
    if "torch" in framework:
        from tiduc.models.from_torch import from_torch

        module = from_torch(source, limits=limits).module
        return module
    raise RequestError(
        f"cannot load an object of type {type(source).__name__}; import a function of JAX with "
        "tiduc.from_jax(function, *example), and a module of PyTorch with tiduc.from_torch(module, example_inputs)"
    )
