"""Changed programs do no harm, and harm would be seen."""

from dataclasses import replace
from random import Random
from typing import Any

import pytest

from lab.benchmarks.recipes_run import mutated_programs
from lab.benchmarks.recipes_run.mutated_programs import Harm, Setting, open_setting, run_batch, take
from lab.benchmarks.recipes_run.program_mutator import ProgramMutator
from touchstone.protocol.spec.program import Program
from touchstone.protocol.spec.program_operations import Operation


@pytest.mark.parametrize("numeric_format", ["float32", "exact15"])
def test_changed_programs_are_refused_or_trained(numeric_format: str) -> None:
    found: dict[str, Any] = run_batch(numeric_format, "test", 40)
    assert found["refused"] > 10 and found["trained"] > 2 and not found["harms"]
    assert found["refused"] + found["trained"] == 40


def test_the_same_seed_gives_the_same_programs() -> None:
    program = open_setting("float32").step.built.program
    one, other, third = (ProgramMutator(program, seed) for seed in ("a", "a", "b"))
    made = [one.make() for _ in range(20)]
    assert made == [other.make() for _ in range(20)] != [third.make() for _ in range(20)]


def turn_values(program: Program) -> Program:
    """Quantized values column by column, which kernels would not write so."""
    nodes = list(program.nodes)
    number = next(
        n
        for n, one in enumerate(nodes)
        if one.operation is Operation.QUANTIZE and len(one.sizes) == 2 and min(one.sizes) > 1
    )
    output = replace(nodes[number].output, strides=(1, nodes[number].sizes[0]))
    nodes[number] = replace(nodes[number], output=output)
    return replace(program, nodes=tuple(nodes))


def test_harm_is_seen_where_a_rule_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    setting: Setting = open_setting("exact15")
    turned = turn_values(setting.step.built.program)
    monkeypatch.setattr(mutated_programs, "require_fit", lambda *_: None)
    monkeypatch.setattr(mutated_programs, "ELEMENTS", 30)
    with pytest.raises(Harm, match="is a fault|other bits"):
        take(setting, turned, Random(1))
    take(setting, setting.step.built.program, Random(1))
