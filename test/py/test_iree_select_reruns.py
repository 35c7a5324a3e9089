"""Tests recomputed ops on IREE. IREE must not merge them with the original ops or keep their values until then."""

import re
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from harness import xla
from harness.allocations import allocated
from harness.edits import without_hosting
from harness.exports import exported
from harness.sources import source_of
from jax import lax
from test_iree_stored_values import agree, without_maps
from test_memory_budget import network

import tiduc
from tiduc.backends.iree.compile import compile_until
from tiduc.backends.iree.fast.memory import select_reruns
from tiduc.backends.iree.fast.memory.stored_values import BARRIER


@pytest.mark.more
def test_a_second_and_a_third_run_stay_two() -> None:
    """If ops are recomputed twice, IREE keeps both recomputations.

    Each recomputation reads its input through a select on a hidden number. Otherwise, IREE would merge the two.
    """

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
    """IREE compiles recomputed ops once for all layers: 12 layers need as many executables as 16."""

    def executables(layers: int) -> int:
        source = source_of(network(layers, 64, 8)[0].rematerialize("min"))
        return compile_until(source, "flow").count(b"flow.executable private")

    assert executables(12) == executables(16)


def test_products_that_run_again_share_no_operand() -> None:
    """Recomputed matrix products do not read the weights directly: each weight has as many readers as without a budget.

    If the original product and the recomputed one shared an operand, a compiler would keep the operand's packed copy
    until the last product.
    """
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
"""The peak memory in KiB of the second program of `weights_in_place`. A copy of a weight would take 125 KiB more."""


def weights_in_place() -> tuple[tiduc.Program, tiduc.Program, list[Any]]:
    """Returns a gradient, the rematerialized gradient with minimal memory, and the arguments of both.

    The weights are larger than the other values.
    """
    program, arguments = network(6, 24, 200)
    return program, program.rematerialize("min"), arguments


def test_products_that_run_again_read_weights_in_place() -> None:
    """Recomputed products read their weights directly. A select on a weight would copy it and take more memory."""
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
    without_hosting(monkeypatch)  # otherwise, the copies would use the memory of results
    assert "tensor<200x200xi1>, tensor<200x200xf32>" in without_maps(budgeted)
    assert allocated(budgeted.compile().vmfb, arguments) > IN_PLACE + 0.6 * arguments[1].nbytes / 1024


def test_a_sum_before_a_second_run_is_stored(monkeypatch: pytest.MonkeyPatch) -> None:
    """A sum that a recomputation waits for is stored before the recomputation begins.

    Otherwise, IREE would fuse the sum with its reader, and its operands would stay live until then.
    """

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
    """IREE keeps two recomputations of one product, because one operand of each is read through a select."""

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
    """The barrier of a recomputed convolution is on its image, not on its kernel, and the memory budget is met.

    The image may be a reshaped value. The kernel is read in place.
    """

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
    # Without a budget, the program allocates 4803 KiB.
    assert allocated(budgeted.compile().vmfb, [image, *kernels]) < 0.9 * 4803
