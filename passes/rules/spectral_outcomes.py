"""Computes the forms of an op's results from the forms of its operands, for `spectral.py`."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from tiduc.dialect.emitters.bodies import reducer
from tiduc.dialect.facts.matchers import splat
from tiduc.dialect.graph.graph import Definition, Value
from tiduc.dialect.graph.view import BINDING
from tiduc.dialect.ops.contractions import Contraction
from tiduc.dialect.ops.traits import ELEMENTWISE
from tiduc.dialect.shapes.types import dimensions_in, is_complex, is_dynamic, is_float, rank, shape
from tiduc.passes.rules.spectral_forms import (
    UNKNOWN,
    End,
    Form,
    Unproven,
    constant_diagonal,
    diagonal_mask,
    kept_sizes,
    require_repeated,
    splat_of,
)

Forms = Sequence[Form | None]


def outcome(op: Definition, forms: Mapping[Value, Form]) -> Form | End:
    """The form of an op's results, or an `End`. Raises `Unproven` if an operand depends on vectors without a form."""
    given = [forms.get(x) for x in op.operands]
    read = [form for x in op.reads if (form := forms.get(x)) is not None]
    has_vectors = any(form.is_vectors for form in read)
    if has_vectors and not any(is_float(y) or is_complex(y) for y in op.results):
        return End.HARMLESS  # integers have no tangent
    rule = _RULES.get(op.name, _elementwise if op.name in ELEMENTWISE else None)
    is_plain = len(op.results) == 1 and not any(x in forms for x in op.captures)
    try:
        if rule is None or not is_plain or is_dynamic(op.results[0].type):
            raise Unproven
        if not all(form.is_known for form in read):
            raise Unproven
        if any(form.part for form in read) and op.name not in _OF_PARTS:
            raise Unproven
        return rule(op, given)
    except Unproven:
        if has_vectors:
            raise
        return UNKNOWN


def _only(form: Form | None) -> Form:
    if form is None:
        raise Unproven
    return form


# ---- these are rules of elementwise ops --------------------------------------------------------------------


def _elementwise(op: Definition, forms: Forms) -> Form:
    """The form of a function of values: an element that belongs to vector j depends on w_j alone."""
    known = [form for form in forms if form is not None]
    if any(form != known[0] for form in known) or known[0].other is not None or known[0].is_vectors:
        raise Unproven
    return known[0]


def _linear(op: Definition, forms: Forms) -> Form:
    form = _only(forms[0])
    if form.is_vectors and is_complex(op.operands[0]) != is_complex(op.result):
        if is_complex(op.operands[0]):
            raise Unproven
    return form


def _negated(op: Definition, forms: Forms) -> Form:
    form = _only(forms[0])
    return (
        replace(form, part={"imag": "-imag", "-imag": "imag"}[form.part])
        if form.part in ("imag", "-imag")
        else form
    )


def _real(op: Definition, forms: Forms) -> Form:
    form = _only(forms[0])
    return replace(form, part="real", source=op.operands[0]) if form.is_vectors else form


def _imag(op: Definition, forms: Forms) -> Form:
    form = _only(forms[0])
    if form.other is not None:
        raise Unproven
    return replace(form, part="imag", source=op.operands[0]) if form.is_vectors else form


def _complex(op: Definition, forms: Forms) -> Form:
    """The form of a complex value. Its parts may be those of vectors or of conjugates, or the second may be 0."""
    re, im = forms
    if re is not None and im is not None and re.is_vectors and im.is_vectors:
        if re.part != "real" or re.source is not im.source or replace(re, part=im.part) != im:
            raise Unproven
        if im.part not in ("imag", "-imag"):
            raise Unproven
        is_conjugate = re.is_conjugate != (im.part == "-imag")
        return replace(re, part="", source=None, is_conjugate=is_conjugate)
    if im is None and splat(op.operands[1]) == 0 and re is not None and not re.part:
        return re
    return _elementwise(op, forms)


def _conjugated(op: Definition, forms: Forms) -> Form:
    form = _only(forms[0])
    return replace(form, is_conjugate=not form.is_conjugate) if form.is_vectors else form


def _product(op: Definition, forms: Forms) -> Form:
    """The form of a product or a quotient of vectors, or of a diagonal, and a factor.

    Along the dimension of the vectors, element j of the factor must belong to vector j, or all elements must be equal.
    """
    x, y = forms
    special = [form is not None and (form.is_vectors or form.other is not None) for form in forms]
    if not any(special):
        return _elementwise(op, forms)
    if all(special) or (special[1] and op.name == "stablehlo.divide"):
        raise Unproven
    i = special.index(True)
    form, factor = _only(forms[i]), forms[1 - i]
    if factor is None:
        require_repeated(op.operands[1 - i], form)
    elif form.other is not None or not _are_aligned(form, factor):
        raise Unproven
    return form


