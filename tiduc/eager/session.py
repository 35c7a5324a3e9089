"""Sessions hold the executor and the recorder of eager arrays. Context managers switch sessions and recording."""

import functools
import itertools
import math
import sys
from collections.abc import Hashable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from types import FrameType
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, DTypeLike

from tiduc.dialect.turns import turn
from tiduc.eager.executors import Compiling, Executor, Iree, Rehearsal
from tiduc.eager.graphs import Emit, Graphs, RecordedGraph
from tiduc.eager.joined import Joined
from tiduc.eager.recent import LIMIT, Recent
from tiduc.eager.record import EagerInput, Recorder
from tiduc.runtime.arrays import refuse_masked

Operand = EagerInput | int | float | complex
"""A value, or a Python number. A Python number takes the type of the other operands, as in NumPy."""


class Key:
    """The key of an eager value. `backward` stores the value's cotangent as `grad` of the arrays in `holders`.

    `holders` has weak references to these arrays.
    """

    __slots__ = ("holders",)

    def __init__(self) -> None:
        self.holders: list[Any] = []


class Keys:
    """A `KeySource` of new `Key`s."""

    def fresh(self) -> Key:
        return Key()


@dataclass(frozen=True, eq=False)
class Invocation:
    """One run of a graph: its inputs, its results, and the file, line and column of the user's code that ran it."""

    graph: RecordedGraph
    inputs: Sequence[EagerInput]
    results: Sequence[EagerInput]
    place: tuple[str, int, int]


Dtypes = tuple["np.dtype[Any]", ...]
Known = tuple[Dtypes, bool, RecordedGraph]
"""The result of `elementwise._known`, which is cached for each universal function and each tuple of operand types."""


class Session:
    """Runs invocations on an executor. Records an invocation if an input requires grad.

    Caches the `limit` most recently used graphs. The default executor caches as many compiled graphs.
    """

    def __init__(self, executor: Executor | None = None, limit: int = LIMIT) -> None:
        self.executor: Executor = executor if executor is not None else Iree(limit=limit)
        self.recorder = Recorder(Keys(), Graphs(limit))
        self.universal: Recent[Hashable, Known] = Recent(limit)

    def apply(self, kind: Hashable, emit: Emit, values: Sequence[EagerInput]) -> list[EagerInput]:
        """Runs the ops that `emit` builds, and returns their results. `kind` identifies the ops (see `Graphs.op`)."""
        specs = tuple([(x.data.dtype, x.data.shape) for x in values])
        return self.invoke(self.recorder.graphs.op(kind, specs, emit), values)

    def invoke(self, graph: RecordedGraph, values: Sequence[EagerInput]) -> list[EagerInput]:
        """Runs a graph on these values, and returns its results."""
        results = self._invoke(graph, values)
        if (log := _log.get()) is not None:
            log.append(Invocation(graph, list(values), results, _place()))
        return results

    def _invoke(self, graph: RecordedGraph, values: Sequence[EagerInput]) -> list[EagerInput]:
        data = self.executor.execute_forward(graph, [x.data for x in values])
        for y in data:
            y.setflags(write=False)
        if not _recording.get() or not any([x.requires_grad for x in values]):
            return [EagerInput(Key(), y) for y in data]
        outputs = self.recorder.record(graph, values, dict(zip(graph.outputs, data, strict=True)))
        return [output.read(y) for output, y in zip(outputs, data, strict=True)]


_recording: ContextVar[bool] = ContextVar("recording", default=True)
_log: ContextVar[list[Invocation] | None] = ContextVar("log", default=None)
_session: ContextVar[Session | None] = ContextVar("session", default=None)


_default: list[Session] = []
"""Contains the default session of the process. The list is empty before the first use."""


def session() -> Session:
    """The current session, which `executing` sets. The default is one session per process, which runs on IREE."""
    if (own := _session.get()) is not None:
        return own
    with turn():
        if not _default:
            _default.append(Session())
    return _default[0]


@contextmanager
def executing(where: Executor | Session) -> Iterator[Session]:
    """Context manager: runs its body in a new session on this executor. The body may use arrays of other sessions.

    If `where` is a session, the body runs in that session, and uses the caches of the session.
    """
    token = _session.set(where if isinstance(where, Session) else Session(where))
    try:
        yield session()
    finally:
        _session.reset(token)


@contextmanager
def rehearsing() -> Iterator[None]:
    """Context manager: runs its body on the interpreter. The executor then compiles all graphs of the body at once.

    Without `rehearsing`, each forward op is compiled when it first runs, which takes longer in total. Each `backward`
    in the body becomes one graph, which a later `backward` through equal ops uses. `rehearsing` has no effect if the
    executor does not compile.
    """
    here = session()
    executor = here.executor
    if not isinstance(executor, Compiling):
        yield
        return
    rehearsal = Rehearsal()
    here.executor = rehearsal
    try:
        yield
    finally:
        here.executor = executor
    executor.prepare(list(rehearsal.graphs))
    if isinstance(own := getattr(executor, "joined", None), Joined):
        own.update(rehearsal.joined)


@contextmanager
def no_grad() -> Iterator[None]:
    """Context manager: turns recording off. A later `backward` treats results computed in its body as constants."""
    token = _recording.set(False)
    try:
        yield
    finally:
        _recording.reset(token)


@contextmanager
def recording_if(wanted: bool) -> Iterator[None]:
    """Context manager: while its body runs, recording is on if `wanted`, else off."""
    token = _recording.set(wanted)
    try:
        yield
    finally:
        _recording.reset(token)


@contextmanager
def logged() -> Iterator[list[Invocation]]:
    """Context manager: yields a list to which each invocation in its body is appended, even if recording is off."""
    log: list[Invocation] = []
    token = _log.set(log)
    try:
        yield log
    finally:
        _log.reset(token)


def _place() -> tuple[str, int, int]:
    """The file, line and column of the innermost frame outside of tiduc and NumPy; ("", 0, 0) if all are inside."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and frame.f_globals.get("__name__", "").partition(".")[0] in ("tiduc", "numpy"):
        frame = frame.f_back
    if frame is None:
        return "", 0, 0
    positions = next(itertools.islice(frame.f_code.co_positions(), frame.f_lasti // 2, None), (None,) * 4)
    return frame.f_code.co_filename, frame.f_lineno, (positions[2] or 0) + 1


def is_recording() -> bool:
    """Whether invocations are currently recorded."""
    return _recording.get()


def apply(kind: Hashable, emit: Emit, *values: EagerInput) -> EagerInput:
    """Runs the ops that `emit` builds in the current session, and returns their single result."""
    (result,) = session().apply(kind, emit, values)
    return result


def number(x: complex, dtype: "np.dtype[Any]") -> EagerInput:
    """A Python number as a value of this type. Values of recently used real numbers are cached."""
    if isinstance(x, complex):
        return constant(x, dtype)
    return _number(x, math.copysign(1, x) if isinstance(x, float) else 0, dtype)


@functools.lru_cache(typed=True)
def _number(x: float, sign: float, dtype: "np.dtype[Any]") -> EagerInput:
    """x as a value. `sign` distinguishes 0 from -0 in the key of the cache, because these two numbers are equal."""
    return constant(x, dtype)


def constant(data: ArrayLike, dtype: DTypeLike | None = None) -> EagerInput:
    """A value that does not require grad. It is a copy of `data`, which NumPy converts to an array."""
    refuse_masked(data)
    copy = np.array(data, dtype, order="C")
    copy.setflags(write=False)
    return EagerInput(Key(), copy)
