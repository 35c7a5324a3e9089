"""order: a schedule of a flat graph whose peak of live bytes is lower, at equal cost.

    d1 d2 d3  c3 c2 c1  g1 g2 g3      ->      d3 c3 g3  d2 c2 g2  d1 c1 g1

The order of a merged graph follows its results: in a gradient, the products that give the derivatives of weights come
last, and everything that they read is live until then. Two moves mend this. An op that frees no more than it takes is
*sunk*: it runs when its first reader does. An op that frees more than it takes is *hoisted*: it runs as soon as that
holds, along with the sunk ops that it alone reads.
"""

from collections.abc import Iterable, Sequence

from tiduc.passes.rematerialize.liveness import Liveness

SMALL = 2**20
"""Graphs that take less than this many bytes beside their arguments keep their order: caches hold them anyway."""

_GAIN = 0.98
"""The order changes only if the bytes beside arguments fall to this share."""


def lowest_order(model: Liveness) -> list[int]:
    """The schedule of lowest peak that sinking and hoisting give; the given order where its peak is as low."""
    given = list(range(len(model.ops)))
    transient = model.peak(given) - model.arguments
    if transient < SMALL:
        return given
    leads = _leads(model)
    sunk = _sunk(model, leads)
    orders = [_hoisted(model, given), sunk, _hoisted(model, sunk, leads)]
    lowest, best = min(((model.peak(order), order) for order in orders), key=lambda pair: pair[0])
    return _virtual_late(model, best) if lowest - model.arguments < _GAIN * transient else given


def _leads(model: Liveness) -> list[bool]:
    """Whether each op frees more bytes than it takes, or gives a result of the graph; the others can be sunk."""
    last: dict[int, int] = {}
    for i, reads in enumerate(model.reads):
        for j in reads:
            last[j] = i
    freed = [0] * len(model.ops)
    for j, i in last.items():
        if j not in model.kept:
            freed[i] += model.size[j]
    needed = set().union(*model.needs) if model.needs else set()
    return [freed[i] > model.size[i] or i not in needed for i in range(len(model.ops))]


def _sunk(model: Liveness, leads: Sequence[bool]) -> list[int]:
    """The ops that lead, in order, each after the ops that it needs and that have not run."""
    order: list[int] = []
    done = [False] * len(model.ops)
    for i, is_leading in enumerate(leads):
        if is_leading:
            append_needed(model.needs, i, done, order)
    return order


def append_needed(needs: Sequence[Sequence[int]], i: int, done: list[bool], order: list[int]) -> None:
    """Appends an op to a schedule, after the ops that it needs and that are not done."""
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
    """The schedule with virtual ops right before their first reader, so that compilers fuse them; the peak stays."""
    late: list[int] = []
    done = [False] * len(model.ops)
    needed = set().union(*model.needs) if model.needs else set()
    for i in order:
        if model.size[i] or i not in needed:
            append_needed(model.needs, i, done, late)
    return late


# ---- hoisting ------------------------------------------------------------------------------------------------


def _hoisted(model: Liveness, base: Sequence[int], leads: Sequence[bool] | None = None) -> list[int]:
    """The schedule `base`, in which groups of ops that free more than they take run as soon as they can.

    A group is an op with those sunk ops that it alone needs, directly or through others of the group.
    """
    return _Hoisting(model, base, leads).order()


class _Hoisting:
    def __init__(self, model: Liveness, base: Sequence[int], leads: Sequence[bool] | None) -> None:
        self.model, self.base = model, base
        self.group = self._groups(leads)
        self.members: dict[int, list[int]] = {}
        for i in base:
            self.members.setdefault(self.group[i], []).append(i)
        count = len(base)
        self.waits_for = [0] * count  # by group: how many needed ops of other groups have not run
        self.waiting: list[list[int]] = [[] for _ in base]  # by op: the groups that wait for it
        self.readers = [0] * count  # by op: how many groups that read it have not run
        self.sum = [0] * count  # by op: the sum of the numbers of these groups, the last one in the end
        self.reads: list[Iterable[int]] = [()] * count  # by group: the ops of other groups that it reads
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

    def _groups(self, leads: Sequence[bool] | None) -> list[int]:
        """The group of each op, by the number of the group's last op."""
        readers: list[int] = [0] * len(self.base)
        reader = list(range(len(self.base)))
        for i, needs in enumerate(self.model.needs):
            for j in needs:
                readers[j] += 1
                reader[j] = i
        group = list(range(len(self.base)))
        if leads is not None:
            for i in reversed(range(len(self.base))):
                if readers[i] == 1 and not leads[i]:
                    group[i] = group[reader[i]]
        return group

    def order(self) -> list[int]:
        for i in self.base:
            g = self.group[i]
            if not self.done[g] and self.members[g][-1] == i:
                self._run(g)
        return self.result

    def _run(self, first: int) -> None:
        """Runs a group, and then the groups that can be hoisted to this place."""
        stack = [first]
        while stack:
            g = stack.pop()
            if self.done[g] or (g != first and not self._frees(g)):
                continue
            self.done[g] = True
            self.result += self.members[g]
            stack += list(self._affected(g))[::-1]

    def _affected(self, g: int) -> Iterable[int]:
        """The groups that may be hoisted now that a group has run."""
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
        """Whether a group can run, and frees more bytes than it takes; a virtual op takes none."""
        if self.waits_for[g]:
            return False
        size, kept = self.model.size, self.model.kept
        taken = sum([size[j] for j in self.model.roots[g] if self.group[j] == g])
        if not taken:
            return True
        return sum([size[j] for j in self.reads[g] if self.readers[j] == 1 and j not in kept]) > taken
