"""Makes a module smaller while a test still finds it interesting: delta debugging with the edits of `edits.py`.

while some edit succeeds:
    for each edit, in order:
        apply it at all of its places at once, then at halves, quarters, ..., then at single places;
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
"""Whether the text of a module is interesting."""


@dataclass
class Reduction:
    """A reduction in progress: the smallest interesting module so far, and how many candidates were tested."""

    module: Any  # an operation
    test: Test
    deadline: float  # of `time.monotonic`
    tested: int = 0
    _known: dict[bytes, bool] = field(default_factory=dict)

    @property
    def is_over(self) -> bool:
        return time.monotonic() >= self.deadline

    @property
    def text(self) -> bytes:
        """The text of the module."""
        return written(self.module)

    def keep_if_interesting(self, candidate: IrOp) -> bool:
        """Keeps a candidate if it is valid and interesting, and returns whether it is."""
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
    """The text of a module. Arguments keep the names that they have in the source."""
    text = module.operation.get_asm(binary=True, use_name_loc_as_prefix=True, assume_verified=True)
    assert isinstance(text, bytes)
    return text.rstrip(b"\n") + b"\n"


@stage
def reduce(module: ir.Module, test: Test, seconds: float = 600) -> Reduction:
    """The reduction with the smallest interesting module that was found within some seconds.

    Raises `RequestError` if the module itself is not interesting.
    """
    reduction = Reduction(module.operation, test, time.monotonic() + seconds)
    if not reduction.keep_if_interesting(module.operation.clone().operation):
        raise RequestError("the test does not find the module interesting once MLIR has printed it")
    succeeded = True
    while succeeded and not reduction.is_over:
        succeeded = any([_reduced_by(reduction, edit) for edit in EDITS])
    return reduction


def _reduced_by(reduction: Reduction, edit: Edit) -> bool:
    """Applies an edit at as many places as possible. Returns whether an application was kept."""
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
