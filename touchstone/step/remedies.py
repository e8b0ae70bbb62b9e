"""What to write instead of an operation that programs do not have."""

from typing import NoReturn

from protocol.spec.errors import InvalidInput

REMEDIES = {
    "topk": "Routing by data has no program: compute all experts, and weigh them by a softmax.",
    "sort": "Nothing is ordered by data: compute all cases, and weigh them.",
    "max": "Use torch.amax without its gradient, or a softmax.",
    "index": "Only rows by token can be chosen: use an embedding, a slice, or torch.gather by token.",
    "index_put_": "Write torch.where, torch.cat or a product with a constant mask.",
    "native_dropout": "Set every dropout to 0.",
    "sin": "Only of constants: compute it of positions and not of data.",
    "cos": "Only of constants: compute it of positions and not of data.",
    "var": "Write ((x - x.mean(-1, keepdim=True)) ** 2).mean(-1, keepdim=True).",
    "var_mean": "Write ((x - x.mean(-1, keepdim=True)) ** 2).mean(-1, keepdim=True).",
    "linalg_vector_norm": "Write torch.sqrt((x * x).sum(-1, keepdim=True) + epsilon).",
    "norm": "Write torch.sqrt((x * x).sum(-1, keepdim=True) + epsilon).",
}
"""By the name of an operation that programs do not have: what to write instead."""


def refuse_missing(name: str, where: str) -> NoReturn:
    """Raises InvalidInput for an operation that programs do not have, used at the line `where`."""
    short = name.split(".")[1] if "." in name else name
    raise InvalidInput(
        what="the step uses an operation that programs do not have",
        expected="one of those that docs/step.md lists",
        actual=name,
        where=where,
        remedy=REMEDIES.get(short, "Write it with other operations."),
    )
