"""The pass `sorts` merges sorts with equal keys and equal order. It does not merge other sorts."""

from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from harness.exports import exported

from tiduc.backends.reference.interpreter import evaluate
from tiduc.loading import load

V, N = "tensor<6xf64>", "tensor<6xi32>"
LESS = "%less = stablehlo.compare LT, %a, %b : (tensor<f64>, tensor<f64>) -> tensor<i1>"
ARGUMENTS = np.array([2.0, -1, 2, 5, -1, 0]), np.array([3.0, 2, 1, 9, 8, 7]), np.array(0.5)
STABLE = "{dimension = 0 : i64, is_stable = true}"


def sorts(
    operands: str, results: str, types: Sequence[str], comparator: str = LESS, attributes: str = STABLE
) -> str:
    """The text of a sort of arrays of six elements. The first array contains the keys, which are f64."""
    elements = [t.replace("6x", "") for t in types]
    arguments = ", ".join(
        f"%{x}: {t}" for t, pair in zip(elements, ("ab", "cd", "ef"), strict=False) for x in pair
    )
    return f"""{results} = "stablehlo.sort"({operands}) <{attributes}> ({{
      ^bb0({arguments}):
        {comparator}
        stablehlo.return %less : tensor<i1>
      }}) : ({", ".join(types)}) -> ({", ".join(types)})"""


ALONE = sorts("%x", "%s", [V])
NUMBERED = sorts("%x, %i", "%t:2", [V, N])
FROM_Z = """%az = stablehlo.maximum %a, %z : tensor<f64>
        %bz = stablehlo.maximum %b, %z : tensor<f64>
        %less = stablehlo.compare LT, %az, %bz : (tensor<f64>, tensor<f64>) -> tensor<i1>"""
IOTA = f"%i = stablehlo.iota dim = 0 : {N}"
CASES = {
    "in_order": ([ALONE, IOTA, NUMBERED], "%s, %t#1", [V, N], 1),
    "larger_first": ([IOTA, NUMBERED, ALONE], "%s, %t#1", [V, N], 1),
    "three": (
        [ALONE, IOTA, NUMBERED, sorts("%x, %i, %y", "%u:3", [V, N, V]), f"%v = stablehlo.add %s, %t#0 : {V}"],
        "%s, %v, %t#1, %u#2",
        [V, V, N, V],
        1,
    ),
    "of_pairs": ([sorts("%x, %y", "%s:2", [V, V]), IOTA, NUMBERED], "%s#0, %s#1, %t#1", [V, V, N], 1),
    "around_a_value": (
        [ALONE.replace(LESS, FROM_Z), IOTA, NUMBERED.replace(LESS, FROM_Z)],
        "%s, %t#1",
        [V, N],
        1,
    ),
    "around_others": ([ALONE.replace(LESS, FROM_Z), IOTA, NUMBERED], "%s, %t#1", [V, N], 2),
    "made_later": (
        [ALONE, f"%i = stablehlo.negate %s : {V}", sorts("%x, %i", "%t:2", [V, V])],
        "%s, %t#1",
        [V, V],
        2,
    ),
    "other_order": (
        [ALONE, IOTA, sorts("%x, %i", "%t:2", [V, N], LESS.replace("LT", "GT"))],
        "%s, %t#0, %t#1",
        [V, V, N],
        2,
    ),
    "by_the_other": (
        [ALONE, sorts("%x, %y", "%t:2", [V, V], LESS.replace("%a, %b", "%c, %d"))],
        "%s, %t#0",
        [V, V],
        2,
    ),
    "not_stable": (
        [ALONE, IOTA, sorts("%x, %i", "%t:2", [V, N], attributes=STABLE.replace("true", "false"))],
        "%s, %t#0",
        [V, V],
        2,
    ),
    "of_others": ([ALONE, IOTA, sorts("%y, %i", "%t:2", [V, N])], "%s, %t#1", [V, N], 2),
}


@pytest.mark.parametrize("name", CASES)
def test_sorts_with_equal_order_are_merged(name: str) -> None:
    lines, results, types, count = CASES[name]
    body, types_ = "\n".join(lines), ", ".join(types)
    arguments = f"%x: {V}, %y: {V}, %z: tensor<f64>"
    text = f"func.func @main({arguments}) -> ({types_}) {{\n{body}\nreturn {results} : {types_}\n}}"
    lowered = load(text).text
    assert lowered.count('"stablehlo.sort"') == count
    for y, expected in zip(evaluate(lowered, ARGUMENTS), evaluate(text, ARGUMENTS), strict=True):
        np.testing.assert_array_equal(y, expected)


def test_derivatives_sort_once() -> None:
    """The gradient of a loss with a sort, and the derivative of the gradient, each contain only one sort.

    They reuse its permutation.
    """

    def loss(x: jax.Array, w: jax.Array) -> jax.Array:
        return jnp.sum(jnp.sort(x) ** 3 * w)

    x, w, _ = ARGUMENTS
    gradient = load(exported(loss, x, w)).grad([0], value=True)
    both = gradient.jvp([0])
    assert [program.text.count('"stablehlo.sort"') for program in (gradient, both)] == [1, 1]
    tangent = np.arange(6.0)
    with jax.enable_x64(True):
        expected = jax.jvp(jax.jit(lambda x: jax.value_and_grad(loss)(x, w)), (x,), (tangent,))
    for y, z in zip(evaluate(both.text, [x, w, tangent]), jax.tree.leaves(expected), strict=True):
        np.testing.assert_allclose(y, z, rtol=1e-12)
