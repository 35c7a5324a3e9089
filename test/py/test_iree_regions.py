"""Barriers at which IREE ends no execution region: memory and values of gradients with convolutions and reruns."""

import re
from collections.abc import Sequence
from typing import Any
from unittest.mock import patch

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from harness import xla
from harness.allocations import allocated
from harness.exports import exported
from harness.sources import source_of
from harness.variants import named
from jax import lax
from test_memory_budget import network

import tiduc
from tiduc.backends.iree import pipeline, steps
from tiduc.backends.iree.compile import compile_until
from tiduc.backends.iree.fast.compile_time.elementwise_maps import elementwise_maps
from tiduc.backends.iree.fast.memory import select_reruns
from tiduc.backends.iree.fast.memory.late_results import late_results
from tiduc.backends.iree.fast.memory.stored_values import BARRIER, stored_values


def convolved(x: Any, kernels: Any) -> Any:
    """Layers of 3 by 3 convolutions, each followed by a maximum over windows of the same size."""
    for w in kernels:
        x = lax.conv_general_dilated(x, w, (1, 1), "SAME")
        x = jnp.tanh(lax.reduce_window(x, -jnp.inf, lax.max, (1, 1, 3, 3), (1, 1, 1, 1), "SAME"))
    return jnp.sum(x**2)


def arguments() -> list[Any]:
    random = np.random.default_rng(0)
    x = random.standard_normal((2, 8, 24, 24)).astype(np.float32)
    return [x, (0.1 * random.standard_normal((4, 8, 8, 3, 3))).astype(np.float32)]


def agree(actual: Any, expected: Any) -> None:
    """Equal within the rounding of f32: the engines add up in other orders."""
    for a, e in zip(actual, expected, strict=True):
        np.testing.assert_allclose(a, e, rtol=0, atol=1e-5 * float(np.max(np.abs(e))))


def peak(program: tiduc.Program, arguments: Sequence[Any]) -> float:
    """The memory that a program takes, in KiB; its values agree with XLA's."""
    expected, compiled = xla.by_xla(program.text, arguments), program.compile()
    agree(compiled(*arguments), expected)
    agree(compiled(*arguments), expected)  # results of the first call do not lie where the second one writes
    return allocated(compiled.vmfb, arguments)


def without_maps(program: tiduc.Program) -> str:
    """IREE's input, but for the last pass: with each select as an op of its own."""
    entries = tuple(entry for entry in pipeline.PIPELINE if entry.function is not elementwise_maps)
    with patch.object(pipeline, "PIPELINE", entries):
        return str(source_of(program).stablehlo)


def of_convolutions() -> tuple[tiduc.Program, list[Any]]:
    x, kernels = arguments()
    return tiduc.load(exported(convolved, x, kernels)).grad(), [x, kernels]


def of_layers() -> tuple[tiduc.Program, list[Any]]:
    """The gradient has results as large as its values: in one region, it takes both at once."""
    return network(12, 256, 256)


def of_softmax() -> tuple[tiduc.Program, list[Any]]:
    """The gradient of attention, in which two products read one value, and one of them another value last."""

    def f(q: Any, k: Any, v: Any) -> Any:
        return jnp.sum((jax.nn.softmax(jnp.einsum("bid,bjd->bij", q, k)) @ v) ** 2)

    x = [np.random.default_rng(i).standard_normal((4, 256, 32)).astype(np.float32) for i in range(3)]
    return tiduc.load(exported(f, *x)).grad(), x


def of_results_that_are_read() -> tuple[tiduc.Program, list[Any]]:
    """A result of the first region that the second region reads, one result twice, and an argument as a result."""

    def f(x: Any, weights: Any) -> Any:
        values = [x]
        for w in weights:
            values.append(jnp.tanh(values[-1] @ w))
        last = values[-1]
        for v in values[::-1]:
            last = last + v @ v.T @ v / 1000
        return values[2], values[2], last @ values[2], last, x

    random = np.random.default_rng(0)
    x = random.standard_normal((301, 301)).astype(np.float32) / 17
    weights = [random.standard_normal((301, 301)).astype(np.float32) / 17 for _ in range(9)]
    return tiduc.load(exported(f, x, weights)), [x, *weights]


