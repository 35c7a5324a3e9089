"""The linear-algebra calls that tiduc knows, as JAX exports them for LAPACK, cuSOLVER, hipSOLVER, MAGMA and TPUs.

A row of the table `ROUTINES` has the call targets of a routine, the types of operands and results (signatures.py), and
the letters that are allowed as values of settings. If a call in an imported program contradicts its row, import fails.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from torch_mlir import ir

from tiduc.dialect.errors import ParseError
from tiduc.dialect.facts.signatures import contradiction, positions, wrong_setting
from tiduc.dialect.ops.attributes import named_attributes
from tiduc.dialect.ops.control_ops import TARGET, call_target
from tiduc.dialect.ops.ir_types import AnyOp

CONFIG = ("mhlo.backend_config", "backend_config")
"""Names of the attribute that holds a call's settings. JAX's lowering uses the first, and JAX's exports the second."""


Setting = bool | int | float | str | ir.Attribute
"""The value of a setting of a call."""


@dataclass(frozen=True)
class Routine:
    """A routine: its call targets, its signature, and the letters that are allowed as values of some settings.

    The signature is text, or a function that maps the settings of a call to text.
    """

    targets: tuple[str, ...]
    signature: str | Callable[[Mapping[str, Setting]], str]
    letters: Mapping[str, str] = field(default_factory=dict)

    def signature_for(self, given: Mapping[str, Setting]) -> str:
        """The signature of a call with these settings."""
        return self.signature if isinstance(self.signature, str) else self.signature(given)

    @property
    def dimensions(self) -> list[int]:
        """For each operand, the number of dimensions except batching dimensions. It is the same for all settings."""
        operands, _ = positions(self.signature_for({}))
        return [len(alternatives[0].sizes or ()) for alternatives in operands]


_ELEMENTS = {"s": "f32", "d": "f64", "c": "complex<f32>", "z": "complex<f64>"}
"""Maps the first letter in the name of a LAPACK routine to the element type of its matrices. `dgetrf` takes f64."""


def _lapack(real: str, of_complex: str | None = None) -> tuple[str, ...]:
    """The call targets of a LAPACK routine for f32, f64, complex<f32> and complex<f64>.

    The complex routines may have another name than the real ones, for example `ungqr` instead of `orgqr`.
    """
    names = (real, real, of_complex or real, of_complex or real)
    return tuple(f"lapack_{letter}{name}_ffi" for letter, name in zip(_ELEMENTS, names, strict=True))


def _gpu(name: str) -> tuple[str, ...]:
    return f"cu{name}", f"hip{name}"


def _gesvd(given: Mapping[str, Setting]) -> str:
    """The signature of `gesvd` on GPUs with the settings `given`.

    u and v^H may be scalars if no vectors are computed, and are swapped if the matrix is transposed.
    """
    u, vh = "T[m u]", "T[v n]"
    if given.get("compute_uv") is not True:
        u, vh = f"T|{u}", f"T|{vh}"
    first, second = (vh, u) if given.get("transposed") is True else (u, vh)
    return f"T[m n] -> T[m n] R[k] {first} {second} i32[]"


_SYMMETRIC, _VECTORS = {"uplo": "LU"}, {"compute_left": "NV", "compute_right": "NV"}
_REAL_EIG, _COMPLEX_EIG = "R[n n] -> R[n] R[n] C[n n] C[n n] i32[]", "C[n n] -> C[n] C[n n] C[n n] i32[]"
_GEES = {"mode": "NV", "sort": "NS"}

