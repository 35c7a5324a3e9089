"""Compares the gradient of one architecture with PyTorch's gradient.

The function that is differentiated is `entries.Loss` of the module. PyTorch's results in f64 are the reference. The
value, or a gradient in f32, is close if the norm of its error is at most the largest of these bounds:

- `TIMES` times the norm of the error of PyTorch's f32 result
- `TOLERANCE` times the norm of the reference
- `FLOOR` times the norm of the whole gradient, because some gradients are zero in exact arithmetic

If an array is not close, rounding may have moved a kink. The gradient is then also computed and compared in f64. This
is also done if the largest error exceeds `TIMES` times PyTorch's largest error.

In training mode, dropout masks differ from PyTorch's. The results of IREE are then compared with those of XLA.
"""

import math
import re
import time
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import numpy as np
import torch
from catalog import PUBLISHED, SMALL, Architecture, NotBuilt
from entries import Loss
from reference import InF64, wide
from worker import is_out_of_memory

import tiduc
from tiduc.models.torch.faults import quiet

TIMES, TOLERANCE, FLOOR, WIDE = 10, 1e-5, 1e-6, 1e-8
SEED = np.array([1, 2], np.uint64)
SIZES = {"published": PUBLISHED, "reduced": SMALL}
LEFT_OUT = "left out"
Record = dict[str, Any]
Arrays = list[Any]


def record(
    architecture: Architecture, engine: str, sizes: Sequence[str] = ("reduced",), shapes: int = 0
) -> Record:
    """Returns the outcome of an architecture with its reason, and figures such as the seconds of the import.

    The first of the sizes that PyTorch can run is used. If `shapes` is positive, a module whose weights have more than
    this many shapes is left out, because IREE compiles code for each shape.
    """
    why = ""
    for name in sizes:
        try:
            module, inputs = architecture.build(SIZES[name])
        except NotBuilt as error:
            why = str(error)
            continue
        if 0 < shapes < len({tuple(each.shape) for each in module.parameters()}):
            return {"outcome": LEFT_OUT, "why": ""}
        return {"size": name} | _of_module(module, inputs, engine)
    return {"outcome": "not built", "why": why}


def _of_module(module: torch.nn.Module, inputs: Sequence[Any], engine: str) -> Record:
    """Returns the outcome of a module with these inputs."""
    started = time.process_time()
    torch.manual_seed(0)
    loss = Loss(module)
    found: Record = {"weights": sum(p.numel() for p in module.parameters())}
    try:
        model = tiduc.from_torch(loss, inputs, lift_constants=True)
        gradient = _gradient(model, loss)
        found["import"] = round(time.process_time() - started, 1)
    except tiduc.TiducError as error:
        failure = _own_failure(loss, inputs)
        if failure:
            return found | {"outcome": "not exported", "why": failure}
        return found | {"outcome": "refused", "why": _short(error)}
    except Exception as error:
        outcome = "too large" if is_out_of_memory(f"{error!r}") else "crash"
        return found | {"outcome": outcome, "why": f"{type(error).__name__}: {_short(error)}"}
    if engine == "none":
        return found | {"outcome": "differentiated", "why": ""}
    return found | compared(loss, inputs, model, gradient)


def compared(loss: Loss, inputs: Sequence[Any], model: Any, gradient: Any) -> Record:
    """Compiles and runs the gradient, compares it with PyTorch's, and returns the outcome."""
    try:
        ours = _run(gradient, inputs, "iree")
    except tiduc.TiducError as error:
        return {"outcome": "rejected", "why": _short(error)}
    if any(each.name == "seed" for each in model.signature.inputs):
        return _against(ours, _run(gradient, inputs, "xla"), None, "XLA")
    exact = expected(loss, inputs, gradient, True)
    narrow = expected(loss, inputs, gradient, False)
    found = _against(ours, exact or narrow, narrow if exact else None, "PyTorch")
    is_ok = found["outcome"] == "ok"
    if exact is None or (is_ok and found["error"] <= TIMES * found["torch_error"]):
        return found
    best = _in_f64(loss, inputs, exact, narrow)
    if best["outcome"] == "ok":
        why = "" if is_ok else f"a kink moves in f32: {found['why']}"
        return found | {"outcome": "ok", "why": why, "wide_error": best["error"]}
    if is_ok:
        return found
    on_xla = _against(_run(gradient, inputs, "xla"), exact, narrow, "PyTorch")
    blamed = "IREE alone" if on_xla["outcome"] == "ok" else "XLA too"
    return found | {"why": f"{blamed}: {found['why']}; in f64: {best['why']}"}


