"""A program in the form in which IREE's compiler gets it."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from tiduc.dialect.errors import CompileError
from tiduc.dialect.mlir.artifacts import BYTECODE

_DECLARATION = re.compile(rb"^ *func\.func private @(?P<name>\w+)\([^{\n]*$", re.MULTILINE)
_NEVER = re.compile(rb" attributes \{no_inline, noinline\}")
_JOINS = re.compile(rb"while|case|\bif|\bscf|\bcf")
"""Matches parts of the names of ops that are loops or conditionals, in MLIR text."""
# Bytecode stores names between zero bytes. Whole names are matched, because parts could match bytes of constants.
_JOINS_IN_BYTECODE = re.compile(rb"\0(?:while|case|if|scf|cf)\0")


@dataclass(frozen=True)
class Source:
    """One program to compile: MLIR text, MLIR bytecode or a StableHLO portable artifact.

    - `name`: the program's name in diagnostics.
    - `flags`: compiler flags in addition to the target's flags.
    - `workgroups`: the definitions of functions that the text only declares, by name. Each function computes one
      workgroup of a dispatch.
    - `repeats`: the text has functions of repeated ops, which are inlined after IREE has formed dispatches.
    - `threaded`: the program runs on IREE's device with several threads.
    - `places`: tiduc, not IREE, decides where the arrays of the program's execution regions lie in memory.
    - `poisons`: the program fills memory with NaN before and after its use, so that wrong reads show in the results.
    """

    stablehlo: str | bytes
    target: str = "cpu"
    name: str = "<stdin>"
    flags: tuple[str, ...] = ()
    workgroups: Mapping[str, str] = field(default_factory=dict)
    repeats: bool = False
    threaded: bool = False
    places: bool = False
    poisons: bool = False

    @property
    def text(self) -> bytes:
        """The text or bytecode of the program. It only declares the functions in `workgroups`."""
        # surrogateescape restores the original bytes of text that was read from bytes that are not UTF-8.
        text = self.stablehlo
        return text.encode("utf-8", "surrogateescape") if isinstance(text, str) else text

    @property
    def whole(self) -> bytes:
        """The text of the program with the definitions of all functions, for a single run of the compiler."""
        text = may_be_inlined(self.text) if self.repeats else self.text
        return _with_workgroups(text, self.workgroups) if self.workgroups else text

    @property
    def has_edits(self) -> bool:
        """Whether tiduc edits the program's IR between runs of the compiler. Edits of VM code do not count."""
        return self.repeats or self.places or bool(self.workgroups)

    def in_one_run(self) -> "Source":
        """Returns an equal program that a single run of the compiler lowers to VM code, without edits in between."""
        text = (
            self.whole.decode("utf-8", "surrogateescape") if isinstance(self.stablehlo, str) else self.whole
        )
        return replace(self, stablehlo=text, workgroups={}, repeats=False, places=False)

    @property
    def may_branch(self) -> bool:
        """Whether the program may have a loop or a conditional."""
        joins = _JOINS_IN_BYTECODE if self.text.startswith(BYTECODE) else _JOINS
        return joins.search(self.text) is not None


def may_be_inlined(text: bytes) -> bytes:
    """Returns the text of a program without the attributes that keep IREE from inlining functions of repeated ops.

    Raises `CompileError` if no function has these attributes.
    """
    allowed, count = _NEVER.subn(b"", text)
    if not count:
        raise CompileError("tiduc's text marks no function of repeats")
    return allowed


def _with_workgroups(text: bytes, workgroups: Mapping[str, str]) -> bytes:
    """Returns the text of a program in which declarations are replaced by the definitions in `workgroups`.

    Raises `CompileError` if the text does not declare all of these functions.
    """
    put_in = set[str]()

    def defined(declaration: re.Match[bytes]) -> bytes:
        name = declaration["name"].decode()
        if name not in workgroups:
            return declaration[0]
        put_in.add(name)
        return workgroups[name].encode("utf-8", "surrogateescape")

    whole = _DECLARATION.sub(defined, text)
    if put_in != workgroups.keys():
        raise CompileError(
            "tiduc's text declares no workgroup of this name: " + ", ".join(workgroups.keys() - put_in)
        )
    return whole