def of_large_weights() -> tuple[tiduc.Program, list[Any]]:
    """Weights that are larger than the values that their products read: their derivatives can come last."""

    def f(x: Any, *weights: Any) -> Any:
        for w in weights[:9]:
            x = jnp.tanh(x @ w)
        x = jnp.mean(jnp.reshape(x, (8, -1, 32)), 1) @ jnp.ones((32, 700))
        for w in weights[9:]:
            x = jnp.tanh(x @ w)
        return jnp.sum(x**2)

    random = np.random.default_rng(0)
    shapes = [(4096, 32), *[(32, 32)] * 9, *[(700, 700)] * 3]
    arguments = [random.standard_normal(s) / np.sqrt(s[-1]) for s in shapes]
    return tiduc.load(exported(f, *arguments)).grad(), arguments


def of_loops() -> tuple[tiduc.Program, list[Any]]:
    """Loops that are kernels."""

    def f(xs: Any, weights: Any) -> Any:
        for w in weights:

            def step(h: Any, x: Any, w: Any = w) -> Any:
                h = jnp.tanh(h @ w + x)
                return h, h

            _, xs = lax.scan(step, jnp.zeros_like(xs[0]), xs)
        return jnp.sum(xs**2)

    random = np.random.default_rng(0)
    xs = random.standard_normal((64, 4, 96)).astype(np.float32)
    weights = (random.standard_normal((6, 96, 96)) / 10).astype(np.float32)
    return tiduc.load(exported(f, xs, weights)).grad(), [xs, weights]


REGIONS = {
    "one region": (of_convolutions, stored_values, 680),
    "late results": (of_layers, late_results, 9000),
    "large weights": (of_large_weights, late_results, 31000),
    "loops": (of_loops, stored_values, 2500),
    "results that are read": (of_results_that_are_read, late_results, 9203),
}
"""Programs, and a pass without which they take more KiB than this; the last one takes 9,202 with and without it."""


@pytest.mark.parametrize("name", REGIONS)
def test_memory_and_values(name: str) -> None:
    program, _, most = REGIONS[name]
    assert peak(*program()) < most


@pytest.mark.slow
@pytest.mark.parametrize("name", list(REGIONS)[:4])
def test_memory_without_the_pass(name: str) -> None:
    program, function, most = REGIONS[name]
    without = tuple(entry for entry in pipeline.PIPELINE if entry.function is not function)
    with patch.object(pipeline, "PIPELINE", without), patch.object(steps, "hosted", lambda module: None):
        assert peak(*program()) > most


def step(batches: int, dtype: Any) -> tuple[Any, list[Any]]:
    """Gradients of ten layers and sums with moments, which are arguments, and the arguments."""

    def f(x: Any, weights: Any, moments: Any) -> Any:
        def loss(weights: Any) -> Any:
            y = x
            for w in weights:
                y = jnp.tanh(jnp.einsum("bij,...jk->bik", y, w))
            return jnp.sum(y**2)

        gradients = jax.grad(loss)(weights)
        return gradients, [0.9 * m + g for m, g in zip(moments, gradients, strict=True)]

    random = np.random.default_rng(batches)
    normal = [random.standard_normal((181, 181)).astype(dtype) / 13 for _ in range(20)]  # weights, moments
    return f, [random.standard_normal((batches, 140, 181)).astype(dtype), normal[:10], normal[10:]]


@pytest.mark.sampled(1)
@pytest.mark.parametrize("target", ["cpu", "cpu-threads"])
@pytest.mark.parametrize(
    ("batches", "dtype", "is_donated"),
    [(1, np.float64, False), (3, np.float32, False), (1, np.float64, True)],
)
def test_values_of_late_results(target: str, batches: int, dtype: Any, is_donated: bool) -> None:
    """In f64, in batches, and with moments whose memory their sums take, each in one thread and in several."""
    f, arguments = step(batches, dtype)
    flat = [arguments[0], *arguments[1], *arguments[2]]
    with jax.enable_x64():
        expected = [np.asarray(y) for y in jax.tree.leaves(jax.jit(f)(*arguments))]
        text = exported(f, *arguments)
    if is_donated:
        for i in range(10):
            text = re.sub(
                rf"(%arg{11 + i}: tensor<\w+>)( {{[^}}]*}})?",
                rf"\1 {{iree.abi.output = {10 + i} : index}}",
                text,
                count=1,
            )
    program = tiduc.load(text)
    others = tuple(entry for entry in pipeline.PIPELINE if entry.function is not late_results)
    with patch.object(pipeline, "PIPELINE", others):
        without = source_of(program, named(target)).stablehlo
    assert source_of(program, named(target)).stablehlo != without
    compiled = program.compile(target)
    for _ in range(2):
        for a, e in zip(compiled(*flat), expected, strict=True):
            np.testing.assert_allclose(a, e, rtol=0, atol=1e-5 * float(np.max(np.abs(e))))