def _in_f64(loss: Loss, inputs: Sequence[Any], exact: Arrays, narrow: Arrays | None) -> Record:
    """Compares the gradient that IREE computes in f64 with the reference."""
    try:
        with wide(loss, inputs) as (module, given):
            gradient = _gradient(tiduc.from_torch(module, given, lift_constants=True), module)
            return _against(_run(gradient, given, "iree"), exact, narrow, "PyTorch", WIDE, 1)
    except tiduc.TiducError as error:
        return {"outcome": "refused", "why": _short(error)}


def _gradient(model: Any, loss: Loss) -> Any:
    """Returns the program of the loss and its gradient with respect to the float weights and inputs.

    Constants and buffers, such as the averages of a batch normalization, are left out, because PyTorch does not
    differentiate with respect to them.
    """
    weights = {name for name, _ in loss.named_parameters(remove_duplicate=False)}
    floats = [each.name for each in model.signature.inputs if each.type.element in _FLOATS]
    return model.grad(
        [name for name in floats if name in weights or re.fullmatch(r"inputs_\d+", name)], value=True
    )


_FLOATS = ("f32", "f64", "f16", "bf16")


def _run(gradient: Any, inputs: Sequence[Any], engine: str) -> Arrays:
    compiled = gradient.compile("cpu", engine=engine)
    arrays = [x.numpy() for x in inputs]
    if gradient.signature.inputs[-1].name == "seed":
        arrays.append(SEED)
    return [np.asarray(y) for y in compiled(*gradient.arguments(*arrays))]


def expected(loss: Loss, inputs: Sequence[Any], gradient: Any, in_f64: bool) -> Arrays | None:
    """Returns PyTorch's results in the order of the program's outputs.

    Returns None if PyTorch cannot compute the results in f64, or if they are not finite. For example, a module may add
    two masks that contain the least finite number. In f64, the sum overflows.
    """
    if not in_f64:
        return _of_torch(loss, inputs, gradient)
    with suppress(RuntimeError, TypeError, ValueError), wide(loss, inputs) as (module, given), InF64():
        results = _of_torch(module, given, gradient)
        return results if all(np.isfinite(y).all() for y in results) else None
    return None


def _of_torch(loss: Loss, inputs: Sequence[Any], gradient: Any) -> Arrays:
    given = [x.clone().requires_grad_() if x.is_floating_point() else x for x in inputs]
    named = dict(loss.named_parameters(remove_duplicate=False))
    named |= {f"inputs_{i}": x for i, x in enumerate(given)}
    for tensor in named.values():
        if tensor.is_floating_point():
            tensor.requires_grad_()
    value = loss(*given)
    wanted = [named[each.name.removesuffix(".cotangent")] for each in gradient.signature.outputs[1:]]
    gradients = torch.autograd.grad(value, wanted, allow_unused=True)
    return [value.detach().numpy(), *map(_array, gradients)]


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
    """Returns whether each array is close to the reference, and the largest relative errors."""
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
    """Returns the reason why `torch.export` fails for the module. The text is empty if it succeeds."""
    try:
        with quiet():
            torch.export.export(loss, tuple(inputs), strict=False)
    except Exception as error:  # PyTorch raises many types of exceptions
        return f"{type(error).__name__}: {_short(error)}"
    return ""


def _short(error: BaseException) -> str:
    """Returns the beginning of the message, without the folder of installed packages."""
    return re.sub(r"\S*/site-packages/", "", " ".join(str(error).split()))[:600]
