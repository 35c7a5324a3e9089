"""Random numbers: each `rng` draws numbers from the program's seed.

All engines draw equal numbers, and no two ops draw equal numbers.
"""

import re
from functools import cache
from typing import Any

import numpy as np
import pytest
from cases.random_numbers import DROPOUTS, IN_BRANCH, LOOP, NESTED, UNIT, drawn, rng, seed
from harness.one_module import compiled_together
from harness.xla import by_xla

import tiduc
from tiduc.dialect.errors import InputError, Unsupported
from tiduc.passes.importing.rng import SEED
from tiduc.runtime.random_seed import is_random_seed

Array = np.ndarray[Any, Any]


# ---- distributions -----------------------------------------------------------------------------------------

UNIFORM = {  # results equal XLA's bit for bit if the products of bounds and random numbers are exact
    "f64": ("0.0", "1.0"),
    "f32": ("0.0", "1.0"),
    "f16": ("0.0", "1.0"),
    "bf16": ("0.0", "1.0"),
    "f32 wide": ("-1.3", "2.7"),
    "i32": ("-3", "5"),
    "i64": ("-3", "5"),
    "ui8": ("3", "250"),
}
NORMAL = {"f64": ("0.0", "1.0"), "f32": ("0.0", "1.0"), "bf16": ("0.5", "2.0"), "f32 wide": ("1.0", "3.0")}
COUNT = 20000


@cache
def programs() -> dict[str, str]:
    texts = {
        f"{distribution} {name}": drawn(distribution, name.split()[0], *bounds, COUNT)
        for distribution, of in (("UNIFORM", UNIFORM), ("NORMAL", NORMAL))
        for name, bounds in of.items()
    }
    return texts | {
        "point": drawn("UNIFORM", "i32", "5", "5", 3),
        "none": drawn("UNIFORM", "f32", "1.0", "2.0", 0),
    }


@pytest.fixture(scope="module")
def compiled() -> dict[str, tiduc.Executable]:
    return compiled_together(programs())


@pytest.mark.parametrize("name", UNIFORM)
def test_uniform(name: str, compiled: dict[str, tiduc.Executable]) -> None:
    """Uniform random numbers are within the bounds, have the right mean and variance, and equal XLA's bit for bit."""
    (y,) = compiled[f"UNIFORM {name}"](seed())
    (known,) = by_xla(tiduc.load(programs()[f"UNIFORM {name}"]).text, [seed()])
    np.testing.assert_array_equal(y, known)
    low, high = map(float, UNIFORM[name])
    x, width = y.astype(np.float64), high - low
    discrete = y.dtype.kind in "iu"
    assert low <= x.min() and x.max() < high
    assert abs(x.mean() - (low + high - discrete) / 2) < 4 * width / np.sqrt(12 * COUNT)
    variance = (width**2 - discrete) / 12
    assert abs(x.var() / variance - 1) < 4 * np.sqrt(0.8 / COUNT)
    if low == 0:
        assert x.min() > 0  # zeros are excluded, so that logarithms are finite


@pytest.mark.parametrize("name", NORMAL)
def test_normal(name: str, compiled: dict[str, tiduc.Executable]) -> None:
    """Normal random numbers have the right mean, variance, and shares within 1, 2 and 3 standard deviations.

    They equal XLA's up to rounding.
    """
    (y,) = compiled[f"NORMAL {name}"](seed())
    (known,) = by_xla(tiduc.load(programs()[f"NORMAL {name}"]).text, [seed()])
    epsilon = float(2.0 ** -{"f64": 52, "f32": 23, "bf16": 7}[name.split()[0]])
    np.testing.assert_allclose(y.astype(float), known.astype(float), 32 * epsilon, 32 * epsilon)
    mean, deviation = map(float, NORMAL[name])
    z = (y.astype(np.float64) - mean) / deviation
    assert abs(z.mean()) < 4 / np.sqrt(COUNT) and abs(z.var() - 1) < 4 * np.sqrt(2 / COUNT)
    for bound, share in ((1, 0.6827), (2, 0.9545), (3, 0.9973)):
        assert abs((abs(z) < bound).mean() - share) < 4 * np.sqrt(share * (1 - share) / COUNT) + 2 * epsilon


