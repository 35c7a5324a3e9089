"""Finds the function that a node of a `.pt2` archive calls. Only the functions in this list are allowed:

torch.ops.aten.NAME.OVERLOAD, torch.ops.prims...    operators that PyTorch's dispatcher has
torch.ops.higher_order.NAME                         operators in `_HIGHER_ORDER`
_operator.NAME, math.NAME, torch.sym_NAME           functions of sizes in `_OF_SIZES` and `_SYMBOLIC`
torch._functorch.predispatch.NAME                   steps of `vmap` or `jvp` in `_STEPS`

The arguments of an operator are tensors, numbers and types. Only the operators in `_WITH_TEXT` may get a string. They
compare it with fixed words, or show it in an error. No operator can therefore get the name of a file or of a module.
"""

import functools
import math
import operator
import re
from collections.abc import Callable
from importlib import import_module
from types import ModuleType
from typing import Any

from tiduc.models.torch.archive import Refused

_OPERATOR = re.compile(r"torch\.ops\.(aten|prims)\.([A-Za-z_]\w*)\.([A-Za-z_]\w*)", re.ASCII)
_HIGHER = "torch.ops.higher_order."
_HIGHER_ORDER = frozenset(
    {"cond", "map_impl", "scan", "while_loop", "wrap_with_autocast", "wrap_with_set_grad_enabled"}
)
_WITH_TEXT = frozenset(
    {
        *(
            "gelu",
            "gelu_",
            "gelu_backward",
            "div",
            "div_",
            "divide",
            "divide_",
            "scatter",
            "scatter_",
            "pad",
            "stft",
        ),
        *(
            "scatter_reduce",
            "scatter_reduce_",
            "index_reduce",
            "index_reduce_",
            "segment_reduce",
            "searchsorted",
        ),
        *("conv1d", "conv2d", "conv3d", "_convolution_mode", "meshgrid", "einsum", "pad_sequence"),
        *("quantile", "nanquantile", "linalg_norm", "linalg_matrix_norm", "linalg_cond", "linalg_svd"),
        *("linalg_svdvals", "_linalg_svd", "linalg_eigh", "linalg_eigvalsh", "_linalg_eigh", "linalg_qr"),
        *("linalg_lstsq", "_assert_async", "_assert_scalar", "_functional_assert_async"),
        *("_functional_assert_scalar", "_linalg_check_errors"),
    }
)
_FOURIER = "fft_"
"""The prefix of the names of Fourier transforms, whose string argument is the normalization."""
_OF_SIZES: dict[str, Callable[..., Any]] = {
    **{
        f"_operator.{name}": getattr(operator, name)
        for name in (
            *("add", "sub", "mul", "truediv", "floordiv", "mod", "neg", "pos", "pow", "and_", "or_", "abs"),
            *("eq", "ne", "lt", "le", "gt", "ge"),
        )
    },
    **{f"math.{name}": getattr(math, name) for name in ("trunc", "ceil", "floor")},
}
_SYMBOLIC = frozenset(
    {"sym_int", "sym_float", "sym_ite", "sym_max", "sym_min", "sym_not", "sym_sqrt", "sym_sum"}
)
_PREDISPATCH = "torch._functorch.predispatch"
_STEPS = frozenset(
    {
        *("lazy_load_decompositions", "_vmap_increment_nesting", "_vmap_decrement_nesting", "_add_batch_dim"),
        *("_remove_batch_dim", "_jvp_increment_nesting", "_jvp_decrement_nesting", "_enter_dual_level"),
        *("_exit_dual_level", "_make_dual", "_unpack_dual", "_unwrap_for_grad"),
    }
)
_STEP_WITH_TEXT = "_vmap_increment_nesting"
"""A step of `vmap` whose string argument states whether batch entries draw different random numbers."""
_AUTOCAST = "wrap_with_autocast"
"""An operator whose string argument is a kind of device."""


def target(torch: ModuleType, name: str) -> Any:
    """The function named `name` in the file. Raises `TiducError` if a file may not call the function."""
    if match := _OPERATOR.fullmatch(name):
        space, packet, overload = match.groups()
        full = f"{space}::{packet}" + ("" if overload == "default" else f".{overload}")
        if full in _registered(torch):
            return getattr(getattr(getattr(torch.ops, space), packet), overload)
    elif name in _OF_SIZES:
        return _OF_SIZES[name]
    elif name.startswith(_HIGHER) and name.removeprefix(_HIGHER) in _HIGHER_ORDER:
        import_module("torch._higher_order_ops")  # the import registers the functions
        return getattr(torch.ops.higher_order, name.removeprefix(_HIGHER))
    elif name.removeprefix("torch.") in _SYMBOLIC and name.startswith("torch."):
        return getattr(torch, name.removeprefix("torch."))
    elif name.startswith(f"{_PREDISPATCH}.") and name.rpartition(".")[2] in _STEPS:
        module, _, step = name.rpartition(".")
        if module == _PREDISPATCH and hasattr(import_module(_PREDISPATCH), step):
            return getattr(import_module(_PREDISPATCH), step)
    raise Refused(
        f"{name[:120]} is not an operator of PyTorch that a file may call; if you trust the author of the file, pass "
        "--trust (in Python, trust=True)"
    )


@functools.cache
def _registered(torch: ModuleType) -> frozenset[str]:
    """The names of all operators in PyTorch's dispatcher, which excludes functions of TorchScript such as `save`."""
    return frozenset(torch._C._dispatch_get_all_op_names())


def is_step(name: str) -> bool:
    """Whether the function `name` is a step of `vmap` or `jvp`. Such a function may have keyword arguments."""
    return name.startswith(_PREDISPATCH)


def end_steps(torch: ModuleType) -> None:
    """Leaves the levels of `vmap` and `jvp` that a program has entered but not left, for example after an error."""
    from torch.autograd import forward_ad

    if torch._C._functorch.maybe_current_level() is not None:
        torch._C._functorch.pop_dynamic_layer_stack_and_undo_to_depth(0)
    while forward_ad._current_level >= 0:
        forward_ad.exit_dual_level()


def takes_text(torch: ModuleType, function: object) -> bool:
    """Whether the function may have a string as an argument."""
    if isinstance(function, torch._ops.HigherOrderOperator):
        return bool(function.name() == _AUTOCAST)
    if not isinstance(function, torch._ops.OpOverload):
        return getattr(function, "__name__", "") == _STEP_WITH_TEXT
    name = function._schema.name.partition("::")[2]
    return name in _WITH_TEXT or name.startswith(_FOURIER)
