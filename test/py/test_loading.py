"""`tiduc.load` accepts exported programs of JAX and PyTorch. For other objects, the error says what to do."""

import numpy as np
import pytest

import tiduc

jax = pytest.importorskip("jax")
W = np.arange(6.0, dtype=np.float32).reshape(2, 3) / 8


def loss(params, x, unused, *, k):
    return {"loss": jax.numpy.sum(jax.numpy.tanh(params["w"] @ x) * k)}


EXAMPLE = ({"w": W}, np.ones(3, np.float32), np.ones(4, np.float32))
K = np.float32(2)
SIGNATURE = "(params['w']: 2x3xf32, x: 3xf32, k: f32) -> (result['loss']: f32)"


@pytest.fixture(scope="module")
def stages():
    """The function `loss`, both lowered and exported by JAX. Both forms lack the argument that is not used."""
    function = jax.jit(loss)
    return function.lower(*EXAMPLE, k=K), jax.export.export(function)(*EXAMPLE, k=K)


@pytest.mark.parametrize("stage", [0, 1], ids=["Lowered", "Exported"])
@pytest.mark.parametrize("read", [tiduc.load, tiduc.from_jax])
def test_programs_of_jax(stages, stage, read):
    program = read(stages[stage])
    assert str(program.signature) == SIGNATURE
    gradient = program.grad("params['w']").compile(engine="reference")
    (ours,) = gradient(W, EXAMPLE[1], K)
    theirs = jax.grad(lambda w: loss({"w": w}, *EXAMPLE[1:], k=K)["loss"])(W)
    np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-6)


def test_options_of_load_hold_for_programs_of_jax(stages):
    program = tiduc.load(stages[0], loop_memory="log", memory="1MB")
    assert (program.loop_memory, program.memory) == ("log", "1MB")


def test_a_traced_program_takes_no_example(stages):
    with pytest.raises(tiduc.RequestError, match="Lowered is traced already"):
        tiduc.from_jax(stages[0], 1.0)


@pytest.mark.parametrize("given", [loss, 3, None])
def test_other_objects_are_refused_with_a_way_out(given):
    with pytest.raises(
        tiduc.RequestError, match=r"cannot load an object .*tiduc\.from_jax\(.*tiduc\.from_torch\("
    ):
        tiduc.load(given)


@pytest.mark.more
def test_programs_of_pytorch():
    torch = pytest.importorskip("torch")
    module = torch.nn.Linear(3, 2)
    program = tiduc.load(torch.export.export(module, (torch.ones(4, 3),)))
    assert str(program.signature) == "(input: 4x3xf32) -> (result0: 4x2xf32)"
    with pytest.raises(tiduc.RequestError, match=r"'weight' in wrt is a constant .* lift_constants=True"):
        program.vjp(["weight"])
    with pytest.raises(tiduc.RequestError, match="unknown input 'wait' in wrt; the inputs are 0: input"):
        program.vjp(["wait"])
