"""pictures: shows a program as HTML in a notebook: its signature and, if Graphviz is installed, its graph."""

import html
from collections.abc import Sequence

from tiduc.activity import find_activity
from tiduc.dialect.errors import RequestError
from tiduc.ports import Function, Port, smooth
from tiduc.view.dot import dot
from tiduc.view.draw import draw
from tiduc.view.fold import fold
from tiduc.view.read import read_picture

LARGEST = 150
"""A picture with more boxes than this number, after folding, is not drawn, because Graphviz would take long."""


def as_html(program: Function) -> str:
    """A table of the program's inputs and outputs, followed by a picture of the lowered program. See `docs/view.md`."""
    rows = [*_rows("input", program.inputs), *_rows("output", program.outputs)]
    table = f"<table><caption>@{html.escape(program.name)}</caption>{''.join(rows)}</table>"
    return f"<div>{table}{_picture(program)}</div>"


def _rows(kind: str, ports: Sequence[Port]) -> list[str]:
    return [
        f"<tr><td>{kind}</td><td>{html.escape(port.name)}</td><td><code>{html.escape(str(port.type))}</code></td></tr>"
        for port in ports
    ]


def _picture(program: Function) -> str:
    """The picture as SVG. If there is no picture, returns a sentence with the reason."""
    inputs = smooth(program, program.inputs)
    active = [i for i, port in enumerate(program.inputs) if port in inputs]
    module = program.module
    picture = read_picture(module, find_activity(module, {program.name: active}, program.opset), program.name)
    fold(picture)
    shown = picture.shown or list(picture.scenes)
    if (count := sum(len(picture.scenes[name].boxes) for name in shown)) > LARGEST:
        return f"<p>The graph has {count} boxes; <code>tiduc view</code> makes a page to explore.</p>"
    try:
        svg: str = draw([dot(picture, shown)])[0]
    except RequestError as error:
        return f"<p>{html.escape(error.message)}</p>"
    return svg
