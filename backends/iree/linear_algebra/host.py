"""Computes factorizations by LAPACK on the host, for CPU targets. The compiled module calls imported functions.

    %v, %w, %info = call @tiduc_lapack.eigh_f64(%x)

The option `--lapack=callback` selects these functions instead of programs. runtime/lapack.py provides the functions;
other runtimes refuse the module, because `tiduc_lapack` is missing. A function takes batches of matrices of dynamic
sizes, so that one function serves all sizes.
"""

from collections.abc import Sequence

from torch_mlir import ir

from tiduc.backends.iree.emit.emitter import Emitter, module_of, signless
from tiduc.backends.iree.linear_algebra.cholesky import first_without_root
from tiduc.dialect.emitters.matrices import adjoint, compare_places
from tiduc.dialect.facts.signatures import positions
from tiduc.dialect.graph.functions import symbol
from tiduc.dialect.graph.graph import operations
from tiduc.dialect.ops.ir_types import IrOp, IrValue
from tiduc.dialect.shapes.types import element, is_complex, shape

_MODULE = "tiduc_lapack"
"""The name of the IREE module that exports the functions."""


def calls_back(module: IrOp) -> bool:
    """Whether a module imports functions of `tiduc_lapack`."""
    return any(
        symbol(op).startswith(f"{_MODULE}.") for op in operations(module.operation.regions[0].blocks[0])
    )


# ---- factorizations that `IMPLEMENTATIONS` lists (implementations.py) --------------------------------------------


def cholesky(b: Emitter, x: IrValue, *, lower: bool, keep: bool) -> list[IrValue]:
    """The factor and `info`: 0, or the number (from one) of the first column without a positive diagonal entry.

    The other triangle of the factor is zero, or that of x if `keep` is set.
    """
    (factor,) = _call_host(b, "cholesky", x if lower else adjoint(b, x))
    (info,) = first_without_root(b, factor)
    factor = factor if lower else adjoint(b, factor)
    return [b.select(compare_places(b, x, "GE" if lower else "LE"), factor, x) if keep else factor, info]


def qr(b: Emitter, x: IrValue) -> Sequence[IrValue]:
    """The packed QR factors of x (qr.py), and the row tau of the reflections (reflectors.py)."""
    return _call_host(b, "qr", x)


def multiply_by_q(b: Emitter, qr: IrValue, taus: IrValue, c: IrValue, *, adjoint: bool) -> Sequence[IrValue]:
    """Returns Q^H c if `adjoint` is set, otherwise Q c. `qr` and `taus` are results of the function `qr`."""
    return _call_host(b, "apply_qh" if adjoint else "apply_q", c, (qr, taus))


def eigh(b: Emitter, x: IrValue, *, vectors: bool) -> Sequence[IrValue]:
    """Eigenvectors if `vectors` is set, eigenvalues, and `info`. NumPy reads only the lower triangle of x."""
    return _call_host(b, "eigh" if vectors else "eigvalsh", x)


def svd(b: Emitter, x: IrValue, *, vectors: int) -> Sequence[IrValue]:
    """u, the singular values, v^H and `info`. Only the values and `info` if `vectors`, the number of vectors, is 0."""
    if not vectors:
        return _call_host(b, "svdvals", x)
    u, s, v, info = _call_host(b, "svd_full" if vectors > min(shape(x)[1:]) else "svd", x)
    return u, s, adjoint(b, v), info


def eig(b: Emitter, x: IrValue, *, left: bool, right: bool) -> Sequence[IrValue]:
    """Eigenvalues, right eigenvectors if `right` is set, and `info`. `left` must be False."""
    assert not left, "NumPy computes no left vectors"
    return _call_host(b, "eig" if right else "eigvals", x)


# ---- calls ------------------------------------------------------------------------------------------------------


_RESULTS = {
    "apply_q": "T[m n]",
    "apply_qh": "T[m n]",
    "cholesky": "T[m n]",
    "eig": "C[n] C[n n] i32[]",
    "eigh": "T[n n] R[n] i32[]",
    "eigvals": "C[n] i32[]",
    "eigvalsh": "R[n] i32[]",
    "qr": "T[m n] T[k]",
    "svd": "T[m k] R[k] T[n k] i32[]",
    "svd_full": "T[m m] R[k] T[n n] i32[]",
    "svdvals": "R[k] i32[]",
}
"""The element types and sizes of the host functions' results for an m by n matrix, where k = min(m, n).

dialect/facts/signatures.py describes the notation.
"""


def _types(name: str, x: IrValue) -> list[ir.RankedTensorType]:
    """The types of the results of a host function for the batch x."""
    (batch, m, n), real = shape(x), _real(x)
    sizes = {"m": m, "n": n, "k": min(m, n)}
    elements = {"T": element(x), "R": real, "C": ir.ComplexType.get(real), "i32": signless(32)}
    _, results = positions(f"-> {_RESULTS[name]}")
    return [
        ir.RankedTensorType.get([batch, *(sizes[size] for size in y.sizes or ())], elements[y.element])
        for (y,) in results
    ]


def _real(x: IrValue) -> ir.FloatType:
    """The element type of x, or the type of the real and imaginary parts if x is complex."""
    real: ir.FloatType = element(x).element_type if is_complex(x) else element(x)
    return real


def _call_host(b: Emitter, name: str, x: IrValue, before: Sequence[IrValue] = ()) -> tuple[IrValue, ...]:
    """Emits a call of the host's function `name` with the operands `before` and x. Returns the results."""
    suffix = f"c{2 * _real(x).width}" if is_complex(x) else f"f{_real(x).width}"
    function, xs, types = f"{_MODULE}.{name}_{suffix}", (*before, x), _types(name, x)
    taken, given = [_dynamic(x.type) for x in xs], [_dynamic(type_) for type_ in types]
    _declare(b, function, ir.FunctionType.get(taken, given))
    operands = [b.emit("tensor.cast", (x,), type_) for x, type_ in zip(xs, taken, strict=True)]
    results = b.emit_all("func.call", operands, given, {"callee": ir.FlatSymbolRefAttr.get(function)})
    return tuple(b.emit("tensor.cast", (y,), type_) for y, type_ in zip(results, types, strict=True))


def _declare(b: Emitter, function: str, type_: ir.Type) -> None:
    """Declares a function of the host at the end of the module, unless the module declares it already."""
    module = module_of(b)
    if function not in ir.SymbolTable(module):
        declaration = ir.Operation.parse(f"func.func private @{function}{type_}")
        ir.InsertionPoint(module.regions[0].blocks[0]).insert(declaration)


def _dynamic(type_: ir.RankedTensorType) -> ir.RankedTensorType:
    """A tensor type in which all dimensions are dynamic."""
    dynamic = ir.ShapedType.get_dynamic_size()
    return ir.RankedTensorType.get([dynamic] * type_.rank, type_.element_type)
