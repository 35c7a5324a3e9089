"""Reordering chains of matrix products keeps the values and reduces the FLOPs."""

from random import Random
from typing import Any

import numpy as np
import pytest
from harness.check_rule import run
from numpy.typing import NDArray

from tiduc.dialect.mlir.context import parse
from tiduc.loading import load
from tiduc.passes.contract import PLAN, contract
from tiduc.program import Program


def contracted(text: str) -> tuple[Program, list[dict[str, int]]]:
    """The program after the pass, and for each reordered chain: FLOPs before and after, and the number of products."""
    module = parse(text)
    contract(module)
    (function,) = module.body.operations
    given = function.attributes[PLAN] if PLAN in function.attributes else []
    plans = [{name: plan[name].value for name in ("before", "flops", "products")} for plan in given]
    return load(str(module)), plans


def chain(draw: Random) -> tuple[str, list[NDArray[Any]]]:
    """The text of a random chain of matrix products, and its arguments.

    The order of the products is random. Products may be batched, and some operands are transposed.
    """
    count, batch = draw.randint(3, 6), draw.choice([0, 0, 2])
    sizes = [draw.choice([1, 2, 3, 5, 8]) for _ in range(count + 1)]
    before = [batch] if batch else []
    rng = np.random.default_rng(draw.randrange(2**32))

    def spelled(m: int, n: int) -> str:
        return f"tensor<{'x'.join(map(str, [*before, m, n]))}xf64>"

    terms = [(f"%a{i}", sizes[i], sizes[i + 1]) for i in range(count)]
    arguments = [rng.standard_normal([*before, m, n]) for _, m, n in terms]
    header = ", ".join(f"{name}: {spelled(m, n)}" for name, m, n in terms)
    lines: list[str] = []
    k = len(before)
    batching = "batching_dims = [0] x [0], " if batch else ""
    while len(terms) > 1:
        i = draw.randrange(len(terms) - 1)
        (x, m, n), (y, _, p) = terms[i : i + 2]
        name = f"%p{len(lines)}"
        if draw.random() < 0.5:
            types = f"({spelled(m, n)}, {spelled(n, p)}) -> {spelled(m, p)}"
            lines.append(
                f"{name} = stablehlo.dot_general {x}, {y}, {batching}contracting_dims = [{k + 1}] x [{k}] : {types}"
            )
        else:
            types = f"({spelled(n, p)}, {spelled(m, n)}) -> {spelled(p, m)}"
            lines.append(
                f"{name}t = stablehlo.dot_general {y}, {x}, {batching}contracting_dims = [{k}] x [{k + 1}] : {types}"
            )
            order = [*range(k), k + 1, k]
            lines.append(
                f"{name} = stablehlo.transpose {name}t, dims = {order} : ({spelled(p, m)}) -> {spelled(m, p)}"
            )
        terms[i : i + 2] = [(name, m, p)]
    ((last, m, p),) = terms
    body = "\n  ".join([*lines, f"return {last} : {spelled(m, p)}"])
    return f"func.func @main({header}) -> {spelled(m, p)} {{\n  {body}\n}}", arguments


@pytest.mark.parametrize("seed", range(4))
def test_random_chains(seed: int) -> None:
    """A reordered chain has the same values and fewer FLOPs. The pass does not reorder it a second time."""
    draw = Random(seed)
    for _ in range(5):
        text, arguments = chain(draw)
        program, plans = contracted(text)
        np.testing.assert_allclose(run(program, arguments)[0], run(load(text), arguments)[0], atol=1e-12)
        if plans:
            ((before, flops, products),) = [tuple(plan.values()) for plan in plans]
            assert flops < before and products == len(arguments) - 1
        assert contracted(str(program.module))[1] == []  # a second run changes nothing


def test_products_of_other_block_arguments_and_of_one_value() -> None:
    """(A B)^2 is not reordered: the second product reads the first one twice, so the two are not a chain."""
    text = """func.func @main(%a: tensor<3x4xf64>, %b: tensor<4x3xf64>) -> tensor<3x3xf64> {
      %0 = stablehlo.dot_general %a, %b, contracting_dims = [1] x [0]
        : (tensor<3x4xf64>, tensor<4x3xf64>) -> tensor<3x3xf64>
      %1 = stablehlo.dot_general %0, %0, contracting_dims = [1] x [0]
        : (tensor<3x3xf64>, tensor<3x3xf64>) -> tensor<3x3xf64>
      return %1 : tensor<3x3xf64>
    }"""
    assert contracted(text)[1] == []


@pytest.mark.more
def test_on_iree() -> None:
    text, arguments = chain(Random(1))
    program, plans = contracted(text)
    assert plans
    np.testing.assert_allclose(program.compile()(*arguments)[0], run(load(text), arguments)[0], atol=1e-12)
