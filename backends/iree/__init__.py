"""legalize_for_iree: rewrites a StableHLO module into one that IREE compiles and runs as the specification says.

    %0 = stablehlo.power %x, %y    ->    ops that compute |x|^y, then set its sign and the results for x = 0 or y = 0

`@legalize(name)` registers a function `(b, op) -> values`, a pattern, for the ops called `name`. A pattern emits ops
before `op` and returns the new results of `op`. It returns None if IREE handles `op` correctly. If an op has no rewrite
and IREE cannot run the op, tiduc refuses the program before IREE's compiler runs. `fault.py` records the fault of IREE
that each pattern or pass works around. The folders:

    emit/             emitters of code, which the other folders use
    faults/           IREE computes a wrong value, or its compiler crashes
    missing/          IREE lacks the op, or lacks it for some types or shapes
    linear_algebra/   factorizations and solves, which IREE lacks
    fast/             IREE is correct but slow
    modules/          changes IREE's own IR between the runs of its compiler
    static/           compiles programs to static libraries, which run without IREE's runtime

`pipeline.py` lists all passes in the order in which they run. `emit/marks.py` copies values so that IREE never merges
the copy with another value.
"""

from importlib import import_module

__all__ = ["legalize_for_iree"]


def __getattr__(name: str) -> object:
    # The pipeline is imported on first use, because its import is slow, and `modules/process.py` does not need it.
    if name == "legalize_for_iree":
        return import_module("tiduc.backends.iree.pipeline").legalize_for_iree
    raise AttributeError(f"module 'tiduc.backends.iree' has no attribute {name!r}")
