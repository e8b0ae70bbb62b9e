"""Steps of a real training run whose whole traces are looked at: from the initial model, out of the warm-up,
and from late in training.

One process trains on the standard library's text and stores what each step reads; others record its trace on
their kernels.
"""

from dataclasses import dataclass, replace
from hashlib import sha256
from pathlib import Path

from safetensors.torch import load_file, save_file
from torch import Tensor

from benchmarks.setting import DEMO_MODEL, INNER_STEPS, PEAK_LEARNING_RATE, SEQUENCES_PER_STEP, build_training
from protocol.compute.model.batches import Corpus, get_batch, open_corpus
from protocol.compute.model.reference_model import init_parameters
from protocol.compute.program.interpreter import Interpreter
from protocol.compute.program.step import Batch, TrainingState, advance, begin_round, compute_scalars
from protocol.compute.program.task_program import BuiltProgram, ProgramConfig, build_program, with_program
from protocol.spec.containers import ModelConfig, OptimizerConfig, ScheduleConfig, TrainingSpec
from protocol.spec.program import DEFAULT_CHUNK_TERMS

MODELS = {
    "tiny": (ModelConfig(256, 32, 96, 2, 4, 2, 32), 128),
    "small": (ModelConfig(256, 64, 192, 3, 4, 4, DEMO_MODEL.context_tokens), DEFAULT_CHUNK_TERMS),
    "demo": (DEMO_MODEL, DEFAULT_CHUNK_TERMS),
}
"""34,000, 0.2 million and 0.97 million parameters; longest sum."""
STAGES = ("initial", "warm-up", "late")
TRAINED_STEPS = 4 * INNER_STEPS
"""The learning rate rises over the first INNER_STEPS; the last INNER_STEPS are late."""
SCHEDULE = ScheduleConfig(PEAK_LEARNING_RATE, warmup_steps=INNER_STEPS, total_steps=TRAINED_STEPS)
BEACON = sha256(b"honest").digest()


@dataclass(frozen=True)
class Step:
    """What one step reads: W, m, v, a batch and the scalars."""

    vectors: tuple[Tensor, Tensor, Tensor]
    batch: Batch
    scalars: Tensor

    def save(self, path: Path) -> None:
        """To a safetensors file."""
        names = ("w", "m", "v", "tokens", "labels", "scalars")
        save_file(dict(zip(names, (*self.vectors, *self.batch, self.scalars), strict=True)), path)

    def record(self, built: BuiltProgram) -> dict[int, Tensor]:
        """The whole trace: every buffer of the program, flat."""
        interpreter = Interpreter(built.program, built.constants, keeps_all=True)
        interpreter.run(self.vectors, *self.batch, self.scalars)
        return dict(interpreter.tensors)


def build_step(model: str) -> BuiltProgram:
    """The program of a step of one of MODELS."""
    config, chunk_terms = MODELS[model]
    tokens = config.context_tokens
    return build_program(ProgramConfig(config, OptimizerConfig(), SEQUENCES_PER_STEP, tokens, chunk_terms))


def load_step(path: Path) -> Step:
    """What `save` wrote."""
    tensors = load_file(path)
    vectors = (tensors["w"], tensors["m"], tensors["v"])
    return Step(vectors, Batch(tensors["tokens"], tensors["labels"]), tensors["scalars"])


@dataclass(frozen=True)
class Training:
    """A task and its text."""

    spec: TrainingSpec
    corpus: Corpus

    def choose(self, stage: str, count: int) -> list[Step]:
        """`count` steps of a stage: of as many initial models, or evenly out of one run."""
        if stage == "initial":
            return [self._take(self._begin(seed), shard=1 + seed) for seed in range(count)]
        first = 1 if stage == "warm-up" else TRAINED_STEPS - INNER_STEPS
        chosen = [first + (INNER_STEPS - 1) * place // count for place in range(count)]
        state, steps = self._begin(self.spec.initial_seed), []
        for number in range(max(chosen, default=-1) + 1):
            steps += [self._take(state)] * chosen.count(number)
            state, _ = advance(state, self._get_batch(0, number), self.spec)
        return steps

    def _begin(self, seed: int) -> TrainingState:
        return begin_round(init_parameters(self.spec.model, seed), 0)

    def _get_batch(self, shard: int, step: int) -> Batch:
        return get_batch(self.corpus, self.spec, BEACON, shard, step)

    def _take(self, state: TrainingState, shard: int = 0) -> Step:
        vectors = (state.weights, state.first_moment, state.second_moment)
        scalars = compute_scalars(self.spec, state.local_step, state.global_step)
        return Step(vectors, self._get_batch(shard, state.local_step), scalars)


def open_training(model: str, data: bytes) -> Training:
    """The demo's task with one of MODELS."""
    config, chunk_terms = MODELS[model]
    demo = build_training(data, SCHEDULE)
    tokens = config.context_tokens
    spec = with_program(replace(demo, model=config, sequence_tokens=tokens, chunk_terms=chunk_terms))
    return Training(spec, open_corpus(data, spec))
