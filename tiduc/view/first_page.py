"""first_page: the first view: one scene, several with arrows between them, a derivative, or a map of scenes."""

from tiduc.view.dot import is_large
from tiduc.view.fold import add_map
from tiduc.view.parts import FITS, PARTS, split_into_parts
from tiduc.view.scene import Picture
from tiduc.view.side_by_side import SideBySide, side_by_side

_PARTS_BESIDE = 7  # the number of parts of a scene that is drawn beside another scene
_FITS_BESIDE = 18  # the most boxes of such a scene that is not split
_FITS_STILL = 150  # the most boxes of a scene of a still picture that is not split


def first_page(picture: Picture, names: list[str], fold: bool = True, still: bool = False) -> SideBySide:
    """The scenes to show first. With `fold`, large scenes of the picture are folded into parts, in place.

    Parts of a `still` picture cannot be opened, so only much larger scenes are folded.
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
