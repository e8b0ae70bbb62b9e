"""Defines optimizers: a step's update of W and at most two vectors, from a gradient. All are flat.

The task's scalars are the learning rate and 1 - beta1^t, 1 - beta2^t of the task's betas. Every update is
made of separate IEEE-754 operations, so all machines get equal bits from equal inputs. If the gradient's norm
is not finite, W and both vectors stay as they are.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod, sqrt
from typing import Protocol

import torch
from torch import Tensor

FLUSH_BELOW = 2.0**-100
"""Smaller elements of vectors become 0. It is far above the subnormals, which machines handle differently."""
Vectors = tuple[Tensor, Tensor, Tensor]
"""W and the two vectors beside it, flat float32."""


@dataclass(frozen=True)
class Parameter:
    """One trained parameter: elements offset .. offset + size of the flat vector W."""

    name: str
    offset: int
    shape: tuple[int, ...]

    @property
    def size(self) -> int:
        """The number of elements."""
        return prod(self.shape)

    def cut(self, flat: Tensor) -> Tensor:
        """Returns the parameter's part of a flat vector, in the parameter's shape, as a view."""
        return flat[self.offset : self.offset + self.size].view(self.shape)


class Optimizer(Protocol):
    """The interface that `record_step` needs of an optimizer."""

    @property
    def betas(self) -> tuple[float, float]:
        """The betas of the bias corrections that `update` gets, each below 1; zeros if it uses none."""

    def update(
        self, parameters: Sequence[Parameter], vectors: Vectors, gradient: Tensor, scalars: Tensor
    ) -> Vectors:
        """Returns the new W and vectors. `gradient` is flat, as W. `scalars` is float32 [3]: the learning
        rate and 1 - beta1^t, 1 - beta2^t."""


def clip(gradient: Tensor, most: float) -> tuple[Tensor, Tensor]:
    """Returns the factor, a scalar of at most 1, that limits the gradient's norm to `most`; and the norm."""
    norm = root(gradient.mul(gradient).sum())
    return (most / norm).clamp(max=1.0), norm


def root(x: Tensor) -> Tensor:
    """Takes the square root through float64, so that it is correctly rounded everywhere."""
    return x.double().sqrt().float()


def flush(x: Tensor) -> Tensor:
    """Replaces elements smaller than FLUSH_BELOW by 0."""
    return torch.where(x.abs() < FLUSH_BELOW, 0.0, x)


def keep_finite(norm: Tensor, new: Vectors, old: Vectors) -> Vectors:
    """Returns the new vectors if the gradient's norm is finite, else the old ones."""
    is_finite = norm < float("inf")
    weights, first, second = (torch.where(is_finite, a, b) for a, b in zip(new, old, strict=True))
    return weights, first, second


def keep_finite_elements(x: Tensor) -> Tensor:
    """Replaces elements that are not finite by 0, so that every state of a task can be shown and compared."""
    return torch.where(x.abs() < float("inf"), x, 0.0)


@dataclass(frozen=True)
class AdamW:
    """AdamW (Loshchilov and Hutter, arXiv 1711.05101) with clipping of the gradient's norm. Bias corrections
    are in the rate and in epsilon (Kingma and Ba, arXiv 1412.6980, end of section 2). The betas are also the
    task's."""

    beta1: float = 0.9
    beta2: float = 0.95
    epsilon: float = 1e-5
    weight_decay: float = 0.1
    clip_norm: float = 1.0

    @property
    def betas(self) -> tuple[float, float]:
        """The betas of both averages."""
        return self.beta1, self.beta2

    def update(
        self, parameters: Sequence[Parameter], vectors: Vectors, gradient: Tensor, scalars: Tensor
    ) -> Vectors:
        """Returns the new W, first and second moments."""
        factor, norm = clip(gradient, self.clip_norm)
        return keep_finite(norm, self.move(vectors, gradient, factor, scalars), vectors)

    def move(self, vectors: Vectors, gradient: Tensor, factor: Tensor, scalars: Tensor) -> Vectors:
        """Updates any part of the vectors as `update` does. `factor` scales the gradient."""
        learning_rate, correction1, correction2 = scalars.unbind()
        correction = root(correction2)
        first_scale = factor * (1 - self.beta1)
        second_scale = factor * factor * (1 - self.beta2)
        decay = 1.0 - learning_rate * self.weight_decay
        rate = learning_rate / correction1 * correction
        epsilon = correction * self.epsilon
        weights, first, second = vectors
        first = flush(first * self.beta1 + gradient * first_scale)
        second = flush(second * self.beta2 + gradient * gradient * second_scale)
        return weights * decay - first / (root(second) + epsilon) * rate, first, second


