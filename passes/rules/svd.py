"""Singular values and vectors, a = u diag(s) v^H, as LAPACK and cuSOLVER calls, with thin, full or no vectors.

u^H du and v^H dv are skew-Hermitian. They are not determined for phases, for the basis of equal singular values, and
for columns beyond the singular values. The rule sets these elements to zero, except that the diagonal of u^H du has the
phases of both, as in JAX. The difference u^H du - v^H dv is also exact for equal singular values. `spectral.py` has
further rules for equal singular values.

Source: Giles, "An extended collection of matrix derivative results" (2008), section 3.2; Wan and Zhang,
"Automatic differentiation for complex valued SVD" (2019).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

from torch_mlir import ir

from tiduc.dialect.emitters.matrices import (
    adjoint,
    columns,
    compare_places,
    diagonal,
    inverse,
    inverse_gaps,
    is_within,
    matrix_product,
    rows,
    scaled,
    some,
)
from tiduc.dialect.emitters.stablehlo import StablehloBuilder
from tiduc.dialect.facts.lapack import CallSettings, targets
from tiduc.dialect.graph.graph import Definition, Value
from tiduc.dialect.ops.attributes import present
from tiduc.dialect.ops.control_ops import TARGET, call_target
from tiduc.dialect.shapes.types import is_complex, rank, shape, with_shape
from tiduc.passes.rules.custom_call import custom_call
from tiduc.passes.rules.decomposition import EQUAL_WITHIN, equality_margin, settings, with_settings
from tiduc.passes.rules.registry import Tangents
from tiduc.passes.rules.spectral import couple, equal_values, sums, unless_equal, vectors_of, zeros

OF_V = targets("gesvdj")
"""Targets whose calls return v; all others return v^H."""

_SIZE_INDEPENDENT = (
    EQUAL_WITHIN,
    TARGET,
    "api_version",
    "backend_config",
    "operand_layouts",
    "output_operand_aliases",
)
"""Attributes that do not depend on the sizes of results."""


T = TypeVar("T")


@dataclass(frozen=True)
class VectorLayout:
    """Whether a call computes singular vectors, and in which order and form it returns them."""

    vectors: bool
    transposed: bool
    of_v: bool

    @staticmethod
    def of(given: CallSettings, target: str) -> "VectorLayout":
        """The layout of a call with these settings. Raises `Unsupported` for vectors that overwrite the matrix."""
        if "mode" not in given:
            return VectorLayout(
                bool(given["compute_uv"]), bool(given.get("transposed", False)), target in OF_V
            )
        if given["mode"] == ord("O"):
            raise given.refuse("singular vectors that overwrite the matrix (mode O) are not supported")
        return VectorLayout(given["mode"] != ord("N"), False, False)

    def ordered(self, first: T, second: T) -> tuple[T, T]:
        """Converts the third and fourth results of a call to (u, v), or (u, v) to the order of these results."""
        return (second, first) if self.transposed else (first, second)


@custom_call(*targets("gesdd", "gesvd", "gesvdj"))
def svd(b: StablehloBuilder, op: Definition, dx: Tangents) -> list[Value | None]:
    """ds = Re diag(c), du = u x, dv = v y with c = u^H da v, for skew-Hermitian x and y with c = x s + ds - s y.

    For each element, x + y = (c + c^H) / (s_j - s_i) and x - y = (c - c^H) / (s_j + s_i). The component of da v / s
    orthogonal to the columns of u is added to du, and likewise for dv. The first result, which programs do not use, has
    no tangent.
    """
    layout, s = VectorLayout.of(settings(op), call_target(op)), op.results[1]
    if 0 in shape(op.operands[0]):  # no tangent, because the vectors of an empty matrix are constant
        return [None] * len(op.results)
    results = op.results if layout.vectors else _with_vectors(b, op, layout)
    u, v = layout.ordered(*results[2:4])
    v = v if layout.of_v else adjoint(b, v)
    count = shape(s)[-1]
    u1, v1 = _first(b, u, count), _first(b, v, count)
    dav = matrix_product(b, dx[0], v1)
    c = matrix_product(b, adjoint(b, u1), dav)
    ds = b.real(diagonal(b, c))
    if not layout.vectors:
        return [None, ds, None, None, None]
    margin = equality_margin(b, op, s)
    x, y = _rotations(b, s, c, margin)
    over = inverse(b, s, margin)
    du = _moved(b, u, u1, x, dav, over)
    dv = _moved(b, v, v1, y, matrix_product(b, adjoint(b, dx[0]), u1), over)
    du, dv = _with_equal_values(b, op, layout, (c, margin), (du, dv))
    return [None, ds, *layout.ordered(du, dv if layout.of_v else adjoint(b, dv)), None]


def _with_equal_values(
    b: StablehloBuilder,
    op: Definition,
    layout: VectorLayout,
    known: tuple[Value, Value],
    tangents: tuple[Value, Value],
) -> list[Value]:
    """The tangents of u and v. For equal values they are not finite, unless the program uses only sums of vectors.

    For a value of zero, vectors of a matrix that is not square have no derivative. A sum of products of v and v^H (v
    square), or of u and u^H (u square), has a derivative if its terms do not depend on the value. Any sum has a
    derivative if its terms vanish to first order in the value.
    """
    s, (c, margin) = op.results[1], known
    equal = equal_values(b, s, margin)
    zero = is_within(b, b.abs(s), margin)
    u, v = layout.ordered(*op.results[2:4])
    sizes, count = [shape(x)[-2] for x in tangents], shape(s)[-1]
    forms = {u: vectors_of(u), v: vectors_of(v, 1, not layout.of_v)}
    is_thin = all(shape(x)[-1] == count for x in tangents)
    found = sums(b, s, forms) if is_thin else None
    if found is not None:
        half = b.multiply(b.constant(0.5, c), b.add(c, adjoint(b, c)))
        couple(b, found, half, equal, lambda each: zeros(b, each, zero, [n == count for n in sizes]))
        return list(tangents)
    flags = some(b, equal, [rank(equal) - 1])
    moved = []
    for n, x in zip(sizes, tangents, strict=True):
        bad = flags if n == count else b.or_(flags, zero)
        more = shape(x)[-1] - count
        if more > 0:  # columns without a singular value count as vectors of the value 0
            any_zero = some(b, zero, [rank(zero) - 1])
            rest = with_shape(zero.type, [*shape(zero)[:-1], more])
            beyond = b.broadcast_in_dim(any_zero, range(rank(any_zero)), rest)
            bad = b.concatenate([bad, beyond], rank(bad) - 1)
        moved.append(unless_equal(b, bad, c, x))
    return moved


def _rotations(b: StablehloBuilder, s: Value, c: Value, margin: Value) -> tuple[Value, Value]:
    """The skew-Hermitian x and y of `svd`. The diagonal of c, which changes phases, contributes to x only."""
    half, pairs = b.constant(0.5, c), with_shape(s.type, shape(c))
    sums = inverse(b, b.add(columns(b, s, pairs), rows(b, s, pairs)), margin)
    both = b.multiply(half, scaled(b, inverse_gaps(b, s, margin), b.add(c, adjoint(b, c))))
    antisymmetric = b.multiply(half, scaled(b, sums, b.subtract(c, adjoint(b, c))))
    if not is_complex(c):
        return b.add(both, antisymmetric), b.subtract(both, antisymmetric)
    on_diagonal, zero = compare_places(b, c, "EQ"), b.zeros_like(c)
    more = b.add(antisymmetric, b.select(on_diagonal, antisymmetric, zero))
    less = b.select(on_diagonal, zero, antisymmetric)
    return b.add(both, more), b.subtract(both, less)


def _moved(b: StablehloBuilder, u: Value, u1: Value, x: Value, image: Value, inverse: Value) -> Value:
    """The tangent of u: u1 x, plus the part of `image` / s that is orthogonal to u1. `image` is da v1; for v, da^H u1.

    u1 are the first columns of u, one per singular value. The tangents of further columns keep u unitary.
    """
    du1 = matrix_product(b, u1, x)
    size, count, wide = shape(u)[-2], shape(u1)[-1], shape(u)[-1]
    if size == count:
        return du1
    over = columns(b, b.convert(inverse, u.type.element_type), image.type)
    if wide == count:
        within = matrix_product(b, u1, matrix_product(b, adjoint(b, u1), image))
        return b.add(du1, b.multiply(b.subtract(image, within), over))
    u2 = _columns_of(b, u, count, wide)
    turned = matrix_product(b, adjoint(b, u2), b.multiply(image, over))
    du2 = b.negate(matrix_product(b, u1, adjoint(b, turned)))
    return b.concatenate([b.add(du1, matrix_product(b, u2, turned)), du2], rank(u) - 1)


def _first(b: StablehloBuilder, u: Value, count: int) -> Value:
    return u if shape(u)[-1] == count else _columns_of(b, u, 0, count)


def _columns_of(b: StablehloBuilder, u: Value, start: int, limit: int) -> Value:
    sizes = shape(u)[:-1]
    return b.slice(u, [0] * len(sizes) + [start], [*sizes, limit], [1] * rank(u))


def _with_vectors(b: StablehloBuilder, op: Definition, layout: VectorLayout) -> Sequence[Value]:
    """The results of the same call, but with vectors: with thin vectors if the target can compute them."""
    if layout.of_v:
        return b.reapply(op, {}, with_settings(op, compute_uv=True))
    a, s, *_, info = op.results
    *batch, m, n = shape(a)
    thin = shape(s)[-1]
    sizes = layout.ordered([*batch, m, thin], [*batch, thin, n])
    types = [a.type, s.type, *[with_shape(a.type, some) for some in sizes], info.type]
    given = settings(op)
    changed = {"mode": ord("S")} if "mode" in given else {"compute_uv": True, "full_matrices": False}
    attributes = present(op.attributes, *_SIZE_INDEPENDENT) | with_settings(op, **changed)
    if "result_layouts" in op.attributes:
        first, of_s, *_, of_info = op.attributes["result_layouts"]
        attributes["result_layouts"] = ir.ArrayAttr.get([first, of_s, first, first, of_info])
    return b.emit_all(op.name, op.operands, types, attributes)
