"""The names of tensors in files, by model type, where they differ from those in the class of transformers.

Files of the model without its head lack a prefix, as GPT-2's published ones. Older releases also wrote tables
that a class computes by itself: causal masks, rotary frequencies. transformers leaves these out, too.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import msgspec

OUTPUT = "lm_head.weight"
"""The name of the output matrix. If a tied model's file has it, it must equal the embedding."""
BARE = "model."
PREFIXES = {"gpt2": "transformer.", "gpt_neox": "gpt_neox."}
"""What a class puts before the names of the model without its head; `BARE` for other types."""
FREQUENCIES = r".*\.rotary_emb\.inv_freq"
MASKS = {
    "gpt2": r"(transformer\.)?h\.\d+\.attn\.(masked_)?bias",
    "gpt_neox": rf"(gpt_neox\.)?layers\.\d+\.attention\.(masked_)?bias|{FREQUENCIES}",
}


@dataclass(frozen=True)
class TensorNames:
    """How a file may name tensors. `renamed` has names in files, by names in the module. `prefix` is what
    bare names lack. `unread` matches tables that are computed."""

    renamed: Mapping[str, str] = field(default_factory=dict)
    prefix: str = ""
    unread: str = ""

    def match(self, stored: Iterable[str], known: Iterable[str]) -> dict[str, str]:
        """Returns the name in the module of each name that a file has, without those of computed tables.
        `known` are the names of the module."""
        names, wanted = list(stored), set(known)
        is_bare = not any(name.startswith(self.prefix) for name in names)
        others = {new: old for old, new in self.renamed.items() if old in wanted and new not in wanted}
        found = dict[str, str]()
        for name in names:
            whole = self.prefix + name if is_bare and self.prefix + name in wanted else name
            if whole in wanted or not re.fullmatch(self.unread, name, re.ASCII):
                found[name] = others.get(whole, whole)
        return found


class _Typed(msgspec.Struct):
    model_type: object = None


def find_names(config: str) -> TensorNames:
    """Returns how files name the tensors of a model. `config` is the text of a `config.json`; it may come
    from a stranger and hold anything."""
    try:
        named = msgspec.json.decode(config, type=_Typed).model_type
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return TensorNames()
    if not isinstance(named, str):
        return TensorNames()
    renamed = {OUTPUT: "embed_out.weight"} if named == "gpt_neox" else {}
    return TensorNames(renamed, PREFIXES.get(named, BARE), MASKS.get(named, FREQUENCIES))
