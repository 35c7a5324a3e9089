"""interop: a program as an op inside a JAX or PyTorch program, which differentiates and batches it there.

    sine = tiduc.interop.jax_function(program)       jax.jit, jax.grad, jax.jvp, jax.vmap, in any order
    sine = tiduc.interop.torch_function(program)     backward, double backward, torch.func.grad, torch.func.vmap

The framework calls the compiled program on the host's CPU. If the framework differentiates or batches the op, it calls
other programs, which tiduc derives from the program.
"""

from collections.abc import Callable
from typing import Any

from tiduc.program import Program


def jax_function(program: Program) -> Callable[..., Any]:
    """A JAX function that calls the program. It takes the program's inputs in order or by name.

    It returns an array, or a tuple of arrays if the program has several outputs. Weights of a `Model` may be omitted.
    Inside JAX, complex cotangents are conjugated, as JAX expects. Arguments must have the types of the program's
    inputs: f64 requires `jax.enable_x64`. Raises `ImportError` if JAX is not installed.
    """
    from tiduc.interop.in_jax import function

    return function(program)


def torch_function(program: Program) -> Callable[..., Any]:
    """A PyTorch function of CPU tensors that calls the program. It takes the program's inputs in order or by name.

    It returns a tensor, or a tuple of tensors if the program has several outputs. Weights of a `Model` may be omitted.
    Tensors are passed between PyTorch and NumPy without a copy. Raises `ImportError` if PyTorch is not installed.
    """
    from tiduc.interop.in_torch import function

    return function(program)