def test_results_of_one_byte() -> None:
    """Such results, which are as large as the model counts results that overwrite an array, overwrite none."""

    def f(x: Any, n: Any) -> Any:
        return n > 3, jnp.tanh(x), n.astype(jnp.int8)

    x, n = np.linspace(-1, 1, 2**10, dtype=np.float32), np.int32(7)
    agree(tiduc.load(exported(f, x, n)).compile()(x, n), f(x, n))


def test_scatters_into_equal_elements_fill_an_array() -> None:
    """IREE would compute the array and the spare row when it compiles, and store both."""

    def f(x: Any, ct: Any) -> Any:
        windows = ((1, 2, 2), (1, 1, 1), "SAME")
        _, vjp = jax.vjp(lambda x: lax.reduce_window(x, -jnp.inf, lax.max, *windows), x)
        return vjp(ct)[0]

    random = np.random.default_rng(0)
    x, ct = random.standard_normal((2, 5, 150, 150)).astype(np.float32)
    program = tiduc.load(exported(f, x, ct))
    compiled = program.compile()
    agree(compiled(x, ct), xla.by_xla(program.text, [x, ct]))
    assert len(compiled.vmfb) < x.nbytes
    assert "stablehlo.concatenate" not in str(source_of(program).stablehlo)


def test_a_second_and_a_third_run_stay_two() -> None:
    """IREE merges two runs behind selects of one value that test for one number, but not for two hidden ones."""

    def again(x: Any, y: Any) -> Any:
        return jnp.exp(jnp.sin(y) @ x)

    def f(x: Any) -> Any:
        second, third = (lax.optimization_barrier((x, after))[0] for after in (1.0, 2.0))
        return jnp.sum(again(x, x) * again(x, second) * again(x, third))

    def of_one(x: Any) -> Any:
        second = lax.optimization_barrier((x, 1.0))[0]
        return jnp.sum(again(x, x) * again(x, second) * again(x, second))

    def recomputed(function: Any) -> Any:
        text = exported(jax.grad(function), x)
        return tiduc.load(text.replace(BARRIER, f"{BARRIER} {{tidu.recomputed}}"))

    x = np.random.default_rng(0).standard_normal((24, 24)).astype(np.float32) / 5
    program = recomputed(f)
    compiled = source_of(program)
    numbers = re.findall(r"stablehlo.slice %(\w+#\d+) \[0:1\] : \(tensor<2xi32>", compiled.text.decode())
    assert len(numbers) == len(set(numbers)) >= 2
    dispatches, of_two_runs = (
        compile_until(source_of(each), "flow").count(b"= flow.dispatch @")
        for each in (program, recomputed(of_one))
    )
    assert dispatches > of_two_runs
    agree(program.compile()(x), xla.by_xla(exported(jax.grad(f), x), [x]))


def test_equal_layers_that_run_again_share_code() -> None:
    """IREE compiles the ops of a rerun once, for all layers."""

    def executables(layers: int) -> int:
        source = source_of(network(layers, 64, 8)[0].rematerialize("min"))
        return compile_until(source, "flow").count(b"flow.executable private")

    assert executables(12) == executables(16)


def test_products_that_run_again_share_no_operand() -> None:
    """A compiler would keep what it packs of a weight for the first run until the last one."""
    program, _ = network(12, 64, 8)
    budgeted = program.rematerialize("min")

    def reads(text: str, weight: int) -> int:
        return sum(
            f"%arg{weight}," in line or f"%arg{weight} :" in line
            for line in text.splitlines()
            if "dot_general" in line
        )

    assert budgeted.text.count("dot_general") > program.text.count("dot_general")
    assert all(reads(budgeted.text, i) == reads(program.text, i) > 0 for i in range(1, 12))


IN_PLACE = 2018
"""KiB that the program of `weights_in_place` takes at most; with a copy of a weight, it would take 125 more."""


def weights_in_place() -> tuple[tiduc.Program, tiduc.Program, list[Any]]:
    """A gradient whose weights are larger than its values, the gradient within a budget, and arguments."""
    program, arguments = network(6, 24, 200)
    return program, program.rematerialize("min"), arguments


def test_products_that_run_again_read_weights_in_place() -> None:
    """A select of a weight would be a copy of it."""
    program, budgeted, arguments = weights_in_place()
    source = without_maps(budgeted)
    assert "optimization_barrier" in budgeted.text and "tensor<200x200xi1>, tensor<200x200xf32>" not in source
    compiled = budgeted.compile()
    agree(compiled(*arguments), xla.by_xla(program.text, arguments))
    assert allocated(compiled.vmfb, arguments) < IN_PLACE


