"""Compares programs called from JAX and PyTorch with these frameworks' derivatives, and tests zero-copy arrays."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from harness.compare import compare
from harness.exports import exported

import tiduc
from tiduc.dialect.errors import InputError
from tiduc.loading import load
from tiduc.runtime.checks import checked
from tiduc.runtime.signature import SignatureValue, TensorType

RNG = np.random.default_rng(0)
X, W = RNG.standard_normal(3), RNG.standard_normal((3, 2))
Z = RNG.standard_normal(2) + 1j * RNG.standard_normal(2)


def network(x: Any, w: Any) -> Any:
    return jnp.tanh(x @ w) * jnp.sin(x[0])


def two(x: Any, n: Any) -> Any:
    return n + 1, jnp.cumsum(x**2)


@pytest.fixture(scope="module")
def op() -> Any:
    return tiduc.interop.jax_function(load(exported(network, X, W)))


def both(transform: Any, op: Any, *arrays: Any) -> None:
    """Applies a JAX transformation to the op and to the same function written in JAX, and compares the results."""
    with jax.enable_x64(True):
        actual = jax.tree.leaves(transform(op)(*arrays))
        expected = jax.tree.leaves(transform(network)(*arrays))
    compare(actual, expected, 1e-10)


def test_arguments_by_name_in_jax(op: Any) -> None:
    with jax.enable_x64(True):
        compare([op(X, arg1=W), op(arg1=W, arg0=X)], [network(X, W)] * 2, 1e-12)
        gradient = jax.grad(lambda w: jnp.sum(op(arg0=X, arg1=w)))(W)
        compare([gradient], [jax.grad(lambda w: jnp.sum(network(X, w)))(W)], 1e-10)
        for arguments, named, message in (
            ((X,), {}, "no argument for arg1; the inputs are: arg0, arg1"),
            ((X, W), {"arg1": W}, "'arg1' is given by position and by name"),
            ((X,), {"v": W}, "no input 'v'"),
        ):
            with pytest.raises(InputError, match=message):
                op(*arguments, **named)


def scalar(f: Any) -> Any:
    return lambda x, w: jnp.sum(f(jnp.sin(x), w) ** 2)


TRANSFORMS: dict[str, Any] = {
    "jit": jax.jit,
    "grad": lambda f: jax.jit(jax.grad(scalar(f), (0, 1))),
    "jacfwd": lambda f: jax.jacfwd(f, 1),
    "hessian": lambda f: jax.hessian(scalar(f)),
    "reverse over reverse": lambda f: jax.jacrev(jax.grad(scalar(f), 1), 0),
}


SLOW = ("hessian", "reverse over reverse")


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.slow) if name in SLOW else name for name in TRANSFORMS]
)
def test_jax(op: Any, name: str) -> None:
    both(TRANSFORMS[name], op, X, W)


@pytest.mark.more
def test_jax_vmap(op: Any) -> None:
    xs, ws = RNG.standard_normal((3, 4)), RNG.standard_normal((5, 3, 2))
    both(lambda f: jax.vmap(jax.vmap(f, (1, None)), (None, 0)), op, xs, ws)
    both(lambda f: jax.jit(jax.vmap(jax.grad(scalar(f)), (1, None))), op, xs, W)


@pytest.mark.more
def test_jax_integers_and_complex_numbers() -> None:
    f = tiduc.interop.jax_function(load(exported(two, X, np.int32(3))))
    power = tiduc.interop.jax_function(load(exported(lambda z: z * z * (1 + 2j), Z)))
    with jax.enable_x64(True):
        count, total = f(X, np.int32(3))
        slope = jax.grad(lambda x: jnp.sum(f(x, np.int32(3))[1]))(X)
        actual = jax.grad(lambda z: jnp.sum(power(z)).real)(jnp.asarray(Z))
        expected = jax.grad(lambda z: jnp.sum(z * z * (1 + 2j)).real)(jnp.asarray(Z))
    assert count == 4
    compare([total, slope, actual], [np.cumsum(X**2), 2 * X * [3, 2, 1], expected], 1e-12)


def test_jax_refuses_other_types(op: Any) -> None:
    with pytest.raises(InputError, match=r"argument 0 \(.*\): expected 3xf64, got float32\[3\]"):
        op(X.astype(np.float32), W)
    with pytest.raises(InputError, match="no argument for arg1"):
        op(X)


# ---- PyTorch


def test_torch() -> None:
    torch = pytest.importorskip("torch")
    op = tiduc.interop.torch_function(load(exported(network, X, W)))

    def by_torch(x: Any, w: Any) -> Any:
        return torch.tanh(x @ w) * torch.sin(x[0])

    def loss(f: Any) -> Any:
        return lambda x, w: (f(torch.sin(x), w) ** 2).sum()

    x, w = (torch.tensor(a, requires_grad=True) for a in (X, W))
    results = []
    for f in (op, by_torch):
        first = torch.autograd.grad(loss(f)(x, w), (x, w), create_graph=True)
        second = torch.autograd.grad((first[0] ** 2).sum() + first[1].sum(), (x, w), create_graph=True)
        results.append([y.detach().numpy() for y in (*first, *second)])
    compare(*results, 1e-10)
    x, w = x.detach(), w.detach()
    for transform in (
        lambda f: torch.func.jacrev(f, 1)(x, w),
        lambda f: torch.func.vmap(f, (None, 2))(x, torch.stack([w, 2 * w], 2)),
        lambda f: torch.func.jvp(f, (x, w), (w[:, 0], 2 * w))[1],
        lambda f: torch.func.vmap(torch.func.grad(loss(f)), (0, None))(torch.stack([x, 2 * x]), w),
    ):
        compare([transform(op).numpy()], [transform(by_torch).numpy()], 1e-10)


# ---- arrays


def test_arrays_of_frameworks_are_read_without_a_copy() -> None:
    torch = pytest.importorskip("torch")
    from tiduc.interop.in_torch import from_numpy, to_numpy

    value = SignatureValue("x", TensorType((8,), "f32"))
    tensor, array = torch.arange(8.0), jnp.arange(8.0, dtype=jnp.float32)
    assert checked(tensor, value, 0).ctypes.data == tensor.data_ptr() == to_numpy(tensor).ctypes.data
    assert checked(array, value, 0).ctypes.data == array.unsafe_buffer_pointer()
    buffer = bytearray(range(32))
    assert checked(np.frombuffer(buffer, np.float32), value, 0).base is not None
    half = tensor.to(torch.bfloat16)
    assert to_numpy(half).ctypes.data == half.data_ptr() and torch.equal(from_numpy(to_numpy(half)), half)


def test_results_are_given_without_a_copy() -> None:
    torch = pytest.importorskip("torch")
    y = load("func.func @main(%x: tensor<8xf32>) -> tensor<8xf32> { return %x : tensor<8xf32> }")(
        torch.arange(8.0)
    )
    assert torch.from_dlpack(y).data_ptr() == torch.from_numpy(y).data_ptr() == y.ctypes.data
    np.testing.assert_array_equal(y, np.arange(8.0))
