"""draw: Graphviz's language to SVG, by Graphviz, in a process of its own.

pygraphviz brings Graphviz along in its wheels. In a process of its own it can be interrupted, which C code here could
not, and what its font library has to say of this machine's configuration stays out of sight.
"""

import json
import os
import sys

from tiduc.dialect.errors import RequestError
from tiduc.runtime.process import Limits, run_within


def draw(sources: list[str]) -> list[str]:
    """The `<svg>` of each source; `RequestError` where Graphviz is not installed or fails."""
    command = [sys.executable, "-m", "tiduc.view.draw"]
    done = run_within(command, json.dumps(sources).encode(), Limits(), os.environ)
    if done.code == 3:
        raise RequestError("pictures need Graphviz: pip install 'tiduc[view]'; .txt and .dot need nothing")
    if done.code is None:
        raise RequestError(f"Graphviz was ended after {Limits.seconds:g} seconds: draw a part with --graph")
    if done.code:
        said = done.errors.strip().splitlines()
        raise RequestError(f"Graphviz cannot draw this: {said[-1] if said else f'exit status {done.code}'}")
    drawn: list[str] = json.loads(done.output)
    return drawn


def main() -> int:
    """Reads a JSON list of sources, and writes one of pictures."""
    try:
        import pygraphviz
    except ImportError:
        return 3
    pictures = []
    for source in json.load(sys.stdin):
        text = pygraphviz.AGraph(string=source).draw(format="svg", prog="dot").decode()
        pictures.append(text[text.index("<svg") :])
    json.dump(pictures, sys.stdout)
    return 0


if __name__ == "__main__":
    sys.exit(main())