def test_corners(compiled: dict[str, tiduc.Executable]) -> None:
    np.testing.assert_array_equal(compiled["point"](seed())[0], [5, 5, 5])
    assert compiled["none"]()[0].shape == (0,)  # the program draws no numbers, and has no seed


def sized(rows: str, element: str) -> str:
    """A program that multiplies its argument by random numbers. The number of rows is static or dynamic."""
    type_ = f"{rows}x5x{element}"
    return f"""func.func @main(%x: tensor<{type_}>) -> tensor<{type_}> {{
      %a = stablehlo.constant dense<1.0> : tensor<{element}>
      %b = stablehlo.constant dense<3.0> : tensor<{element}>
      %five = stablehlo.constant dense<5> : tensor<1xi32>
      %n = stablehlo.get_dimension_size %x, dim = 0 : (tensor<{type_}>) -> tensor<i32>
      %m = stablehlo.reshape %n : (tensor<i32>) -> tensor<1xi32>
      %sizes = stablehlo.concatenate %m, %five, dim = 0 : (tensor<1xi32>, tensor<1xi32>) -> tensor<2xi32>
      {rng("u", "a", "b", type_).replace("2xi64", "2xi32")}
      %y = stablehlo.multiply %u, %x : tensor<{type_}>
      return %y : tensor<{type_}>
    }}"""


@pytest.mark.more
def test_dynamic_shapes() -> None:
    """A program with a dynamic shape draws the f64 numbers of the program with the static shape, also in its VJP."""
    x = np.ones((301, 5))
    y, cx = tiduc.load(sized("?", "f64")).vjp()(x, seed(), x)
    np.testing.assert_array_equal(y, cx)
    np.testing.assert_array_equal(y, by_xla(tiduc.load(sized("301", "f64")).text, [x, seed()])[0])


@pytest.mark.more
def test_narrow_numbers_of_a_dynamic_shape() -> None:
    program = tiduc.load(sized("?", "f32"))
    y = program(np.ones((4001, 5), np.float32), seed())
    assert abs(y.mean() - 2) < 8 / np.sqrt(12 * y.size) and abs(y.var() * 3 - 1) < 4 * np.sqrt(0.8 / y.size)
    assert y.min() >= 1 and y.max() < 3 and len(np.unique(y)) > 0.99 * y.size
    assert program(np.ones((0, 5), np.float32), seed()).shape == (0, 5)


# ---- streams -----------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def dropouts() -> Any:
    return tiduc.load(DROPOUTS).compile()


def test_draws_of_one_shape_differ(dropouts: Any) -> None:
    x = np.ones(4, np.float32)
    y, z = dropouts(x, seed())
    assert not np.isin(y, z).any()
    for known, again in zip((y, z), dropouts(x, seed()), strict=True):
        np.testing.assert_array_equal(known, again)


def test_steps_differ(dropouts: Any) -> None:
    """For 1,000 seeds that differ in the second word, few drawn numbers coincide.

    Their distribution is right, and they are not correlated.
    """
    x = np.ones(4, np.float32)
    u = np.array([dropouts(x, seed(step=k)) for k in range(1000)])
    # Few of 2^23 numbers are drawn twice.
    assert len(np.unique(u[:, :, 0])) > 1995 and len(np.unique(u)) > 7980
    assert abs(u.mean() - 0.5) < 4 / np.sqrt(12 * u.size) and abs(u.var() * 12 - 1) < 4 * np.sqrt(
        0.8 / u.size
    )
    assert abs(np.corrcoef(u[:-1].ravel(), u[1:].ravel())[0, 1]) < 4 / np.sqrt(u.size)
    assert abs(np.corrcoef(u[:, 0].ravel(), u[:, 1].ravel())[0, 1]) < 4 / np.sqrt(u.size / 2)


LOOPS = {"loop": LOOP, "nested": NESTED, "branch": IN_BRANCH}


def rows_of(name: str) -> Array:
    return np.ones(tiduc.load(LOOPS[name]).signature.inputs[0].type.shape, np.float32)  # type: ignore[arg-type]


