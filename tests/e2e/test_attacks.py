"""Attacks of the zoo as solvers of a real round: convicted, while honest work beside them is accepted."""

from pathlib import Path

from benchmarks.hunting.arena import widen
from benchmarks.hunting.chain import QUICK_NAMES, deal, play_round
from protocol.compute.calibrate import propose_limits
from protocol.compute.compare import Distances
from protocol.spec.params import DEVNET
from tests.attacks.menagerie import ATTACKS

NOISE = Distances(1e-7, 1e-7, 1e-7, 0, 0, 0)
"""Less than any machine shows: the tightest limits that the contract takes."""


async def test_attacks_are_convicted_beside_honest_work(tmp_path: Path) -> None:
    attacks = [attack for attack in ATTACKS if attack.name in QUICK_NAMES]
    played = await play_round(tmp_path, widen(propose_limits([NOISE])), attacks)
    assert played.honest_status == "ACCEPTED" and played.honest_lost == 0
    assert [outcome.name for outcome in played.outcomes] == [attack.name for attack in attacks]
    for outcome in played.outcomes:
        assert outcome.is_convicted and outcome.is_caught and outcome.reason == "operation", outcome
        assert outcome.slashed == DEVNET.amounts.solver_stake and not outcome.earned


def test_every_attack_is_dealt_once() -> None:
    dealt = [attack for attacks in deal(ATTACKS, 9) for attack in attacks]
    assert dealt == list(ATTACKS) and max(map(len, deal(ATTACKS, 9))) == 9
