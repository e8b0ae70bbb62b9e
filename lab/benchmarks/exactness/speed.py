"""How long does a step take beside plain PyTorch, in float32 and in the exact formats? Interleaved."""

import statistics
from collections.abc import Callable

from lab.benchmarks.program import make_plain_step, make_setting, time_in_turn
from protocol.compute.program import product_families
from protocol.compute.program.interpreter import Interpreter
from protocol.compute.program.task_program import ProgramConfig, build_program
from protocol.spec.containers import ModelConfig, OptimizerConfig
from protocol.spec.params import PRODUCT_BITS
from tests.training_setting import DEMO_MODEL

SIZES = {
    "1M": DEMO_MODEL,
    "6M": ModelConfig(256, 256, 768, 7, 4, 4, 128),
    "30M": ModelConfig(256, 512, 1536, 9, 8, 8, 128),
}
CHUNK_TERMS = 4096
FLOAT64 = "exact15 through float64"
Call = Callable[[], object]


def compare_speed(size: str, steps: int) -> dict[str, float]:
    """Medians of the ratios to plain PyTorch's steps (autograd, clip, fused AdamW), one thread."""
    setting = make_setting(SIZES[size])

    def build(numeric_format: str) -> Call:
        """A step in a format; run once, so that its kernels are made."""
        bits = PRODUCT_BITS.get(numeric_format, 0)
        shape = (*setting.batch.tokens_BT.shape, CHUNK_TERMS, bits)
        built = build_program(ProgramConfig(setting.model, OptimizerConfig(), *shape))
        call = setting.run(Interpreter(built.program, built.constants, numeric_format=numeric_format))
        call()
        return call

    calls: dict[str, Call] = {"plain": make_plain_step(setting), "float32": build("float32")}
    calls |= {name: build(name) for name in PRODUCT_BITS}
    calls[FLOAT64] = _in_family("doubles", build("exact15"))
    calls["exact15"], calls["exact8"] = (_in_family(None, calls[name]) for name in ("exact15", "exact8"))
    seconds = time_in_turn(steps, **calls)
    product_families.force_family(None)
    plain = seconds.pop("plain")
    return {
        name: statistics.median(own / other for own, other in zip(times, plain, strict=True))
        for name, times in seconds.items()
    }


def _in_family(name: str | None, call: Call) -> Call:
    def run() -> object:
        """The step, with products of this family."""
        product_families.force_family(name)
        return call()

    return run
