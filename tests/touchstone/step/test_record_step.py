"""A step of any module: the program computes PyTorch's loss and update, and its constants are what stays."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.func import functional_call

from tests.protocol.compute.programs import require_single_writers
from touchstone.protocol.compute.program.interpreter import Interpreter
from touchstone.protocol.spec.errors import InvalidInput
from touchstone.protocol.spec.program import Role
from touchstone.step.first_weights import flatten
from touchstone.step.optimizers import SGD, AdamW, Lion, Muon, Optimizer, Vectors
from touchstone.step.record_step import RecordedStep, Shape, next_token_loss, record_step
from touchstone.step.step_folder import load_step

VOCABULARY, WIDTH, ROWS, TOKENS = 40, 16, 2, 8


class Mixed(nn.Module):
    """Attention, a causal convolution, both norms, gelu, learned positions and tied rows."""

    def __init__(self) -> None:
        super().__init__()
        self.rows = nn.Embedding(VOCABULARY, WIDTH)
        self.places = nn.Embedding(2 * TOKENS, WIDTH)
        self.before, self.after = nn.RMSNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.mix = nn.Linear(WIDTH, 3 * WIDTH, bias=False)
        self.join = nn.Linear(WIDTH, WIDTH)
        self.near = nn.Conv1d(WIDTH, WIDTH, 3, padding=2, groups=WIDTH)

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.rows(tokens) + self.places(torch.arange(tokens.shape[1]))
        q, k, v = (y.unflatten(-1, (2, -1)).transpose(1, 2) for y in self.mix(self.before(x)).chunk(3, -1))
        x = x + self.join(F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).flatten(2))
        x = x + self.near(x.transpose(1, 2))[..., : tokens.shape[1]].transpose(1, 2)
        return F.gelu(self.after(x)) @ self.rows.weight.t()


class Adapter(nn.Module):
    """A frozen layer and a product of two narrow matrices beside it (Hu et al., arXiv 2106.09685)."""

    def __init__(self, base: nn.Linear) -> None:
        super().__init__()
        self.base = base
        self.lora_a = nn.Parameter(torch.randn(2, base.in_features) / 4)
        self.lora_b = nn.Parameter(torch.randn(base.out_features, 2) / 4)

    def forward(self, x: Tensor) -> Tensor:
        result: Tensor = self.base(x) + x @ self.lora_a.t() @ self.lora_b.t()
        return result


def make_module(seed: int = 1) -> nn.Module:
    torch.manual_seed(seed)
    return Mixed()


@dataclass
class Both:
    """A step as the program computes it, and as PyTorch does."""

    module: nn.Module
    step: RecordedStep
    optimizer: Optimizer
    numeric_format: str = "float32"

    def __post_init__(self) -> None:
        built = self.step.built
        self.interpreter = Interpreter(built.program, built.constants, numeric_format=self.numeric_format)
        weights = self.step.weights
        zeros = torch.zeros_like(weights)
        self.ours: Vectors = (weights.clone(), zeros.clone(), zeros.clone())
        self.theirs: Vectors = (weights, zeros, zeros)

    def advance(self, number: int) -> tuple[float, float]:
        """One step of both on the same batch: both losses."""
        generator = torch.Generator().manual_seed(number)
        rows = torch.randint(VOCABULARY, (ROWS, TOKENS + 1), generator=generator)
        scalars = torch.tensor([1e-3, 1 - 0.9 ** (number + 1), 1 - 0.95 ** (number + 1)])
        tokens, labels = rows[:, :-1].contiguous(), rows[:, 1:].contiguous()
        found = self.interpreter.run(self.ours, tokens, labels, scalars)
        self.ours = (found.weights.clone(), found.first_moment.clone(), found.second_moment.clone())
        leaves = {p.name: p.cut(self.theirs[0]).clone().requires_grad_() for p in self.step.parameters}
        logits = functional_call(self.module, leaves, (tokens,))
        loss = F.cross_entropy(logits.reshape(-1, VOCABULARY), labels.reshape(-1))
        parts = torch.autograd.grad(loss, list(leaves.values()))
        gradient = torch.cat([part.reshape(-1) for part in parts])
        self.theirs = self.optimizer.update(self.step.parameters, self.theirs, gradient, scalars)
        return float(found.loss), float(loss.detach())


OPTIMIZERS: dict[str, Optimizer] = {"AdamW": AdamW(), "SGD": SGD(), "Lion": Lion(), "Muon": Muon()}
NOISE = {"float32": (1e-6, 1e-4), "exact15": (1e-4, 1e-2)}
"""Relative: of the loss, and of what the steps moved."""


@pytest.mark.parametrize("numeric_format", NOISE)
@pytest.mark.parametrize("name", OPTIMIZERS)
def test_steps_are_those_of_pytorch(name: str, numeric_format: str) -> None:
    module = make_module()
    step = record_step(module, Shape(ROWS, TOKENS, numeric_format), optimizer=OPTIMIZERS[name])
    require_single_writers(step.built.program)
    both = Both(module, step, OPTIMIZERS[name], numeric_format)
    start, (most_loss, most_moved) = both.ours, NOISE[numeric_format]
    for number in range(3):
        ours, theirs = both.advance(number)
        assert abs(ours - theirs) <= most_loss * theirs
    for mine, pytorch, before in zip(both.ours, both.theirs, start, strict=True):
        moved = float((pytorch - before).norm())
        # A sign may turn where a gradient is close to zero.
        allowed = 0.1 if name == "Lion" else most_moved
        assert float((mine - pytorch).norm()) <= allowed * moved


def test_parameters_are_laid_out_in_order_and_shared_ones_stand_once() -> None:
    module = make_module()
    module.tied = module.rows
    step = record_step(module, Shape(ROWS, TOKENS))
    assert [p.name for p in step.parameters] == [name for name, _ in module.named_parameters()]
    sizes = [p.size for p in step.parameters]
    assert [p.offset for p in step.parameters] == [sum(sizes[:n]) for n in range(len(sizes))]
    assert step.built.program.buffers[0].size == sum(sizes)


def test_what_is_frozen_is_a_constant_and_its_tensor_stands_once() -> None:
    """Forward and backward read it, in two orders."""
    module = make_module()
    module.join = Adapter(module.join)  # type: ignore[arg-type]
    step = record_step(module, Shape(ROWS, TOKENS), is_frozen=lambda name: "lora_" not in name)
    assert [p.name for p in step.parameters] == ["join.lora_a", "join.lora_b"]
    frozen = {tensor.numel() for name, tensor in module.named_parameters() if "lora_" not in name}
    tables = [values for values in step.built.constants.values() if values.numel() in frozen]
    assert [values.numel() for values in tables].count(VOCABULARY * WIDTH) == 1
    both = Both(module, step, AdamW())
    ours, theirs = both.advance(0)
    assert abs(ours - theirs) <= 1e-6 * theirs
    torch.testing.assert_close(both.ours[0], both.theirs[0])


def test_a_module_is_left_as_it_was() -> None:
    """Also where one part has two names, another part is in evaluation mode, and the recording fails."""
    module = make_module().train()
    module.tied = module.rows
    module.after.eval()  # type: ignore[union-attr]
    before = dict(module.named_parameters())
    step = record_step(module, Shape(ROWS, TOKENS))
    with pytest.raises(InvalidInput, match="no single number"):
        record_step(module, Shape(ROWS, TOKENS), rows_loss)
    assert {name: id(tensor) for name, tensor in module.named_parameters()} == {
        name: id(tensor) for name, tensor in before.items()
    }
    assert module.training and not module.after.training  # type: ignore[union-attr]
    assert all(tensor.requires_grad for tensor in before.values())
    assert torch.equal(flatten(module, step.parameters), step.weights)


def test_one_module_gives_one_program_whatever_its_weights() -> None:
    one, other = (record_step(make_module(seed), Shape(ROWS, TOKENS)) for seed in (1, 2))
    assert one.built.program == other.built.program
    exact = record_step(make_module(), Shape(ROWS, TOKENS, "exact15")).built.program
    assert {b.role for b in exact.buffers} >= {Role.INTEGER16} and exact != one.built.program


def rows_loss(module: nn.Module, tokens: Tensor, labels: Tensor) -> Tensor:
    return F.cross_entropy(module(tokens).transpose(1, 2), labels, reduction="none")


def both_losses(module: nn.Module, tokens: Tensor, labels: Tensor) -> Any:
    return next_token_loss(module, tokens, labels), rows_loss(module, tokens, labels)


def multiply_up(module: nn.Module, tokens: Tensor, labels: Tensor) -> Tensor:
    return torch.cumprod(module.rows(tokens), 1).mean()  # type: ignore[operator]


class Restless(nn.Module):
    """Does another thing each time: what is counted or remembered is in no state of a task."""

    mean: Tensor

    def __init__(self, way: str) -> None:
        super().__init__()
        self.rows, self.way, self.count = make_module(), way, 1
        self.register_buffer("mean", torch.zeros(VOCABULARY))

    def forward(self, tokens: Tensor) -> Tensor:
        """Logits."""
        logits: Tensor = self.rows(tokens)
        if self.way == "counts":
            self.count += 1
            return logits * self.count
        if self.way == "grows":
            self.count += 1
            for _ in range(self.count):
                logits = torch.tanh(logits)
            return logits
        self.mean = 0.9 * self.mean + logits.mean((0, 1))
        return logits + self.mean


@pytest.mark.parametrize(
    ("way", "said"),
    [("counts", "the same at each call at .*test_record_step.py"), ("grows", "the same at each call"),
     ("remembers", "remembers something.*mean")],
)  # fmt: skip
def test_a_module_that_changes_from_call_to_call_is_refused(way: str, said: str) -> None:
    module = Restless(way)
    with pytest.raises(InvalidInput, match=said):
        record_step(module, Shape(ROWS, TOKENS))
    assert torch.equal(module.mean, torch.zeros(VOCABULARY)), "no tensor of the recorder stays in it"


def test_what_torch_compile_made_runs_as_it_is_written() -> None:
    """The compiler ended the process where it met the recorder."""
    module = make_module()
    module.forward = torch.compile(module.forward)
    plain = record_step(make_module(), Shape(ROWS, TOKENS, "exact"))
    assert record_step(module, Shape(ROWS, TOKENS, "exact")).built.program == plain.built.program


def add_idle(module: nn.Module) -> nn.Module:
    module.idle = nn.Parameter(torch.zeros(3))
    return module


def halve(module: nn.Module) -> nn.Module:
    module.rows.half()
    return module


def test_a_loss_may_be_anything_that_is_a_number() -> None:
    def loss(module: nn.Module, tokens: Tensor, labels: Tensor) -> Tensor:
        chances = module(tokens).log_softmax(-1).gather(-1, labels.unsqueeze(-1))
        return -F.softplus(chances).mean() - 0.25 * (module.rows.weight**2).mean()  # type: ignore[operator, union-attr]

    assert record_step(make_module(), Shape(ROWS, TOKENS), loss).built.program.nodes


@pytest.mark.parametrize("change, loss, is_frozen, message", [
    (add_idle, next_token_loss, lambda _: False, "does not depend on a parameter.*idle"),
    (halve, next_token_loss, lambda _: False, "another type at rows.weight"),
    (lambda m: m, rows_loss, lambda _: False, "no single number"),
    (lambda m: m, both_losses, lambda _: False, "no single number.*tuple"),
    (lambda m: m, multiply_up, lambda _: False, "cumprod.*torch.cumsum"),
    (torch.compile, next_token_loss, lambda _: False, "compiled"),
    (lambda m: m, next_token_loss, lambda _: True, "nothing to train"),
])  # fmt: skip
def test_what_cannot_be_trained_is_refused(
    change: Callable[[nn.Module], nn.Module],
    loss: Callable[[nn.Module, Tensor, Tensor], Tensor],
    is_frozen: Callable[[str], bool],
    message: str,
) -> None:
    with pytest.raises(InvalidInput, match=message):
        record_step(change(make_module()), Shape(ROWS, TOKENS), loss, is_frozen=is_frozen)


def test_a_format_is_known_by_its_short_name_and_no_other_is_taken() -> None:
    """A step of a format that nobody knows was recorded as one of float32, in silence."""
    assert Shape(ROWS, TOKENS, "exact") == Shape(ROWS, TOKENS, "exact15")
    with pytest.raises(InvalidInput, match="exact.*got fp8"):
        Shape(ROWS, TOKENS, "fp8")


def test_an_optimizer_of_pytorch_is_refused_in_words() -> None:
    module = make_module()
    given: Any = torch.optim.AdamW(module.parameters())
    with pytest.raises(InvalidInput, match="got torch.optim.adamw.AdamW"):
        record_step(module, Shape(ROWS, TOKENS), optimizer=given)


class Tables(nn.Module):
    """Two tables of which one is the other with zeros behind: their roots are the same."""

    def __init__(self) -> None:
        super().__init__()
        self.rows = nn.Embedding(VOCABULARY, WIDTH)
        short = torch.tensor([0.5, 1.0, 0.25, 2.0])
        self.register_buffer("short", short)
        self.register_buffer("long", torch.cat([short, torch.zeros(WIDTH - 4)]))

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.rows(tokens).unflatten(-1, (4, 4)) * self.get_buffer("short")
        logits: Tensor = (x.flatten(2) + self.get_buffer("long")) @ self.rows.weight.t()
        return logits


def test_tables_of_two_lengths_are_two_constants(tmp_path: Path) -> None:
    step = record_step(Tables(), Shape(ROWS, TOKENS))
    sizes = [buffer.size for buffer in step.built.program.buffers if buffer.role is Role.CONSTANT]
    assert {4, WIDTH} <= set(sizes)
    step.save(tmp_path)
    found = load_step(tmp_path).built
    assert found.program == step.built.program and found.constants.keys() == step.built.constants.keys()
    assert all(torch.equal(found.constants[n], values) for n, values in step.built.constants.items())


def test_a_step_leaves_no_constants_of_the_one_before_in_its_folder(tmp_path: Path) -> None:
    for value in (0.25, 0.75):
        module = Tables()
        module.get_buffer("short").fill_(value)
        record_step(module, Shape(ROWS, TOKENS)).save(tmp_path)
    (tmp_path / "constants" / "notes").write_text("of the submitter's own")
    roots = {buffer.constant_root.hex() for buffer in load_step(tmp_path).built.program.buffers} - {""}
    record_step(module, Shape(ROWS, TOKENS)).save(tmp_path)
    assert {path.name for path in (tmp_path / "constants").iterdir()} == roots | {"notes"}


class Counting(nn.Module):
    """Multiplies by how often it was called: a buffer counts."""

    def __init__(self) -> None:
        super().__init__()
        self.rows = nn.Embedding(VOCABULARY, WIDTH)
        self.register_buffer("calls", torch.full((1,), 5.0))

    def forward(self, tokens: Tensor) -> Tensor:
        calls = self.get_buffer("calls")
        calls += 1
        logits: Tensor = self.rows(tokens) * calls @ self.rows.weight.t()
        return logits


def test_a_counter_in_a_buffer_is_refused_and_stays_as_it_was() -> None:
    """A program would have its number after the last recording for ever."""
    module = Counting()
    with pytest.raises(InvalidInput, match="writes into a buffer.*calls"):
        record_step(module, Shape(ROWS, TOKENS))
    assert module.get_buffer("calls").item() == 5


@pytest.mark.parametrize(("sequences", "tokens", "chunk_terms"), [(0, 8, 512), (2, 0, 512), (2, 8, 0)])
def test_a_batch_of_nothing_is_refused(sequences: int, tokens: int, chunk_terms: int) -> None:
    with pytest.raises(InvalidInput, match="a batch needs a size of 1 or more"):
        Shape(sequences, tokens, chunk_terms=chunk_terms)


def test_a_class_and_a_loss_of_two_arguments_are_refused_in_words() -> None:
    wrong: Any = Tables
    with pytest.raises(InvalidInput, match="an instance of torch.nn.Module, got Tables"):
        record_step(wrong, Shape(ROWS, TOKENS))
    with pytest.raises(InvalidInput, match="a function of .module, tokens, labels."):
        record_step(Tables(), Shape(ROWS, TOKENS), nn.CrossEntropyLoss())
