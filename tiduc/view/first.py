"""first: what is shown first: a scene, scenes with the arrows between them, a derivative, or a map of scenes."""

from tiduc.view.beside import Beside, beside
from tiduc.view.coarse import FITS, PARTS, coarsen
from tiduc.view.dot import is_large
from tiduc.view.fold import add_map
from tiduc.view.scene import Picture

_PARTS_BESIDE = 7  # parts of a scene that stands beside another one
_FITS_BESIDE = 18  # most boxes in such a scene that is shown whole


def first_page(picture: Picture, names: list[str], fold: bool = True) -> Beside:
    """The scenes to show first; with `fold`, large scenes of the picture are folded into parts in place."""
    parts, fits = (_PARTS_BESIDE, _FITS_BESIDE) if len(names) > 1 else (PARTS, FITS)
    for name in names if fold else ():
        coarsen(picture, picture.scenes[name], parts, fits)
    derivative = beside(picture, names)
    if derivative is not None:
        return derivative
    if len(names) > 1 and is_large(picture, names):
        return Beside(picture, (add_map(picture, names),), None)
    return Beside(picture, tuple(names), None)
