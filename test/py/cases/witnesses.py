"""Finds the witnesses of IREE's faults.

A witness is a program that IREE without tiduc rejects, that crashes IREE, or for which IREE computes wrong results. Its
name is the name of a test case, optionally with a target and a kind before it. For example, `power` is compiled for
CPUs, and `dynamic/gather` has dynamic sizes. `threads/loops_from_one_array`, `cuda/negated_sum`, `vulkan/sine`,
`vulkan/dynamic/gather` and `vmvx/compare` are compiled for other targets.
"""

import tempfile
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from iree.compiler.tools.binaries import find_tool

from cases import iree_cases, iree_dynamic_cases, iree_gpu_cases
from cases.iree_case import Array, Case, function
from cases.iree_dispatches import DISPATCHES
from cases.iree_host_programs import HOST_PROGRAMS
from cases.iree_programs import PROGRAMS
from tiduc.backends.iree.compile import _linkers, environment_of_compilers
from tiduc.backends.iree.targets import find_target
from tiduc.backends.reference.interpreter import evaluate
from tiduc.dialect.errors import TiducError
from tiduc.runtime.process import Limits, run_within
from tiduc.runtime.run import Executable

TARGETS = {"cuda": "cuda", "threads": "cpu-threads", "vulkan": "vulkan:llvmpipe", "vmvx": "vmvx"}


@dataclass(frozen=True)
class Witness:
    """A program with one function `main`, its arguments, and its expected results.

    `known` is the text with static sizes. `earlier` contains the arguments of earlier calls. `refused` states that the
    last call must end with an error.
    """

    text: str
    arguments: tuple[Array, ...]
    expected: tuple[Array, ...] | None = None
    target: str = "cpu"
    rtol: float = 0.0
    known: str = ""
    earlier: tuple[tuple[Array, ...], ...] = ()
    refused: bool = False

    def results(self) -> tuple[Array, ...]:
        """Returns the expected results if they are given, or else those of the reference interpreter."""
        if self.expected is not None:
            return self.expected
        return evaluate(self.known or self.text, self.arguments)

    def agrees(self, results: Sequence[Array]) -> bool:
        """Returns whether the results equal the expected results up to the tolerance `rtol`."""
        # Elements near 0 may be sums of larger numbers. The tolerance is then also absolute.
        nearly = self.rtol if 1e-14 < self.rtol < 1e-9 else 0
        return all(
            np.allclose(y, x, rtol=self.rtol, atol=nearly, equal_nan=x.dtype.kind in "fc")
            for y, x in zip(results, self.results(), strict=True)
        )

    def holds(self, run: Executable) -> bool:
        """Returns whether the last call gives the expected results or the expected error."""
        try:
            # The results of earlier calls stay on the device, so that the last call gets other memory.
            earlier = [run.keep(*arguments) for arguments in self.earlier]
            results = run(*self.arguments)
            del earlier
        except TiducError:
            return self.refused
        return not self.refused and self.agrees(results)


def find_witness(name: str) -> Witness:
    """Returns the witness with this name. Raises `KeyError` if it does not exist."""
    if name in PROGRAMS or name in DISPATCHES:
        text, arguments, expected = PROGRAMS[name] if name in PROGRAMS else DISPATCHES[name]
        rtol = 1e-5 if expected is not None or name == "null_reference" else 0.0
        return Witness(text, arguments, expected, _target(name), rtol)
    if name in HOST_PROGRAMS:
        text, arguments, earlier, refused = HOST_PROGRAMS[name]
        return Witness(text, arguments, None, _target(name), 1e-5, earlier=earlier, refused=refused)
    *path, case = name.split("/")
    if "dynamic" in path:
        dynamic = iree_dynamic_cases.CASES[case]
        expected = None if dynamic.expected is None else (dynamic.expected,)
        return Witness(
            dynamic.text(), dynamic.arguments, expected, _target(name), 0, dynamic.text(known=True)
        )
    cases: dict[str, Case] = iree_gpu_cases.CASES if path else iree_cases.CASES
    if case not in cases:
        file = "iree_gpu_cases.py" if path else "iree_cases.py"
        raise KeyError(f"no witness {name!r}: add a case to test/py/cases/{file}")
    case_ = cases[case]
    return Witness(function("main", case_), case_.arguments, (case_.expected,), _target(name), case_.rtol)


def _target(name: str) -> str:
    return TARGETS.get(name.partition("/")[0], "cpu")


def fails_alone(witness: Witness) -> bool:
    """Returns whether IREE without tiduc cannot compile or load the witness, or computes other results.

    The program runs in this process.
    """
    vmfb = compiled_alone(witness.text, witness.target)
    try:
        return vmfb is None or not witness.holds(Executable(vmfb, witness.target))
    except TiducError:  # the runtime cannot load the module
        return True


def compiled_alone(text: str, target: str, seconds: float = 60) -> bytes | None:
    """Returns the module that IREE's compiler emits without tiduc's rewrites, or None if the compiler fails."""
    described = find_target(target)
    command = [find_tool("iree-compile"), *described.flags, *_linkers(described), "-", "-o", "-"]
    environment = environment_of_compilers(tempfile.gettempdir())
    ended = run_within(command, text.encode(), Limits(seconds=seconds), environment, None)
    return ended.output if ended.code == 0 and ended.output else None