@dataclass(frozen=True)
class SGD:
    """Stochastic gradient descent with momentum as in PyTorch: m = momentum m + g, W = W - rate m."""

    momentum: float = 0.9
    weight_decay: float = 0.0
    clip_norm: float = 1.0

    @property
    def betas(self) -> tuple[float, float]:
        """Zeros, because nothing is corrected."""
        return 0.0, 0.0

    def update(
        self, parameters: Sequence[Parameter], vectors: Vectors, gradient: Tensor, scalars: Tensor
    ) -> Vectors:
        """Returns the new W and momentum; the other vector is unchanged."""
        rate = scalars[0]
        factor, norm = clip(gradient, self.clip_norm)
        weights, momentum, unused = vectors
        momentum = flush(momentum * self.momentum + gradient * factor)
        moved = weights * (1.0 - rate * self.weight_decay) - momentum * rate
        return keep_finite(norm, (moved, momentum, unused), vectors)


@dataclass(frozen=True)
class Lion:
    """Lion (Chen et al., arXiv 2302.06675): each element moves by the rate, in the direction of an average's
    sign."""

    beta1: float = 0.9
    beta2: float = 0.99
    weight_decay: float = 0.1
    clip_norm: float = 1.0

    @property
    def betas(self) -> tuple[float, float]:
        """Zeros, because nothing is corrected."""
        return 0.0, 0.0

    def update(
        self, parameters: Sequence[Parameter], vectors: Vectors, gradient: Tensor, scalars: Tensor
    ) -> Vectors:
        """Returns the new W and average; the other vector is unchanged."""
        rate = scalars[0]
        factor, norm = clip(gradient, self.clip_norm)
        weights, average, unused = vectors
        direction = torch.sign(average * self.beta1 + gradient * (factor * (1 - self.beta1)))
        moved = weights * (1.0 - rate * self.weight_decay) - direction * rate
        average = flush(average * self.beta2 + gradient * (factor * (1 - self.beta2)))
        return keep_finite(norm, (moved, average, unused), vectors)


@dataclass(frozen=True)
class Muon:
    """Muon: momentum whose matrices are made orthogonal (Jordan et al., 2024), scaled to the update sizes of
    AdamW (Liu et al., arXiv 2502.16982). AdamW updates everything that is no matrix, and matrices of
    `skip`."""

    momentum: float = 0.95
    weight_decay: float = 0.1
    steps: int = 5
    scale: float = 0.2
    skip: tuple[str, ...] = ("embed", "wte", "wpe", "lm_head", "head")
    adamw: AdamW = AdamW()

    @property
    def betas(self) -> tuple[float, float]:
        """The betas of AdamW."""
        return self.adamw.betas

    def update(
        self, parameters: Sequence[Parameter], vectors: Vectors, gradient: Tensor, scalars: Tensor
    ) -> Vectors:
        """Returns the new W and both vectors; for matrices the second one is unchanged."""
        rate = scalars[0]
        factor, norm = clip(gradient, self.adamw.clip_norm)
        decay = 1.0 - rate * self.weight_decay
        pieces: list[Vectors] = []
        for parameter in parameters:
            weights, first, second = (parameter.cut(vector) for vector in vectors)
            own = parameter.cut(gradient)
            if not self._is_matrix(parameter):
                pieces.append(self.adamw.move((weights, first, second), own, factor, scalars))
                continue
            clipped = own * factor
            first = flush(first * self.momentum + clipped)
            direction = self._orthogonalize(clipped + first * self.momentum)
            step = rate * (self.scale * sqrt(max(parameter.shape)))
            pieces.append((weights * decay - direction * step, first, second))
        flat = (torch.cat([piece[n].reshape(-1) for piece in pieces]) for n in range(3))
        weights, first, second = flat
        return keep_finite(norm, (weights, first, second), vectors)

    def _is_matrix(self, parameter: Parameter) -> bool:
        return len(parameter.shape) == 2 and not any(part in parameter.name for part in self.skip)

    def _orthogonalize(self, matrix: Tensor) -> Tensor:
        """Runs Newton-Schulz steps of fifth order, which bring singular values close to 1."""
        is_tall = matrix.shape[0] > matrix.shape[1]
        x = matrix.t() if is_tall else matrix
        x = x / (root(x.mul(x).sum()) + 1e-7)
        a, b, c = 3.4445, -4.7750, 2.0315
        for _ in range(self.steps):
            square = x @ x.t()
            x = x * a + (square * b + (square @ square) * c) @ x
        return x.t() if is_tall else x
