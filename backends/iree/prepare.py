"""Prepares a program for IREE's compiler: runs the passes of `PIPELINE`, and attaches the program's signature."""

import os
import re
import stat
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import accumulate
from typing import NamedTuple

from torch_mlir import ir

from tiduc.backends.backend import CALLBACK, Lowered, Options
from tiduc.backends.iree.compiler_progress import PRINTS_IR
from tiduc.backends.iree.emit.emitter import NEVER_INLINED
from tiduc.backends.iree.emit.workgroups import declare_workgroup, detached
from tiduc.backends.iree.linear_algebra.host import calls_back
from tiduc.backends.iree.missing.refuse_unsupported import refuse_types
from tiduc.backends.iree.parameters import reading_parameters
from tiduc.backends.iree.pipeline import Group, run_group
from tiduc.backends.iree.plan import SPEED, Attempt, Facts, attempts, inlined, plain
from tiduc.backends.iree.settings import Settings
from tiduc.backends.iree.source import Source, may_be_inlined
from tiduc.backends.iree.targets import INLINED, TARGETS, Target, find_target
from tiduc.backends.iree.work import THREADED, work
from tiduc.dialect.errors import RequestError
from tiduc.dialect.facts.costs import size_in_bytes
from tiduc.dialect.graph.functions import functions_in, symbol, within
from tiduc.dialect.mlir.constants import has_resources
from tiduc.dialect.mlir.context import run_passes, stage
from tiduc.dialect.mlir.emit import bytecode
from tiduc.dialect.ops.ir_types import IrOp
from tiduc.runtime.signature import DEVICE, LAPACK, REFLECTION, reflection

_PLACED = 2**15
"""tiduc, not IREE, places a program's arrays in memory if they have at least this many bytes in total.

Placing arrays takes a further step of the compiler.
"""
_OF_SCHEDULE = PRINTS_IR, "--iree-scheduling"
"""If a user's flag begins with one of these prefixes, the flag may change IREE's phase `stream`."""
_FILES = re.compile(rb'"((?:[^"\\]|\\.)*)":\d+:\d+')
"""Matches the names of files in MLIR locations."""


