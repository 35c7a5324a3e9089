"""Makes a module smaller while a test still finds it interesting, by delta debugging with the edits of `edits.py`.

while some edit succeeds:
    for each edit, in order:
        try all changes that the edit finds at once, then each half of them, each quarter, ..., each single change;
        keep each result that is valid and interesting
"""

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from torch_mlir import ir

from tiduc.dialect.errors import RequestError
from tiduc.dialect.mlir.context import stage
from tiduc.dialect.ops.ir_types import IrOp
from tiduc.reduction.edits import EDITS, Edit

Test = Callable[[bytes], bool]
"""A function that takes the text of a module, and returns whether the module is interesting."""


@dataclass
class Reduction:
    """A reduction in progress: the smallest interesting module so far, and the number of candidates tested so far."""

    module: Any  # an `ir.Operation`
    test: Test
    deadline: float  # a value of `time.monotonic`
    tested: int = 0
    _known: dict[bytes, bool] = field(default_factory=dict)

    @property
    def is_over(self) -> bool:
        return time.monotonic() >= self.deadline

    @property
    def text(self) -> bytes:
        """The text of the smallest interesting module so far."""
        return written(self.module)

    def keep_if_interesting(self, candidate: IrOp) -> bool:
        """If the candidate is valid and interesting, makes it the current module. Returns whether it was kept."""
        try:
            candidate.verify()
        except ir.MLIRError:
            return False
        text = written(candidate)
        if text not in self._known:
            self.tested += 1
            self._known[text] = self.test(text)
        if self._known[text]:
            self.module = candidate
        return self._known[text]


def written(module: IrOp) -> bytes:
    """Prints a module. Arguments have the names that they have in the source."""
    text = module.operation.get_asm(binary=True, use_name_loc_as_prefix=True, assume_verified=True)
    assert isinstance(text, bytes)
    return text.rstrip(b"\n") + b"\n"


@stage
def reduce(module: ir.Module, test: Test, seconds: float = 600) -> Reduction:
    """Reduces a module for at most `seconds`, except that a running test is not interrupted.

    The result has the smallest interesting module that was found. Raises `RequestError` if the given module is not
    interesting.
    """
    reduction = Reduction(module.operation, test, time.monotonic() + seconds)
    if not reduction.keep_if_interesting(module.operation.clone().operation):
        raise RequestError(
            "the test does not find the module interesting after MLIR has parsed and printed it"
        )
    succeeded = True
    while succeeded and not reduction.is_over:
        succeeded = any([_reduced_by(reduction, edit) for edit in EDITS])
    return reduction


def _reduced_by(reduction: Reduction, edit: Edit) -> bool:
    """Applies as many changes of an edit as possible. Returns whether any change was kept."""
    succeeded = False
    size = len(edit(reduction.module))
    while size and not reduction.is_over:
        at = 0
        while at < len(edit(reduction.module)) and not reduction.is_over:
            candidate = reduction.module.clone().operation
            for place in edit(candidate)[at : at + size]:
                place()
            if reduction.keep_if_interesting(candidate):
                succeeded = True
            else:
                at += size
        size //= 2
    return succeeded
