"""Reduces the default configurations of transformers to small widths, few layers and few tokens.

A configuration defines widths and numbers of layers, heads and tokens, and sizes of images, under many names. Patterns
of names determine the meaning of a number. Classes reject some combinations, so that `attempts` yields several
configurations, the smallest first.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

VOCABULARY = 128


@dataclass(frozen=True)
class Size:
    """The size of a network.

    It consists of the width, the number of layers, the side of the images, and the length of the sequences. A published
    size keeps a package's default widths and layers, and `side` is then the largest side of the images.
    """

    width: int
    layers: int
    side: int
    length: int
    published: bool = False


_LAYERS = re.compile(
    r"(num|n)_(\w*_)?(layers?|blocks)$|^(\w+_)?(num_)?hidden_layers$|^(encoder|decoder|text|vision)_layers$|^depths?$"
    r"|^layers$|^encoder_num_layers$"
)
_FIXED = re.compile(
    r"feat_extract|residual_layers|feature_l|encoder_blocks|lstm_layers|adapter_layers|num_stages"
)
_HEADS = re.compile(r"(^|_)(attention_)?heads?$|^n_?heads?$|num_(attention_)?heads_|mamba_n_heads")
_FEWER_HEADS = re.compile(r"key_value_heads|kv_heads|key_heads")
_HEAD_WIDTH = re.compile(r"head_dim|^d_kv$|^kv_channels$|^d_head$|_d_head$|^dim_head$")
_WIDTH = re.compile(
    r"hidden_size|hidden_dim|^d_model$|^n_embd$|embed|intermediate|ffn|^d_ff$|^n_inner$|width|_dim$|^dim$|lora_rank"
    r"|feedforward|channels_list|num_filters|hidden_channels|bottleneck|conv_dim|projector_hidden|pooler_output_size"
    r"|^mlp_dim$|tdnn_dim|proj_size|fusion_hidden|xvector|inner_dim|neck_hidden"
)
_NO_WIDTH = re.compile(
    r"position|patch|image|dimension_|max_2d|embeddings$|stride|kernel|num_register|hidden_act|dropout"
)
_EXPERTS = re.compile(r"^(num|n)_(local_|routed_)?experts$|moe_num_experts")
_POSITIONS = re.compile(
    r"positions?(_embeddings)?$|max_seq|context_length|max_length|max_sequence|max_text_len"
)
_TOKEN = re.compile(r"_token_(id|index)$|_(id|index)$|^(pad|bos|eos|unk|mask)_")
_SIDE = re.compile(r"image_size$|^img_size$|^input_size$|^sample_size$|^crop_size$")
_WINDOW = re.compile(r"sliding_window|attention_window|local_attention|attention_chunk_size|local_window")


def factor_of(values: dict[str, Any], size: Size) -> int:
    """Returns the factor by which the widths of the network are divided."""
    names = (
        "hidden_size",
        "d_model",
        "n_embd",
        "embed_dim",
        "dim",
        "hidden_dim",
        "encoder_hidden_size",
        "emb_dim",
    )
    for name in (*names, "hidden_sizes", "embed_dims", "depths_hidden"):
        width = values.get(name)
        if isinstance(width, list | tuple) and width and isinstance(width[-1], int):
            width = width[-1] // 2
        if isinstance(width, int) and width:
            return max(1, width // size.width)
    return max(1, 512 // size.width)


class Shrinking:
    """Computes the changes of one configuration.

    Mode 0 changes all numbers, mode 1 keeps the number of heads, and mode 2 changes only layers, tokens and images.
    """

    def __init__(self, size: Size, mode: int) -> None:
        self.size, self.mode, self.tokens = size, mode, VOCABULARY

    def changes(self, kind: Any) -> dict[str, Any]:
        """Returns the keyword arguments with which the class `kind` creates a small configuration."""
        default = kind()
        values = {name: value for name, value in vars(default).items() if not name.startswith("_")}
        factor = factor_of(values, self.size)
        changed: dict[str, Any] = {}
        parts = dict(getattr(kind, "sub_configs", {}))
        for name, value in values.items():
            if hasattr(value, "to_dict"):
                changed[name] = self._part(value)
            elif name not in parts and (new := self._number(name, value, factor, values)) is not None:
                changed[name] = new
        return {name: value for name, value in changed.items() if value != values[name]}

    def _part(self, part: Any) -> Any:
        changes = self.changes(type(part))
        return type(part)(**changes)

    def _number(self, name: str, value: Any, factor: int, values: dict[str, Any]) -> Any:
        if isinstance(value, bool) or value is None or isinstance(value, str | float):
            return None
        if isinstance(value, dict):
            section = value.get("mrope_section")
            return {**value, "mrope_section": [2, 1, 1]} if section and self.mode == 0 else None
        if isinstance(value, list | tuple):
            if not value or not all(isinstance(x, int) and not isinstance(x, bool) for x in value):
                return None
            if _LAYERS.search(name) and not _FIXED.search(name) and len(value) <= 6:
                return [1] * len(value)
            if "indexes" in name or name.endswith("_idxs"):
                return [0, 1][: len(value)]
            if _HEADS.search(name) and self.mode == 0:
                return [min(x, 2) for x in value]
            return [self._one(name, x, factor, values) or x for x in value]
        return self._one(name, value, factor, values) if isinstance(value, int) else None

    def _one(self, name: str, value: int, factor: int, values: dict[str, Any]) -> int | None:
        """Returns the new value of a number. None means that the number does not change."""
        if name.endswith("vocab_size"):
            return VOCABULARY if value > VOCABULARY else None
        if _TOKEN.search(name) and value >= VOCABULARY:
            self.tokens -= 1
            return self.tokens
        if _LAYERS.search(name) and not _FIXED.search(name):
            return min(value, self.size.layers)
        if self.mode == 2:
            return self._side(value, values) if _SIDE.search(name) else None
        if _EXPERTS.search(name):
            return min(value, 4)
        if name in (
            "num_experts_per_tok",
            "first_k_dense_replace",
            "topk_group",
            "n_group",
            "num_experts_per_token",
        ):
            return min(value, 2 if "per_tok" in name else 1)
        if _SIDE.search(name):
            return self._side(value, values)
        if _WINDOW.search(name) and value >= 16:
            return 4
        if _POSITIONS.search(name) and value >= 256:
            return max(64, 2 * self.size.length)
        if name in ("num_mel_bins", "feature_size", "input_feat_per_channel") and value > 32:
            return 16
        return self._widths(name, value, factor)

    def _widths(self, name: str, value: int, factor: int) -> int | None:
        if _FEWER_HEADS.search(name):
            return min(value, 2) if self.mode == 0 else None
        if _HEADS.search(name) and "dim" not in name:
            return min(value, 4) if self.mode == 0 else None
        if _HEAD_WIDTH.search(name):
            return min(value, max(8, self.size.width // 4)) if self.mode == 0 else max(4, value // factor)
        if _WIDTH.search(name) and not _NO_WIDTH.search(name) and value >= 32:
            return max(8, value // factor // 8 * 8)
        return None

    def _side(self, value: int, values: dict[str, Any]) -> int:
        patch = values.get("patch_size") or values.get("patch_stride") or 1
        patch = patch[-1] if isinstance(patch, list | tuple) else patch
        if not isinstance(patch, int) or patch < 8:
            return min(value, self.size.side)
        return min(value, max(self.size.side // patch, 2) * patch)


def attempts(kind: Any, size: Size) -> Iterator[Any]:
    """Yields configurations of a class, the smallest first. Configurations that the class rejects are left out."""
    for mode in range(1 if size.published else 3):
        try:
            yield kind(**({} if size.published else Shrinking(size, mode).changes(kind)))
        except Exception:  # classes raise many types of exceptions
            continue
