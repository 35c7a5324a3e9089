"""Arguments for models of transformers. The names of the forward function's parameters determine the arguments."""

import inspect
from collections.abc import Iterator, Mapping
from typing import Any

import torch
from shrinking import VOCABULARY, Size

FRAMES = 4


class Called(torch.nn.Module):
    """Calls a model with the tensors in `inputs` as keyword arguments `names`, and with the constant `options`."""

    def __init__(self, model: Any, names: tuple[str, ...], options: Mapping[str, Any]) -> None:
        super().__init__()
        self.model, self.names, self.options = model, names, dict(options)

    def forward(self, *inputs: torch.Tensor) -> Any:
        return self.model(**dict(zip(self.names, inputs, strict=True)), **self.options)


def parts(config: Any) -> Iterator[Any]:
    """Yields a configuration and the configurations that it contains, at any depth."""
    yield config
    for name in getattr(config, "sub_configs", {}):
        part = getattr(config, name, None)
        if hasattr(part, "to_dict"):
            yield from parts(part)


def number(config: Any, names: tuple[str, ...], default: int) -> int:
    """Returns the first integer that the configuration, or a configuration inside it, defines under one of `names`.

    The last element represents a list. If there is no integer, the result is `default`.
    """
    for part in parts(config):
        for name in names:
            value = getattr(part, name, None)
            value = value[-1] if isinstance(value, list | tuple) and value else value
            if isinstance(value, int) and not isinstance(value, bool):
                return value
    return default


def inputs(model: Any, config: Any, size: Size, turned: bool) -> dict[str, torch.Tensor]:
    """Creates an input for each parameter that a model of transformers requires.

    `turned` swaps the dimensions of time and features in inputs of sound.
    """
    parameters = inspect.signature(model.forward).parameters
    needed = [
        name
        for name, each in parameters.items()
        if each.default is inspect.Parameter.empty and each.kind is each.POSITIONAL_OR_KEYWORD
    ]
    main = [name for name in (getattr(model, "main_input_name", "input_ids"),) if name in parameters]
    decoder = ["decoder_input_ids"] if getattr(config, "is_encoder_decoder", False) else []
    if getattr(config, "model_type", "") in ("clip", "siglip", "blip", "clipseg", "xclip", "clap", "flava"):
        needed += [name for name in ("pixel_values", "input_features") if name in parameters]
    names = dict.fromkeys([*main, *needed, *(name for name in decoder if name in parameters)])
    batch = 2 if list(names) == ["pixel_values"] else 1  # as in `images.py`
    return {name: torch.cat([one(name, config, size, turned) for _ in range(batch)]) for name in names}


def one(name: str, config: Any, size: Size, turned: bool) -> torch.Tensor:
    """Creates the input for the parameter `name`. Raises `LookupError` for an unknown name."""
    vocabulary = number(config, ("vocab_size",), VOCABULARY)
    channels = number(config, ("num_channels", "in_channels", "in_chans"), 3)
    side = number(config, ("image_size", "img_size"), size.side)
    width = number(config, ("hidden_size", "d_model"), size.width)
    features = number(config, ("num_mel_bins", "feature_size", "input_feat_per_channel"), 16)
    if name == "bbox":
        return torch.tensor([[[1, 2, 5, 9]] * size.length])
    if name.endswith("input_ids") or name in ("input_ids", "tokens"):
        return torch.randint(5, max(6, min(vocabulary, 90)), (1, size.length))
    if name.endswith("attention_mask") or name == "pixel_mask":
        return torch.ones(1, size.length, dtype=torch.int64)
    if name == "pixel_values_videos" or (name == "pixel_values" and hasattr(config, "num_frames")):
        return torch.randn(1, number(config, ("num_frames", "frames_per_clip"), FRAMES), channels, side, side)
    if name in ("pixel_values", "pixel_values_images", "image"):
        return torch.randn(1, channels, side, side)
    if name == "input_values":
        length = 10 * size.side * 4
        return torch.randn(1, 1, length) if turned else torch.randn(1, length)
    if name in ("input_features", "audio_features", "spectrogram"):
        shape = (1, features, 8 * size.length) if turned else (1, 8 * size.length, features)
        return torch.randn(shape)
    if name in ("inputs_embeds", "hidden_states", "encoder_hidden_states", "image_embeds", "vision_embeds"):
        return torch.randn(1, size.length, width)
    if name == "past_values":
        return torch.randn(
            1, number(config, ("context_length",), 32), number(config, ("num_input_channels",), 1)
        )
    raise LookupError(f"no input is known for the parameter {name}")


def options(model: Any, config: Any) -> dict[str, Any]:
    """Returns the constant arguments, which turn off the cache of keys and values of a model that has one."""
    taken = inspect.signature(model.forward).parameters
    return {"use_cache": False} if "use_cache" in taken and hasattr(config, "use_cache") else {}