def _are_aligned(x: Form, y: Form) -> bool:
    return x.batch == y.batch and x.number == y.number and x.start == y.start and y.other is None


def _selected(op: Definition, forms: Forms) -> Form:
    condition, x, y = forms
    if (diagonal := _diagonal(op, forms)) is not None:
        return diagonal
    of = [form for form in (x, y) if form is not None and (form.is_vectors or form.other is not None)]
    if not of:
        return _elementwise(op, forms)
    other = op.operands[2 if x is of[0] else 1]
    if len(of) > 1 or (x is not None and y is not None) or of[0].other is not None:
        raise Unproven
    form = of[0]
    if condition is None:  # the condition of a select that gives NaN if a call failed
        require_repeated(op.operands[0], form)
        require_repeated(other, form)
    elif splat(other) != 0 or not _are_aligned(form, condition):
        raise Unproven
    return form


def _diagonal(op: Definition, forms: Forms) -> Form | None:
    """The form of select(i == j, x, 0), where elements of x belong to vector i or j. None for any other select."""
    condition, x, y = forms
    if condition is not None or y is not None or x is None or x.is_vectors or x.other is not None:
        return None
    pair = diagonal_mask(op.operands[0])
    if pair is None or x.number not in pair or splat_of(op.operands[2]) != 0:
        return None
    return replace(x, other=pair[1 - pair.index(x.number)])


# ---- these are rules of ops that move elements -------------------------------------------------------------


def _same(op: Definition, forms: Forms) -> Form:
    return _only(forms[0])


def _broadcast(op: Definition, forms: Forms) -> Form:
    form, places = _only(forms[0]), dimensions_in(op.attributes["broadcast_dimensions"])
    if any(shape(op.operands[0])[d] != shape(op.result)[places[d]] for d in form.tracked):
        raise Unproven
    return form.placed(places)


def _transposed(op: Definition, forms: Forms) -> Form:
    permutation = dimensions_in(op.attributes["permutation"])
    return _only(forms[0]).placed([permutation.index(d) for d in range(len(permutation))])


def _reshaped(op: Definition, forms: Forms) -> Form:
    return _only(forms[0]).placed(kept_sizes(op))


def _padded(op: Definition, forms: Forms) -> Form:
    form = _only(forms[0])
    names = ("edge_padding_low", "edge_padding_high", "interior_padding")
    if forms[1] is not None or any(any(dimensions_in(op.attributes[name])) for name in names):
        raise Unproven
    return form


def _sliced(op: Definition, forms: Forms) -> Form | End:
    form = _only(forms[0])
    if not form.is_vectors and form.other is None and shape(op.result)[form.number] == 1:
        return End.HARMLESS  # a single eigenvalue or singular value
    start, strides = dimensions_in(op.attributes["start_indices"]), dimensions_in(op.attributes["strides"])
    whole = [d for d in form.tracked if d != form.number]
    if strides[form.number] != 1 or any(shape(op.operands[0])[d] != shape(op.result)[d] for d in whole):
        raise Unproven
    if form.other is not None and shape(op.operands[0]) != shape(op.result):
        raise Unproven
    return replace(form, start=form.start + start[form.number])


def _taken(op: Definition, forms: Forms) -> End:
    form = _only(forms[0])
    if form.is_vectors or form.other is not None or shape(op.result)[form.number] != 1 or any(forms[1:]):
        raise Unproven
    return End.HARMLESS


# ---- these are rules of reductions and contractions --------------------------------------------------------


def _reduced(op: Definition, forms: Forms) -> Form | End:
    """The form of a sum along dimensions that the operand's form does not name.

    Returns `End.HARMLESS` for a reduction over all eigenvalues or singular values.
    """
    if len(op.operands) != 2 or forms[1] is not None:
        raise Unproven
    form, dropped = _only(forms[0]), dimensions_in(op.attributes["dimensions"])
    if not form.is_vectors and form.other is None and form.number in dropped:
        return End.HARMLESS
    if reducer(op) != "stablehlo.add" or splat_of(op.operands[1]) != 0:
        raise Unproven
    if not set(dropped).isdisjoint(form.tracked):
        raise Unproven
    kept = [d for d in range(rank(op.operands[0])) if d not in dropped]
    return form.placed({d: i for i, d in enumerate(kept)})


