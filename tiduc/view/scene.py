"""The data of a picture: scenes of boxes and arrows, independent of how they are drawn.

A scene shows the body of one function, graph, region or fold. A box that represents another scene (a call, an op with
regions, a fold) has the name of that scene in `opens`. Box ids are unique in a picture, so an arrow may begin at a box
of another scene.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace

OPS = frozenset({"op", "call", "fold"})
"""The kinds of boxes that compute."""


@dataclass(frozen=True)
class Box:
    """A box: `kind` is input, op, output, constant, outer (a value from around a region), call or fold.

    `activity` is that of the first result: active, linear or inactive. `place` is a `file:line:col`. `text` is the
    tooltip: for an op, its name in MLIR and the scopes of its location. `symbol` is the name in references. Folds of
    equal stretches all open the scene of the first of them. For each value that a fold reads, `operands` has the box
    that represents the value in the opened scene, and the value's name and type. `note` is a line about
    the values of a run. `alarm` is set if these values are not finite.
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

    `kind` is value, captured (dotted: regions of the box read the value), external (dashed: another graph defines the
    value) or bind (dotted: an input represents a value).
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
        """The arrows by target box, in the order of operands."""
        arrows: dict[str, list[Arrow]] = {}
        for arrow in sorted(self.arrows, key=lambda arrow: arrow.slot):
            arrows.setdefault(arrow.target, []).append(arrow)
        return arrows


@dataclass
class Picture:
    """Scenes by name. `shown` has the names of the scenes to show first."""

    title: str
    scenes: dict[str, Scene] = field(default_factory=dict)
    shown: list[str] = field(default_factory=list)

    def owner(self) -> dict[str, str]:
        """The name of the scene of each box, by the box's id."""
        return {box: scene.name for scene in self.scenes.values() for box in scene.boxes}

    def boxes(self) -> Iterator[Box]:
        for scene in self.scenes.values():
            yield from scene.boxes.values()

    def opened(self, names: Iterable[str]) -> Iterator[Scene]:
        """The scenes with these names, and the scenes that their boxes open, recursively. Each occurs once."""
        waiting, met = list(names), set()
        while waiting:
            name = waiting.pop(0)
            if name not in met and name in self.scenes:
                met.add(name)
                scene = self.scenes[name]
                yield scene
                waiting += [opened for box in scene.boxes.values() for opened in box.opens]

    def size(self) -> int:
        """The number of boxes in all scenes."""
        return sum(len(scene.boxes) for scene in self.scenes.values())


def moved(arrow: Arrow, source: str | None = None, target: str | None = None) -> Arrow:
    """A copy of the arrow between other boxes."""
    return replace(arrow, source=source or arrow.source, target=target or arrow.target)
