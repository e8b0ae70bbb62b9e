"""Llama (Touvron et al., arXiv 2302.13971), as Hugging Face's `LlamaForCausalLM` without biases."""

from torch import Tensor

from protocol.compute.model.decoder_parts import RotaryDecoder
from protocol.compute.model.family import ConfigFields, NamedShape, Parameters
from protocol.spec.containers import ModelConfig


class Llama(RotaryDecoder):
    """Grouped key-value heads, rope scaling, output matrix tied or not."""

    class_name = "LlamaForCausalLM"
    model_type = "llama"

    def list_head_norms(self, config: ModelConfig) -> list[NamedShape]:
        """None."""
        return []

    def shape_heads(self, q_BHTN: Tensor, weights: Parameters, name: str, config: ModelConfig) -> Tensor:
        """Queries and keys as they are."""
        return q_BHTN

    def write_config(self, config: ModelConfig) -> dict[str, object]:
        """With the one field that is Llama's own."""
        return {**super().write_config(config), "mlp_bias": False}

    def read_config(self, fields: ConfigFields) -> ModelConfig:
        """Heads cut the hidden size into equal parts."""
        fields.require("mlp_bias", (False,), False)
        return self.read_sizes(fields, default_head=0)
