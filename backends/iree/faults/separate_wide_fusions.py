"""separate_wide_fusions: puts barriers between elementwise ops that form a large tree.

    %s1 = add %a, %b                                %s1 = add %a, %b
    ...                                             ...
    %s23 = add %s22, %x                      ->     %s23 = add %s22, %x
    %s24 = add %s23, %y                             %t = optimization_barrier %s23
    ...                                             %s24 = add %t, %y

IREE fuses such a tree into one dispatch, however many arrays the tree reads. Or IREE splits the tree into two
dispatches; the first dispatch then writes an array for each value that both need. But IREE's runtime does not load a
dispatch with more than 16 arrays on CUDA, or more than 32 or 64 on other devices. For example, a loss with a term for
each of 33 parameters exceeds a limit of 32. Elementwise ops do not form a tree if other ops are between them: for
example, the additions to the residual stream of a transformer.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import count

from torch_mlir import ir

from tiduc.backends.iree.emit.known import constant_splat
from tiduc.backends.iree.fault import crash
from tiduc.backends.iree.faults.separate_fusions import store
from tiduc.backends.iree.settings import Settings
from tiduc.dialect.graph.functions import outer_first
from tiduc.dialect.ops.ir_types import IrOp, IrValue
from tiduc.dialect.ops.traits import BROADCASTING, ELEMENTWISE

_FUSED = BROADCASTING | ELEMENTWISE

_MOST, _MOST_ON_OTHERS = 24, 10
"""The largest number of arrays that a tree may read or write: on CPUs, and on other devices.

A value of the tree counts as written if it has several readers, because IREE may write it to memory.
"""


@dataclass(eq=False)
class _Tree:
    """A set of ops with results of one shape, which IREE may fuse into one dispatch.

    `arrays` are the values that the ops read from outside of the tree. `shared` counts the ops' results that have
    several readers. `most` limits the number of arrays plus `shared`. `number` orders the trees by their first ops.
    `within` is the tree into which this tree has been merged, or None. `bits` is the bit mask that `bit` returns, or 0.
    """

    number: int
    most: int
    arrays: set[IrValue] = field(default_factory=set)
    shared: int = 0
    within: "_Tree | None" = None
    bits: int = 0

    def bit(self, numbers: Iterator[int]) -> int:
        """The bit mask of this tree and the trees merged into it. If it has no bit, sets one that no tree has yet."""
        self.bits = self.bits or 1 << next(numbers)
        return self.bits

    def root(self) -> "_Tree":
        """The tree to which the ops of this tree belong now: the tree itself, unless it was merged into another one."""
        tree = self
        while tree.within is not None:
            tree = tree.within
        if tree is not self:
            self.within = tree
        return tree

    def takes(self, other: "_Tree") -> bool:
        """Merges the other tree into this tree and returns True.

        If both together would have too many arrays, changes nothing and returns False.
        """
        if other is self:
            return True
        if self.shared + other.shared + len(self.arrays | other.arrays) > self.most:
            return False
        self.shared += other.shared
        self.bits |= other.bits
        self.arrays |= other.arrays
        other.within = self
        return True


@crash(
    "IREE does not load dispatches of more than 32 arrays, or 16 on CUDA; tiduc puts barriers into large trees.",
    "sum_of_many_arrays",
)
def separate_wide_fusions(module: ir.Module | IrOp, settings: Settings) -> None:
    """Inserts barriers into the large trees of a module, in place. Takes time linear in the number of ops."""
    trees: dict[IrValue, _Tree] = {}
    # For each value, the bit mask of the trees on which the value depends through ops outside of these trees.
    behind: dict[IrValue, int] = {}
    numbers, bits, splats = count(), count(), set[IrValue]()
    most = _MOST if settings.cpu else _MOST_ON_OTHERS
    for op in outer_first(module.operation):
        if op.name == "stablehlo.constant" and constant_splat(op.results[0]) is not None:
            splats.add(op.results[0])  # IREE copies such a constant into each dispatch
            continue
        read, before = [x for x in op.operands if x not in splats], 0
        for x in read:
            before |= behind.get(x, 0)
        tree = _Tree(next(numbers), most) if op.name in _FUSED else None
        left = []
        for x, other in _latest_first(trees, read):
            if tree is None or other is None or x.type.shape != op.results[0].type.shape:
                left.append((x, other))
            elif before & other.root().bits:
                left.append((x, other))
            elif not tree.takes(other.root()):
                left.append((store(x), other))
        for x, other in left:
            if tree is not None:
                tree.arrays.add(x)
            if other is not None:
                before |= other.root().bit(bits)
        if tree is not None:
            tree.shared += len(list(op.results[0].uses)) > 1
            trees[op.results[0]] = tree
        if before:
            behind.update(dict.fromkeys(op.results, before))


def _latest_first(trees: dict[IrValue, _Tree], xs: Sequence[IrValue]) -> list[tuple[IrValue, _Tree | None]]:
    """Pairs each value with its tree, or None. The latest trees come first, and values without a tree last."""
    found = [(x, trees.get(x)) for x in xs]
    return sorted(found, key=lambda each: each[1].root().number if each[1] else -1, reverse=True)
