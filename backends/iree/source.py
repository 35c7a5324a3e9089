"""Source: a program for IREE's compiler."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from tiduc.backends.iree.modules.joined import may_be_inlined, with_workgroups


@dataclass(frozen=True)
class Source:
    """One program to compile: MLIR text, MLIR bytecode or a StableHLO portable artifact, and its name.

    `workgroups` holds functions that the text declares, as text by name: what workgroups of dispatches compute. With
    `repeats`, the text has functions of repeated ops, which `joined.py` inlines after IREE has made dispatches of them.
    `threaded`: IREE's device for threads runs the program. With `places_arrays`, the arrays of its execution regions
    are placed in memory by `placement.py`.
    """

    stablehlo: str | bytes
    target: str = "cpu"
    name: str = "<stdin>"  # the program's name in diagnostics
    flags: tuple[str, ...] = ()  # compiler flags, in addition to the target's
    workgroups: Mapping[str, str] = field(default_factory=dict)
    repeats: bool = False
    threaded: bool = False
    places_arrays: bool = False

    @property
    def text(self) -> bytes:
        """The program without the functions of workgroups."""
        # surrogateescape restores the original bytes of text that was read from bytes that are not UTF-8.
        text = self.stablehlo
        return text.encode("utf-8", "surrogateescape") if isinstance(text, str) else text

    @property
    def whole(self) -> bytes:
        """The program with the functions of workgroups, for one run of the compiler."""
        text = may_be_inlined(self.text) if self.repeats else self.text
        return with_workgroups(text, self.workgroups)
