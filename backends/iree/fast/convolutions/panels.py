"""panels: copies a cotangent to panels, for gradients of convolutions with respect to their kernels.

A panel has some features of one group next to each other, so that a vector along the features is a load.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeVar

from tiduc.backends.iree.emit.emitter import Emitter
from tiduc.backends.iree.emit.sizes import RunTimeSize, SizeLike, smaller
from tiduc.backends.iree.emit.vectors import Vectors, quotient
from tiduc.backends.iree.emit.workgroups import ArrayPart, Code
from tiduc.backends.iree.fast.convolutions.convolution_form import Convolution
from tiduc.dialect.ops.ir_types import IrValue
from tiduc.dialect.shapes.types import shape, with_shape

T = TypeVar("T")

_BLOCK = 512
"""The most elements of one feature of the cotangent that one workgroup copies to a panel."""


class Group(NamedTuple):
    """The batch group of a panel.

    The fields are the number of the group, the index of the panel among those of the group, and the indices of the
    group's first feature and of the feature after its last one.
    """

    number: SizeLike
    panel: SizeLike
    first: SizeLike
    end: SizeLike

    @staticmethod
    def of(k: Vectors, panel: SizeLike, panels: SizeLike, groups: SizeLike, outputs: SizeLike) -> "Group":
        """Emits the indices of a panel's group. Each group has an equal number of the panels and of the outputs."""
        if groups == 1:
            return Group(0, panel, 0, outputs)
        each, features = k.held(quotient(panels, groups)), k.held(quotient(outputs, groups))
        number = k.held(quotient(panel, each))
        first = k.held(number * features)
        return Group(number, k.held(panel - number * each), first, k.held(first + features))


class _Panels(NamedTuple):
    """The numbers that the copy to panels reads at run time.

    `panels`, `images`, `outputs` and `groups` are the numbers of panels, images, features and batch groups. The other
    fields count the elements (p, q) of an image: in the cotangent (`places`), in a padded panel (`filled`), and in a
    part (`each`).
    """

    panels: SizeLike
    images: SizeLike
    outputs: SizeLike
    groups: SizeLike
    places: SizeLike
    filled: SizeLike
    each: SizeLike


class PanelsForm(NamedTuple):
    """The properties of panels that determine the code of the copy.

    `images` is the index of the image dimension of the cotangent, and `width` the number of features of a panel. `even`
    says whether all panels are full.
    """

    images: int
    width: int
    even: bool


@dataclass(frozen=True)
class _PanelsPart:
    """Emits the code that copies a part of a panel: `each` elements (p, q) of an image. `w` is the cotangent."""

    form: PanelsForm
    numbers: _Panels
    w: IrValue

    def one(self, k: Vectors, place: Sequence[RunTimeSize]) -> ArrayPart:
        """Emits the code for the part with the indices `place`: (panel, image, block of elements).

        The part is divided into squares of vectors, which are transposed.
        """
        (panel, image, block), n, form = place, self.numbers, self.form
        start, group = k.held(block * n.each), Group.of(k, panel, n.panels, n.groups, n.outputs)

        def feature(k: Vectors, i: SizeLike) -> SizeLike:
            """The index of the panel's feature i among all features, clamped to the last feature of its group."""
            o = group.first + group.panel * form.width + i
            return k.held(o if form.even else smaller(o, group.end - 1))

        def square(k: Vectors, place: Sequence[SizeLike], out: IrValue) -> list[IrValue]:
            i, v = (k.held(at * k.width) for at in place)
            mask = k.first(n.places - (start + i))
            features = [feature(k, v + e) for e in range(k.width)]
            places = [[*swapped(form.images, image, o), start + i] for o in features]
            for r, row in enumerate(k.transposed([k.load(self.w, at, mask) for at in places])):
                out = k.store(row, out, [0, 0, i + r, v])
            return [out]

        sizes = [1, 1, n.each, form.width]
        (out,) = k.nest([quotient(n.each, k.width), form.width // k.width], [k.array(sizes)], square)
        return ArrayPart(out, [panel, image, start, 0], sizes)


def in_panels(b: Emitter, c: Convolution, form: PanelsForm, vector: int) -> IrValue:
    """Copies the cotangent w of c to panels: an array (panel, image, (p, q), feature of the panel).

    The dimension (p, q) is padded to whole vectors, which have `vector` elements.
    """
    count = math.prod(c.window.sizes)
    panels = c.batch_groups * -(-c.outputs // c.batch_groups // form.width)
    squares = -(-count // vector)
    each = max(n for n in range(1, _BLOCK // vector + 1) if squares % n == 0) * vector
    w = b.reshape(c.w, [*shape(c.w)[:2], count])
    type_ = with_shape(w.type, [panels, c.features, squares * vector, form.width])
    numbers = _Panels(panels, c.features, c.outputs, c.batch_groups, count, squares * vector, each)
    axes = (*swapped(form.images, "images", "outputs"), "places"), ("panels", "images", "filled", None)
    code = Code("panels", form, _PanelsPart, numbers, ["images", "groups"], axes)
    return code.run(b, [w], type_, [panels, c.features, squares * vector // each])


def swapped(index: int, x: T, y: T) -> list[T]:
    """Returns [x, y] if `index` is 0, and [y, x] if it is 1."""
    return [y, x] if index else [x, y]