@pytest.mark.more
@pytest.mark.parametrize("name", LOOPS)
def test_iterations_differ(name: str) -> None:
    """The iterations of a loop draw different numbers. XLA draws the numbers that IREE draws."""
    program, x = tiduc.load(LOOPS[name]), rows_of(name)
    assert [port.name for port in program.inputs] == ["x", SEED]
    y = program(x, seed())
    np.testing.assert_array_equal(y, by_xla(program.text, [x, seed()])[0])
    assert len(np.unique(y[:, 0])) > 0.999 * len(y) and len(np.unique(y)) > 0.999 * y.size
    assert np.isin(y, program(x, seed(8))).mean() < 0.003  # few of 2^23 numbers are drawn twice
    if name == "loop":
        assert abs(y.mean() - 0.5) < 4 / np.sqrt(12 * y.size) and abs(y.var() * 12 - 1) < 4 * np.sqrt(
            0.8 / y.size
        )


@pytest.mark.parametrize(
    ("name", "loop_memory"),
    [
        ("branch", "stack"),
        ("loop", "log"),
        *(
            pytest.param(name, memory, marks=pytest.mark.slow)
            for name, memory in (
                ("nested", "stack"),
                ("nested", "sqrt"),
                ("nested", "log"),
                ("branch", "sqrt"),
            )
        ),
    ],
)
def test_the_reverse_pass_draws_the_same(name: str, loop_memory: str) -> None:
    """The reverse pass uses the numbers of the forward pass bit for bit, whether they are stored or recomputed."""
    program, x = tiduc.load(LOOPS[name], loop_memory=loop_memory), rows_of(name)
    y, cx = program.vjp()(x, seed(), x)
    np.testing.assert_array_equal(y, cx)


CHECKPOINTED = f"""
func.func @main(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {{
  %y:2 = func.call @f(%x) : (tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>)
  return %y#0, %y#1 : tensor<4xf32>, tensor<4xf32>
}}
func.func private @f(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) attributes {{tidu.checkpoint}} {{
  {UNIT}
  {rng("u", "zero", "one", "4xf32")}
  %s = stablehlo.sine %u : tensor<4xf32>
  %y = stablehlo.multiply %x, %s : tensor<4xf32>
  %z = stablehlo.sine %y : tensor<4xf32>
  return %y, %z : tensor<4xf32>, tensor<4xf32>
}}"""


def test_recomputed_numbers_are_equal() -> None:
    """A checkpointed function draws equal numbers in the forward pass and in the recomputation of the reverse pass."""
    program = tiduc.load(CHECKPOINTED)
    vjp, x = program.vjp(), np.ones(4, np.float32)
    assert vjp.text.count("tensor<4xui32>)") == 2  # the numbers are recomputed
    y, _, cx = vjp(x, seed(), np.ones(4, np.float32), np.zeros(4, np.float32))
    np.testing.assert_array_equal(y, cx)


def layers(count: int, sizes: int) -> str:
    """A program of `count` layers, each of which multiplies `sizes` elements by as many random numbers."""
    type_ = f"tensor<{sizes}xf32>"
    lines = [UNIT.replace("[4]", f"[{sizes}]"), f"%s0 = stablehlo.sine %x : {type_}"]
    for i in range(count):
        lines += [
            rng(f"u{i}", "zero", "one", f"{sizes}xf32"),
            f"%y{i} = stablehlo.multiply %s{i}, %u{i} : {type_}",
            f"%s{i + 1} = stablehlo.sine %y{i} : {type_}",
        ]
    body = "\n".join(lines)
    return f"func.func @main(%x: {type_}) -> {type_} {{\n{body}\nreturn %s{count} : {type_}\n}}"


@pytest.mark.more
@pytest.mark.filterwarnings("error::tiduc.dialect.errors.TiducRemark")
def test_a_budget_recomputes_equal_numbers() -> None:
    """With the least memory budget, some numbers are drawn a second time, and all results are equal bit for bit."""
    program, x = tiduc.load(layers(6, 4096)), np.linspace(0.1, 1, 4096, dtype=np.float32)
    vjp, least = program.vjp(), program.rematerialize("min").vjp()
    assert least.text.count("rng_bit_generator") > vjp.text.count("rng_bit_generator") == 2 + 6
    for y, z in zip(vjp(x, seed(), x), least(x, seed(), x), strict=True):
        np.testing.assert_array_equal(y, z)


# ---- inputs and derivatives --------------------------------------------------------------------------------

BOUNDS = f"""func.func @main(%a: tensor<f64>, %b: tensor<f64>) -> (tensor<5xf64>, tensor<5xf64>) {{
  %sizes = stablehlo.constant dense<[5]> : tensor<1xi64>
  {rng("u", "a", "b", "5xf64")}
  {rng("n", "a", "b", "5xf64", "NORMAL")}
  return %u, %n : tensor<5xf64>, tensor<5xf64>
}}"""


