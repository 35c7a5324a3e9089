"""png: writes the first view of a picture as PNG: the program, or the program and its derivative side by side."""

from tiduc.view.dot import dot
from tiduc.view.draw import draw_png, fitting
from tiduc.view.first_page import first_page
from tiduc.view.scene import Picture

_DOTS = "  graph [dpi=144 bgcolor=white];\n"


def picture_in_png(picture: Picture, names: list[str], file: str = "", fold: bool = True) -> bytes:
    """Returns the bytes of a PNG file with the scenes `names`. With `fold`, large scenes are split into parts."""
    first = first_page(picture, names, fold, still=True)
    ((source, _),) = fitting([dot(first.picture, first.names, file, upward=first.upward)])
    return png_of(source)


def png_of(source: str) -> bytes:
    """Returns the bytes of a PNG file for a drawing in Graphviz's language.

    The picture has 144 dots per inch and a white background.
    """
    head, rest = source.split("\n", 1)
    return draw_png(f"{head}\n{_DOTS}{rest}")
