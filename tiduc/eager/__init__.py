"""Eager reverse mode: programs that run op by op, and then call `backward()`.

    from tiduc import eager

    x = eager.Array([3.0, 4.0], requires_grad=True)
    y = (x * x).sum()
    y.backward()
    x.grad                                                       # Array([6., 8.], dtype=float64)

`Array` is one frontend. Another frontend records its operations with a `Recorder`, and calls `backward` with
an `Executor`.

    array, elements, views, indexing, places                Array, with views, reads and writes
    elementwise, movement, products, reductions             NumPy's functions on values
    functions, arrangement, moves, totals, norms            NumPy's functions on arrays
    linear_algebra, fourier, array_api                      numpy.linalg, numpy.fft, and the Array API standard
    session, record, graphs, executors, host                run an op, and record it
    gradients, cotangents, walk, joined                     backward
    calls, checkpoints                                      call whole programs, and rematerialize
    programs                                                convert the ops that a function runs to a program
"""

from importlib import import_module

from tiduc.eager.array import Array
from tiduc.eager.calls import call
from tiduc.eager.checkpoints import checkpoint
from tiduc.eager.executors import Compiling, Executor, Interpreter, Iree
from tiduc.eager.gradients import backward_from, grad
from tiduc.eager.graphs import Graphs, RecordedGraph, TransposedLinear
from tiduc.eager.programs import program_of
from tiduc.eager.record import EagerInput, EagerOutput, KeySource, Recorder, Trace
from tiduc.eager.session import Session, executing, no_grad, rehearsing, session
from tiduc.eager.walk import backward, recorded_backward

# When these modules are imported, they register implementations of NumPy's functions.
for _name in (
    "arrangement",
    "array_api",
    "fourier",
    "functions",
    "linear_algebra",
    "moves",
    "norms",
    "totals",
):
    import_module(f"tiduc.eager.{_name}")

__all__ = [
    "Array",
    "Compiling",
    "EagerInput",
    "EagerOutput",
    "Executor",
    "Graphs",
    "Interpreter",
    "Iree",
    "KeySource",
    "RecordedGraph",
    "Recorder",
    "Session",
    "Trace",
    "TransposedLinear",
    "backward",
    "backward_from",
    "call",
    "checkpoint",
    "executing",
    "grad",
    "no_grad",
    "program_of",
    "recorded_backward",
    "rehearsing",
    "session",
]
