"""The data of a picture: scenes, which consist of boxes and arrows. The data do not depend on the output format.

A scene shows the body of one function, graph, region or fold. A fold is a box that stands for a sequence of ops. A box
for a call, an op with regions, or a fold has the names of the scenes that show its contents in `opens`. The ids of
boxes are unique in a picture, so that an arrow may begin at a box of another scene.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace

OPS = frozenset({"op", "call", "fold"})
"""The kinds of boxes that stand for ops."""


@dataclass(frozen=True)
class Box:
    """A box for an op, a value, a call or a fold. `kind` is input, op, output, constant, outer, call or fold.

    A box of the kind outer is a value from outside a region. `activity` is linear if a result is linear, else active if
    a result is active, else inactive. `place` is a `file:line:col`. `text` is the tooltip: for an op, its name in MLIR
    and the scopes of its location. `symbol` is the name of the value in references. Folds of equal sequences of ops
    open one scene, which shows the first of these sequences. For each value that a fold reads, `operands` has the id of
    the box that represents the value in this scene, and the value's name and type. `note` is a line about the values in
    a run, and `alarm` states whether these values have a NaN or an infinity.
    """

    id: str
    kind: str
    name: str
    types: tuple[str, ...] = ()
    detail: str = ""
    activity: str = "inactive"
    place: str = ""
    text: str = ""
    symbol: str = ""
    opens: tuple[str, ...] = ()
    operands: tuple[tuple[str, str, str], ...] = ()
    note: str = ""
    alarm: bool = False


@dataclass(frozen=True)
class Arrow:
    """An edge from result number `result` of the box `source` to operand number `slot` of the box `target`.

    `kind` is one of:
    - value: a usual operand;
    - captured: a region of the target reads the value; the arrow is dotted;
    - external: another graph defines the value; the arrow is dashed;
    - bind: the target is an input that is bound to the value; the arrow is dotted.
    """

    source: str
    target: str
    slot: int = 0
    result: int = 0
    kind: str = "value"
    label: str = ""


@dataclass
class Scene:
    """Boxes in program order, and the arrows into them.

    `kind` is function, graph, batched graph, linear graph, region, fold or map.
    """

    name: str
    kind: str
    title: str
    boxes: dict[str, Box] = field(default_factory=dict)
    arrows: list[Arrow] = field(default_factory=list)
    place: str = ""

    def into(self) -> dict[str, list[Arrow]]:
        """Maps the id of each box to the arrows into it, in the order of operands."""
        arrows: dict[str, list[Arrow]] = {}
        for arrow in sorted(self.arrows, key=lambda arrow: arrow.slot):
            arrows.setdefault(arrow.target, []).append(arrow)
        return arrows


@dataclass
class Picture:
    """The scenes of a picture. `shown` contains the names of the scenes that are shown at first."""

    title: str
    scenes: dict[str, Scene] = field(default_factory=dict)
    shown: list[str] = field(default_factory=list)

    def owner(self) -> dict[str, str]:
        """Maps the id of each box to the name of its scene."""
        return {box: scene.name for scene in self.scenes.values() for box in scene.boxes}

    def boxes(self) -> Iterator[Box]:
        for scene in self.scenes.values():
            yield from scene.boxes.values()

    def opened(self, names: Iterable[str]) -> Iterator[Scene]:
        """Yields the scenes with these names, and all scenes that their boxes open, directly or indirectly.

        Each scene is yielded once.
        """
        waiting, met = list(names), set()
        while waiting:
            name = waiting.pop(0)
            if name not in met and name in self.scenes:
                met.add(name)
                scene = self.scenes[name]
                yield scene
                waiting += [opened for box in scene.boxes.values() for opened in box.opens]

    def size(self) -> int:
        """Returns the number of boxes in all scenes."""
        return sum(len(scene.boxes) for scene in self.scenes.values())


def moved(arrow: Arrow, source: str | None = None, target: str | None = None) -> Arrow:
    """Returns a copy of the arrow with the new ends `source` and `target`. None leaves an end unchanged."""
    return replace(arrow, source=source or arrow.source, target=target or arrow.target)