class Prepared:
    """A program, the attempts to compile it (`plan.py`), and for each attempt the source that IREE's compiler gets.

    - `flags`: further flags of IREE's compiler for all attempts.
    - `parameters`: the names of the inputs that the module reads from an archive.
    - `is_plain`: in all attempts, IREE places the arrays, and loops copy their loop-carried values.
    - `inlines`: the attempts in which IREE inlines the functions of equal layers come first.

    Raises `CompileError` if the target lacks one of the element types. Raises `RequestError` if the options ask for
    LAPACK callbacks, but the target cannot call the host.
    """

    @stage
    def __init__(
        self,
        program: Lowered,
        options: Options,
        flags: Sequence[str] = (),
        parameters: Sequence[str] = (),
        is_plain: bool = False,
        inlines: bool = False,
    ) -> None:
        self._program, self._flags, self._parameters = program, tuple(flags), parameters
        self.target = find_target(options.target)
        settings = _settings(self.target, options)
        refuse_types(program.module, self.target)
        self._modules = _Modules(program.module.operation)
        self._without_repeats: set[tuple[Settings, tuple[Group, ...]]] = set()
        facts = _facts(program.module, self._modules, settings) if settings.fast else Facts()
        every = attempts(facts, self.target, settings)
        every = plain(every) if is_plain else every
        self.attempts = inlined(every) if inlines else every

    def sources(self) -> Iterator[tuple[Attempt, Source | None]]:
        """Yields the attempts in order, each with its source, or None if the attempt does not apply.

        The passes of an attempt run when its source is requested.
        """
        for attempt in self.attempts:
            yield attempt, self.source(attempt)

    def applicable(self) -> Iterator[Source]:
        """Yields the sources of the attempts that apply, in order. There is at least one source."""
        return (source for _, source in self.sources() if source is not None)

    @stage
    def source(self, attempt: Attempt) -> Source | None:
        """Returns the source of an attempt, or None if the attempt does not apply to the program."""
        if attempt.inlines and (attempt.settings, attempt.groups) in self._without_repeats:
            return None
        *before, last = attempt.groups
        known, done = self._modules.after(attempt.settings, before)
        if not {*attempt.needs} <= {*done, last}:
            return None
        module = known.module.clone().operation
        run_group(last, module, attempt.settings)
        if last == "legal":
            module.verify()
        source = self._described(attempt, module, known.kernels)
        if source is not None and self._parameters:
            text = reading_parameters(source.stablehlo, self._program.signature, self._parameters)
            source = replace(source, stablehlo=text)
        if source is None or not attempt.whole:
            return source
        return source.in_one_run() if source.has_edits else None

    def _described(
        self, attempt: Attempt, module: ir.Operation, kernels: Sequence[ir.Operation]
    ) -> Source | None:
        """Returns the source of an attempt: the text or bytecode of `module`, with locations and signatures.

        Adds copies of `kernels` to the end of the module first. Returns None if the attempt makes IREE inline the
        functions of equal layers, but the module has no such functions.
        """
        copies = [
            kernel.clone(ir.InsertionPoint(module.regions[0].blocks[0])).operation for kernel in kernels
        ]
        _describe(module, self._program, attempt.device)
        repeats = any(NEVER_INLINED in op.attributes for op in functions_in(module))
        repeats = repeats and not has_resources(module)
        if not repeats:
            self._without_repeats.add((attempt.settings, attempt.groups))
        if attempt.inlines and not repeats:
            return None
        flags = (*attempt.flags, *(INLINED if kernels else ()), *self._flags)
        empty = Source("", self.target.name, f"@{self._program.name}", flags, threaded=attempt.threaded)
        if has_resources(module):
            if _names_pipes(str(module.get_asm(enable_debug_info=True, large_resource_limit=16))):
                run_passes(module, "builtin.module(strip-debuginfo)")
            return replace(empty, stablehlo=bytecode(module))
        workgroups = dict(map(declare_workgroup, copies))
        # Without `assume_verified`, MLIR might print all ops in the generic form, because the module has unknown ops.
        text = str(module.get_asm(enable_debug_info=True, assume_verified=True))
        if _names_pipes(text):
            text = str(module.get_asm(assume_verified=True))
        source = replace(
            empty,
            stablehlo=text,
            workgroups=workgroups,
            places=attempt.may_place and _may_edit_schedule(flags) and _is_worth_placing(module),
        )
        if attempt.inlines:
            return replace(source, stablehlo=may_be_inlined(source.text).decode("utf-8", "surrogateescape"))
        return replace(source, repeats=repeats)


# ---- modules are cached after each group of passes ---------------------------------------------------------------


class _Known(NamedTuple):
    """A module after some groups of passes, the vector kernels detached from it, and the number of rewrites so far."""

    module: ir.Operation
    kernels: Sequence[ir.Operation] = ()
    rewrites: int = 0


_COUNTING: tuple[Group, ...] = ("host", "loops", "carries")
"""The groups that return the number of all their rewrites. If such a group returns 0, it has not changed the module."""


class _Modules:
    """Runs sequences of groups of passes on a program, and caches the module after each group.

    Attempts that begin with the same groups and settings thus run these groups only once.
    """

    def __init__(self, module: ir.Operation) -> None:
        self._known: dict[tuple[Settings | None, tuple[Group, ...]], _Known] = {(None, ()): _Known(module)}
        self._idle: set[tuple[Settings, tuple[Group, ...]]] = set()

    def after(self, settings: Settings, groups: Sequence[Group]) -> tuple[_Known, tuple[Group, ...]]:
        """Returns the module after `groups`, and `groups` without those of `_COUNTING` that changed nothing.

        Callers must not change the module.
        """
        done: tuple[Group, ...] = ()
        known = self._known[None, done]
        for each in groups:
            following = settings, (*done, each)
            if following not in self._known and following not in self._idle:
                self._run(following, each, known)
            if following in self._known:
                known, done = self._known[following], following[1]
        return known, done

    def _run(self, following: tuple[Settings, tuple[Group, ...]], last: Group, before: _Known) -> None:
        settings, _ = following
        module = before.module.clone().operation
        rewrites = run_group(last, module, settings)
        if last in _COUNTING and not rewrites:
            self._idle.add(following)
            return
        if last == "legal":
            module.verify()
        # Passes of later groups do not change kernels, so the kernels are detached from the module until it is printed.
        kernels = detached(module) if last == SPEED[-1] else before.kernels
        self._known[following] = _Known(module, kernels, before.rewrites + rewrites)


