"""Says what to write instead of an operation that programs do not have."""

from typing import NoReturn

from touchstone.protocol.spec.errors import InvalidInput

PIECES = "Write torch.where(x > 0, ..., ...), with torch.exp and torch.clamp."
WAVE = "Only constants can take it: compute it from positions, or use a polynomial of torch.clamp(x, -c, c)."
VARIANCE = (
    "Write ((x - x.mean(-1, keepdim=True)) ** 2).sum(-1, keepdim=True) / (n - 1), or / n without correction."
)
LARGEST = (
    "Instead of taking the largest, weight all values by a softmax and add them; the larger of two tensors "
    "is torch.maximum."
)
WHOLE = "Programs do not round data: keep the fraction, or compute whole numbers from positions."
REMEDIES = {
    "topk": "Routing by data has no program: compute all experts, and weight them by a softmax.",
    "sort": "Programs do not sort data: compute all cases, and weight them.",
    **dict.fromkeys(("max", "amax"), LARGEST),
    "argmax": "Programs do not choose by data: weight all by a softmax.",
    "argmin": "Programs do not choose by data: weight all by a softmax.",
    "index": "Only rows by token are chosen: use an embedding, torch.gather by token, or a slice x[:, a:b].",
    "roll": "Write torch.cat of two slices.",
    "cumprod": "Write torch.exp(torch.cumsum(torch.log(x), dim)) of positive numbers.",
    "prod": "Write torch.exp(torch.log(x).sum(dim)) of positive numbers.",
    "log_sigmoid_forward": "Write -torch.nn.functional.softplus(-x).",
    "std": VARIANCE + " torch.sqrt of it and a small epsilon is the deviation.",
    "_fft_r2c": "Write a product with a constant matrix of cosines and sines.",
    **dict.fromkeys(("elu", "celu", "selu"), PIECES),
    "hardswish": "Write x * torch.clamp(x / 6 + 0.5, 0, 1).",
    "hardsigmoid": "Write torch.clamp(x / 6 + 0.5, 0, 1).",
    "hardtanh": "Write torch.clamp(x, -1, 1).",
    "_prelu_kernel": "Write torch.where(x > 0, x, slope * x).",
    **dict.fromkeys(("floor", "round", "remainder", "fmod", "trunc"), WHOLE),
    "mish": "Write x * torch.tanh(torch.nn.functional.softplus(x)).",
    "glu": "Write a * torch.sigmoid(b) of the halves a, b = x.chunk(2, -1).",
    "log1p": "Write torch.log(1 + x).",
    "expm1": "Write torch.exp(x) - 1.",
    "log2": "Write torch.log(x) * 1.4426950408889634.",
    "exp2": "Write torch.exp(x * 0.6931471805599453).",
    "mse_loss": "Write ((x - y) ** 2).mean().",
    "lerp": "Write x + weight * (y - x).",
    "addcmul": "Write x + value * a * b.",
    "index_select": "Take slices x[:, a:b] and join them by torch.cat.",
    "unfold": "Join slices by torch.stack.",
    "avg_pool1d": "Write the mean of x.unflatten(dim, (-1, size)).",
    "native_batch_norm": "Rows of a batch must not depend on each other: take layer_norm or rms_norm.",
    "native_group_norm": "Write layer_norm of x.unflatten(dim, (groups, -1)).",
    "clamp_min_": "Inside of a function of PyTorch: write that with sums, products and torch.clamp.",
    "gru": "Write the recurrence as products and sums, step by step.",
    "lstm": "Write the recurrence as products and sums, step by step.",
    "index_put_": "Write torch.where, torch.cat or a product with a constant mask.",
    "native_dropout": "Set every dropout to 0.",
    **dict.fromkeys(("sin", "cos", "tan", "atan", "asin", "acos"), WAVE),
    **dict.fromkeys(("var", "var_mean"), VARIANCE),
    **dict.fromkeys(("cummax", "cummin"), "Programs do not sort data: compute all cases, and weight them."),
    "linalg_vector_norm": "Write torch.sqrt((x * x).sum(-1, keepdim=True) + epsilon).",
    "norm": "Write torch.sqrt((x * x).sum(-1, keepdim=True) + epsilon).",
}
"""What to write instead of an operation that programs do not have, by the operation's name."""


def refuse_missing(name: str, where: str) -> NoReturn:
    """Raises InvalidInput for an operation that programs do not have, used at the line `where`."""
    short = name.split(".")[1] if "." in name else name
    raise InvalidInput(
        what="the step uses an operation that programs do not have",
        expected="one of those that docs/step.md lists",
        actual=name,
        where=where,
        remedy=REMEDIES.get(short, "Write it with those of docs/step.md, section `What it knows`."),
    )
