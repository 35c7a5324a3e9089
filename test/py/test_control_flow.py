"""Loops, branches and calls: derivatives of both modes, to order two, against JAX, or against central differences."""

from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np
import pytest
import xla
from control_flow_programs import PROGRAMS, UNBOUNDED
from numpy.typing import NDArray

import tiduc

Array = NDArray[Any]


def exported(function: Callable[..., Any], arguments: Sequence[Any]) -> str:
    with jax.enable_x64(True):
        return jax.jit(function).lower(*arguments).as_text()


def flat(function: Callable[..., Any]) -> Callable[..., tuple[Any, ...]]:
    """The function with a tuple of differentiable outputs."""

    def call(*arguments: Any) -> tuple[Any, ...]:
        results = jax.tree.leaves(function(*(jax.numpy.asarray(x) for x in arguments)))
        return tuple(y for y in results if np.issubdtype(y.dtype, np.inexact))

    return call


def floats(arguments: Sequence[Any]) -> list[int]:
    return [i for i, x in enumerate(arguments) if np.issubdtype(np.asarray(x).dtype, np.inexact)]


def random_like(arrays: Sequence[Any], seed: int) -> list[Array]:
    random = np.random.default_rng(seed)
    return [random.standard_normal(np.shape(x)) for x in arrays]


class Case:
    """A program, its derivatives by tiduc, and directions to check them in."""

    def __init__(self, function: Callable[..., Any], arguments: Sequence[Any]) -> None:
        self.arguments = [np.asarray(x) for x in arguments]
        self.function = flat(function)
        self.program = tiduc.load(exported(self.function, arguments))
        self.wrt = floats(arguments)
        self.dx = random_like([arguments[i] for i in self.wrt], 1)
        with jax.enable_x64(True):
            self.outputs = [np.asarray(y) for y in self.function(*self.arguments)]
        self.ct = random_like(self.outputs, 2)

    def run(self, program: tiduc.Program, more: Sequence[Array]) -> list[Array]:
        return list(xla.by_xla(program.text, [*self.arguments, *more]))

    def of_floats(self, *floating: Any) -> tuple[Any, ...]:
        given = dict(zip(self.wrt, floating, strict=True))
        return self.function(*(given.get(i, x) for i, x in enumerate(self.arguments)))


def agree(got: Sequence[Any], wanted: Sequence[Any], tolerance: float = 1e-9) -> None:
    assert len(got) == len(wanted)
    for x, y in zip(got, wanted, strict=True):
        np.testing.assert_allclose(x, y, rtol=tolerance, atol=tolerance * (1 + np.max(np.abs(y), initial=0)))


@pytest.mark.parametrize("name", PROGRAMS)
def test_against_jax(name: str) -> None:
    case = Case(*PROGRAMS[name])
    n = len(case.outputs)
    with jax.enable_x64(True):
        floating = [case.arguments[i] for i in case.wrt]
        _, dy = jax.jvp(case.of_floats, tuple(floating), tuple(case.dx))
        _, pullback = jax.vjp(case.of_floats, *floating)
        cx = pullback(tuple(case.ct))

        def weighted(*x: Any) -> Any:
            return sum((c * y).sum() for c, y in zip(case.ct, case.of_floats(*x), strict=True))

        _, second = jax.jvp(jax.grad(weighted, range(len(floating))), tuple(floating), tuple(case.dx))
    agree(case.run(case.program.jvp(), case.dx), [*case.outputs, *dy])
    vjp = case.program.vjp()
    agree(case.run(vjp, case.ct), [*case.outputs, *cx])
    both = vjp.jvp(case.wrt)
    got = case.run(both, [*case.ct, *case.dx])
    agree(got[-len(cx) :], second)
    again = case.program.jvp().vjp(case.wrt)  # reverse over forward: seeds of the outputs and of the tangents
    zeros = [np.zeros_like(y) for y in case.outputs]
    got = case.run(again, [*case.dx, *zeros, *case.ct])
    agree(got[2 * n :], second)


@pytest.mark.parametrize("name", PROGRAMS)
def test_reverse_over_reverse(name: str) -> None:
    case = Case(*PROGRAMS[name])
    vjp = case.program.vjp()
    twice = vjp.vjp(case.wrt)
    zeros = [np.zeros_like(y) for y in case.outputs]
    got = case.run(twice, [*case.ct, *zeros, *case.dx])[-len(case.wrt) :]
    forward = case.run(vjp.jvp(case.wrt), [*case.ct, *case.dx])[-len(case.wrt) :]
    agree(got, forward)  # the Hessian is symmetric


def differences(
    evaluate: Callable[[Sequence[Array]], list[Array]], x: Sequence[Array], dx: Sequence[Array]
) -> list[Array]:
    h = 1e-6
    ahead, behind = (evaluate([v + s * h * d for v, d in zip(x, dx, strict=True)]) for s in (1, -1))
    return [(p - q) / (2 * h) for p, q in zip(ahead, behind, strict=True)]


@pytest.mark.parametrize("memory", ["auto"])
@pytest.mark.parametrize("name", UNBOUNDED)
def test_unbounded(name: str, memory: str) -> None:
    case = Case(*UNBOUNDED[name])
    n = len(case.outputs)

    def with_floats(program: tiduc.Program, more: Sequence[Array], keep: slice) -> Callable[..., list[Array]]:
        def evaluate(x: Sequence[Array]) -> list[Array]:
            given = dict(zip(case.wrt, x, strict=True))
            arguments = [given.get(i, a) for i, a in enumerate(case.arguments)]
            return list(xla.by_xla(program.text, [*arguments, *more])[keep])

        return evaluate

    floating = [case.arguments[i] for i in case.wrt]
    dy = case.run(case.program.jvp(), case.dx)[n:]
    agree(dy, differences(with_floats(case.program, [], slice(0, n)), floating, case.dx), 1e-6)
    vjp = case.program.vjp()
    cx = case.run(vjp, case.ct)[n:]
    inner = [sum((c * d).sum() for c, d in zip(u, v, strict=True)) for u, v in ((case.ct, dy), (cx, case.dx))]
    np.testing.assert_allclose(*inner, rtol=1e-10)
    second = case.run(vjp.jvp(case.wrt), [*case.ct, *case.dx])[-len(cx) :]
    agree(second, differences(with_floats(vjp, case.ct, slice(n, None)), floating, case.dx), 1e-5)
