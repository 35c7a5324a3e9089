"""order: reorders the ops of a flat graph for a lower peak of live bytes.

    d1 d2 d3  c3 c2 c1  g1 g2 g3      ->      d3 c3 g3  d2 c2 g2  d1 c1 g1

For layer i, d_i is the derivative of an activation, c_i a cotangent, and g_i the derivative of the weights. A flat
graph computes its results one after the other. In a gradient, the products that compute the derivatives of weights come
last, and all their operands are live until these products run. Two rules change the order:

- An op whose result is at least as large as the operands that it frees is *sunk*: it runs right before its first
  reader.
- An op that frees more bytes than its result takes is *hoisted*: it runs as early as possible, with the sunk ops that
  only it reads. An op whose result the graph returns is hoisted, too: its result takes no further memory, and its
  operands are freed earlier.

If the graph may be split into two execution regions, results that are larger than their operands may come last, so that
only the second region allocates them. Examples are derivatives of weights in networks whose images are small.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from tiduc.passes.rematerialize.liveness import Liveness

SMALL = 2**12
"""Without a budget, graphs whose peak, without arguments and results, is below this many bytes keep their order."""

_MOST = 16
"""The largest number of orders that `results_last` tries."""

_GAIN = 0.98
"""Without a budget, the order changes only if the peak, without arguments and results, falls to this share or less."""


def ordered(model: Liveness, has_budget: bool = False) -> Liveness:
    """Returns the model with its ops in the order of `lowest_order`."""
    return in_order(model, lowest_order(model, has_budget))


def with_virtual_late(model: Liveness) -> Liveness:
    """Moves each virtual op right before its first reader, so that compilers fuse it. Returns the new model.

    The peak does not change.
    """
    return in_order(model, _virtual_late(model, range(len(model.ops))))


def in_order(model: Liveness, order: Sequence[int]) -> Liveness:
    """Returns the model with its ops in another order. Op numbers are changed to places in this order."""
    if list(order) == list(range(len(order))):
        return model
    place = [0] * len(order)
    for i, op in enumerate(order):
        place[op] = i
    needs, reads, roots = (
        [tuple([place[j] for j in side[i]]) for i in order]
        for side in (model.needs, model.reads, model.roots)
    )
    ops, size = [model.ops[i] for i in order], [model.size[i] for i in order]
    kept = {place[i]: count for i, count in model.kept.items()}
    return replace(model, ops=ops, size=size, needs=needs, reads=reads, roots=roots, kept=kept)


def lowest_order(model: Liveness, has_budget: bool = False) -> list[int]:
    """Returns the order of lowest peak that sinking and hoisting find, or the present order if the gain is too small.

    With a budget, any gain counts, because a better order needs less recomputation for an equal peak. For example, a
    transformer of 24 layers with a budget of 0.3 of its peak took 1.2 times, instead of 2.0 times, its usual time.
    """
    given = list(range(len(model.ops)))
    transient = model.peak(given) - model.throughout
    small, gain = (0, 1.0) if has_budget else (SMALL, _GAIN)
    if transient < small:
        return given
    stays = not_sunk(model)
    sunk = _sunk(model, stays)
    orders = [_hoisted(model, given), sunk, _hoisted(model, sunk, stays)]
    lowest, best = min(((model.peak(order), order) for order in orders), key=lambda pair: pair[0])
    return _virtual_late(model, best) if lowest - model.throughout <= gain * transient else given


def not_sunk(model: Liveness) -> list[bool]:
    """Returns for each op whether it is not sunk. It frees more bytes than its result takes, or no op needs it."""
    last: dict[int, int] = {}
    for i, reads in enumerate(model.reads):
        for j in reads:
            last[j] = i
    freed, taken = [0] * len(model.ops), model.taken
    for j, i in last.items():
        freed[i] += taken[j]
    needed = set().union(*model.needs) if model.needs else set()
    return [freed[i] > taken[i] or i not in needed for i in range(len(model.ops))]


def _sunk(model: Liveness, stays: Sequence[bool]) -> list[int]:
    """Returns the order in which each sunk op runs right before the first op that needs it. Others keep their order."""
    order: list[int] = []
    done = [False] * len(model.ops)
    for i, is_fixed in enumerate(stays):
        if is_fixed:
            append_needed(model.needs, i, done, order)
    return order


def append_needed(needs: Sequence[Sequence[int]], i: int, done: list[bool], order: list[int]) -> None:
    """Appends op i to a schedule, after the ops that it needs and that are not `done`."""
    stack = [i]
    while stack:
        j = stack[-1]
        missing = [k for k in needs[j] if not done[k]]
        if missing and not done[j]:
            stack += reversed(missing)
            continue
        stack.pop()
        if not done[j]:
            done[j] = True
            order.append(j)


def _virtual_late(model: Liveness, order: Sequence[int]) -> list[int]:
    """Returns the order in which each virtual op comes right before its first reader. The peak does not change."""
    late: list[int] = []
    done = [False] * len(model.ops)
    needed = set().union(*model.needs) if model.needs else set()
    for i in order:
        if model.size[i] or i not in needed:
            append_needed(model.needs, i, done, late)
    return late


# ---- moving large results to the end -------------------------------------------------------------------------


def results_last(model: Liveness) -> list[int]:
    """Returns the order in which large results come last if that lowers the peak, else the present order."""
    count = len(model.ops)
    best = list(range(count))
    if not model.may_split:
        return best
    lowest = model.peak(best)
    groups = sorted(_late_groups(model), key=lambda pair: pair[0])
    step = max(1, -(-len(groups) // _MOST))
    for end in range(step, len(groups) + 1, step):
        late = {i for _, group in groups[:end] for i in group}
        order = [i for i in range(count) if i not in late] + sorted(late)
        if (peak := model.peak(order)) < lowest:
            lowest, best = peak, order
    return best


def _late_groups(model: Liveness) -> Iterator[tuple[float, set[int]]]:
    """Yields groups of ops that may come last. Each is an op without readers, and sunk ops that only the group needs.

    Before each group, yields in the same pair a ratio: the bytes that the group reads, divided by the bytes of the
    graph's results that the group computes. Groups with a ratio of 1 or more are omitted.
    """
    readers: list[set[int]] = [set() for _ in model.ops]
    for i, needs in enumerate(model.needs):
        for j in needs:
            readers[j].add(i)
    stays = not_sunk(model)
    for result in (i for i, those in enumerate(readers) if not those):
        group, stack = {result}, [result]
        while stack:
            for j in model.needs[stack.pop()]:
                if j not in group and readers[j] <= group and (not stays[j] or j in model.kept):
                    group.add(j)
                    stack.append(j)
        bytes_ = sum(model.kept.get(i, 0) for i in group)
        read = sum(model.taken[j] for j in {j for i in group for j in model.reads[i]} - group)
        if read < bytes_:
            yield read / bytes_, group


# ---- hoisting ops that free memory ---------------------------------------------------------------------------


def _hoisted(model: Liveness, base: Sequence[int], stays: Sequence[bool] | None = None) -> list[int]:
    """Changes the order `base` so that groups of ops that free more bytes than they take run as early as possible.

    A group is an op and the sunk ops that only it needs, directly or through other ops of the group. Without `stays`,
    which flags the ops that are not sunk, each op is a group.
    """
    return _Hoisting(model, base, stays).order()


class _Hoisting:
    def __init__(self, model: Liveness, base: Sequence[int], stays: Sequence[bool] | None) -> None:
        self.model, self.base = model, base
        self.group = self._groups(stays)
        self.members: dict[int, list[int]] = {}
        for i in base:
            self.members.setdefault(self.group[i], []).append(i)
        count = len(base)
        self.waits_for = [0] * count  # for each group, the number of ops that it still waits for
        self.waiting: list[list[int]] = [[] for _ in base]  # for each op, the groups that wait for it
        self.readers = [0] * count  # for each op, the number of groups that read it and have not run
        self.sum = [0] * count  # for each op, the sum of the numbers of these groups
        self.reads: list[Iterable[int]] = [()] * count  # for each group, the other groups' ops that it reads
        for g, members in self.members.items():
            needed, reads = set(model.needs[g]), model.reads[g]
            if len(members) > 1:
                needed = {j for i in members for j in model.needs[i] if self.group[j] != g}
                reads = tuple(dict.fromkeys(j for i in members for j in model.reads[i] if self.group[j] != g))
            self.waits_for[g], self.reads[g] = len(needed), reads
            for j in needed:
                self.waiting[j].append(g)
            for j in reads:
                self.readers[j] += 1
                self.sum[j] += g
        self.done = [False] * count
        self.result: list[int] = []

    def _groups(self, stays: Sequence[bool] | None) -> list[int]:
        """Returns the group of each op. The number of a group is that of its last op."""
        readers: list[int] = [0] * len(self.base)
        reader = list(range(len(self.base)))
        for i, needs in enumerate(self.model.needs):
            for j in needs:
                readers[j] += 1
                reader[j] = i
        group = list(range(len(self.base)))
        if stays is not None:
            for i in reversed(range(len(self.base))):
                if readers[i] == 1 and not stays[i]:
                    group[i] = group[reader[i]]
        return group

    def order(self) -> list[int]:
        for i in self.base:
            g = self.group[i]
            if not self.done[g] and self.members[g][-1] == i:
                self._run(g)
        return self.result

    def _run(self, first: int) -> None:
        """Appends a group to the result, and then the groups that can be hoisted to this place."""
        stack = [first]
        while stack:
            g = stack.pop()
            if self.done[g] or (g != first and not self._frees(g)):
                continue
            self.done[g] = True
            self.result += self.members[g]
            stack += list(self._affected(g))[::-1]

    def _affected(self, g: int) -> Iterable[int]:
        """Updates the counts after group g has run. Yields the groups that may now be hoisted."""
        for i in self.members[g]:
            for other in self.waiting[i]:
                self.waits_for[other] -= 1
                yield other
        for j in self.reads[g]:
            self.readers[j] -= 1
            self.sum[j] -= g
            if self.readers[j] == 1:
                yield self.sum[j]

    def _frees(self, g: int) -> bool:
        """Whether a group can run now, and is worth hoisting.

        A group is worth hoisting if it frees more bytes than its results take, if all its results are virtual, or if it
        reads bytes and its results take none, because they are results of the graph, which are live throughout.
        """
        if self.waits_for[g]:
            return False
        size, takes = self.model.size, self.model.taken
        own = [j for j in self.model.roots[g] if self.group[j] == g and size[j]]
        if not own:
            return True
        taken = sum([takes[j] for j in own])
        freed = sum([takes[j] for j in self.reads[g] if self.readers[j] == 1])
        return freed > taken or (not taken and any(takes[j] for j in self.reads[g]))
