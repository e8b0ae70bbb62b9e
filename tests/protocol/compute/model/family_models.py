"""Small models of every family, tied and not, with every kind of rope scaling, for tests of all of them."""

from dataclasses import replace

from protocol.spec.containers import ModelConfig, RopeScaling
from protocol.spec.float32 import nearest

LLAMA = ModelConfig(64, 32, 48, 2, 4, 2, 16)
QWEN3 = ModelConfig(
    64, 24, 40, 2, 4, 2, 16, rope_theta=1e6, norm_epsilon=nearest(1e-6), architecture="qwen3", head_size=10
)
GPT2 = ModelConfig(64, 32, 44, 2, 4, 4, 16, architecture="gpt2", tied=1)
LLAMA3 = RopeScaling("llama3", 8.0, 1.0, 4.0, 10)
"""So that three frequencies of four are scaled, kept, and between the two."""
MODELS = {
    "llama": LLAMA,
    "llama tied": replace(LLAMA, tied=1),
    "llama linear": replace(LLAMA, rope_scaling=RopeScaling("linear", 4.0)),
    "llama llama3": replace(LLAMA, rope_theta=50.0, rope_scaling=LLAMA3),
    "llama head size": replace(LLAMA, head_size=6),
    "qwen3": QWEN3,
    "qwen3 tied": replace(QWEN3, tied=1),
    "qwen3 llama3": replace(QWEN3, rope_theta=50.0, rope_scaling=LLAMA3),
    "qwen3 plain heads": replace(QWEN3, head_size=0),
    "gpt2": GPT2,
    "gpt2 untied": replace(GPT2, tied=0),
    "gpt2 odd heads": replace(GPT2, hidden_size=20),
}
FAMILIES = {"llama": LLAMA, "qwen3": QWEN3, "gpt2": GPT2}
