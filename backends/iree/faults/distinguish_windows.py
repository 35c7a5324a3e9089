"""distinguish_windows: replaces an initial value of a reduce_window by a mark if it may equal an earlier initial value.

%y = reduce_window %x, 0                 %y = reduce_window %x, 0
%z = reduce_window %x, 0        ->       %z = reduce_window %x, (a mark of 0)

A mark (`emit/marks.py`) is a copy that IREE never merges with another value.
"""

from torch_mlir import ir

from tiduc.backends.iree.emit.emitter import rewriting
from tiduc.backends.iree.emit.known import constant_splat
from tiduc.backends.iree.emit.marks import marked
from tiduc.backends.iree.fault import crash
from tiduc.dialect.graph.functions import outer_first


@crash(
    "IREE fills one array for windows of equal initial values and sizes, on the stack; tiduc marks one initial value.",
    "pools_of_equal_sizes",
)
def distinguish_windows(module: ir.Module) -> None:
    """Replaces, in place, an initial value of a reduce_window by a mark if it may equal an earlier initial value.

    Only initial values for results of equal types are compared. IREE fills an array with the initial value, and lowers
    the reduce_window to updates of this array. It merges equal filled arrays; the merged array then becomes a second
    result of the dispatch of the first reduce_window, and this dispatch does not compile. An initial value that is not
    a splat constant always gets a mark, because IREE may find later that it is equal to another one.
    """
    seen = set()
    for op in outer_first(module.operation):
        if op.name == "stablehlo.reduce_window":
            first = len(op.results)
            for i, y in enumerate(op.results, first):
                value = constant_splat(op.operands[i])
                start = str(y.type), str(value)
                if value is None or start in seen:
                    with rewriting(op) as b:
                        op.operands[i] = marked(b, op.operands[i])
                seen.add(start)
