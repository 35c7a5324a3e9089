"""draw: renders text in Graphviz's language to SVG or PNG.

The wheels of pygraphviz contain Graphviz. It runs in a separate process, for two reasons: that process can be
interrupted, unlike C code in this process, and its messages about fonts of the machine can be hidden.
"""

import json
import os
import re
import sys

from tiduc.dialect.errors import RequestError
from tiduc.runtime.process import Limits, run_within

_WINDOW = 1300, 960  # the size in points of the largest drawing that is legible on a 1600 x 1000 page


def fitting(sources: list[str]) -> list[tuple[str, str]]:
    """Draws sources in Graphviz's language. Returns pairs of a source and its `<svg>`.

    If a drawing is too large to be legible in a window, its direction may be changed to left-to-right. This is done
    only if the drawing is then larger on the screen.
    """
    drawn = list(zip(sources, draw(sources), strict=True))
    large = [i for i, (_, svg) in enumerate(drawn) if _scale(svg) < 1]
    turned = [sources[i].replace("rankdir=TB", "rankdir=LR", 1) for i in large]
    for i, source, svg in zip(large, turned, draw(turned) if turned else (), strict=True):
        if _scale(svg) > _scale(drawn[i][1]):
            drawn[i] = source, svg
    return drawn


def _scale(svg: str) -> float:
    """Returns the factor by which a drawing has to be scaled to fit into the window.

    It is less than 1 for large drawings.
    """
    size = re.search(r'viewBox="[-\d.]+ [-\d.]+ ([\d.]+) ([\d.]+)"', svg)
    assert size is not None, "Graphviz writes the size of each drawing"
    return min(room / float(length) for room, length in zip(_WINDOW, size.groups(), strict=True))


def draw(sources: list[str]) -> list[str]:
    """Draws sources with Graphviz, and returns the `<svg>` element of each picture.

    Raises `RequestError` if Graphviz is not installed or fails.
    """
    drawn: list[str] = json.loads(_graphviz(sources, "svg"))
    return drawn


def draw_png(source: str) -> bytes:
    """Returns the bytes of a PNG file for a source. Raises the errors of `draw`."""
    return _graphviz([source], "png")


def _graphviz(sources: list[str], kind: str) -> bytes:
    command = [sys.executable, "-m", "tiduc.view.draw", kind]
    done = run_within(command, json.dumps(sources).encode(), Limits(), os.environ)
    if done.code == 3:
        raise RequestError("pictures need Graphviz: pip install 'tiduc[view]'; .txt and .dot need nothing")
    if done.code is None:
        raise RequestError(f"Graphviz was ended after {Limits.seconds:g} seconds: draw a part with --graph")
    if done.code:
        said = done.errors.strip().splitlines()
        raise RequestError(f"Graphviz cannot draw this: {said[-1] if said else f'exit status {done.code}'}")
    return done.output


def main() -> int:
    """Reads a JSON list of sources from stdin. Writes a JSON list of SVG pictures, or one PNG, to stdout."""
    try:
        import pygraphviz
    except ImportError:
        return 3
    if sys.argv[1] == "png":
        (source,) = json.load(sys.stdin)
        _say(pygraphviz.AGraph(string=source).draw(format="png", prog="dot"))
        return 0
    pictures = []
    for source in json.load(sys.stdin):
        text = pygraphviz.AGraph(string=source).draw(format="svg", prog="dot").decode()
        pictures.append(text[text.index("<svg") :])
    _say(json.dumps(pictures).encode())
    return 0


def _say(data: bytes) -> None:
    """Writes all bytes to standard output. A buffered file is opened, because `sys.stdout` may write only a part."""
    with open(1, "wb", closefd=False) as out:
        out.write(data)


if __name__ == "__main__":
    sys.exit(main())
