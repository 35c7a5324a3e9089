"""html: writes a picture as one self-contained web page, with pan, zoom, search, tooltips, and folds that open.

Graphviz draws all scenes when the page is written. The page shows one scene at a time. It consists of `page.html`,
`page.css` and `page.js`, into which this file inserts the drawings and the data of each box.
"""

import html
import json
from collections.abc import Mapping
from importlib.resources import files
from typing import Any

from tiduc.view.dot import dot, place
from tiduc.view.draw import fitting
from tiduc.view.first_page import first_page
from tiduc.view.scene import Box, Picture, Scene
from tiduc.view.side_by_side import OTHERS

OVERVIEW = "all graphs"


def page(picture: Picture, names: list[str], file: str = "", fold: bool = True) -> str:
    """Returns a web page with the scenes `names` and all scenes that their boxes open.

    With `fold`, large scenes are split into parts, so that they are legible in a window. If the scenes are a program
    and its derivative, the page first shows both side by side.
    """
    first = first_page(picture, names, fold)
    together = len(first.names) > 1
    reached = _reached(picture, list(names if together else first.names))
    sources = (
        {OVERVIEW: dot(first.picture, first.names, file, False, upward=first.upward)} if together else {}
    )
    sources |= {name: dot(picture, [name], file, legend=False) for name in reached}
    pictures = fitting(list(sources.values()))
    drawn = {name: svg for name, (_, svg) in zip(sources, pictures, strict=True)}
    others = [first.picture.scenes[OTHERS]] if OTHERS in first.names else []
    data = {
        "title": picture.title,
        "first": next(iter(drawn)),
        "together": OVERVIEW if together else None,
        "scenes": [_scene(picture.scenes[name], file) for name in reached],
        "drawn": drawn,
        "boxes": [_box(box, picture.scenes[name], file) for name in reached for box in _known(picture, name)]
        + [_box(box, scene, file) for scene in others for box in scene.boxes.values()],
        "arrows": [
            [arrow.source, arrow.target, arrow.kind, arrow.label]
            for name in reached
            for arrow in picture.scenes[name].arrows
        ],
    }
    return _filled(picture.title, data)


def _reached(picture: Picture, names: list[str]) -> list[str]:
    """Returns the scenes `names`, and all scenes that users can reach from them by opening boxes.

    Each name occurs once.
    """
    reached: dict[str, None] = {}
    waiting = list(names)
    while waiting:
        name = waiting.pop(0)
        if name in picture.scenes and name not in reached:
            reached[name] = None
            waiting += [opened for box in picture.scenes[name].boxes.values() for opened in box.opens]
    return list(reached)


def _known(picture: Picture, name: str) -> list[Box]:
    return list(picture.scenes[name].boxes.values())


def _scene(scene: Scene, file: str) -> dict[str, Any]:
    where = place(scene.place, file)
    return {
        "name": scene.name,
        "title": scene.title,
        "kind": scene.kind,
        "place": where,
        "boxes": len(scene.boxes),
    }


def _box(box: Box, scene: Scene, file: str) -> dict[str, Any]:
    return {
        "id": box.id,
        "scene": scene.name,
        "kind": box.kind,
        "name": box.name,
        "types": ", ".join(box.types),
        "detail": box.detail,
        "activity": box.activity,
        "place": place(box.place, file),
        "text": box.text,
        "symbol": box.symbol,
        "opens": list(box.opens),
        "operands": {id_: [name, kind] for id_, name, kind in box.operands},
    }


def _filled(title: str, data: Mapping[str, object]) -> str:
    folder = files("tiduc.view")
    # The data is in a <script> element, which "</script>" would end. Therefore "<" is escaped, as JSON permits.
    text = json.dumps(data, ensure_ascii=False).replace("<", "\\u003c")
    parts = {
        "<!--title-->": html.escape(title),
        "/*style*/": (folder / "page.css").read_text("utf-8"),
        "/*data*/": text,
        "/*script*/": (folder / "page.js").read_text("utf-8"),
    }
    filled = (folder / "page.html").read_text("utf-8")
    for placeholder, part in parts.items():
        before, after = filled.split(placeholder)
        filled = before + part + after
    return filled
