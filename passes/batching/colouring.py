"""Colours the columns of a sparse matrix: columns get the same colour only if no row has nonzeros in two of them.

    x x . .        colours 0 1 2 0
    x x x .        The product of the matrix and the sum of the basis vectors 0 and 3
    . x x x        contains all nonzeros of the columns 0 and 3.
    . . x x

For a symmetric matrix, a star colouring needs fewer colours. Because the entries (i, j) and (j, i) are equal, it
suffices that one of them is the only nonzero in its row among the columns of its colour.

Sources: Curtis, Powell, Reid, "On the estimation of sparse Jacobian matrices" (1974); Gebremedhin, Manne, Pothen, "What
color is your Jacobian?" (2005), algorithms 3.1 and 4.1.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

Numbers = NDArray[np.int64]

Entries = tuple[Numbers, Numbers]
"""The rows and the columns of the nonzeros of a matrix."""


def column_colours(entries: Entries, count: int) -> Numbers:
    """Returns the colour of each of `count` columns. No row has nonzeros in two columns of the same colour.

    Colours the columns greedily: once in order, and once by descending number of nonzeros. Returns the colouring with
    fewer colours.
    """
    rows, columns = entries
    in_row, in_column = _grouped(rows, columns), _grouped(columns, rows)
    sizes = np.bincount(columns, minlength=count)
    orders = (range(count), np.argsort(-sizes, kind="stable").tolist())
    return min(
        (_greedy(order, in_row, in_column, count) for order in orders), key=lambda c: c.max(initial=-1)
    )


def _grouped(keys: Numbers, values: Numbers) -> dict[int, list[int]]:
    groups: dict[int, list[int]] = {}
    for key, value in zip(keys.tolist(), values.tolist(), strict=True):
        groups.setdefault(key, []).append(value)
    return groups


def _greedy(
    order: Sequence[int], in_row: dict[int, list[int]], in_column: dict[int, list[int]], count: int
) -> Numbers:
    colours = [-1] * count
    for j in order:
        taken = {colours[k] for i in in_column.get(j, ()) for k in in_row[i]}
        colours[j] = _free(taken)
    return np.array(colours, np.int64)


def _free(taken: set[int]) -> int:
    colour = 0
    while colour in taken:
        colour += 1
    return colour


def star_colours(entries: Entries, count: int) -> Numbers:
    """Returns the colours of the columns of a symmetric matrix in a star colouring.

    Columns i and j are neighbours if the entry (i, j) is nonzero. Neighbours have different colours, and every path of
    four columns has at least three colours. Then, of the equal entries (i, j) and (j, i), at least one is alone: no
    other column of its colour has a nonzero in its row.
    """
    rows, columns = entries
    neighbours: dict[int, list[int]] = {j: [] for j in range(count)}
    for i, j in zip(rows.tolist(), columns.tolist(), strict=True):
        if i != j:
            neighbours[j].append(i)
    colours = [-1] * count
    for v in sorted(range(count), key=lambda j: -len(neighbours[j])):
        around = [colours[w] for w in neighbours[v]]
        taken = set(around)
        for w in neighbours[v]:
            of_w = colours[w]
            # Whether v has another neighbour a with the colour of w. Then a, v, w, x is a path for each x below.
            is_inside = of_w >= 0 and around.count(of_w) > 1
            for x in neighbours[w]:
                if x != v and (is_inside or of_w < 0 or _has_other(neighbours[x], w, colours)):
                    taken.add(colours[x])
        colours[v] = _free(taken)
    return np.array(colours, np.int64)


def _has_other(around: Sequence[int], w: int, colours: Sequence[int]) -> bool:
    """Whether one of the columns `around`, other than w, has the colour of w."""
    return any(y != w and colours[y] == colours[w] for y in around)


def is_alone(entries: Entries, colours: Numbers) -> NDArray[np.bool_]:
    """Returns a flag for each entry: whether no other column of the entry's colour has a nonzero in the entry's row."""
    rows, columns = entries
    keys = rows * (int(colours.max(initial=0)) + 1) + colours[columns]
    _, at, counts = np.unique(keys, return_inverse=True, return_counts=True)
    return np.asarray(counts[at] == 1)
