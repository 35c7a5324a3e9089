"""legalize_for_iree: rewrites a StableHLO module into one that IREE compiles and runs as the specification says.

    %0 = stablehlo.power %x, %y    ->    the power of |x|, its sign, and the values for x = 0 or y = 0

`@legalize(name)` registers a function `(b, op) -> values`, a pattern, for the ops called `name`. A pattern emits ops
before `op` and returns the new results of `op`. It returns None if IREE handles `op` correctly. If an op has no rewrite
and IREE cannot run the op, tiduc refuses the program before IREE's compiler runs. `fault.py` records the fault of IREE
that each pattern or pass works around. The folders:

    emit/             tools that emit code, for the other folders
    faults/           IREE computes a wrong value, or its compiler crashes
    missing/          IREE lacks the op, or lacks it for some types or shapes
    linear_algebra/   factorizations and solves; IREE has none
    fast/             IREE is correct but slow
    modules/          edits of IREE's own IR, between the runs of its compiler
    static/           static libraries, which need no runtime of IREE's

`pipeline.py` has all passes in order. `emit/marks.py` has the copies that IREE never merges with other values.
"""

from importlib import import_module

__all__ = ["legalize_for_iree"]


def __getattr__(name: str) -> object:
    # The process in `modules/process.py` does not need the pipeline, which is slow to import.
    if name == "legalize_for_iree":
        return import_module("tiduc.backends.iree.pipeline").legalize_for_iree
    raise AttributeError(f"module 'tiduc.backends.iree' has no attribute {name!r}")
