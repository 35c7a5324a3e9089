"""Transformers and an LSTM, written in PyTorch, with the sizes of published models and random weights."""

from typing import Any

import torch
from torch import nn
from torch.nn import functional


class Attention(nn.Module):
    """A layer of multi-head attention. With `causal`, a token attends only to itself and to earlier tokens."""

    def __init__(self, width: int, heads: int, causal: bool) -> None:
        super().__init__()
        self.heads, self.causal = heads, causal
        self.into, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)

    def forward(self, x: Any) -> Any:
        n, length, width = x.shape
        q, k, v = self.into(x).view(n, length, 3, self.heads, width // self.heads).permute(2, 0, 3, 1, 4)
        y = functional.scaled_dot_product_attention(q, k, v, is_causal=self.causal)
        return self.out(y.transpose(1, 2).reshape(n, length, width))


class Block(nn.Module):
    """A transformer block: attention, followed by two linear layers that are applied to each token.

    A normalization precedes both parts or, with `after`, follows both, as in BERT.
    """

    def __init__(self, width: int, heads: int, causal: bool = False, after: bool = False) -> None:
        super().__init__()
        self.after = after
        self.attention = Attention(width, heads, causal)
        self.layers = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)

    def forward(self, x: Any) -> Any:
        if self.after:
            x = self.norm1(x + self.attention(x))
            return self.norm2(x + self.layers(x))
        x = x + self.attention(self.norm1(x))
        return x + self.layers(self.norm2(x))


class Text(nn.Module):
    """GPT-2 if `causal` is set, else BERT. The weights of the embedding also compute the logits of each token."""

    def __init__(self, vocabulary: int, causal: bool, depth: int = 12, width: int = 768) -> None:
        super().__init__()
        self.tokens, self.places = nn.Embedding(vocabulary, width), nn.Embedding(1024, width)
        blocks = [Block(width, width // 64, causal, not causal) for _ in range(depth)]
        self.blocks, self.norm = nn.Sequential(*blocks), nn.LayerNorm(width)

    def forward(self, tokens: Any) -> Any:
        x = self.tokens(tokens) + self.places.weight[: tokens.shape[1]]
        return self.norm(self.blocks(x)) @ self.tokens.weight.T


class ViT(nn.Module):
    """A vision transformer. Its tokens are the patches of an image and a class token."""

    def __init__(self, depth: int = 12, width: int = 768, side: int = 224, patch: int = 16) -> None:
        super().__init__()
        self.patches = nn.Conv2d(3, width, patch, patch)
        self.token = nn.Parameter(torch.zeros(1, 1, width))
        self.places = nn.Parameter(0.02 * torch.randn(1, (side // patch) ** 2 + 1, width))
        self.blocks = nn.Sequential(*(Block(width, width // 64) for _ in range(depth)))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, 1000)

    def forward(self, x: Any) -> Any:
        x = self.patches(x).flatten(2).transpose(1, 2)
        x = torch.cat([self.token.expand(x.shape[0], -1, -1), x], 1) + self.places
        return self.head(self.norm(self.blocks(x))[:, 0])


class LSTM(nn.Module):
    """A language model with an embedding, two LSTM layers, and a linear layer that computes the logits."""

    def __init__(self, vocabulary: int = 1000, width: int = 256) -> None:
        super().__init__()
        self.tokens, self.head = nn.Embedding(vocabulary, width), nn.Linear(width, vocabulary)
        self.layers = nn.LSTM(width, width, 2, batch_first=True)

    def forward(self, tokens: Any) -> Any:
        return self.head(self.layers(self.tokens(tokens))[0])
