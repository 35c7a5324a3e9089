"""Programs with shardings, as JAX exports them: their derivatives, on eight devices, against JAX's own.

Shardy's dialect and XLA's own spelling; explicit collectives in `shard_map`, with and without JAX's check of what is
replicated. The numbers do not depend on that check: ours are derivatives of the whole program, as JAX's are.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from devices import by_partitions
from jax import lax, shard_map
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

from tiduc.dialect.errors import Unsupported
from tiduc.program import load

RNG = np.random.default_rng(0)


def mesh() -> Mesh:
    return Mesh(np.array(jax.devices()).reshape(4, 2), ("d", "m"))


def sharding(*axes: Any) -> NamedSharding:
    return NamedSharding(mesh(), P(*axes))


@pytest.fixture(params=["shardy", "xla"], autouse=True)
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
    """Value, gradient and Hessian times a tangent against JAX, all arguments active; the gradient's text."""
    p = load(lowered(function, arguments, shardings))
    places = tuple(range(len(arguments)))
    value, gradient = jax.jit(jax.value_and_grad(function, places))(*arguments)
    text = str(p.grad(value=True))
    compare(by_partitions(text, arguments, shardy), [value, *gradient])
    if order > 1:
        dx = [RNG.standard_normal(x.shape) for x in arguments]
        along = jax.jit(lambda x, dx: jax.jvp(jax.grad(function, places), x, dx)[1])
        expected = along(tuple(arguments), tuple(dx))
        compare(by_partitions(str(p.hvp()), [*arguments, *dx], shardy), expected)
    return text


def compare(actual: Sequence[Any], expected: Sequence[Any]) -> None:
    for y, e in zip(actual, expected, strict=True):
        np.testing.assert_allclose(y, e, rtol=1e-9, atol=1e-10)


def test_a_loss_of_sharded_arrays(shardy: bool) -> None:
    """The constraint inside is on the cotangent too, and results are sharded as what they belong to."""

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
    """An MLP with a batch split along one axis of the mesh and weights along the other, and a replicated loss."""

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
    if shardy:  # there and back, with residuals from the one to the other
        assert text.count('"sdy.manual_computation"') == 2

    def plain(x: Any, w1: Any, b1: Any, w2: Any, y: Any) -> Any:
        return jnp.sin(jnp.mean((jnp.tanh(x @ w1 + b1) @ w2 - y) ** 2))

    compare(by_partitions(text, arguments, shardy)[1:], jax.jit(jax.grad(plain, (0, 1, 2, 3, 4)))(*arguments))


def test_some_manual_axes(shardy: bool) -> None:
    """Parts along one axis of the mesh only; the other is the partitioner's."""
    body = shard_map(
        lambda x: lax.psum(jnp.sin(x), "d"), mesh=mesh(), in_specs=P("d"), out_specs=P(), axis_names={"d"}
    )

    def loss(x: Any) -> Any:
        return jnp.sum(jnp.cos(body(x * x)))

    x = [RNG.standard_normal((8, 4))]
    if shardy:
        check(loss, x, shardy, 2, (sharding("d", "m"),))
    else:
        with pytest.raises(Unsupported, match="only some axes are manual"):
            load(lowered(loss, x, (sharding("d", "m"),))).grad()
