"""Judges a harness: compares tiduc's derivatives with JAX's, or with finite differences if JAX has no derivative."""

import re
import traceback
from dataclasses import dataclass, replace
from typing import Any

import ml_dtypes
import numpy as np
from expectations import AGREE, EXPECTED, INSIDE, SINGULAR
from harness_case import (
    LOW_PRECISION,
    TOLERANCE,
    WIDER,
    Case,
    NotApplicable,
    Undecided,
    Wrong,
    case_of,
    check_values,
    compare,
    derivatives,
    differentiable,
    execute,
    in_double,
    legal,
    names_of,
    of_jax,
    of_vjp,
)

Array = Any

ELEMENTS = {"bf16": ml_dtypes.bfloat16, "f16": np.float16, "f32": np.float32}
STEP = 1e-4
DIFFERENCE_TOLERANCE = 1e-6


@dataclass(frozen=True)
class Outcome:
    """The outcome of one harness. `jax` is "both", "jvp", "vjp" or "none": the derivatives that JAX has."""

    name: str
    group: str
    dtype: str
    category: str
    detail: str = ""
    jax: str = ""


def check(harness: Any, order: int = 1) -> Outcome:
    """Runs a harness and returns its outcome. All exceptions become outcomes. At order 2, the VJP is differentiated."""
    from tiduc.dialect.errors import TiducError

    dtype = np.dtype(harness.dtype).name
    jax_has = ""

    def outcome(category: str, detail: str = "") -> Outcome:
        return Outcome(harness.fullname, harness.group_name, dtype, category, detail, jax_has)

    try:
        if not harness.filter("cpu"):
            raise NotApplicable("not implemented by JAX")
        case = exported(harness)
        try:
            case = of_vjp(case) if order == 2 else case
            texts = derivatives(case)
        except TiducError as refusal:
            jax_has = names_of(*of_jax(case))
            return outcome("refused", str(refusal).split("error: ", 1)[-1].split("\n")[0])
        jax_has = check_in_some_precision(harness, case, texts, order)
        if jax_has != "both":
            check_differences(case)
        return outcome("ok")
    except NotApplicable as reason:
        return outcome("n/a", str(reason))
    except Undecided as reason:
        return outcome("undecided", str(reason))
    except Wrong as wrong:
        for pattern, inside in INSIDE:
            if re.search(pattern, harness.fullname):
                return outcome(*judged_inside(replace(case, point=inside(*case.point)), texts))
        judgement = judged(case)
        known = EXPECTED * (judgement == AGREE) + SINGULAR
        reasons = [reason for pattern, reason in known if re.search(pattern, harness.fullname)]
        detail = "; ".join([*reasons, str(wrong), judgement])
        return outcome("expected" if reasons else "wrong", detail)
    except Exception:
        return outcome("crash", traceback.format_exc())


def check_in_some_precision(harness: Any, case: Case, texts: tuple[str, str], order: int) -> str:
    """Compares with JAX in the precision of the harness. If the derivatives differ, compares in double precision, too.

    In bf16 and f16, also compares the errors of both with the derivatives in double precision. Returns the name of the
    derivatives that JAX has.
    """
    low = any(y.dtype.name in LOW_PRECISION for y in (*case.dx, *case.ct))
    try:
        return check_values(case, texts)
    except Wrong as wrong:
        wide = doubled(harness, order)
        if wide is None or not (low or "error" in str(wrong)):
            raise
        if [y.shape for y in wide.ct] != [y.shape for y in case.ct]:
            raise
    if low:
        wide = replace(wide, point=in_double(case.point), dx=in_double(case.dx), ct=in_double(case.ct))
    has = check_values(wide, derivatives(wide))
    if low:
        check_nearness(case, texts, wide)
    return has


def check_nearness(case: Case, texts: tuple[str, str], wide: Case) -> None:
    """Compares the errors of tiduc's low-precision derivatives with those of JAX.

    Raises `Wrong` if tiduc's errors are more than about twice as large.
    """
    ours = (
        execute(texts[0], [*case.point, *case.dx])[case.results :],
        execute(texts[1], [*case.point, *case.ct])[case.results :],
    )
    for mine, theirs, exact, label in zip(
        ours, of_jax(case), of_jax(wide), ("tangent", "cotangent"), strict=True
    ):
        for x, y, z in zip(mine, theirs or (), exact or (), strict=True):
            x, y, z = in_double([x, np.asarray(y), np.asarray(z).astype(x.dtype)])
            scale = max([1.0, *np.abs(z[np.isfinite(z)]).ravel()])
            error, allowed = (distance(v, z) / scale for v in (x, y))
            if error > 2 * allowed + TOLERANCE[case.dx[0].dtype.name]:
                raise Wrong(f"{label}: {error:.1e} from that of double precision, JAX's {allowed:.1e}")