ROUTINES: dict[str, Routine] = {
    "Eigh": Routine(("Eigh",), "T[n n] -> T[n s] R[s]"),
    "LuDecomposition": Routine(("LuDecomposition",), "T[m n] -> T[m n] i32[k] i32[m]"),
    "gees": Routine(_lapack("gees")[2:], "C[n n] -> C[n n] C[n n] C[n] i32[] i32[]", _GEES),
    "gees of reals": Routine(_lapack("gees")[:2], "R[n n] -> R[n n] R[n n] R[n] R[n] i32[] i32[]", _GEES),
    "geev": Routine((*_lapack("geev")[2:], *_gpu("hybrid_eig_comp")), _COMPLEX_EIG, _VECTORS),
    "geev of reals": Routine((*_lapack("geev")[:2], *_gpu("hybrid_eig_real")), _REAL_EIG, _VECTORS),
    "geev of cuSOLVER": Routine(("cusolver_geev_ffi",), "T[n n] -> T[n n] C[n] T[n n] T[n n] i32[]"),
    "gehrd": Routine(_lapack("gehrd"), "T[n n] -> T[n n] T[n-1] i32[]"),
    "geqp3": Routine((*_lapack("geqp3"), *_gpu("hybrid_geqp3")), "T[m n] i32[n] -> T[m n] i32[n] T[k]"),
    "geqrf": Routine((*_lapack("geqrf"), *_gpu("solver_geqrf_ffi"), "Qr"), "T[m n] -> T[m n] T[k]"),
    "gesdd": Routine(
        (*_lapack("gesdd"), *_lapack("gesvd")),
        "T[m n] -> T[m n] R[k] T[m u] T[v n] i32[]",
        {"mode": "ANOS"},
    ),
    "gesvd": Routine((*_gpu("solver_gesvd_ffi"), "hipsolver_gesdd_ffi"), _gesvd),
    "gesvdj": Routine(  # the fourth result is v, not v^H
        ("cusolver_gesvdj_ffi", "cusolver_gesvdp_ffi", "hipsolver_gesvdj_ffi"),
        "T[m n] -> T[m n] R[k] T[m u] T[n v] i32[]",
    ),
    "getrf": Routine((*_lapack("getrf"), *_gpu("solver_getrf_ffi")), "T[m n] -> T[m n] i32[k] i32[]"),
    "gtsv": Routine(_lapack("gtsv"), "T[n] T[n] T[n] T[n m] -> T[n] T[n] T[n] T[n m] i32[]"),
    "gtsv2": Routine(_gpu("sparse_gtsv2_ffi"), "T[n] T[n] T[n] T[n m] -> T[n m]"),
    "orgqr": Routine(
        (
            *_lapack("orgqr", "ungqr"),
            *_gpu("solver_orgqr_ffi"),
            "ProductOfElementaryHouseholderReflectors",
        ),
        "T[m n] T[r] -> T[m n]",
    ),
    "ormqr": Routine((*_lapack("ormqr", "unmqr"), *_gpu("solver_ormqr_ffi")), "T[p q] T[r] T[m n] -> T[m n]"),
    "pivots_to_permutation": Routine(_gpu("_lu_pivots_to_permutation"), "i32[r] -> i32[m]"),
    "potrf": Routine((*_lapack("potrf"), *_gpu("solver_potrf_ffi")), "T[n n] -> T[n n] i32[]", _SYMMETRIC),
    "syevd": Routine(
        (*_lapack("syevd", "heevd"), *_gpu("solver_syevd_ffi")),
        "T[n n] -> T[n n] R[n] i32[]",
        {"mode": "NV", **_SYMMETRIC},
    ),
    "sytrd": Routine(
        (*_lapack("sytrd", "hetrd"), *_gpu("solver_sytrd_ffi")),
        "T[n n] -> T[n n] R[n] R[n-1] T[n-1] i32[]",
        _SYMMETRIC,
    ),
    "topk": Routine(("mhlo.topk",), "E[n] -> E[s] i32[s]"),
    "tridiagonal_solve_perturbed": Routine(
        ("tridiagonal_solve_perturbed_ffi", *_gpu("_tridiagonal_solve_perturbed")),
        "T[n] T[n] T[n] T[n m] -> T[n m]",
    ),
    "trsm": Routine(
        _lapack("trsm"),
        "T[p p] T[m n] -> T[m n]",
        {"side": "LR", "uplo": "LU", "trans_x": "NTC", "diag": "NU"},
    ),
}

