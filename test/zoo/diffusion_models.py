"""Builds small models of diffusers from `diffusers.json`.

For each class, the file has the options of a small model and the shapes of its inputs. A shape may begin with a word:
"int" stands for random integers, and "ones", "zeros" and "true" stand for constant arrays. The entry "constants" of
the options contains keyword arguments for the forward function.
"""

import inspect
import json
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import torch
from calling import Called
from entries import Built
from shrinking import Size

DIFFUSERS = json.loads(Path(__file__).with_name("diffusers.json").read_text())


def diffusers_model(name: str) -> Callable[[Size], Iterator[Callable[[], Built]]]:
    def candidates(size: Size) -> Iterator[Callable[[], Built]]:
        import diffusers

        if size.published:
            return  # the shapes in the file fit only small models
        diffusers.utils.logging.set_verbosity_error()
        options, shapes = DIFFUSERS[name]["options"], DIFFUSERS[name]["inputs"]

        for given in (_tuples(options), dict(options)):  # some classes require tuples, others lists

            def build(given: Any = given) -> Built:
                constant = given.pop("constants", {})
                module = getattr(diffusers, name)(**given)
                if "return_dict" in inspect.signature(module.forward).parameters:
                    constant = {"return_dict": False, **constant}
                return Called(module, tuple(shapes), constant), tuple(map(_array, shapes.values()))

            yield build

    return candidates


def _array(shape: Sequence[Any]) -> torch.Tensor:
    if isinstance(shape[0], int):
        return torch.randn(shape)
    kind, *sizes = shape
    if kind == "int":
        return torch.randint(1, 9, sizes)
    return torch.ones(sizes, dtype=torch.bool if kind == "true" else torch.int64) * (kind != "zeros")


def _tuples(value: Any) -> Any:
    """Returns the JSON value with tuples instead of lists, because the defaults of the classes are tuples."""
    if isinstance(value, dict):
        return {name: _tuples(each) for name, each in value.items()}
    return tuple(map(_tuples, value)) if isinstance(value, list) else value
