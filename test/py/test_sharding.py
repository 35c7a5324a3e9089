"""Derivatives of sharded programs on eight devices, compared with those of JAX, which exports the programs.

The tests cover Shardy's dialect, XLA's older attributes, and explicit collectives in `shard_map`, with and without
JAX's check of replication. The derivatives do not depend on that check, because tiduc and JAX both differentiate the
whole program.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from harness.compare import compare
from harness.devices import by_partitions
from jax import export, lax, shard_map
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

from tiduc.dialect.errors import ParseError, ResolveError, Unsupported
from tiduc.dialect.mlir.context import parse
from tiduc.linking import link
from tiduc.loading import load

RNG = np.random.default_rng(0)


def mesh() -> Mesh:
    return Mesh(np.array(jax.devices()).reshape(4, 2), ("d", "m"))


def sharding(*axes: Any) -> NamedSharding:
    return NamedSharding(mesh(), P(*axes))


@pytest.fixture(params=["shardy", "xla"])
def shardy(request: pytest.FixtureRequest) -> Iterator[bool]:
    before = jax.config.jax_use_shardy_partitioner
    jax.config.update("jax_use_shardy_partitioner", request.param == "shardy")
    with jax.enable_x64(True):
        yield request.param == "shardy"
    jax.config.update("jax_use_shardy_partitioner", before)


def lowered(function: Callable[..., Any], arguments: Sequence[Any], shardings: Any = None) -> str:
    return str(jax.jit(function, in_shardings=shardings).lower(*arguments).as_text())


def check(
    function: Callable[..., Any],
    arguments: Sequence[Any],
    shardy: bool,
    order: int = 1,
    shardings: Any = None,
) -> str:
    """Compares the value, the gradient and, for order 2, the Hessian-vector product with JAX's.

    Returns the text of the gradient.
    """
    p = load(lowered(function, arguments, shardings))
    places = tuple(range(len(arguments)))
    value, gradient = jax.jit(jax.value_and_grad(function, places))(*arguments)
    text = str(p.grad(value=True))
    load(text)  # asserts that the text can be parsed
    compare(by_partitions(text, arguments, shardy), [value, *gradient])
    if order > 1:
        dx = [RNG.standard_normal(x.shape) for x in arguments]
        along = jax.jit(lambda x, dx: jax.jvp(jax.grad(function, places), x, dx)[1])
        expected = along(tuple(arguments), tuple(dx))
        compare(by_partitions(str(p.hvp()), [*arguments, *dx], shardy), expected)
    return text


def test_a_loss_of_sharded_arrays(shardy: bool) -> None:
    """In a gradient, a sharding constraint also applies to the cotangent of the constrained value.

    The cotangents of the inputs have the shardings of the inputs.
    """

    def loss(x: Any, w: Any) -> Any:
        h = lax.with_sharding_constraint(jnp.tanh(x @ w), sharding("d", "m"))
        return jnp.sum(jnp.sin(h) ** 2)

    arguments = RNG.standard_normal((8, 16)), RNG.standard_normal((16, 4))
    shardings = sharding("d", None), sharding(None, "m")
    text = check(loss, arguments, shardy, 2, shardings)
    name = '"sdy.sharding_constraint"' if shardy else "@Sharding"
    assert text.count(name) == 2
    gradient, attribute = load(text), "sdy.sharding" if shardy else "mhlo.sharding"
    for x, cx in zip(gradient.inputs, gradient.outputs[1:], strict=True):
        assert cx.name == f"{x.name}.cotangent" and cx.attributes[attribute] == x.attributes[attribute]


def test_tangents_are_sharded_as_their_primals(shardy: bool) -> None:
    x = RNG.standard_normal((8, 4))
    text = lowered(lambda x: jnp.sin(x), [x], (sharding("d", "m"),))
    attribute = "sdy.sharding" if shardy else "mhlo.sharding"
    p = load(text).jvp()
    assert p.inputs[1].attributes[attribute] == p.inputs[0].attributes[attribute]
    given = load(text.replace(f"{attribute} = ", f"jax.other = 1 : i32, {attribute} = ", 1)).vjp()
    assert "jax.other" in given.inputs[0].attributes and "jax.other" not in given.outputs[1].attributes


COLLECTIVES: dict[str, tuple[Callable[..., Any], Any]] = {
    "psum": (lambda x: lax.psum(x, "d"), P(None, "m")),
    "psum of all": (lambda x: lax.psum(x, ("d", "m")), P()),
    "pmean": (lambda x: lax.pmean(x, "m"), P("d", None)),
    "all_gather": (lambda x: lax.all_gather(x, "d", axis=1, tiled=True), P("d", "m")),
    "all_gather, new axis": (lambda x: lax.all_gather(x, "m"), P(None, "d", "m")),
    "psum_scatter": (lambda x: lax.psum_scatter(x, "m", scatter_dimension=0, tiled=True), P("d", "m")),
    "all_to_all": (lambda x: lax.all_to_all(x, "d", 1, 0, tiled=True), P("d", "m")),
    "ppermute": (lambda x: lax.ppermute(x, "d", [(0, 1), (1, 2), (3, 0)]), P("d", "m")),
    "axis_index": (lambda x: x * (1.0 + lax.axis_index("d")), P("d", "m")),
}


@pytest.mark.parametrize("name", COLLECTIVES)
def test_collectives(name: str, shardy: bool) -> None:
    body, after = COLLECTIVES[name]
    function = shard_map(
        lambda x: jnp.sin(body(x * x)), mesh=mesh(), in_specs=P("d", "m"), out_specs=after, check_vma=False
    )

    def loss(x: Any) -> Any:
        y = function(x)
        return jnp.sum(jnp.cos(y) * jnp.arange(y.size).reshape(y.shape))

    check(loss, [RNG.standard_normal((16, 8))], shardy)


@pytest.mark.parametrize("checked", [False, True])
def test_data_and_tensor_parallel(checked: bool, shardy: bool) -> None:
    """The derivatives of an MLP equal JAX's.

    Its batch and weights are sharded along two mesh axes, and its loss is replicated.
    """

    def forward(x: Any, w1: Any, b1: Any, w2: Any, y: Any) -> Any:
        h = jnp.tanh(x @ w1 + b1)
        out = lax.psum(h @ w2, "m")
        return lax.pmean(jnp.mean((out - y) ** 2), "d")

    specs = P("d", None), P(None, "m"), P("m"), P("m", None), P("d", None)
    inner = shard_map(forward, mesh=mesh(), in_specs=specs, out_specs=P(), check_vma=checked)

    def loss(*arguments: Any) -> Any:
        return jnp.sin(inner(*arguments))

    sizes = [(8, 6), (6, 4), (4,), (4, 3), (8, 3)]
    arguments = [RNG.standard_normal(size) for size in sizes]
    text = check(loss, arguments, shardy, 2, tuple(sharding(*spec) for spec in specs))
    if shardy:  # one forward and one reverse body, with residuals between them
        assert text.count('"sdy.manual_computation"') == 2

    def plain(x: Any, w1: Any, b1: Any, w2: Any, y: Any) -> Any:
        return jnp.sin(jnp.mean((jnp.tanh(x @ w1 + b1) @ w2 - y) ** 2))

    compare(by_partitions(text, arguments, shardy)[1:], jax.jit(jax.grad(plain, (0, 1, 2, 3, 4)))(*arguments))


def test_some_manual_axes(shardy: bool) -> None:
    """With Shardy, derivatives are right if one mesh axis is manual and the partitioner handles the other one.

    XLA's older attributes are refused in this case.
    """
    body = shard_map(
        lambda x: lax.psum(jnp.sin(x), "d"), mesh=mesh(), in_specs=P("d"), out_specs=P(), axis_names={"d"}
    )

    def loss(x: Any) -> Any:
        return jnp.sum(jnp.cos(body(x * x)))

    x = [RNG.standard_normal((8, 4))]
    if shardy:
        check(loss, x, shardy, 2, (sharding("d", "m"),))
    else:
        with pytest.raises(Unsupported, match="all mesh axes must be manual"):
            load(lowered(loss, x, (sharding("d", "m"),))).grad()


def test_calls_inside_parts(shardy: bool) -> None:
    """Derivatives are right for a manual computation with function calls, several results, and arguments that it
    returns unchanged.
    """

    @jax.jit
    def inner(x: Any) -> Any:
        return jnp.where(x > 0, jnp.sin(x), x * x)

    def body(x: Any, w: Any) -> Any:
        return inner(x), lax.all_gather(inner(w) * 2.0, "d", axis=0, tiled=True), x

    parts = shard_map(
        body,
        mesh=mesh(),
        in_specs=(P("d", "m"), P("d", "m")),
        out_specs=(P("d", "m"), P(None, "m"), P("d", "m")),
        check_vma=False,
    )

    def loss(x: Any, w: Any) -> Any:
        a, b, c = parts(x, w)
        return jnp.sum(a * b * c)

    x, w = RNG.standard_normal((8, 4)), RNG.standard_normal((8, 4))
    check(loss, [x, w], shardy, 2)


def test_forms_of_the_text(shardy: bool) -> None:
    """The generic form of a text, an export with locations, and the bytecode of an export give equal gradients."""
    body = shard_map(lambda x: lax.psum(x, "m"), mesh=mesh(), in_specs=P("d", "m"), out_specs=P("d", None))

    def loss(x: Any) -> Any:
        return jnp.sum(jnp.sin(lax.with_sharding_constraint(body(x), sharding("d", None))))

    x = RNG.standard_normal((8, 4))
    before = jax.jit(loss).lower(x)
    exported = export.export(jax.jit(loss))(x)
    texts = [
        before.as_text(),
        before.compiler_ir().operation.get_asm(print_generic_op_form=True),
        str(exported.mlir_module()),
        exported.mlir_module_serialized,
    ]
    expected = jax.jit(jax.grad(loss))(x)
    for text in texts:
        compare(by_partitions(str(load(text).grad()), [x], shardy), [expected])


MESH = 'sdy.mesh @mesh = <["a"=2, "b"=4], device_ids=[7, 6, 5, 4, 3, 2, 1, 0]>'


def manual(sharding: str, more: str = "") -> str:
    """A program with a manual computation, whose inputs have this sharding."""
    around = f'in_shardings=[{sharding}] out_shardings=[<@mesh, [{{"a"}}]>] manual_axes={{"a", "b"}}'
    return f"""{MESH}