def _facts(program: ir.Module | IrOp, modules: _Modules, settings: Settings) -> Facts:
    """Runs the groups up to "legal", and returns the facts about the program that determine the attempts."""
    # `planned` is estimated before the rewrites, because data tiling does not speed up convolutions that are rewritten
    # as products, and because `work` cannot estimate vector kernels.
    planned = work(program)
    fast, _ = modules.after(settings, SPEED)
    legal, done = modules.after(settings, (*SPEED, "host", "legal"))
    rest = work(legal.module)
    return Facts(
        tiled=planned.tiled,
        rewritten=fast.rewrites > 0,
        kernels=bool(fast.kernels),
        threaded=planned.threaded or rest.threaded,
        divided=planned.beside - rest.beside >= THREADED,
        loops=bool(within(legal.module, ("stablehlo.while",))),
        counted="host" in done,
        resources=has_resources(legal.module),
    )


def _settings(target: Target, options: Options) -> Settings:
    """Returns the settings of passes for a target and the user's options."""
    # Some patterns for CPUs call the C library, which a module can do only if its code is a shared library.
    cpu = target.shared
    if options.lapack == CALLBACK and not cpu:
        cpus = ", ".join(known.name for known in TARGETS.values() if known.shared)
        raise RequestError(
            f"target {target.name!r} cannot call LAPACK on the host; these targets can: {cpus}"
        )
    return Settings(
        cpu=cpu,
        spirv=target.spirv,
        cuda=target.name.partition(":")[0] == "cuda",
        tensor_cores=target.tensor_cores,
        lapack=options.lapack,
        fused=target.fused,
        vectors=target.vectors,
        fast=options.fast,
    )


# ---- attributes describe the program in its source -----------------------------------------------------------


def _describe(module: ir.Operation, program: Lowered, device: str) -> None:
    """Adds reflection attributes to a module's public functions.

    They have the function's signature, and the module's requirements: its device, and LAPACK if it calls LAPACK.
    """
    of_module = {DEVICE: ir.StringAttr.get(device)} if device else {}
    if calls_back(module):
        of_module[LAPACK] = ir.StringAttr.get(CALLBACK)
    first, *rest = functions_in(module)
    signatures = {symbol(first): program.signature, **program.others}
    for function in (first, *(each for each in rest if symbol(each) in program.others)):
        said = {REFLECTION: ir.StringAttr.get(reflection(signatures[symbol(function)])), **of_module}
        function.attributes["iree.reflection"] = ir.DictAttr.get(said)


def _names_pipes(text: str) -> bool:
    """Whether a location in `text` names a file that is not regular, such as a pipe.

    IREE's compiler would open the file to print a line of it in a diagnostic.
    """
    for written in set(_FILES.findall(text.encode("utf-8", "surrogateescape"))):
        name = re.sub(rb"\\([0-9A-F]{2})", lambda byte: bytes.fromhex(byte[1].decode()), written)
        with suppress(OSError, ValueError):  # the file does not exist
            if not stat.S_ISREG(os.stat(name).st_mode):
                return True
    return False


def _may_edit_schedule(flags: Sequence[str]) -> bool:
    """Whether tiduc may edit IREE's phase `stream`: it may unless the user's flags change this phase."""
    return not any(flag.startswith(_OF_SCHEDULE) for flag in flags)


def _is_worth_placing(module: ir.Operation) -> bool:
    """Whether a program's arrays have `_PLACED` bytes or more in total, so that it is worth a step to place them."""
    sizes = (size_in_bytes(y) for op in within(module) for y in op.results)
    return any(total >= _PLACED for total in accumulate(sizes))
