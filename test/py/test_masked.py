"""Each function that takes arrays refuses arrays whose conversion would lose information, such as masked arrays."""

from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tiduc
from tiduc import eager
from tiduc.backends.reference.interpreter import Interpreted, evaluate
from tiduc.dialect.errors import InputError, TiducError
from tiduc.models.model import model_of

TEXT = """
func.func @main(%w: tensor<3xf64> {tidu.name = "w"}) -> tensor<3xf64> {
  %0 = stablehlo.add %w, %w : tensor<3xf64>
  return %0 : tensor<3xf64>
}
"""
MASKED = np.ma.array([1.0, 2.0, 3.0], mask=[False, True, False])
FORMS = {"array": MASKED, "list": [1.0, MASKED[1], 3.0], "nested": [MASKED]}


@cache
def compiled() -> tiduc.Executable:
    return tiduc.load(TEXT).compile()


@cache
def by_xla() -> Any:
    return tiduc.load(TEXT).compile(engine="xla")


def plain() -> eager.Array:
    return eager.Array(np.ones(3))


ENTRANCES: dict[str, Callable[[Any, Path], Any]] = {
    "call": lambda x, _: compiled()(x),
    "keep": lambda x, _: compiled().keep(x),
    "put": lambda x, _: tiduc.runtime.load(compiled().vmfb).put(x),
    "xla": lambda x, _: by_xla()(x),
    "evaluate": lambda x, _: evaluate(TEXT, [x]),
    "interpreted": lambda x, _: Interpreted(TEXT)([x]),
    "eager": lambda x, _: eager.Array(x),
    "operand": lambda x, _: plain() + x,
    "function": lambda x, _: np.add(plain(), x),
    "choice": lambda x, _: np.where(np.ones(3, bool), plain(), x),
    "written": lambda x, _: plain().__setitem__(slice(None), x),
    "seed": lambda x, _: (2 * eager.Array(np.ones(3), requires_grad=True)).backward(x),
    "npz": lambda x, folder: tiduc.write_weights(folder / "w.npz", {"w": x}),
    "safetensors": lambda x, folder: tiduc.write_weights(folder / "w.safetensors", {"w": x}),
    "weights": lambda x, _: model_of(tiduc.parse(TEXT), {"w": np.ones(3)}).with_weights({"w": x}),
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("entrance", ENTRANCES)
def test_a_mask_is_not_lost(entrance: str, form: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="is masked, and its mask would be lost"):
        ENTRANCES[entrance](FORMS[form], tmp_path)
    assert not list(tmp_path.iterdir())


def test_a_masked_index() -> None:
    with pytest.raises(InputError, match="the index is masked"):
        plain()[np.ma.array([0, 1], mask=[True, False])]


@pytest.mark.parametrize("entrance", ["call", "put", "evaluate", "eager"])
@pytest.mark.parametrize(
    "array",
    [
        np.zeros(3, [("a", "f8")]),
        np.array([1, 2.0, None], object),
        np.array(["1", "2", "3"]),
        np.zeros(3, "M8[s]"),
    ],
    ids=["records", "objects", "text", "dates"],
)
def test_objects_without_numbers(entrance: str, array: Any, tmp_path: Path) -> None:
    with pytest.raises(TiducError):
        ENTRANCES[entrance](array, tmp_path)