BY_TARGET = {target: routine for routine in ROUTINES.values() for target in routine.targets}


def targets(*routines: str) -> tuple[str, ...]:
    """The call targets of the routines with these names."""
    return tuple(target for name in routines for target in ROUTINES[name].targets)


def settings_among(attributes: ir.OpAttributeMap | Mapping[str, ir.Attribute]) -> dict[str, Setting]:
    """The settings of a call by name, as Python values; {} if the call has no dictionary of settings."""
    for name in CONFIG:
        if name in attributes and isinstance(attributes[name], ir.DictAttr):
            return {key: _plain(value) for key, value in named_attributes(attributes[name]).items()}
    return {}


class CallSettings(dict[str, Any]):
    """The settings of a call. If a missing setting is read, raises the error that `refuse(message)` returns."""

    def __init__(
        self, attributes: ir.OpAttributeMap | Mapping[str, ir.Attribute], refuse: Callable[[str], Exception]
    ) -> None:
        super().__init__(settings_among(attributes))
        self.refuse = refuse

    def __missing__(self, name: str) -> Any:
        raise self.refuse(f"the backend_config of the call has no {name}")


def _plain(attribute: ir.Attribute) -> Setting:
    if isinstance(attribute, ir.BoolAttr | ir.IntegerAttr | ir.FloatAttr | ir.StringAttr):
        return attribute.value
    return attribute


def check_call(op: AnyOp) -> None:
    """Raises `ParseError` if a call contradicts the row of `ROUTINES` that has its target.

    A call whose target is in no row is not checked.
    """
    target = call_target(op)
    routine = BY_TARGET.get(target)
    if routine is None:
        return
    given = settings_among(op.attributes)
    from_right = given.get("side") == ord("R") or given.get("left") is False
    wrong = _wrong_precision(target, op) or contradiction(routine.signature_for(given), op, from_right)
    if wrong := wrong or wrong_setting(given, routine.letters):
        raise ParseError(f"inconsistent call of @{target}: {wrong}", op.location)


def _wrong_precision(target: str, op: AnyOp) -> str | None:
    """A message if the first operand lacks the element type in the name of a LAPACK routine; else None."""
    if not target.startswith("lapack_") or not len(op.operands):
        return None
    expected = _ELEMENTS[target[len("lapack_")]]
    element = getattr(op.operands[0].type, "element_type", None)
    return None if str(element) == expected else f"its elements are {element}, not {expected}"


def lapack_call(
    routine: str,
    element: ir.Type,
    operands: Sequence[int],
    results: Sequence[int],
    batch: int = 0,
    settings: str = "",
) -> dict[str, ir.Attribute]:
    """The attributes of a custom call that runs a LAPACK routine on arrays with `batch` batch dimensions.

    `operands` and `results` are lists of ranks from 0 to 2, without batch dimensions. `settings` is the text of MLIR
    attributes. The layouts say that matrices are stored column by column, because LAPACK requires this.
    """
    (letter,) = (letter for letter, name in _ELEMENTS.items() if name == str(element))
    prefix = f"lapack_{letter}"
    name = next(each for each in targets(routine) if each.startswith(prefix))

    def layout(rank: int) -> str:
        order = [*((batch, batch + 1) if rank == 2 else (batch,) * rank), *reversed(range(batch))]
        return f"dense<{order if order else ''}> : tensor<{batch + rank}xindex>"

    of_operands, of_results = (", ".join(map(layout, ranks)) for ranks in (operands, results))
    text = (
        f'{TARGET} = "{name}", api_version = 4 : i32, backend_config = {{{settings}}}, '
        f"operand_layouts = [{of_operands}], result_layouts = [{of_results}]"
    )
    return named_attributes(ir.Attribute.parse(f"{{{text}}}"))
