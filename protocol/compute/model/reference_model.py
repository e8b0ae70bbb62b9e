"""The reference model: a decoder of the Llama family as one pure function of one flat vector.

What runs is the program made from it. The family is that of Touvron et al., arXiv 2302.13971.

The constant tensors of a step are the rotary tables (Su et al., arXiv 2104.09864) and the mask of the future.
The rotary tables are inputs of the training step, so every node must be able to recompute them exactly.
Cosines of a mathematical library differ in the last place from one machine to the next. So the tables are
computed in integer arithmetic, which gives the same bits on every machine. The roundings follow Hugging
Face's `LlamaRotaryEmbedding`: frequency, angle, cosine and sine are each rounded to float32 once.

Parameters have the names, shapes and order of Hugging Face's `LlamaForCausalLM.state_dict()`: the flat vector
is what is hashed, opened and disputed. There are no biases, and the output matrix is not tied. A bias whose
true gradient is zero would turn rounding noise into full Adam steps.

Letters at the end of a tensor's name are its dimensions:
    B rows of the batch    T tokens (S: those attended to)    V vocabulary    D hidden    F intermediate
    H heads    K key-value heads    N elements of a head
"""

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from hashlib import shake_128
from math import prod, sqrt

import torch
import torch.nn.functional as F
from torch import Tensor

from protocol.compute.program.tensor_allocator import allocate, relax
from protocol.spec.containers import ModelConfig
from protocol.spec.errors import InvalidInput
from protocol.spec.float32 import nearest

FRACTION_BITS = 160
"""Fixed point: far beyond the 24 bits that are kept, so that a wrong rounding needs a coincidence of
2^-100."""
ONE = 1 << FRACTION_BITS


HIDDEN = -(2.0**100)
"""Added to the score of a later token: its exponential is nothing beside those of the past."""


@dataclass(frozen=True)
class Tables:
    """cos_TN and sin_TN: float32 [context_tokens, head_size / 2], position by frequency. mask_TS: float32
    [context_tokens, context_tokens], 0 where S <= T, else HIDDEN."""

    cos_TN: Tensor
    sin_TN: Tensor
    mask_TS: Tensor


