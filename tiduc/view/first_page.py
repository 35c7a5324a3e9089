"""first_page: chooses what a picture shows first: one scene, several scenes, a derivative, or a map of all graphs."""

from tiduc.view.dot import is_large
from tiduc.view.fold import add_map
from tiduc.view.parts import FITS, PARTS, split_into_parts
from tiduc.view.scene import Picture
from tiduc.view.side_by_side import SideBySide, side_by_side

_PARTS_BESIDE = 7  # the number of parts into which one of several scenes is split
_FITS_BESIDE = 18  # one of several scenes is split if it has more boxes
_FITS_STILL = 150  # a scene of a still picture is split only if it has more boxes


def first_page(picture: Picture, names: list[str], fold: bool = True, still: bool = False) -> SideBySide:
    """Returns the scenes that are shown at first. With `fold`, large scenes of `picture` are first split into parts.

    In a `still` picture, users cannot open parts. Therefore, only much larger scenes are split.
    """
    parts, fits = (_PARTS_BESIDE, _FITS_BESIDE) if len(names) > 1 else (PARTS, FITS)
    for name in names if fold else ():
        scene = picture.scenes[name]
        if not still or len(scene.boxes) > _FITS_STILL:
            split_into_parts(picture, scene, parts, fits)
    derivative = side_by_side(picture, names)
    if derivative is not None:
        return derivative
    if len(names) > 1 and is_large(picture, names):
        return SideBySide(picture, (add_map(picture, names),), None)
    return SideBySide(picture, tuple(names), None)