func.func @main(%x: tensor<8xf64>) -> tensor<8xf64> {{
  %0 = sdy.manual_computation(%x) {around} (%p: tensor<4xf64>) {{
    %1 = stablehlo.sine %p : tensor<4xf64>{more}
    sdy.return %1 : tensor<4xf64>
  }} : (tensor<8xf64>) -> tensor<8xf64>
  return %0 : tensor<8xf64>
}}"""


def test_devices_in_another_order() -> None:
    text = str(load(manual('<@mesh, [{"a"}]>')).vjp())
    assert "dense<[[7, 6, 5, 4], [3, 2, 1, 0]]>" in text
    x, ct = RNG.standard_normal(8), RNG.standard_normal(8)
    module = f"module attributes {{mhlo.num_partitions = 8 : i32}} {{ {text.partition('{')[2]}"
    compare(by_partitions(module, [x, ct], True), [np.sin(x), np.cos(x) * ct])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (manual('<@mesh, [{"a":(1)2}]>'), "the sharding .* is not understood"),
        (manual('<@mesh, [{"a"}], unreduced={"b"}>'), "the sharding .* is not understood"),
        (manual('<@other, [{"a"}]>'), "the sharding .* is not understood"),
        (
            manual(
                '<@mesh, [{"a"}]>', '\n    "sdy.sharding_group"(%1) {id = 1 : i64} : (tensor<4xf64>) -> ()'
            ),
            "sdy.sharding_group",
        ),
    ],
)
def test_unsupported_shardings(text: str, message: str) -> None:
    with pytest.raises((ParseError, Unsupported), match=message):
        load(text)


@pytest.mark.parametrize(
    ("spelled", "expected"),
    [
        ("{replicated}", [[0, 1, 2, 3, 4, 5, 6, 7]]),
        ("{devices=[8]<=[8]}", [[i] for i in range(8)]),
        ("{devices=[4,1,2]<=[8] last_tile_dim_replicate}", [[0, 1], [2, 3], [4, 5], [6, 7]]),
        ("{devices=[2,4]<=[4,2]T(1,0) last_tile_dims={replicated}}", [[0, 2, 4, 6], [1, 3, 5, 7]]),
        ("{devices=[2,2]0,3,1,2 last_tile_dim_replicate}", [[0, 3], [1, 2]]),
        ("{maximal device=0}", None),
    ],
)
def test_devices_that_hold_equal_parts(spelled: str, expected: list[list[int]] | None) -> None:
    """The transpose sums over devices that hold equal parts (replicas), in each form in which XLA's older attributes
    can state this.
    """
    count, t = 1 if expected is None else len(expected[0]), "tensor<8xf64>"
    calls = (
        ("Sharding", spelled),
        ("SPMDFullToShardShape", "{manual}"),
        ("SPMDShardToFullShape", "{devices=[8]<=[8]}"),
    )
    ops = [
        f'%{i + 1} = stablehlo.custom_call @{name}(%{i}) {{mhlo.sharding = "{of}"}} : ({t}) -> {t}'
        for i, (name, of) in enumerate(calls)
    ]
    function = f"func.func @main(%0: {t}) -> {t} {{\n" + "\n".join(ops) + f"\nreturn %3 : {t} }}"
    text = f"module attributes {{mhlo.num_partitions = 8 : i32}} {{ {function} }}"
    if expected is None:
        with pytest.raises(Unsupported, match="is not understood"):
            load(text).vjp()
        return
    vjp = str(load(text).vjp())
    assert (f"dense<{expected}>" in vjp) == ("all_reduce" in vjp) == (count > 1)


def test_shardings_as_custom_calls() -> None:
    """In a program that Shardy has lowered to custom calls for XLA, constraints are differentiated as linear calls.

    Manual computations are refused.
    """
    t, of = (
        "tensor<8xf64>",
        'mhlo.frontend_attributes = {xla.sdy.sharding = "#sdy.sharding<@mesh, [{\\"d\\"}]>"}',
    )
    text = f"""func.func @main(%x: {t}) -> {t} {{
      %0 = stablehlo.custom_call @xla.sdy.Sharding(%x) {{{of}}} : ({t}) -> {t}
      %1 = stablehlo.sine %0 : {t}
      %2 = stablehlo.custom_call @xla.sdy.FuncResultSharding(%1) {{{of}}} : ({t}) -> {t}
      return %2 : {t}
    }}"""
    assert str(load(text).jvp()).count("@xla.sdy.FuncResultSharding") == 2
    vjp = str(load(text).vjp())
    assert vjp.count("@xla.sdy.FuncResultSharding") == 1 and vjp.count("@xla.sdy.Sharding") == 3
    with pytest.raises(Unsupported, match="the call that is its body"):
        load(text.replace("@xla.sdy.Sharding(", "@xla.sdy.GlobalToLocalShape(")).jvp()


def test_equal_meshes_are_linked_into_one() -> None:
    mesh, other = 'sdy.mesh @mesh = <["a"=8]>', 'sdy.mesh @mesh = <["b"=8]>'
    functions = [f"func.func @{name}() {{ return }}" for name in "fg"]
    linked = link(
        [("f.mlir", parse(f"{mesh}\n{functions[0]}")), ("g.mlir", parse(f"{mesh}\n{functions[1]}"))]
    )
    assert str(linked).count("sdy.mesh") == 2  # the keyword of the op and the name of its attribute
    with pytest.raises(ResolveError, match="@mesh is ambiguous"):
        link([("f.mlir", parse(f"{mesh}\n{functions[0]}")), ("g.mlir", parse(f"{other}\n{functions[1]}"))])