@lru_cache(maxsize=8)
def build_tables(config: ModelConfig) -> Tables:
    """The tables of a model; 0.1 s for 4,096 entries, then cached. Do not write to them."""
    frequencies = [
        compute_frequency(config.rope_theta, i, config.head_size) for i in range(config.head_size // 2)
    ]
    positions = range(config.context_tokens)
    angles = [[nearest(Fraction(t) * Fraction(f)) for f in frequencies] for t in positions]
    pairs = [[compute_cos_sin(Fraction(angle)) for angle in row] for row in angles]
    cos_TN = torch.tensor([[nearest(cosine) for cosine, _ in row] for row in pairs], dtype=torch.float32)
    sin_TN = torch.tensor([[nearest(sine) for _, sine in row] for row in pairs], dtype=torch.float32)
    mask_TS = torch.full((config.context_tokens, config.context_tokens), HIDDEN).triu(1)
    return Tables(cos_TN, sin_TN, mask_TS)


def compute_frequency(theta: float, i: int, head_size: int) -> float:
    """float32 nearest to theta^(-2i / head_size): the integer root of an integer power."""
    half = head_size // 2
    # theta^(i/half) * ONE = (theta^i * ONE^half)^(1/half)
    power = Fraction(theta) ** i
    root = _integer_root(power.numerator * ONE**half // power.denominator, half)
    return nearest(Fraction(ONE, root))


def _integer_root(value: int, degree: int) -> int:
    """floor(value^(1/degree)) by Newton's method from above."""
    guess = 1 << -(-value.bit_length() // degree)
    while True:
        better = ((degree - 1) * guess + value // guess ** (degree - 1)) // degree
        if better >= guess:
            return guess
        guess = better


def compute_cos_sin(angle: Fraction) -> tuple[Fraction, Fraction]:
    """Cosine and sine of an angle in radians, within 2^-140: Taylor series after reduction to |x| <= pi/4."""
    scaled = angle.numerator * ONE // angle.denominator
    half_pi = _compute_pi() // 2
    quarter = (2 * scaled + half_pi) // (2 * half_pi)
    x = scaled - quarter * half_pi
    cosine, sine = _series(x, ONE, 0), _series(x, x, 1)
    rotated = ((cosine, sine), (-sine, cosine), (-cosine, -sine), (sine, -cosine))[quarter % 4]
    return Fraction(rotated[0], ONE), Fraction(rotated[1], ONE)


def _series(x: int, term: int, order: int) -> int:
    """The alternating series of cosine (term ONE, order 0) or sine (term x, order 1)."""
    square, total = x * x // ONE, 0
    while term:
        total += term
        order += 2
        term = -(abs(term) * square // (order * (order - 1)) // ONE) * (1 if term > 0 else -1)
    return total


@lru_cache(maxsize=1)
def _compute_pi() -> int:
    """pi * ONE by Machin's formula, 16 arctan(1/5) - 4 arctan(1/239), with guard bits."""
    guard = 64
    total = sum(weight * _arctan_of_inverse(n, ONE << guard) for weight, n in ((16, 5), (-4, 239)))
    return total >> guard


def _arctan_of_inverse(n: int, one: int) -> int:
    power, total, order, sign = one // n, 0, 1, 1
    while power:
        total += sign * (power // order)
        power, order, sign = power // (n * n), order + 2, -sign
    return total


INITIAL_DEVIATION = 0.02
"""Standard deviation of fresh matrices, as in GPT-2; those that write to the residual stream are 1/sqrt(2 L)
of it."""
INITIAL_EMBEDDING_DEVIATION = 1.0
"""The first norm divides by an embedding's magnitude, which multiplies gradients and float noise: by fifty at
0.02 (Takase et al., "Spike No More", arXiv 2312.16903; docs/decisions/0006-limits.md)."""

Parameters = Mapping[str, Tensor]


@dataclass(frozen=True)
class ParameterSlice:
    """One parameter's place in the flat vector: elements offset .. offset + prod(shape)."""

    name: str
    offset: int
    shape: tuple[int, ...]

    @property
    def size(self) -> int:
        """Number of elements."""
        return prod(self.shape)


@lru_cache(maxsize=32)
def parameter_layout(config: ModelConfig) -> tuple[ParameterSlice, ...]:
    """All parameters in canonical order; offsets and shapes in elements. Raises InvalidInput on an impossible
    shape."""
    _require_shape(config)
    slices: list[ParameterSlice] = []
    offset = 0
    for name, shape in _list_shapes(config):
        slices.append(ParameterSlice(name, offset, shape))
        offset += slices[-1].size
    return tuple(slices)


def parameter_count(config: ModelConfig) -> int:
    """Elements of the flat vector."""
    last = parameter_layout(config)[-1]
    return last.offset + last.size


def _list_shapes(config: ModelConfig) -> list[tuple[str, tuple[int, ...]]]:
    d, f, v = config.hidden_size, config.intermediate_size, config.vocabulary_size
    q, kv = config.head_count * config.head_size, config.kv_head_count * config.head_size
    layer = [
        ("self_attn.q_proj", (q, d)), ("self_attn.k_proj", (kv, d)), ("self_attn.v_proj", (kv, d)),
        ("self_attn.o_proj", (d, q)), ("mlp.gate_proj", (f, d)), ("mlp.up_proj", (f, d)),
        ("mlp.down_proj", (d, f)),
        ("input_layernorm", (d,)), ("post_attention_layernorm", (d,)),
    ]  # fmt: skip
    layers = [
        (f"model.layers.{i}.{n}.weight", shape) for i in range(config.layer_count) for n, shape in layer
    ]
    embedding: tuple[str, tuple[int, ...]] = ("model.embed_tokens.weight", (v, d))
    return [embedding, *layers, ("model.norm.weight", (d,)), ("lm_head.weight", (v, d))]


def _require_shape(config: ModelConfig) -> None:
    rules = {
        "every size": min(
            config.vocabulary_size, config.intermediate_size, config.layer_count, config.context_tokens
        )
        >= 1,
        "kv_head_count": config.kv_head_count >= 1 and config.head_count % config.kv_head_count == 0,
        "head_count": config.head_count >= 1 and config.hidden_size % (2 * config.head_count) == 0,
    }
    broken = [name for name, holds in rules.items() if not holds]
    if broken:
        raise InvalidInput(
            what="not a shape of this model family",
            expected="sizes >= 1, heads that cut hidden_size into even heads, kv heads that divide heads",
            actual=config,
            where=", ".join(broken),
            remedy="Change the model's configuration.",
        )


def split_parameters(flat: Tensor, config: ModelConfig) -> dict[str, Tensor]:
    """Views of the flat float32 vector by name: no copy. Raises InvalidInput where the length is another."""
    if flat.dim() != 1 or flat.numel() != parameter_count(config):
        raise InvalidInput(
            what="the flat vector does not fit the model",
            expected=f"shape [{parameter_count(config)}]",
            actual=list(flat.shape),
            remedy="Check that state and task belong together.",
        )
    return {p.name: flat[p.offset : p.offset + p.size].view(p.shape) for p in parameter_layout(config)}


def init_parameters(config: ModelConfig, seed: int) -> Tensor:
    """Fresh flat float32 weights, the same bits on any machine: norms one, matrices uniform.

    SHAKE-128 (FIPS 202) of (seed, name) gives one 24-bit integer per element; integer - (2^24 - 1)/2 is exact
    in float32 up to one rounded product with the scale. No generator or distribution of a library takes
    part."""
    flat = allocate(parameter_count(config))
    for p in parameter_layout(config):
        flat[p.offset : p.offset + p.size] = _init_parameter(p, config, seed).reshape(-1)
        relax()
    return flat


def _init_parameter(parameter: ParameterSlice, config: ModelConfig, seed: int) -> Tensor:
    if len(parameter.shape) == 1:
        return torch.ones(parameter.shape)
    stream = shake_128(f"touchstone.init/{seed}/{parameter.name}".encode()).digest(4 * parameter.size)
    draws = torch.frombuffer(bytearray(stream), dtype=torch.int32) & 0xFFFFFF
    # Odd integers of both signs, symmetric around zero: 2 x - (2^24 - 1), below 2^24 in magnitude, so exact.
    centred = (2 * draws - 0xFFFFFF).to(torch.float32)
    deviation = _get_initial_deviation(parameter.name, config)
    return (centred * nearest(deviation * sqrt(3) / 2**24)).view(parameter.shape)


def _get_initial_deviation(name: str, config: ModelConfig) -> float:
    if name == "model.embed_tokens.weight":
        return INITIAL_EMBEDDING_DEVIATION
    writes_to_residual = name.endswith(("o_proj.weight", "down_proj.weight"))
    return INITIAL_DEVIATION / sqrt(2 * config.layer_count) if writes_to_residual else INITIAL_DEVIATION


def compute_logits(params: Parameters, tokens_BT: Tensor, tables: Tables, config: ModelConfig) -> Tensor:
    """Next-token logits, float32 [B, T, V], for int64 tokens; T is at most the context. Causal."""
    x_BTD = F.embedding(tokens_BT, params["model.embed_tokens.weight"])
    for layer in range(config.layer_count):
        prefix = f"model.layers.{layer}."
        weights = {name.removeprefix(prefix): p for name, p in params.items() if name.startswith(prefix)}
        normed_BTD = _normalise(x_BTD, weights["input_layernorm.weight"], config)
        x_BTD = x_BTD + _attend(normed_BTD, weights, tables, config)
        normed_BTD = _normalise(x_BTD, weights["post_attention_layernorm.weight"], config)
        x_BTD = x_BTD + _feed_forward(normed_BTD, weights)
    return F.linear(_normalise(x_BTD, params["model.norm.weight"], config), params["lm_head.weight"])


def compute_loss(
    params: Parameters, tokens_BT: Tensor, labels_BT: Tensor, tables: Tables, config: ModelConfig
) -> Tensor:
    """Mean cross entropy in nats over all B x T positions: float32 scalar."""
    logits_BTV = compute_logits(params, tokens_BT, tables, config)
    return F.cross_entropy(logits_BTV.view(-1, config.vocabulary_size), labels_BT.reshape(-1))


def _normalise(x_BTD: Tensor, gain_D: Tensor, config: ModelConfig) -> Tensor:
    """RMSNorm (Zhang and Sennrich, arXiv 1910.07467)."""
    mean_square_BT1 = (x_BTD * x_BTD).mean(dim=-1, keepdim=True)
    return x_BTD * torch.rsqrt(mean_square_BT1 + config.rms_epsilon) * gain_D


def _attend(x_BTD: Tensor, weights: Parameters, tables: Tables, config: ModelConfig) -> Tensor:
    """Causal attention; each key-value head serves head_count / kv_head_count heads (arXiv 2305.13245)."""
    q_BHTN = _rotate(_split_heads(x_BTD, weights["self_attn.q_proj.weight"], config.head_count), tables)
    k_BKSN = _rotate(_split_heads(x_BTD, weights["self_attn.k_proj.weight"], config.kv_head_count), tables)
    v_BKSN = _split_heads(x_BTD, weights["self_attn.v_proj.weight"], config.kv_head_count)
    k_BHSN, v_BHSN = _repeat_heads(k_BKSN, config), _repeat_heads(v_BKSN, config)
    scores_BHTS = q_BHTN @ k_BHSN.transpose(-1, -2) * nearest(1 / sqrt(config.head_size))
    tokens = scores_BHTS.shape[-1]
    probabilities_BHTS = (scores_BHTS + tables.mask_TS[:tokens, :tokens]).softmax(dim=-1)
    mixed_BTD = (probabilities_BHTS @ v_BHSN).transpose(1, 2).reshape(*x_BTD.shape[:2], -1)
    return F.linear(mixed_BTD, weights["self_attn.o_proj.weight"])


def _split_heads(x_BTD: Tensor, weight: Tensor, head_count: int) -> Tensor:
    y_BTX = F.linear(x_BTD, weight)
    return y_BTX.view(*x_BTD.shape[:2], head_count, -1).transpose(1, 2)


def _repeat_heads(x_BKSN: Tensor, config: ModelConfig) -> Tensor:
    groups = config.head_count // config.kv_head_count
    batch, _, tokens, size = x_BKSN.shape
    spread = x_BKSN.unsqueeze(2).expand(batch, config.kv_head_count, groups, tokens, size)
    return spread.reshape(batch, config.head_count, tokens, size)


def _rotate(x_BHTN: Tensor, tables: Tables) -> Tensor:
    """Turns each pair (i, i + N/2) by position times frequency i, as Hugging Face's `rotate_half` does."""
    tokens, half = x_BHTN.shape[-2], x_BHTN.shape[-1] // 2
    cos_TN, sin_TN = tables.cos_TN[:tokens], tables.sin_TN[:tokens]
    a, b = x_BHTN[..., :half], x_BHTN[..., half:]
    return torch.cat((a * cos_TN - b * sin_TN, b * cos_TN + a * sin_TN), dim=-1)


def _feed_forward(x_BTD: Tensor, weights: Parameters) -> Tensor:
    """SwiGLU (Shazeer, arXiv 2002.05202)."""
    gate_BTF = F.silu(F.linear(x_BTD, weights["mlp.gate_proj.weight"]))
    return F.linear(
        gate_BTF * F.linear(x_BTD, weights["mlp.up_proj.weight"]), weights["mlp.down_proj.weight"]
    )
