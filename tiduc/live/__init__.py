"""live: functions of JAX and PyTorch that tiduc compiles and differentiates when they are called.

tiduc.jit(function)                          compiles a function of JAX arrays, as jax.jit does
torch.compile(model, backend="tiduc")        compiles the forward and backward pass of a PyTorch model
tiduc.grad(function)                         differentiates a function of PyTorch tensors, as torch.func.grad does
"""

from collections.abc import Callable, Sequence
from typing import Any

Function = Callable[..., Any]
"""A function of pytrees of arrays."""


def jit(
    function: Function,
    *,
    static_argnums: int | Sequence[int] = (),
    static_argnames: str | Sequence[str] = (),
    custom_derivatives: bool = True,
) -> Function:
    """A JAX function that tiduc compiles for each structure, shape and element type of its arguments, as `jax.jit`.

    Arguments and results are pytrees. Static arguments, and leaves that are not arrays or numbers, are constants: if
    they change, the function is compiled again. JAX can compile, differentiate and batch the returned function, which
    then calls programs that tiduc derives. Arrays that the function closes over are constants. `custom_derivatives` is
    a parameter of `from_jax`. A call raises the errors of `from_jax`. Raises `ImportError` if JAX is not installed.
    """
    from tiduc.live.jax_functions import jitted

    return jitted(function, static_argnums, static_argnames, custom_derivatives)


def grad(function: Function, argnums: int | Sequence[int] = 0, has_aux: bool = False) -> Function:
    """The gradient of a PyTorch function with a scalar result. The parameters are those of `torch.func.grad`.

    `torch.compile` traces the function, and tiduc differentiates it. Tensors and modules that the function reads may
    change between calls. tiduc and `torch.func` can differentiate and batch gradients. A call raises `TiducError` if
    tiduc cannot import or differentiate a part of the function. Raises `ImportError` if PyTorch is not installed.
    """
    from tiduc.live.torch_functions import gradient

    return gradient(function, argnums, has_aux)
