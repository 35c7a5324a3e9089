"""edits: runs edits (functions that change IREE's own IR) by their names, and handles edits that fail.

IREE's IR between its phases has no specification, and these edits move arrays in memory. The docstring of each edit
states the invariants of the IR on which the edit relies, and the edit checks them on each module (`invariants.py`). If
an invariant does not hold, an edit for speed is skipped, with a remark. If the edit corrects the program, the program
is refused instead. MLIR verifies the module after each edit that has changed it.
"""

from collections.abc import Callable, Mapping, Sequence

from iree.compiler import ir

from tiduc.backends.iree.modules.hosting import host_arrays
from tiduc.backends.iree.modules.invariants import UNEXPECTED, Broken, require
from tiduc.backends.iree.modules.job import REMARK, say
from tiduc.backends.iree.modules.placement import place_arrays
from tiduc.backends.iree.modules.repeats import inline_repeats
from tiduc.backends.iree.modules.scheduling import drop_reached_timepoints, keep_splats
from tiduc.backends.iree.modules.vm.large_arrays import keep_large_arrays
from tiduc.backends.iree.modules.vm.poison import poison_arrays
from tiduc.backends.iree.modules.vm.recordings import copies_bound_arrays
from tiduc.backends.iree.modules.vm.references import copy_passed_references
from tiduc.backends.iree.modules.vm.registers import widen_block_arguments
from tiduc.backends.iree.modules.vm.releases import replace_early_releases
from tiduc.backends.iree.modules.workgroups import put_in_workgroups

Edit = Callable[[ir.Operation], bool]
"""A function that edits a module in place, and returns whether it has changed anything."""

SPEED: dict[str, Edit] = {
    edit.__name__: edit for edit in (inline_repeats, host_arrays, place_arrays, keep_large_arrays)
}
"""Edits for speed. An edit that fails is skipped."""
CORRECTIONS: dict[str, Edit] = {
    edit.__name__: edit
    for edit in (
        *(keep_splats, drop_reached_timepoints),
        *(replace_early_releases, copy_passed_references, widen_block_arguments),
    )
}
"""Edits without which a program could be wrong or IREE rejects it. If such an edit fails, the program is refused."""
CHECKS: dict[str, Edit] = {poison_arrays.__name__: poison_arrays}
"""Edits for tests, which make faults of other edits visible. The program is refused if such an edit fails."""


class RefusedEdit(Exception):
    """Raised to refuse a program. The message gives the reason."""


class Recorded(Exception):
    """Raised to request that the program be compiled again, with flags that make each run record its commands."""


def edited(module: ir.Operation, names: Sequence[str], workgroups: Mapping[str, str]) -> ir.Operation:
    """Applies the edits `names` to a module, in place, and returns the module.

    If an edit for speed fails, returns a copy of the module without this edit. `workgroups` is passed to
    `put_in_workgroups`. Raises `RefusedEdit` if another edit fails, and `Recorded` if the program must be compiled
    again.
    """
    with module.context:
        for name in names:
            if name == copies_bound_arrays.__name__:
                if or_refuse(copies_bound_arrays, module):
                    raise Recorded
            elif name == put_in_workgroups.__name__:
                or_refuse(lambda module: put_in_workgroups(module, workgroups), module, name)
            elif name in CORRECTIONS or name in CHECKS:
                or_refuse((CORRECTIONS | CHECKS)[name], module)
            else:
                module = unless_broken(SPEED[name], module)
    return module


def unless_broken(edit: Edit, module: ir.Operation) -> ir.Operation:
    """Applies an edit for speed to a module, in place, and returns the module.

    If an invariant is broken, prints a remark, and returns a copy of the module from before the edit.
    """
    before = module.clone().operation
    try:
        if edit(module):
            require(bool(module.verify()), "MLIR verifies the module")
        return module
    except (Broken, ir.MLIRError, *UNEXPECTED) as error:
        say(
            REMARK,
            f"compiled without '{edit.__name__}': IREE's IR breaks an invariant of this edit ({_said(error)}); "
            "the program is right, but may be slower or take more memory",
        )
        return before


def or_refuse(edit: Edit, module: ir.Operation, name: str = "") -> bool:
    """Applies an edit that must not be skipped. Returns whether the edit has changed the module.

    Raises `RefusedEdit` if an invariant is broken. The message has `name`, or the function's own name if it is empty.
    """
    try:
        changed = edit(module)
        if changed:
            require(bool(module.verify()), "MLIR verifies the module")
        return changed
    except (Broken, ir.MLIRError, *UNEXPECTED) as error:
        raise RefusedEdit(
            f"IREE's IR breaks an invariant of the edit '{name or edit.__name__}' ({_said(error)}), and without this "
            "edit the program could be wrong. Compile for another target or with engine='xla', and report this"
        ) from error


def _said(error: Exception) -> str:
    return str(error) if isinstance(error, Broken) else f"{type(error).__name__}: {error}"