def _contracted(op: Definition, forms: Forms) -> Form | End:
    x, y = forms
    of = Contraction.of(op)
    if x is None or y is None:
        side = 0 if y is None else 1
        return _contracted_with_constant(op, side, _only(forms[side]), of)
    if x.is_vectors and y.is_vectors:
        return _sum(op, (x, y), of)
    for side, (form, other) in enumerate(((x, y), (y, x))):
        if form.other is None and not other.is_vectors and other.other is not None:
            return _scaled(op, side, form, other, of)
    is_sum = (x.number, y.number) in zip(*of.summed, strict=True) and x.other is None and y.other is None
    if not (x.is_vectors or y.is_vectors) and is_sum:
        return End.HARMLESS
    raise Unproven


def _sum(op: Definition, forms: tuple[Form, Form], of: Contraction) -> End:
    """`End.SUM` for a contraction of vectors and adjoints of vectors over the dimension that numbers them.

    Raises `Unproven` for any other contraction.
    """
    x, y = forms
    summed, batches = list(zip(*of.summed, strict=True)), list(zip(*of.batches, strict=True))
    aligned = all(pair in summed or pair in batches for pair in zip(x.batch, y.batch, strict=True))
    is_whole = x.start == y.start and (x.number, y.number) in summed and aligned
    if not is_whole or (is_complex(op.result) and x.is_conjugate == y.is_conjugate):
        raise Unproven
    return End.SUM


def _contracted_with_constant(op: Definition, side: int, form: Form, of: Contraction) -> Form | End:
    if form.number in of.summed[side]:
        if not form.is_vectors and form.other is None:
            return End.HARMLESS
        numbers = constant_diagonal(op.operands[1 - side])
        if numbers is None or form.other is not None:
            raise Unproven
        return _scaled(op, side, form, Form((), numbers[0], form.start, numbers[1]), of, batch=False)
    places = _results(op, side, of)
    if form.is_vectors and not set(of.batches[side]).isdisjoint(form.tracked[len(form.batch) :]):
        raise Unproven
    return form.placed(places)


def _scaled(
    op: Definition, side: int, form: Form, diagonal: Form, of: Contraction, batch: bool = True
) -> Form:
    """The form of vectors, or of values, times a diagonal matrix."""
    pairs = [pair[:: 1 if side == 0 else -1] for pair in zip(*of.summed, strict=True)]
    ends = [diagonal.number, diagonal.other]
    used = [e for e in ends if (form.number, e) in pairs]
    if len(used) != 1 or len(pairs) != 1 or form.start != diagonal.start:
        raise Unproven
    batches = [pair[:: 1 if side == 0 else -1] for pair in zip(*of.batches, strict=True)]
    if batch and not all(pair in batches for pair in zip(form.batch, diagonal.batch, strict=True)):
        raise Unproven
    (kept,) = [e for e in ends if e not in used]
    other = _results(op, 1 - side, of)
    places = _results(op, side, of)
    if kept not in other or not set(form.batch) <= set(places):
        raise Unproven
    return replace(form.placed({**places, form.number: other[kept]}), number=other[kept])


def _results(op: Definition, side: int, of: Contraction) -> dict[int, int]:
    """Maps dimensions of operand `side` of a contraction to dimensions of the result."""
    return of.places(side, [rank(x) for x in op.operands])


_RULES: dict[str, Callable[[Definition, Forms], Form | End]] = {
    "chlo.conj": _conjugated,
    "stablehlo.broadcast_in_dim": _broadcast,
    "stablehlo.complex": _complex,
    "stablehlo.convert": _linear,
    "stablehlo.divide": _product,
    "stablehlo.dot_general": _contracted,
    "stablehlo.dynamic_slice": _taken,
    "stablehlo.imag": _imag,
    "stablehlo.multiply": _product,
    "stablehlo.negate": _negated,
    "stablehlo.pad": _padded,
    "stablehlo.real": _real,
    "stablehlo.reduce": _reduced,
    "stablehlo.reshape": _reshaped,
    "stablehlo.select": _selected,
    "stablehlo.slice": _sliced,
    "stablehlo.transpose": _transposed,
    BINDING: _same,
}
"""The rules of forms, by op: (op, forms of its operands) -> form of its result."""

_OF_PARTS = ("stablehlo.complex", "stablehlo.negate", BINDING)
"""Ops that may read the real or the imaginary part of vectors."""
