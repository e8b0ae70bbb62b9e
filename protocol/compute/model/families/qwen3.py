"""Qwen3 (arXiv 2505.09388), as Hugging Face's `Qwen3ForCausalLM`: Llama with norms of queries and keys."""

from torch import Tensor

from protocol.compute.model.decoder_parts import RotaryDecoder, normalise_root
from protocol.compute.model.family import ConfigFields, NamedShape, Parameters
from protocol.spec.containers import ModelConfig

DEFAULT_HEAD_SIZE = 128
"""What transformers takes where `head_dim` is missing."""


class Qwen3(RotaryDecoder):
    """Heads of any even size; each query and key is normalised over its own elements before it is turned."""

    class_name = "Qwen3ForCausalLM"
    model_type = "qwen3"

    def list_head_norms(self, config: ModelConfig) -> list[NamedShape]:
        """One gain for each element of a head, shared by all heads of a layer."""
        shape = (config.head_elements,)
        return [("self_attn.q_norm", shape), ("self_attn.k_norm", shape)]

    def shape_heads(self, q_BHTN: Tensor, weights: Parameters, name: str, config: ModelConfig) -> Tensor:
        """RMSNorm over N. It comes after heads and tokens have changed places, so that the gradient of a
        gain is a sum over elements that lie in one run."""
        return normalise_root(q_BHTN, weights[f"self_attn.{name}_norm.weight"], config.norm_epsilon)

    def write_config(self, config: ModelConfig) -> dict[str, object]:
        """With Qwen3's own field."""
        return {**super().write_config(config), "use_sliding_window": False}

    def read_config(self, fields: ConfigFields) -> ModelConfig:
        """No sliding windows: `sliding_window` counts only where `use_sliding_window` is true."""
        fields.require("use_sliding_window", (False,), False)
        config = self.read_sizes(fields, DEFAULT_HEAD_SIZE)
        fields.require_full_attention(config.layer_count)
        return config
