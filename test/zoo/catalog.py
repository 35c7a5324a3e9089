"""Lists and builds the architectures of transformers, timm, torchvision and diffusers, if these are installed.

    for each in architectures():
        module, inputs = each.build(SMALL)

The architectures are one class of transformers for each type of configuration, the smallest model of each family of
timm, and listed models of torchvision and diffusers. `SMALL` and `REAL` reduce widths, layers and images. `PUBLISHED`
keeps the default widths and layers of the packages. `draw` chooses architectures by a seed, for example in
`test/bench/drawn.py`.
"""

import random
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any

import torch
from entries import Built, floats
from images import TIMM, TORCHVISION, timm_model, torchvision_model
from packages import import_torchvision
from shrinking import Size

SMALL, REAL = Size(32, 2, 64, 8), Size(384, 6, 224, 128)
PUBLISHED = Size(0, 0, 288, 8, published=True)
LARGEST = 150_000_000  # weights; gradients in f64 then fit in the memory limit


class NotBuilt(Exception):
    """Raised if PyTorch cannot build or run an architecture in any configuration that the catalog tries."""


@dataclass(frozen=True)
class Architecture:
    """An architecture of a package.

    `candidates` yields functions that build a module and its inputs. `build` uses the first module that PyTorch can
    run. `training` states whether the module is in training mode.
    """

    package: str
    name: str
    candidates: Callable[[Size], Iterator[Callable[[], Built]]]
    training: bool = False

    @property
    def title(self) -> str:
        return f"{self.package}/{self.name}"

    def build(self, size: Size) -> Built:
        """Builds the module with random weights and its example inputs. Each call draws the same numbers.

        Raises `NotBuilt` if PyTorch cannot run any candidate, or if each has more than `LARGEST` weights.
        """
        why = "the package refuses each configuration"
        for candidate in self.candidates(size):
            torch.manual_seed(0)
            try:
                module, inputs = candidate()
                weights = sum(p.numel() for p in module.parameters())
                if weights > LARGEST:
                    raise ValueError(f"{weights:,} weights")
                module = module.train(self.training)
                with torch.no_grad():
                    results = floats(module(*inputs))
                if results and all(bool(torch.isfinite(y).all()) for y in results):
                    return module, inputs
                why = "no result is a finite float"
            except Exception as error:  # packages raise many types of exceptions
                why = " ".join(f"{type(error).__name__}: {error}".split())[:200]
        raise NotBuilt(why)


def architectures() -> list[Architecture]:
    """Returns the architectures of all installed packages."""
    warnings.simplefilter("ignore")
    found: list[Architecture] = []
    if find_spec("torchvision"):
        import_torchvision()
        found += [Architecture("torchvision", name, torchvision_model(name)) for name in TORCHVISION]
    if find_spec("timm"):
        found += [Architecture("timm", name, timm_model(name)) for name in TIMM]
    if find_spec("transformers"):
        found += [Architecture("transformers", name, _transformer(name)) for name in transformer_names()]
        found += [
            Architecture("transformers", f"{name}, training", _transformer(name), True) for name in TRAINED
        ]
    if find_spec("diffusers"):
        from diffusion_models import DIFFUSERS, diffusers_model

        found += [Architecture("diffusers", name, diffusers_model(name)) for name in DIFFUSERS]
    return found


def draw(seed: int, count: int, among: Sequence[Architecture] | None = None) -> list[Architecture]:
    """Draws distinct architectures by a seed such as the date.

    With the same seed, a larger count returns further architectures after those of a smaller count.
    """
    every = sorted(among if among is not None else architectures(), key=lambda each: each.title)
    random.Random(seed).shuffle(every)
    return every[:count]


# ---- transformers ---------------------------------------------------------------------------------------------

TRAINED = ("segformer", "bert", "gpt2", "t5", "vit", "roberta")
"""Types of models that are also listed in training mode, with dropout."""


def transformer_names() -> list[str]:
    """Returns the types of configurations of transformers that have a base model."""
    from transformers.models.auto.modeling_auto import MODEL_MAPPING_NAMES

    return sorted(MODEL_MAPPING_NAMES)


def _transformer(kind: str) -> Callable[[Size], Iterator[Callable[[], Built]]]:
    def candidates(size: Size) -> Iterator[Callable[[], Built]]:
        import transformers
        from shrinking import attempts
        from transformers.models.auto.modeling_auto import MODEL_MAPPING_NAMES

        transformers.logging.set_verbosity_error()
        names: Any = MODEL_MAPPING_NAMES[kind]
        model = getattr(transformers, names if isinstance(names, str) else names[0])
        for config in attempts(transformers.CONFIG_MAPPING[kind], size):
            for turned in (False, True):
                yield lambda config=config, turned=turned: _made(model, config, size, turned)

    return candidates


def _made(model: Any, config: Any, size: Size, turned: bool) -> Built:
    from calling import Called, inputs, options

    with torch.device("meta"):
        weights = sum(p.numel() for p in model(config).parameters())
    if weights > LARGEST:
        raise ValueError(f"{weights:,} weights")
    module = model(config)
    given = inputs(module, config, size, turned)
    return Called(module, tuple(given), options(module, config)), tuple(given.values())
