"""How far do honest machines differ? Replays segments on six kernel configurations, proposes limits from
them, and lays cheats beside these.

One process trains solvers' rounds of the demo, moments reset at each start, and keeps every boundary; each
configuration, a process of its own, replays each segment. All ordered pairs are compared. Then the cheats:
the same segments in bfloat16, at another learning rate, with one step left out; their excess is the largest
distance in units of the reject limit, and above 1 is rejected. Ill-conditioned segments are left out.
Writes build/limits/report.json.
"""

import argparse
import itertools
import tempfile
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path

import torch

from benchmarks.setting import (
    INNER_STEPS,
    OUTER_RATES_BITS,
    ROUNDS,
    SEGMENT_STEPS,
    build_demo_schedule,
    build_training,
    read_standard_library,
    train_plainly,
    write_report,
)
from protocol.compute.calibrate import (
    FLOORS,
    KernelConfiguration,
    Proposal,
    find_maxima,
    list_configurations,
    propose_limits,
)
from protocol.compute.compare import Distances, compute_excess, measure_distances
from protocol.compute.determinism import list_cpu_capabilities, pin_kernels
from protocol.compute.step import TrainingState, train_segment
from protocol.spec.float32 import nearest
from protocol.spec.params import LEARNING_RATE_FRACTION_BITS
from scripts.calibration import (
    Segment,
    Workplace,
    keep_well_conditioned,
    make_starts,
    start_worker,
    write_workplace,
)

RATE_FACTOR = 0.99


def list_segments(slots: int, steps: int) -> tuple[Segment, ...]:
    """Every segment of the demo, by round, solver's slot and place."""
    places = itertools.product(range(ROUNDS), range(slots), range(0, INNER_STEPS, steps))
    return tuple(Segment(r, slot, i, steps, r * INNER_STEPS + i) for r, slot, i in places)


def open_demo(folder: Path, slots: int, steps: int) -> Workplace:
    """The demo's spec and text, in the folder."""
    data = read_standard_library()
    spec = build_training(data, build_demo_schedule())
    return write_workplace(folder, spec, data, list_segments(slots, steps))


def compare_all(
    workplace: Workplace, configurations: tuple[KernelConfiguration, ...], segment: Segment
) -> list[Distances]:
    """Distances of all ordered pairs of configurations on one segment."""
    ends = _load_ends(workplace, configurations, segment)
    rates = workplace.sum_rates(segment) * 2.0**-LEARNING_RATE_FRACTION_BITS
    return [measure_distances(a, b, rates, FLOORS) for a, b in itertools.permutations(ends, 2)]


def _load_ends(
    workplace: Workplace, configurations: tuple[KernelConfiguration, ...], segment: Segment
) -> list[TrainingState]:
    return [workplace.load(one.name, segment, segment.steps) for one in configurations]


# --- Cheats -------------------------------------------------------------------------------------------------
def train_in_bfloat16(workplace: Workplace, segment: Segment) -> TrainingState:
    """Matrix products in bfloat16."""
    start, batches = workplace.load("start", segment, 0), workplace.get_batches(segment)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        return train_plainly(start, workplace.training, batches, segment.inner_step, segment.steps)


def train_at_another_rate(workplace: Workplace, segment: Segment) -> TrainingState:
    """The learning rate one percent lower."""
    schedule = workplace.training.schedule
    rate = nearest(schedule.peak_learning_rate * RATE_FACTOR)
    training = replace(workplace.training, schedule=replace(schedule, peak_learning_rate=rate))
    return replace(workplace, training=training).replay(segment)


def skip_step(workplace: Workplace, segment: Segment, skipped: int) -> TrainingState:
    """All steps of the segment but one."""
    training, batches = workplace.training, workplace.get_batches(segment)
    state, first = workplace.load("start", segment, 0), segment.inner_step
    state = train_segment(state, training, batches, first, skipped)[0]
    jumped = replace(state, local_step=state.local_step + 1, global_step=state.global_step + 1)
    left = segment.steps - skipped - 1
    return train_segment(jumped, training, batches, first + skipped + 1, left)[0]


CHEATS: dict[str, Callable[[Workplace, Segment], TrainingState]] = {
    "bfloat16": train_in_bfloat16,
    "learning rate x 0.99": train_at_another_rate,
    "first step skipped": lambda workplace, segment: skip_step(workplace, segment, 0),
    "last step skipped": lambda workplace, segment: skip_step(workplace, segment, segment.steps - 1),
}


def measure_cheats(
    workplace: Workplace, configurations: tuple[KernelConfiguration, ...], proposal: Proposal
) -> dict[str, dict[str, float]]:
    """By cheat and segment of one slot: how far beyond the reject limit, seen by the configuration that sees
    least of it."""
    found: dict[str, dict[str, float]] = {name: {} for name in CHEATS}
    for segment in (segment for segment in workplace.segments if segment.slot == 0):
        ends, rate = _load_ends(workplace, configurations, segment), workplace.sum_rates(segment)
        for name, cheat in CHEATS.items():
            claimed = cheat(workplace, segment)
            seen = [compute_excess(claimed, end, rate, proposal.reject).max() for end in ends]
            found[name][segment.name] = float(min(seen))
    return found


def calibrate(workplace: Workplace) -> dict[str, object]:
    """The report: honest maxima by segment, the proposal, and the cheats under it."""
    configurations = list_configurations(list_cpu_capabilities())
    kept = keep_well_conditioned(make_starts(workplace, *OUTER_RATES_BITS))
    for configuration in configurations:
        print(configuration.name, flush=True)
        start_worker(workplace, configuration)
    measured = {segment.name: compare_all(workplace, configurations, segment) for segment in kept}
    every = [distances for pairs in measured.values() for distances in pairs]
    proposal = propose_limits(every)
    cheats = measure_cheats(workplace, configurations, proposal)
    return {
        "k": workplace.segments[0].steps,
        "H": INNER_STEPS,
        "configurations": [configuration.name for configuration in configurations],
        "segments": len(measured),
        "ill_conditioned": len(workplace.segments) - len(measured),
        "maxima": find_maxima(every),
        "floors": asdict(FLOORS),
        "proposal": asdict(proposal),
        "least_excess": {name: min(seen.values()) for name, seen in cheats.items()},
        "excess_by_stage": cheats,
        "maxima_by_stage": {name: find_maxima(pairs) for name, pairs in measured.items()},
    }


def main() -> None:
    """Measures, writes the report and prints its path."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=SEGMENT_STEPS, help="k, steps of a segment")
    parser.add_argument("--slots", type=int, default=2, help="solvers whose rounds are replayed")
    arguments = parser.parse_args()
    pin_kernels(1)
    with tempfile.TemporaryDirectory() as folder:
        workplace = open_demo(Path(folder), arguments.slots, arguments.steps)
        print(write_report("limits", calibrate(workplace)))


if __name__ == "__main__":
    main()