def distance(x: Array, y: Array) -> float:
    """Returns the largest difference between elements of x and y. It is infinite if only one of two elements is NaN or
    infinite."""
    with np.errstate(invalid="ignore"):
        differences = np.where((x == y) | (np.isnan(x) & np.isnan(y)), 0, np.abs(x - y))
    return float(np.max(np.nan_to_num(differences, nan=np.inf), initial=0))


def judged(case: Case) -> str:
    """Compares tiduc's derivatives, which differ from JAX's, with finite differences. Returns a text for the result."""
    try:
        check_differences(case)
    except Undecided as reason:
        return f"differences say nothing: {reason}"
    except Exception as error:
        return f"differences disagree with tiduc's derivatives:  {error}"
    return AGREE


def judged_inside(case: Case, texts: tuple[str, str]) -> tuple[str, str]:
    """Returns the category and the detail for a case whose arguments are inside the function's domain."""
    try:
        if check_values(case, texts) != "both":
            check_differences(case)
    except Wrong as wrong:
        return "wrong", f"inside its domain: {wrong}"
    except Undecided as reason:
        return "undecided", f"inside its domain: {reason}"
    return "expected", "outside the function's domain, the value is a constant NaN"


def doubled(harness: Any, order: int = 1) -> Case | None:
    """Returns the harness in double precision. Returns None if it already is, or if JAX does not support it there."""
    try:
        if np.dtype(harness.dtype).name not in WIDER:
            return None
        case = case_of(harness, wide=True)
        return of_vjp(case) if order == 2 else case
    except Exception:
        return None


def exported(harness: Any) -> Case:
    try:
        return case_of(harness)
    except NotApplicable:
        raise
    except Exception as error:
        raise NotApplicable(
            f"JAX does not export the function: {type(error).__name__}: {error}"[:200]
        ) from error


# ---- differences ------------------------------------------------------------------------------------------


def check_differences(case: Case) -> None:
    """Compares the JVP with finite differences, and the VJP with the JVP by the adjoint identity, in double precision.

    Raises `Wrong` if a derivative is wrong, and `Undecided` if differences with different steps disagree.
    """
    case = widened(case)
    texts, primal = derivatives(case), legal(case.text)
    dy = execute(texts[0], [*case.point, *case.dx])[case.results :]
    cx = execute(texts[1], [*case.point, *case.ct])[case.results :]
    if any(y.dtype.name not in ("float64", "complex128") for y in (*dy, *cx)):
        raise Undecided("not in double precision")
    smooth = [difference(case, primal, STEP), difference(case, primal, STEP / 4)]
    try:
        compare(*smooth, "difference", DIFFERENCE_TOLERANCE)
    except Wrong:
        raise Undecided("not smooth") from None
    compare(dy, smooth[0], "tangent against differences", DIFFERENCE_TOLERANCE)
    left = sum(np.sum(c * y).real for c, y in zip(case.ct, dy, strict=True))
    right = sum(np.sum(c * x).real for c, x in zip(cx, case.dx, strict=True))
    compare([np.asarray(left)], [np.asarray(right)], "adjoint")


def widened(case: Case) -> Case:
    """Returns the case in double precision, by replacing the types in the text of its program.

    JAX does not trace it again.
    """

    def of_bits(match: re.Match[str]) -> str:
        narrow = np.dtype(ELEMENTS[match[2]])
        value = np.array(int(match[1], 16), f"u{narrow.itemsize}").view(narrow)
        return f"dense<0x{value.astype(np.float64).view(np.uint64):016X}>"

    text = re.sub(r"dense<0x([0-9A-F]{4,8})>(?= : tensor<(?:\d+x)*(bf16|f16|f32)>)", of_bits, case.text)
    text = re.sub(r"(?:\b|(?<=x))(bf16|f16|f32)\b", "f64", text)
    text = re.sub(r"(?<=@lapack_)[sc]", lambda match: "d" if match[0] == "s" else "z", text)
    if text != case.text and re.search(r'dense<"0x|bitcast', text):
        raise Undecided("not in double precision")

    arrays = {name: in_double(getattr(case, name)) for name in ("point", "dx", "ct")}
    return replace(case, text=text, **arrays)


def difference(case: Case, text: str, step: float) -> list[Array]:
    """Fourth-order central differences of the differentiable results along `case.dx`."""

    def moved(by: float) -> list[Array]:
        x = list(case.point)
        for i, dx in zip(case.active, case.dx, strict=True):
            x[i] = x[i] + by * dx
        return [y for y in execute(text, x) if differentiable(y)]

    near, far = (moved(step), moved(-step)), (moved(2 * step), moved(-2 * step))
    return [(8 * (a - b) - (c - d)) / (12 * step) for a, b, c, d in zip(*near, *far, strict=True)]