@pytest.mark.slow
def test_selects_of_weights_copy_them(monkeypatch: pytest.MonkeyPatch) -> None:
    _, budgeted, arguments = weights_in_place()
    monkeypatch.setattr(select_reruns, "_read_in_place", lambda block: None)
    monkeypatch.setattr(steps, "hosted", lambda module: None)  # the copies would lie in results
    assert "tensor<200x200xi1>, tensor<200x200xf32>" in without_maps(budgeted)
    assert allocated(budgeted.compile().vmfb, arguments) > IN_PLACE + 0.6 * arguments[1].nbytes / 1024


def test_a_sum_before_a_second_run_is_stored(monkeypatch: pytest.MonkeyPatch) -> None:
    """The sum would else be computed where it is read, after the second run, and what it reads be live until then."""

    def f(x: Any, w: Any) -> Any:
        y = jnp.sin(x @ w)
        sums = jnp.sum(y * y, axis=1)
        z, _ = lax.optimization_barrier((x, sums))
        return jnp.sum((jnp.sin(z @ w) - sums[:, None]) ** 2, axis=0), y[0]

    random = np.random.default_rng(0)
    x, w = random.standard_normal((37, 60)), random.standard_normal((60, 45))
    plain = exported(f, x, w)
    program = tiduc.load(plain.replace(BARRIER, f"{BARRIER} {{tidu.recomputed}}"))
    stored = r"flow.tensor.reshape.*-> tensor<1x37xf64>"
    assert len(re.findall(stored, str(source_of(program).stablehlo))) == 1
    agree(program.compile()(x, w), xla.by_xla(plain, [x, w]))
    monkeypatch.setattr(select_reruns, "_store_waited", lambda op: None)
    assert not re.search(stored, str(source_of(program).stablehlo))


def test_equal_products_that_run_again_stay_two() -> None:
    """Two second runs of one product, whose barriers take both operands: one operand of each is selected."""

    def f(x: Any, w: Any) -> Any:
        def again(after: float) -> Any:
            y, v, _ = lax.optimization_barrier((x, w, after))
            return y @ v

        return jnp.sum(jnp.sin(x @ w) * again(1.0) * again(2.0))

    random = np.random.default_rng(0)
    x, w = random.standard_normal((7, 60)), random.standard_normal((60, 60))
    plain = exported(f, x, w)
    text = plain.replace(BARRIER, f"{BARRIER} {{tidu.recomputed}}")
    program = tiduc.load(text)
    selects = re.findall(r"stablehlo.select .*tensor<(\d+x\d+)xf64>", without_maps(program))
    assert selects == ["7x60", "7x60"]
    agree(program.compile()(x, w), xla.by_xla(plain, [x, w]))


def test_convolutions_that_run_again_stay_two() -> None:
    """The kernel is read in place, so the image is behind the barrier, too, also one that is a reshape."""

    def f(z: Any, *kernels: Any) -> Any:
        x = z.reshape(2, 64, 32, 32)
        return sum(jnp.sum(jnp.sin(lax.conv(x, w, (1, 1), "SAME"))) for w in kernels) ** 2

    random = np.random.default_rng(0)
    image = random.standard_normal((2, 65536), np.float32)
    kernels = [random.standard_normal((64, 64, 3, 3), np.float32) / 50 for _ in range(4)]
    program = tiduc.load(exported(f, image, *kernels)).grad([1, 2, 3, 4])
    budgeted = program.rematerialize("min")
    barriers = [line for line in budgeted.text.splitlines() if "tidu.recomputed" in line]
    assert barriers and all("%arg0" in line for line in barriers)
    assert allocated(budgeted.compile().vmfb, [image, *kernels]) < 0.9 * 4803  # KiB without a budget


@pytest.mark.slow
@pytest.mark.parametrize(("memory", "most"), [("1x", 8065), ("0.35x", 6048)])
def test_iree_allocates_less(memory: str, most: float) -> None:
    """Three quarters of the KiB without a budget."""
    program, arguments = network(12, 2048, 64)
    compiled = program.rematerialize(memory).compile()
    compiled(*arguments)
    assert allocated(compiled.vmfb, arguments) < most


# ---- the order of dispatches ---------------------------------------------------------------------------------------


def test_dispatches_run_in_the_order_of_the_program() -> None:
    """Arrays of 1 MiB: three are live at once, four if products that do not need each other run at once."""
    program, arguments = of_softmax()
    assert peak(program, arguments) < 768 + 3 * 1024 + 200
