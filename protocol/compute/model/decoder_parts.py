"""Pieces that several families share: norms, attention of many heads, rotary positions, hidden layers.

Written in the operations that programs have (`program/lowering.py`). Letters of dimensions: `family.py`.
"""

from math import pi, sqrt

import torch
import torch.nn.functional as F
from torch import Tensor

from protocol.compute.model.position_tables import Tables
from protocol.spec.float32 import nearest


def normalise_root(x_BTX: Tensor, gain_X: Tensor, epsilon: float) -> Tensor:
    """RMSNorm over the last dimension (Zhang and Sennrich, arXiv 1910.07467); the shape stays."""
    mean_square = (x_BTX * x_BTX).mean(dim=-1, keepdim=True)
    return x_BTX * torch.rsqrt(mean_square + epsilon) * gain_X


def normalise_layer(x_BTD: Tensor, gain_D: Tensor, bias_D: Tensor, epsilon: float) -> Tensor:
    """LayerNorm over the last dimension (Ba, Kiros and Hinton, arXiv 1607.06450); the shape stays."""
    centred_BTD = x_BTD - x_BTD.mean(dim=-1, keepdim=True)
    variance_BT1 = (centred_BTD * centred_BTD).mean(dim=-1, keepdim=True)
    return centred_BTD * torch.rsqrt(variance_BT1 + epsilon) * gain_D + bias_D


def split_heads(x_BTX: Tensor, head_count: int) -> Tensor:
    """[B, T, heads * N] to [B, heads, T, N]."""
    return x_BTX.view(*x_BTX.shape[:2], head_count, -1).transpose(1, 2)


def attend(q_BHTN: Tensor, k_BKSN: Tensor, v_BKSN: Tensor, tables: Tables) -> Tensor:
    """Causal attention: [B, T, H * N]. Each key-value head serves H / K heads (arXiv 2305.13245)."""
    heads, size = q_BHTN.shape[1], q_BHTN.shape[-1]
    k_BHSN, v_BHSN = _repeat_heads(k_BKSN, heads), _repeat_heads(v_BKSN, heads)
    scores_BHTS = q_BHTN @ k_BHSN.transpose(-1, -2) * nearest(1 / sqrt(size))
    tokens = scores_BHTS.shape[-1]
    probabilities_BHTS = (scores_BHTS + tables.mask_TS[:tokens, :tokens]).softmax(dim=-1)
    return (probabilities_BHTS @ v_BHSN).transpose(1, 2).reshape(q_BHTN.shape[0], tokens, -1)


def _repeat_heads(x_BKSN: Tensor, head_count: int) -> Tensor:
    batch, kv_heads, tokens, size = x_BKSN.shape
    spread = x_BKSN.unsqueeze(2).expand(batch, kv_heads, head_count // kv_heads, tokens, size)
    return spread.reshape(batch, head_count, tokens, size)


def rotate(x_BHTN: Tensor, tables: Tables) -> Tensor:
    """Turns each pair (i, i + N/2) by position times frequency i, as Hugging Face's `rotate_half` does."""
    tokens, half = x_BHTN.shape[-2], x_BHTN.shape[-1] // 2
    cos_TN, sin_TN = tables.cos_TN[:tokens], tables.sin_TN[:tokens]
    a, b = x_BHTN[..., :half], x_BHTN[..., half:]
    return torch.cat((a * cos_TN - b * sin_TN, b * cos_TN + a * sin_TN), dim=-1)


def feed_gated(x_BTD: Tensor, gate_FD: Tensor, up_FD: Tensor, down_DF: Tensor) -> Tensor:
    """SwiGLU (Shazeer, arXiv 2002.05202): [B, T, D]."""
    gate_BTF = F.silu(F.linear(x_BTD, gate_FD))
    return F.linear(gate_BTF * F.linear(x_BTD, up_FD), down_DF)


GELU_LINEAR = nearest(2 * sqrt(2 / pi))
GELU_CUBIC = nearest(2 * sqrt(2 / pi) * 0.044715)


def apply_gelu(x: Tensor) -> Tensor:
    """GELU's approximation by tanh (Hendrycks and Gimpel, arXiv 1606.08415), Hugging Face's `gelu_new`.

    x (1 + tanh u) / 2 with u = sqrt(2/pi) (x + 0.044715 x^3) is x sigmoid(2u) in exact arithmetic, and
    programs have a sigmoid."""
    return x * torch.sigmoid(x * (x * x * GELU_CUBIC + GELU_LINEAR))
