"""What a family of models has to say of itself, fields of config.json, and the flat parameters.

Letters at the end of a tensor's name are its dimensions, in all files of families:
    B rows of the batch    T tokens (S: those attended to)    V vocabulary    D hidden    F intermediate
    H heads    K key-value heads    N elements of a head    X any other

Fields of a Hugging Face `config.json`, read one by one, so that none is ignored in silence. Each field is
taken with the type and the values that a family can honour. What was not taken in the end, and is not known
to leave the model's results alone, is refused by name.

The flat vector of all parameters: which elements are whose, and its first values. A family says names and
shapes; here they get their places, one after the other, row-major. The flat vector is what is hashed, opened
and disputed.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import shake_128
from math import isfinite, prod, sqrt
from typing import NoReturn

import torch
from torch import Tensor

from protocol.compute.model.position_tables import Tables
from protocol.spec.containers import ModelConfig, RopeScaling
from protocol.spec.errors import InvalidInput
from protocol.spec.float32 import nearest
from protocol.spec.params import MAX_LAYERS, ROPE_SCALINGS

# --- The flat vector ----------------------------------------------------------------------------------------
Parameters = Mapping[str, Tensor]
"""Parameters by the names of the family, in its shapes."""
NamedShape = tuple[str, tuple[int, ...]]


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


@dataclass(frozen=True)
class ParameterPart:
    """Indices start .. stop of a parameter along one dimension. is_idle: no gradient reaches them, and the
    program gives them the gradient 0."""

    name: str
    dimension: int
    start: int
    stop: int
    is_idle: bool = False

    def cut(self, parameter: Tensor) -> Tensor:
        """This part of the parameter, or of its gradient: a view."""
        return parameter.narrow(self.dimension, self.start, self.stop - self.start)


def lay_out(shapes: Sequence[NamedShape]) -> tuple[ParameterSlice, ...]:
    """Places without gaps, in the order given."""
    slices: list[ParameterSlice] = []
    offset = 0
    for name, shape in shapes:
        slices.append(ParameterSlice(name, offset, shape))
        offset += slices[-1].size
    return tuple(slices)


def draw_uniform(parameter: ParameterSlice, seed: int, deviation: float) -> Tensor:
    """Float32 of the parameter's shape, uniform around 0 with a standard deviation; the same bits on any
    machine.

    SHAKE-128 (FIPS 202) of (seed, name) gives one 24-bit integer per element; integer - (2^24 - 1)/2 is exact
    in float32 up to one rounded product with the scale. No generator or distribution of a library takes
    part."""
    stream = shake_128(f"touchstone.init/{seed}/{parameter.name}".encode()).digest(4 * parameter.size)
    draws = torch.frombuffer(bytearray(stream), dtype=torch.int32) & 0xFFFFFF
    # Odd integers of both signs, symmetric around zero: 2 x - (2^24 - 1), below 2^24 in magnitude, so exact.
    centred = (2 * draws - 0xFFFFFF).to(torch.float32)
    return (centred * nearest(deviation * sqrt(3) / 2**24)).view(parameter.shape)


# --- Fields of config.json ----------------------------------------------------------------------------------
REMEDY = "Change the field, or train another model: a field is refused rather than ignored."
MAX_FIELDS = 256
"""Of a file; the longest published ones have about fifty."""
MAX_SHOWN = 80
"""Characters of a value in an error."""
MAX_INTEGER = 1 << 40
HARMLESS = frozenset({
    "_name_or_path", "_attn_implementation_autoset", "architectures", "model_type", "torch_dtype",
    "dtype", "transformers_version", "transformers.js_config", "bos_token_id", "eos_token_id",
    "pad_token_id", "unk_token_id", "use_cache", "initializer_range", "gradient_checkpointing",
    "output_attentions", "output_hidden_states", "return_dict", "tokenizer_class", "is_llama_config",
    "max_window_layers", "pretraining_tp", "id2label", "label2id", "is_encoder_decoder",
    "task_specific_params", "summary_type", "summary_use_proj", "summary_activation",
    "summary_first_dropout", "summary_proj_to_labels",
})  # fmt: skip
"""Fields that change neither the parameters nor the logits of a model that is trained from a seed in
float32."""


class ConfigFields:
    """The fields of one file; `where` names it in errors."""

    def __init__(self, fields: Mapping[str, object], where: str) -> None:
        if len(fields) > MAX_FIELDS:
            raise InvalidInput(
                what="a model's config.json has too many fields",
                expected=f"at most {MAX_FIELDS}",
                actual=len(fields),
                where=where,
                remedy="Pass the config.json of a model.",
            )
        self._fields = dict(fields)
        self._where = where
        self._taken: set[str] = set()

    def refuse(self, name: str, expected: str, actual: str) -> NoReturn:
        """Raises InvalidInput about one field."""
        raise InvalidInput(
            what="a model's config.json asks for what is not offered",
            expected=expected,
            actual=actual,
            where=f"{self._where}, {name}",
            remedy=REMEDY,
        )

    def _take(self, name: str) -> object:
        self._taken.add(name)
        return self._fields.get(name)

    def take_integer(self, name: str, default: int | None = None) -> int:
        """A whole number from 0 to 2^40; the default where the field is missing or null."""
        value = self._take(name)
        if value is None and default is not None:
            return default
        if type(value) is not int or not 0 <= value <= MAX_INTEGER:
            self.refuse(name, "a whole number", _show(value))
        return value

    def take_number(self, name: str, default: float | None = None) -> float:
        """The nearest float32; the default where the field is missing or null."""
        value = self._take(name)
        if value is None and default is not None:
            return nearest(default)
        return self._to_float32(name, value)

    def _to_float32(self, name: str, value: object) -> float:
        if type(value) not in (int, float) or not isinstance(value, int | float):
            self.refuse(name, "a number", _show(value))
        if not isfinite(value) or abs(value) > 1e38:
            self.refuse(name, "a number that float32 holds", _show(value))
        return nearest(value)

    def take_text(self, name: str) -> str:
        """A text."""
        value = self._take(name)
        if not isinstance(value, str):
            self.refuse(name, "a text", _show(value))
        return value

    def take_flag(self, name: str, default: bool) -> bool:
        """True or false; the default where the field is missing or null."""
        value = self._take(name)
        if value is None:
            return default
        if not isinstance(value, bool):
            self.refuse(name, "true or false", _show(value))
        return value

    def require(self, name: str, allowed: Iterable[object], default: object) -> None:
        """Raises InvalidInput unless the field has one of these values; transformers takes `default` where it
        is missing."""
        value, choices = self._take(name), list(allowed)
        if name not in self._fields:
            value = default
        if not any(type(value) is type(choice) and value == choice for choice in choices):
            missing = "" if name in self._fields else " (what transformers takes where the field is missing)"
            self.refuse(name, " or ".join(map(_show, choices)), _show(value) + missing)

    def require_no_dropout(self, name: str, default: float) -> None:
        """Raises InvalidInput unless the dropout is 0: a program draws nothing."""
        self.require(name, (0, 0.0), default)

    def take_rope(self, context_tokens: int) -> tuple[float, RopeScaling]:
        """Theta and scaling, from `rope_theta` and `rope_scaling`, or from `rope_parameters` as transformers
        writes them from version 5 on."""
        scaling, parameters = self._take("rope_scaling"), self._take("rope_parameters")
        if scaling is not None and parameters is not None:
            self.refuse("rope_scaling", "one of rope_scaling and rope_parameters", "both")
        found = self._as_table("rope_parameters", parameters) | self._as_table("rope_scaling", scaling)
        inner = found.pop("rope_theta", None)
        theta = self.take_number("rope_theta", ModelConfig.rope_theta)
        if inner is not None:
            stated = self._to_float32("rope_theta", inner)
            if self._fields.get("rope_theta") is not None and stated != theta:
                self.refuse("rope_theta", f"one theta, {theta}", f"{stated} in rope_parameters")
            theta = stated
        return theta, self._read_scaling(found, context_tokens)

    def _as_table(self, name: str, value: object) -> dict[str, object]:
        if value is None:
            return {}
        if not isinstance(value, dict):
            self.refuse(name, "a table or null", _show(value))
        return dict(value)

    def _read_scaling(self, found: dict[str, object], context_tokens: int) -> RopeScaling:
        """found: the fields of the table but for theta. context_tokens: what transformers takes for the
        original context where the table does not have it."""
        old, new = found.pop("type", None), found.pop("rope_type", None)
        kind = new if new is not None else old if old is not None else "default"
        if old not in (None, kind):
            self.refuse("rope_type", f"one type, {_show(kind)}", _show(old))
        if kind not in ROPE_SCALINGS:
            self.refuse("rope_type", " or ".join(ROPE_SCALINGS), _show(kind))

        def take(name: str) -> float:
            """One number of the table."""
            return self._to_float32(name, found.pop(name, None))

        scaling = RopeScaling()
        if kind == "linear":
            scaling = RopeScaling("linear", take("factor"))
        if kind == "llama3":
            numbers = (take("factor"), take("low_freq_factor"), take("high_freq_factor"))
            original = found.pop("original_max_position_embeddings", context_tokens)
            if type(original) is not int or not 1 <= original <= MAX_INTEGER:
                self.refuse("original_max_position_embeddings", "a whole number", _show(original))
            scaling = RopeScaling("llama3", *numbers, original_tokens=original)
        if found:
            self.refuse("rope_scaling", f"no other fields of the type {kind}", _show(sorted(found)))
        return scaling

    def require_full_attention(self, layer_count: int) -> None:
        """Raises InvalidInput where `layer_types` names a layer with another attention than the full one.
        `sliding_window` counts for nothing then."""
        self._take("sliding_window")
        types = self._take("layer_types")
        if types is not None and types != ["full_attention"] * min(layer_count, MAX_LAYERS):
            self.refuse("layer_types", f"full_attention in all {layer_count} layers", _show(types))

    def require_all_taken(self) -> None:
        """Raises InvalidInput for the first field that nobody read and that is not known to be harmless."""
        for name in self._fields:
            if name not in self._taken | HARMLESS:
                self.refuse(_show(name), "fields that are known", _show(self._fields[name]))


def _show(value: object) -> str:
    text = repr(value)
    return text if len(text) <= MAX_SHOWN else text[:MAX_SHOWN] + "..."


class Family(ABC):
    """One architecture. All functions are pure; `config` is a shape of this family that keeps the rules of
    `protocol/spec/task_rules.py`."""

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
        (`reference_model.py`)."""

    @abstractmethod
    def read_config(self, fields: ConfigFields) -> ModelConfig:
        """The model of a Hugging Face `config.json`. Raises InvalidInput for a field that is missing or asks
        for what the family does not do here; the caller refuses fields that were not read."""
