"""Compares ops with dynamic dimensions on IREE with the interpreter, which runs the program with static sizes."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cases.iree_dynamic_cases import CASES, ON_GPUS, Case, sorted_columns
from harness.one_module import Joined, joined, selected
from harness.vulkan import called, module_for_gpus, skip_without_device

import tiduc
from tiduc.backends.iree import legalize_for_iree
from tiduc.backends.iree.compile import compile_module
from tiduc.backends.iree.faults import scatters
from tiduc.backends.iree.pipeline import run_group
from tiduc.backends.iree.settings import Settings
from tiduc.backends.reference.interpreter import evaluate
from tiduc.dialect.errors import InputError, Unsupported
from tiduc.dialect.mlir.context import parse, stage
from tiduc.runtime.run import Executable

PAGE = Path(__file__).parents[2] / "docs" / "iree.md"


@pytest.fixture(scope="module")
def on_cpu(request: pytest.FixtureRequest) -> Joined:
    """Fixture: the selected cases, compiled as one function, because that is faster than compiling many functions."""
    names = selected(request, "test_values") | {"reshape"}
    cases = {name: case for name, case in CASES.items() if name in names}
    text, counts = joined(case.text(name) for name, case in cases.items())
    module = parse(text)
    legalize_for_iree(module)
    run = Executable(compile_module(stage(str)(module)))
    return Joined(run, {name: case.arguments for name, case in cases.items()}, counts)


@pytest.fixture(scope="module")
def on_gpu() -> dict[str, Sequence[Any]]:
    """Fixture: the results of the cases `ON_GPUS` on Vulkan's software device, compiled as one module.

    Skips the test if the device is missing.
    """
    skip_without_device("vulkan:llvmpipe")
    target = "vulkan:llvmpipe"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(scatters, "STEPS", 4)  # so that a scatter of 6 updates exceeds the limit
        module = parse("\n".join(CASES[name].text(name) for name in ON_GPUS))
        legalize_for_iree(module, cpu=False, spirv=True)
        vmfb = module_for_gpus(stage(str)(module), target)
    return called(vmfb, target, {name: CASES[name].arguments for name in ON_GPUS})


def check(results: Sequence[Any], case: Case) -> None:
    (y,) = results
    expected = case.expected
    if expected is None:
        (expected,) = evaluate(case.text(known=True), case.arguments)
    np.testing.assert_array_equal(y, expected)


@pytest.mark.sampled(30)
@pytest.mark.parametrize("name", CASES)
def test_values(on_cpu: Joined, name: str) -> None:
    check(on_cpu[name](*CASES[name].arguments), CASES[name])


@pytest.mark.more
@pytest.mark.parametrize("name", ON_GPUS)
def test_values_on_gpus(on_gpu: dict[str, Sequence[Any]], name: str) -> None:
    check(on_gpu[name], CASES[name])


def test_rewrites_for_cuda_take_dynamic_sizes() -> None:
    module = parse("\n".join(case.text(name) for name, case in CASES.items()))
    for each in ("speed", "legal", "regions"):
        stage(run_group)(each, module, Settings(cpu=False, cuda=True, tensor_cores=True))


def test_programs_compile_their_sorts() -> None:
    """A sort of dynamic size, compiled by `Program.compile`, is correct.

    `Program.compile` outlines the loops of the sort. Their loop-carried values have dynamic shapes.
    """
    case = CASES["sort"]
    (y,) = tiduc.load(case.text()).compile()(*case.arguments)
    np.testing.assert_array_equal(y, evaluate(case.text(known=True), case.arguments)[0])


def test_more_elements_than_there_are(on_cpu: Joined) -> None:
    x, _ = CASES["reshape"].arguments
    with pytest.raises(
        InputError, match=r"6 \* dimension 0 of argument 0, and argument 1\[0\] \* argument 1\[1\]"
    ):
        on_cpu["reshape"](x, np.array([5, 12], np.int32))


@pytest.mark.parametrize(("type_", "barriers"), [("i64", 0), ("i32", 1)])
def test_sizes_are_computed_by_the_host(type_: str, barriers: int) -> None:
    """Computed 64-bit sizes are read without a barrier. A computation in 32 bits may overflow, so IREE computes it."""
    text = f"""func.func @main(%x: tensor<?x6xf32>) -> tensor<?x3xf32> {{
      %two = stablehlo.constant dense<2> : tensor<{type_}>
      %three = stablehlo.constant dense<3> : tensor<1x{type_}>
      %size = stablehlo.get_dimension_size %x, dim = 0 : (tensor<?x6xf32>) -> tensor<i32>
      %n = stablehlo.convert %size : (tensor<i32>) -> tensor<{type_}>
      %0 = stablehlo.add %n, %two : tensor<{type_}>
      %1 = stablehlo.multiply %0, %two : tensor<{type_}>
      %2 = stablehlo.subtract %1, %two : tensor<{type_}>
      %3 = stablehlo.subtract %2, %two : tensor<{type_}>
      %4 = stablehlo.reshape %3 : (tensor<{type_}>) -> tensor<1x{type_}>
      %5 = stablehlo.concatenate %4, %three, dim = 0 : (tensor<1x{type_}>, tensor<1x{type_}>) -> tensor<2x{type_}>
      %6 = stablehlo.dynamic_reshape %x, %5 : (tensor<?x6xf32>, tensor<2x{type_}>) -> tensor<?x3xf32>
      return %6 : tensor<?x3xf32>
    }}"""
    module = parse(text)
    stage(run_group)("legal", module, Settings())
    assert str(module).count("util.optimization_barrier") == barriers
    x = np.arange(24, dtype=np.float32).reshape(4, 6)
    np.testing.assert_array_equal(tiduc.load(text).compile()(x)[0], x.reshape(8, 3))


def test_several_operands_are_refused() -> None:
    x = "tensor<?x2xf32>"
    text = f"""func.func @main(%x: {x}, %i: tensor<1x1xi32>, %u: tensor<1x2xf32>) -> {x} {{
      %0:2 = "stablehlo.scatter"(%x, %x, %i, %u, %u) ({{
      ^bb0(%a: tensor<f32>, %b: tensor<f32>, %c: tensor<f32>, %d: tensor<f32>):
        stablehlo.return %a, %d : tensor<f32>, tensor<f32>
      }}) {{scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [1], inserted_window_dims = [0],
        scatter_dims_to_operand_dims = [0], index_vector_dim = 1>}}
        : ({x}, {x}, tensor<1x1xi32>, tensor<1x2xf32>, tensor<1x2xf32>) -> ({x}, {x})
      return %0#0 : {x}
    }}"""
    with pytest.raises(Unsupported, match="several operands with dynamic shapes") as refused:
        legalize_for_iree(parse(text))
    assert refused.value.location == "-:2:14"


def test_dynamic_rows_of_dynamic_length_on_gpus_are_refused() -> None:
    module = parse(sorted_columns("?Nx?M").text())
    with pytest.raises(Unsupported, match="only if the number of rows is static") as refused:
        legalize_for_iree(module, cpu=False)
    assert refused.value.location == "-:2:8"
