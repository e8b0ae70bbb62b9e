"""What a family of models has to say of itself; `families/` has one file for each.

Letters at the end of a tensor's name are its dimensions, in all files of families:
    B rows of the batch    T tokens (S: those attended to)    V vocabulary    D hidden    F intermediate
    H heads    K key-value heads    N elements of a head    X any other
"""

from abc import ABC, abstractmethod

from torch import Tensor

from protocol.compute.model.config_fields import ConfigFields
from protocol.compute.model.flat_layout import NamedShape, ParameterPart, Parameters
from protocol.compute.model.position_tables import Tables
from protocol.spec.containers import ModelConfig


class Family(ABC):
    """One architecture. All functions are pure; `config` is a shape of this family that keeps the rules of
    `protocol/spec/model_rules.py`."""

    class_name: str
    """The class of Hugging Face's transformers with the same parameters and the same logits."""

    @abstractmethod
    def list_shapes(self, config: ModelConfig) -> list[NamedShape]:
        """All parameters in the order of the class's `named_parameters()`. A tied output matrix is none of
        them."""

    @abstractmethod
    def get_initial(self, name: str, config: ModelConfig) -> float:
        """Standard deviation of a fresh parameter. 0: it is constant, zero where its name ends in `bias`,
        else one."""

    @abstractmethod
    def list_parts(self, config: ModelConfig, tokens: int) -> list[ParameterPart]:
        """The parts of those parameters that are not of one piece: what several purposes share, and what no
        gradient reaches on sequences of so many tokens. Parts of one parameter cover it. Of each idle part
        the gradient is the constant 0 of the program."""

    @abstractmethod
    def build_tables(self, config: ModelConfig, tokens: int) -> Tables:
        """The constant tensors for sequences of so many tokens."""

    @abstractmethod
    def compute_logits(
        self, params: Parameters, tokens_BT: Tensor, tables: Tables, config: ModelConfig
    ) -> Tensor:
        """Next-token logits, float32 [B, T, V], for int64 tokens; T is at most the context. Causal."""

    @abstractmethod
    def write_config(self, config: ModelConfig) -> dict[str, object]:
        """The fields of Hugging Face's `config.json`, but for those that all families share
        (`model_export.py`)."""

    @abstractmethod
    def read_config(self, fields: ConfigFields) -> ModelConfig:
        """The model of a Hugging Face `config.json`. Raises InvalidInput for a field that is missing or asks
        for what the family does not do here; the caller refuses fields that were not read."""
