"""A small decoder in plain PyTorch, as a researcher would write one."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class Block(nn.Module):
    """Attention and a hidden layer, each behind a norm and beside a residual."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.RMSNorm(width, eps=1e-5), nn.RMSNorm(width, eps=1e-5)
        self.qkv = nn.Linear(width, 3 * width, bias=False)
        self.out = nn.Linear(width, width, bias=False)
        self.up = nn.Linear(width, 2 * width, bias=False)
        self.down = nn.Linear(2 * width, width, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        """Maps [rows, tokens, width] to the same shape."""
        rows, tokens, width = x.shape
        parts = self.qkv(self.norm1(x)).view(rows, tokens, 3, self.heads, width // self.heads)
        query, key, value = parts.permute(2, 3, 0, 1, 4).unbind()
        mixed = F.scaled_dot_product_attention(query, key, value, is_causal=True)
        x = x + self.out(mixed.permute(1, 2, 0, 3).reshape(rows, tokens, width))
        hidden: Tensor = self.down(F.silu(self.up(self.norm2(x))))
        return x + hidden


class PlainDecoder(nn.Module):
    """Returns the logits of the next token."""

    def __init__(self, vocabulary: int, width: int, layers: int, heads: int, context: int) -> None:
        super().__init__()
        self.tokens, self.places = nn.Embedding(vocabulary, width), nn.Embedding(context, width)
        self.blocks = nn.Sequential(*(Block(width, heads) for _ in range(layers)))
        self.norm = nn.RMSNorm(width, eps=1e-5)
        self.head = nn.Linear(width, vocabulary, bias=False)

    def forward(self, tokens: Tensor) -> Tensor:
        """Maps int64 [rows, tokens] to float32 [rows, tokens, vocabulary]."""
        places = self.places(torch.arange(tokens.shape[1]))
        logits: Tensor = self.head(self.norm(self.blocks(self.tokens(tokens) + places)))
        return logits
