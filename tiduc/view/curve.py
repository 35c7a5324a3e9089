"""curve: draws a chart of a program's peak memory and running time for all memory budgets.

The chart is in Graphviz's language. Graphviz's layout `neato` draws each point at the position that this file computes.
"""

import math
from collections.abc import Iterator, Sequence

from tiduc.view.dot import DARK, FONT, GREY, quoted
from tiduc.view.label import in_bytes

_WIDTH, _HEIGHT = 430, 250  # of the chart, in points
_LINE = 14  # the least vertical distance of two labels, in points
_BAR = 40  # the length of the longest bar, in characters
_COLOUR = "#b35900"


def chart(points: Sequence[tuple[int, float]], title: str) -> str:
    """Returns a chart of `points`, in Graphviz's language.

    Each point is a memory peak in bytes and a time as a multiple of the least time. The peaks must be in descending
    order.
    """
    across, up = _Axis(1.0, max(1.02, points[-1][1]), _WIDTH), _Axis(0.0, points[0][0], _HEIGHT)
    lines = [
        "graph memory {",
        f'  graph [layout=neato inputscale=72 splines=false bgcolor=transparent pad=0.2 fontname="{FONT}" '
        f'fontsize=13 fontcolor="{DARK}" labelloc=t label={quoted(title)}];',
        f'  node [fontname="{FONT}" fontsize=11 fontcolor="{DARK}" shape=plain];',
        '  edge [color="#dddddd"];',
    ]
    for i, time in enumerate(across.ticks()):
        lines += _tick(
            f"t{i}", (across.place(time), 0), (across.place(time), _HEIGHT), f"{time:g} x", (0, -12)
        )
    unit = 1024 ** min(4, int(math.log2(max(1, points[0][0])) // 10))
    for i, size in enumerate(_Axis(0.0, points[0][0] / unit, _HEIGHT).ticks()):
        y = up.place(size * unit)
        lines += _tick(f"m{i}", (0, y), (_WIDTH, y), in_bytes(round(size * unit)) if i else "0", (-30, 0))
    lines.append(
        _node("across", (_WIDTH / 2, -30), "estimated time, as a multiple of that without a budget", GREY)
    )
    lines += _labelled([(across.place(time), up.place(peak)) for peak, time in points], points)
    return "\n".join([*lines, "}"]) + "\n"


def listed(points: Sequence[tuple[int, float]]) -> str:
    """Returns a table of `points` as text.

    Each point has a line with a bar whose length is proportional to the peak.
    """
    rows = [
        (in_bytes(peak), f"{time:.2f} x", "#" * round(_BAR * peak / max(1, points[0][0])))
        for peak, time in points
    ]
    rows = [("peak", "time", ""), *rows]
    first, second = (max(len(row[i]) for row in rows) for i in (0, 1))
    return "".join(f"{a:>{first}}  {b:>{second}}  {bar}".rstrip() + "\n" for a, b, bar in rows)


class _Axis:
    """An axis of the chart. It maps numbers from `least` to `most` to positions from 0 to `length`.

    The ticks are `least` plus the multiples of a round number.
    """

    def __init__(self, least: float, most: float, length: float) -> None:
        self.least, self.most, self.length = least, most, length

    def place(self, x: float) -> float:
        return self.length * (x - self.least) / ((self.most - self.least) or 1.0)

    def ticks(self) -> list[float]:
        rough = (self.most - self.least) / 4 or 1.0
        power = 10.0 ** math.floor(math.log10(rough))
        step = next(power * n for n in (1, 2, 5, 10) if power * n >= rough)
        count = int((self.most - self.least) / step + 1e-9) + 1
        return [self.least + step * i for i in range(count)]


def _tick(
    name: str, start: tuple[float, float], end: tuple[float, float], text: str, shift: tuple[float, float]
) -> list[str]:
    """Returns a grey line from `start` to `end`, and the label `text` at distance `shift` from `start`."""
    return [
        _node(f"{name}a", start, "", GREY),
        _node(f"{name}b", end, "", GREY),
        f"  {name}a -- {name}b;",
        _node(f"{name}c", (start[0] + shift[0], start[1] + shift[1]), text, GREY),
    ]


def _labelled(places: Sequence[tuple[float, float]], points: Sequence[tuple[int, float]]) -> Iterator[str]:
    """Yields the points, the lines between them, and labels to the right of the points. The labels do not overlap."""
    above = -math.inf
    heights = []
    for _, y in reversed(places):
        above = max(y + _LINE / 2, above + _LINE)
        heights.append(above)
    for i, ((x, y), (peak, time), height) in enumerate(zip(places, points, reversed(heights), strict=True)):
        yield (
            f'  p{i} [pos="{x:.1f},{y:.1f}!" shape=circle width=0.07 fixedsize=true label="" style=filled '
            f'color="{_COLOUR}" fillcolor="{_COLOUR}"];'
        )
        text = f"{in_bytes(peak)}, {time:.2f} x"
        middle = x + 20 + 3.1 * len(text)
        yield _node(f"l{i}", (middle, height), text, DARK)
        yield _node(f"k{i}", (x + 16, height), "", DARK)
        yield f'  p{i} -- k{i} [color="#b8b8b8"];'
        if i:
            yield f'  p{i - 1} -- p{i} [color="{_COLOUR}" penwidth=1.5];'


def _node(name: str, place: tuple[float, float], text: str, colour: str) -> str:
    empty = "" if text else " width=0 height=0 shape=point style=invis"
    at = f'pos="{place[0]:.1f},{place[1]:.1f}!"'
    return f'  {name} [{at} label={quoted(text)} fontcolor="{colour}"{empty}];'