def test_derivatives_toward_parameters() -> None:
    """Random numbers with bounds a and b have the tangent of y = a + (b - a) u, and those with mean a and deviation b
    that of y = a + b z.
    """
    program = tiduc.load(BOUNDS).jvp()
    assert [port.name for port in program.inputs] == ["a", "b", SEED, "a.tangent", "b.tangent"]
    a, b, da, db = (np.array(x) for x in (0.3, 1.7, 0.4, -1.1))
    u, n, du, dn = program(a, b, seed(), da, db)
    np.testing.assert_allclose(du, da + (db - da) * (u - a) / (b - a), rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(dn, da + db * (n - a) / b, rtol=1e-12, atol=1e-12)
    assert [port.name for port in program.differentiated(None)] == ["a", "b", "a.tangent", "b.tangent"]


def test_names() -> None:
    taken = DROPOUTS.replace("%x: tensor<4xf32>", "%x: tensor<4xf32>, %seed: tensor<i64>")
    program = tiduc.load(taken)
    assert [port.name for port in program.inputs] == ["x", "seed", "seed.2"]
    assert [is_random_seed(value) for value in program.signature.inputs] == [False, False, True]
    again = tiduc.load(program.text)
    assert [port.name for port in again.inputs] == ["x", "seed", "seed.2"]


def test_a_missing_seed() -> None:
    with pytest.raises(InputError, match="no argument for seed.*two numbers, such as"):
        tiduc.load(DROPOUTS)(np.ones(4, np.float32))


def test_batches() -> None:
    """`batch` uses the same random numbers for all examples if the seed is not batched."""
    program, x = tiduc.load(DROPOUTS), np.arange(8, dtype=np.float32).reshape(2, 4)
    y, _ = program.batch({"x": 0}, 2)(x, seed())
    np.testing.assert_array_equal(y, x * program(np.ones(4, np.float32), seed())[0])


F8 = drawn("UNIFORM", "f8E5M2", "0.0", "1.0", 3)
IN_GRAPH = """"tidu.graph"() ({
^bb0(%a: tensor<f32>):
  %n = stablehlo.constant dense<3> : tensor<1xi64>
  %u = stablehlo.rng %a, %a, %n, distribution = UNIFORM : (tensor<f32>, tensor<f32>, tensor<1xi64>) -> tensor<3xf32>
  stablehlo.return %u : tensor<3xf32>
}) {inputs = [@a], sym_name = "main"} : () -> ()"""
OWN_DERIVATIVE = CHECKPOINTED.replace("{tidu.checkpoint}", "{tidu.jvp = @g}").replace(
    "func.func private @f",
    """func.func private @g(%x: tensor<4xf32>, %dx: tensor<4xf32>)
        -> (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) {
      return %x, %x, %dx, %dx : tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>
    }
    func.func private @f""",
)
IN_REDUCER = """func.func @main(%x: tensor<3xf32>) -> tensor<f32> {
  %a = stablehlo.constant dense<1.0> : tensor<f32>
  %sizes = stablehlo.constant dense<> : tensor<0xi64>
  %y = stablehlo.reduce(%x init: %a) across dimensions = [0] : (tensor<3xf32>, tensor<f32>) -> tensor<f32>
    reducer(%b: tensor<f32>, %c: tensor<f32>) {
      %u = stablehlo.rng %b, %c, %sizes, distribution = UNIFORM
        : (tensor<f32>, tensor<f32>, tensor<0xi64>) -> tensor<f32>
      stablehlo.return %u : tensor<f32>
    }
  return %y : tensor<f32>
}"""


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (F8, "no random numbers of type f8E5M2 can be drawn"),
        (IN_GRAPH, "@main draws random numbers, and cannot take a seed"),
        (OWN_DERIVATIVE, "@f draws random numbers, and cannot take a seed"),
        (IN_REDUCER, "no random numbers can be drawn in a region of stablehlo.reduce"),
    ],
    ids=["f8", "graph", "own-derivative", "reducer"],
)
def test_refused(text: str, message: str) -> None:
    with pytest.raises(Unsupported, match=re.escape(message)):
        tiduc.load(text)
