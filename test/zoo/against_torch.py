"""Compares the gradient of one architecture with PyTorch's, and reports the outcome.

The scalar is `entries.Loss` of the module. A value or gradient in f32 is close if the norm of its difference from
PyTorch's in f64 is at most `TIMES` the norm of PyTorch's own difference in f32, `TOLERANCE` of its norm, or `FLOOR` of
the norm of the whole gradient, since some gradients are zero in exact arithmetic. If an array is not close, rounding
may have moved a kink, so the arrays are compared in f64.

A module in training mode draws its own dropout masks, which differ from PyTorch's; IREE is then compared with XLA.
"""

import math
import time
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import numpy as np
import torch
from catalog import SMALL, Architecture, NotBuilt
from entries import Loss
from reference import wide

import tiduc
from tiduc.models.torch.faults import quiet

TIMES, TOLERANCE, FLOOR, WIDE = 10, 1e-5, 1e-6, 1e-8
SEED = np.array([1, 2], np.uint64)
Record = dict[str, Any]
Arrays = list[Any]


def record(architecture: Architecture, engine: str) -> Record:
    """The outcome of an architecture, the reason, and the seconds of each stage."""
    started = time.process_time()
    try:
        module, inputs = architecture.build(SMALL)
    except NotBuilt as error:
        return {"outcome": "not built", "why": str(error)}
    torch.manual_seed(0)
    loss = Loss(module)
    found: Record = {"weights": sum(p.numel() for p in module.parameters())}
    try:
        model = tiduc.from_torch(loss, inputs, lift_constants=True)
        gradient = _gradient(model)
        found["import"] = round(time.process_time() - started, 1)
    except tiduc.TiducError as error:
        failure = _own_failure(loss, inputs)
        if failure:
            return found | {"outcome": "not exported", "why": failure}
        return found | {"outcome": "refused", "why": _short(error)}
    except Exception as error:
        return found | {"outcome": "crash", "why": f"{type(error).__name__}: {_short(error)}"}
    if engine == "none":
        return found | {"outcome": "differentiated", "why": ""}
    return found | compared(loss, inputs, model, gradient)


def compared(loss: Loss, inputs: Sequence[Any], model: Any, gradient: Any) -> Record:
    """The outcome of compiling, running and comparing."""
    try:
        ours = _run(gradient, inputs, "iree")
    except tiduc.TiducError as error:
        return {"outcome": "rejected", "why": _short(error)}
    if any(each.name == "seed" for each in model.signature.inputs):
        return _against(ours, _run(gradient, inputs, "xla"), None, "XLA")
    exact = expected(loss, inputs, gradient, True)
    narrow = expected(loss, inputs, gradient, False)
    found = _against(ours, exact or narrow, narrow if exact else None, "PyTorch")
    if found["outcome"] == "ok" or exact is None:
        return found
    with wide(loss, inputs) as (in_f64, given):
        model = tiduc.from_torch(in_f64, given, lift_constants=True)
        doubled = _gradient(model)
        best = _against(_run(doubled, given, "iree"), exact, narrow, "PyTorch", WIDE, 1)
    if best["outcome"] == "ok":
        return best | {"why": f"a kink moves in f32: {found['why']}"}
    on_xla = _against(_run(gradient, inputs, "xla"), exact, narrow, "PyTorch")
    blamed = "IREE alone" if on_xla["outcome"] == "ok" else "XLA too"
    return found | {"why": f"{blamed}: {found['why']}; in f64: {best['why']}"}


def _gradient(model: Any) -> Any:
    """The program of the scalar and its gradient toward all floats."""
    return model.grad(
        [each.name for each in model.signature.inputs if each.type.element in _FLOATS], value=True
    )


_FLOATS = ("f32", "f64", "f16", "bf16")


def _run(gradient: Any, inputs: Sequence[Any], engine: str) -> Arrays:
    compiled = gradient.compile("cpu", engine=engine)
    arrays = [x.numpy() for x in inputs]
    if gradient.signature.inputs[-1].name == "seed":
        arrays.append(SEED)
    return [np.asarray(y) for y in compiled(*gradient.arguments(*arrays))]


def expected(loss: Loss, inputs: Sequence[Any], gradient: Any, in_f64: bool) -> Arrays | None:
    """PyTorch's results in the order of the program's outputs; None if PyTorch does not run the module in f64."""
    if not in_f64:
        return _of_torch(loss, inputs, gradient)
    with suppress(RuntimeError, TypeError, ValueError), wide(loss, inputs) as (module, given):
        return _of_torch(module, given, gradient)
    return None


def _of_torch(loss: Loss, inputs: Sequence[Any], gradient: Any) -> Arrays:
    given = [x.clone().requires_grad_() if x.is_floating_point() else x for x in inputs]
    named = dict(loss.named_parameters(remove_duplicate=False)) | dict(loss.named_buffers())
    named |= {f"inputs_{i}": x for i, x in enumerate(given)}
    for tensor in named.values():
        if tensor.is_floating_point() and tensor.is_leaf:
            tensor.requires_grad_()
    value = loss(*given)
    names = [each.name.removesuffix(".cotangent") for each in gradient.signature.outputs[1:]]
    wanted = [named[name] for name in names if name in named]
    gradients = dict(
        zip(
            [name for name in names if name in named],
            torch.autograd.grad(value, wanted, allow_unused=True),
            strict=True,
        )
    )
    return [value.detach().numpy(), *(_array(gradients.get(name)) for name in names)]


def _array(tensor: Any) -> Any:
    return np.float64(0) if tensor is None else tensor.numpy()


def _against(
    ours: Arrays,
    exact: Arrays,
    narrow: Arrays | None,
    whose: str,
    tolerance: float = TOLERANCE,
    times: float = TIMES,
) -> Record:
    """Whether each array is close, and the largest relative errors."""
    whole = math.sqrt(sum(_norm(y) ** 2 for y in exact[1:]))
    worst, why = 0.0, ""
    allowed_torch = tolerance if narrow is None else 0.0
    for i, (x, y) in enumerate(zip(ours, exact, strict=True)):
        error, theirs = _norm(x - y), _norm(narrow[i] - y) if narrow is not None else 0.0
        floor = min(FLOOR, tolerance) * whole if i else 0.0
        allowed = max(times * theirs, max(tolerance, 10 * allowed_torch) * _norm(y), floor)
        if not error <= allowed and not why:
            part = f"gradient {i - 1}" if i else "the value"
            why = f"{part} differs from {whose}'s by {error / max(_norm(y), 1e-30):.1e} of its norm"
        worst = max(worst, error / max(whole if i else _norm(y), 1e-30))
    found: Record = {"outcome": "wrong" if why else "ok", "why": why, "error": float(f"{worst:.1e}")}
    if narrow is not None:
        total = (
            max(_norm(n - y) for n, y in zip(narrow[1:], exact[1:], strict=True)) if len(exact) > 1 else 0.0
        )
        found["torch_error"] = float(f"{total / max(whole, 1e-30):.1e}")
    return found


def _norm(x: Any) -> float:
    return float(np.linalg.norm(np.asarray(x, np.float64).ravel()))


def _own_failure(loss: Loss, inputs: Sequence[Any]) -> str:
    """Why `torch.export` itself fails; empty if it works."""
    try:
        with quiet():
            torch.export.export(loss, tuple(inputs), strict=False)
    except Exception as error:  # PyTorch raises exceptions of any kind
        return f"{type(error).__name__}: {_short(error)}"
    return ""


def _short(error: BaseException) -> str:
    return " ".join(str(error).split())[:600]
