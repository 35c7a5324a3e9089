"""interop: a program as an op inside a JAX or PyTorch program, which differentiates and batches it there.

    sine = tiduc.interop.jax_function(program)       jax.jit, jax.grad, jax.jvp, jax.vmap, in any order
    sine = tiduc.interop.torch_function(program)     backward, double backward, torch.func.grad, torch.func.vmap

The framework calls the compiled program on the host's CPU. Its derivatives and batches are programs that tiduc derives,
so that the framework gets the derivatives that tiduc compiles.
"""

from collections.abc import Callable
from typing import Any

from tiduc.program import Program


def jax_function(program: Program) -> Callable[..., Any]:
    """The program as a JAX function of the inputs, in order or by name. Returns one array, or a tuple of the outputs.

    The weights of a `Model` have defaults. Inside JAX, complex cotangents are conjugated, as JAX expects. The types of
    the arguments must be those of the program: f64 requires `jax.enable_x64`. Raises `ImportError` if JAX is not
    installed.
    """
    from tiduc.interop.in_jax import function

    return function(program)


def torch_function(program: Program) -> Callable[..., Any]:
    """The program as a PyTorch function of CPU tensors, in order or by name. Returns a tensor, or a tuple of them.

    The weights of a `Model` have defaults. Tensors are passed between PyTorch and NumPy without a copy. Raises
    `ImportError` if PyTorch is not installed.
    """
    from tiduc.interop.in_torch import function

    return function(program)
