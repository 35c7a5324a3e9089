"""by_phases: computes a convolution of a dilated image without multiplying the zeros between the image's elements.

    y[o] = sum_j x[i] w[j],  o + j * dilation = i * base + low

Let o = q * base + r. Phase r is the part of y with this r. Only offsets j of one residue class contribute to a phase,
which is therefore a convolution of x with some kernel elements. In this example, the dots are zeros:

    o    0  1  2  3  4  5        y[0::2] = x convolved with w[1::2],  y[1::2] = x convolved with w[0::2]
    x  .  x0 .  x1 .  x2 .

A phase to which no offset contributes is zero. One dispatch computes all phases.
"""

import itertools
import math
from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

from tiduc.backends.iree.emit.emitter import Emitter
from tiduc.backends.iree.fast.convolutions.channels_first import channels_first
from tiduc.backends.iree.fast.convolutions.convolution_form import BATCH, FEATURES, Convolution, Result
from tiduc.backends.iree.fast.convolutions.image_parts import PhaseElements
from tiduc.dialect.facts.windows import Window
from tiduc.dialect.ops.ir_types import IrValue
from tiduc.dialect.shapes.types import shape, with_shape

_PHASES = 64
"""The most phases for which a convolution is rewritten."""


class Phase(NamedTuple):
    """One phase along one dimension: its kernel elements, and the window that they form.

    The phase has `size` kernel elements: `first`, `first + step`, and so on. The elements of x by which two successive
    kernel elements are multiplied are `dilation` apart. `low` is the padding before x.
    """

    first: int
    step: int
    size: int
    dilation: int
    low: int

    @property
    def elements(self) -> PhaseElements:
        """The kernel elements for a convolution that computes only this phase."""
        return PhaseElements((self.size,), (self.first,), self.step)


def by_phases(b: Emitter, c: Convolution) -> Result | None:
    """Computes a convolution of a dilated image, whose spatial dimensions come last. The kernel is not copied.

    Returns None if there are more than `_PHASES` phases, or strides along a dilated dimension.
    """
    counts = _counts(c)
    if counts is None:
        return None
    along = [_phases(c.window, d) for d in range(c.rank)]
    alone = [[p for p in phases if p.size] for phases in along]
    if all(len(phases) == 1 for phases in alone):
        y = _among_zeros(b, c, along, counts)
    else:
        pairs = [_together(phases) for phases in along]
        part = replace(c, window=_window(c, tuple(p for p, _ in pairs), counts), places=counts)
        y = channels_first(b, part, [elements for _, elements in pairs]).value
    return _interleaved(b, y, c, counts, (BATCH, FEATURES, *range(c.rank)))


def _counts(c: Convolution) -> tuple[int, ...] | None:
    """The spatial shape of each phase. Returns None in the cases in which `by_phases` does."""
    base = c.window.base
    if any(a > 1 and s > 1 for a, s in zip(base, c.window.strides, strict=True)) or math.prod(base) > _PHASES:
        return None
    return tuple(-(-n // a) for n, a in zip(c.places, base, strict=True))


def _among_zeros(
    b: Emitter, c: Convolution, along: Sequence[Sequence[Phase]], counts: tuple[int, ...]
) -> IrValue:
    """Computes each phase by a separate convolution, or as zeros if no kernel element contributes to the phase.

    Returns the phases as successive images.
    """
    parts, type_ = [], with_shape(c.x.type, [c.batch, c.outputs, *counts])
    for phases in itertools.product(*along):
        if all(p.size for p in phases):
            part = replace(c, window=_window(c, phases, counts), places=counts)
            parts.append(channels_first(b, part, [p.elements for p in phases]).value)
        else:
            parts.append(b.constant(0, type_))
    return b.concatenate(parts, 0)


def _together(phases: Sequence[Phase]) -> tuple[Phase, PhaseElements]:
    """Returns a window that covers the windows of all phases along a dimension, and the kernel elements of each phase.

    The windows of the phases begin at different offsets. If there is only one phase, its own window is returned.
    """
    if len(phases) == 1:
        (p,) = phases
        return p, p.elements
    low, step, dilation = max(p.low for p in phases if p.size), phases[0].step, phases[0].dilation
    shifts = [low - p.low if p.size else 0 for p in phases]
    ends = [shift + (p.size - 1) * dilation for shift, p in zip(shifts, phases, strict=True) if p.size]
    elements = PhaseElements(
        tuple(p.size for p in phases),
        tuple(p.first if p.size else 0 for p in phases),
        step,
        tuple(shifts),
        dilation,
    )
    return Phase(0, 1, max(ends) + 1, 1, low), elements


def _phases(w: Window, d: int) -> list[Phase]:
    """The phases along spatial dimension d of a convolution with the window w, in order."""
    base, dilation = w.base[d], w.dilation[d]
    if base == 1:
        return [Phase(0, 1, w.sizes[d], dilation, w.low[d])]
    step = base // math.gcd(base, dilation)
    phases = []
    for r in range(base):
        first = next((j for j in range(step) if (r + j * dilation - w.low[d]) % base == 0), w.sizes[d])
        size = len(range(first, w.sizes[d], step))
        phases.append(
            Phase(first, step, size, step * dilation // base, -((r + first * dilation - w.low[d]) // base))
        )
    return phases


def _window(c: Convolution, phases: tuple[Phase, ...], counts: tuple[int, ...]) -> Window:
    """The window of a convolution that computes one phase. `phases` has a `Phase` for each spatial dimension."""
    ones, zeros = (1,) * c.rank, (0,) * c.rank
    sizes, dilation, low = (tuple(getattr(p, name) for p in phases) for name in ("size", "dilation", "low"))
    image = [shape(c.x)[d] for d in c.layout.input[2:]]
    return Window(sizes, c.window.strides, ones, dilation, low, zeros).ending(image, counts)


def _interleaved(
    b: Emitter, parts: IrValue, c: Convolution, counts: tuple[int, ...], labels: tuple[int, ...]
) -> Result:
    """Interleaves the phases; returns the result of the convolution.

    The dimensions of `parts` have these labels. The phases are the major part of its first dimension.
    """
    base, rank = c.window.base, c.rank
    sizes = {BATCH: c.batch, FEATURES: c.outputs} | dict(enumerate(counts))
    parts = b.reshape(parts, [*base, *(sizes[label] for label in labels)])
    # A spatial dimension of the result has the places of a phase as its major part, and the phases as its minor part.
    of = {label: [rank + i, *([label] if label >= 0 else [])] for i, label in enumerate(labels)}
    names = [BATCH, FEATURES, *range(rank)]
    axes = tuple(names[c.layout.output.index(d)] for d in range(rank + 2))
    y = b.transpose(parts, [i for label in axes for i in of[label]])
    sizes |= {d: counts[d] * base[d] for d in range(rank)}
    y = b.reshape(y, [sizes[label] for label in axes])
    ends = sizes | dict(enumerate(c.places))
    if ends != sizes:
        y = b.slice(y, [0] * len(axes), [ends[label] for label in axes], [1] * len(axes))
    return Result(y, axes)
