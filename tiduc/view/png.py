"""png: the first view as a picture for other programs: the program, or the program beside its derivative."""

from tiduc.view.dot import dot
from tiduc.view.draw import draw_png, fitting
from tiduc.view.first_page import first_page
from tiduc.view.scene import Picture

_DOTS = "  graph [dpi=144 bgcolor=white];\n"


def picture_in_png(picture: Picture, names: list[str], file: str = "", fold: bool = True) -> bytes:
    """The scenes as PNG. With `fold`, scenes with too many boxes to be drawn together are folded into parts."""
    first = first_page(picture, names, fold, still=True)
    ((source, _),) = fitting([dot(first.picture, first.names, file, upward=first.upward)])
    return png_of(source)


def png_of(source: str) -> bytes:
    """A drawing in Graphviz's language as PNG, with 144 dots per inch, on white."""
    head, rest = source.split("\n", 1)
    return draw_png(f"{head}\n{_DOTS}{rest}")
