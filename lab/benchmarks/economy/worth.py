"""Computes what an agent earns: averaged over seeds, or exactly over the outcomes of one draw."""

from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from functools import cache

from lab.benchmarks.economy import auditors, challengers, honest_roles, signers, solvers, submitters
from lab.benchmarks.economy.block_duties import compute_chance, list_chances, play_task
from lab.benchmarks.economy.parameters import (
    FIGURES,
    GAS_PRICE,
    LIMITS,
    OTHER_GAS,
    ROUNDS,
    WHISTLEBLOWERS,
    change_terms,
    make_terms,
    make_word,
)
from lab.benchmarks.economy.play import EXTRAS, Play, SpotChecks, name_parties
from lab.benchmarks.economy.strategy import HONEST, SUBMITTER, Agent, Outcome, Table, Wish
from tests.protocol.spec.test_program import reduce_many
from touchstone.protocol.economics.amounts import list_binding
from touchstone.protocol.economics.money_rules import check_money
from touchstone.protocol.spec.audit_draws import RANKS
from touchstone.protocol.spec.errors import InvalidInput
from touchstone.protocol.spec.game.assignments import get_drawn_seat, get_drawn_segment, get_late_draw
from touchstone.protocol.spec.game.state import GameState
from touchstone.protocol.spec.game.terms_check import check_terms
from touchstone.protocol.spec.params import TOKEN_WEI
from touchstone.protocol.spec.program_operations import Operation
from touchstone.protocol.spec.program_rules import require_valid

AGENTS: tuple[Agent, ...] = (
    *honest_roles.AGENTS, *solvers.AGENTS, *signers.AGENTS, *auditors.AGENTS, *challengers.AGENTS,
    *submitters.AGENTS,
)  # fmt: skip


@dataclass(frozen=True)
class Worth:
    """The result, in tokens a round. `net` is what the agent's accounts earn, `beyond` what they earn more
    than honest work of the same seats. `digest` is a hash of all that they did. `refusals` and `convicted`
    are from the first play."""

    net: float
    beyond: float
    digest: str
    refusals: tuple[str, ...]
    convicted: tuple[str, ...]
    plays: int


def weigh(agent: Agent, seeds: Iterable[int]) -> Worth:
    """Plays an agent and returns its result."""
    if agent.changes:
        return _weigh_terms(agent)
    if agent.outcomes:
        plays = [(one.chance, _play(agent, 0, _wish(agent, one))) for one in agent.outcomes]
    elif agent.is_spotted:
        plays = _play_spot_checks(agent, tuple(seeds))
    else:
        found = [_play(agent, seed) for seed in seeds]
        plays = [(Fraction(1, len(found)), play) for play in found]
    names = list_names(agent)
    net = sum((chance * play.compute_profit(names) for chance, play in plays), start=Fraction(0))
    honest_wei = _weigh_honest(agent.seats, agent.is_submitter, tuple(seeds))
    first = plays[0][1]
    return Worth(
        net=_round(net), beyond=_round(net - honest_wei), digest=_digest(plays),
        refusals=tuple(sorted({f"{call}: {name}" for call, name in first.refused})),
        convicted=tuple(sorted(first.convicted)), plays=len(plays),
    )  # fmt: skip


def _digest(plays: list[tuple[Fraction, Play]]) -> str:
    return make_word(*(one.log for _, one in plays)).hex()


def _round(wei: Fraction) -> float:
    return round(float(wei / TOKEN_WEI / ROUNDS), 4)


def list_names(agent: Agent) -> set[str]:
    """Returns the accounts whose money is the agent's."""
    own = {name for _, name in name_parties(agent) if name.startswith("own")}
    own |= set() if agent.is_honest else {"own stranger", *EXTRAS}
    return own | ({SUBMITTER} if agent.is_submitter else set())


def _play(agent: Agent, seed: int, wish: Wish | None = None, spot: int | None = None) -> Play:
    return play_task(agent, Table(make_terms(), LIMITS, seed, wish), SpotChecks(seed, spot))


def _play_spot_checks(agent: Agent, seeds: tuple[int, ...]) -> list[tuple[Fraction, Play]]:
    """Plays each case: which of the agent's votes is the first to be queried at random, or none."""
    chance = compute_chance(WHISTLEBLOWERS, WHISTLEBLOWERS - agent.seats[2])
    plays = []
    for seed in seeds:
        spared = _play(agent, seed, spot=0)
        chances = list_chances(chance, spared.spot_checks.own)
        asked = [_play(agent, seed, spot=n) for n in range(1, len(chances))]
        plays += [(one / len(seeds), play) for one, play in zip(chances, [spared, *asked], strict=True)]
    return plays


@cache
def _weigh_honest(seats: tuple[int, int, int], is_submitter: bool, seeds: tuple[int, ...]) -> Fraction:
    """Returns what the same seats earn by honest work."""
    agent = Agent("", "", HONEST, seats, is_submitter, is_honest=True)
    names = list_names(agent)
    if not names:
        return Fraction(0)
    total = sum(_play(agent, seed).compute_profit(names) for seed in seeds)
    return Fraction(total, len(seeds))


# Single false claims
def _wish(agent: Agent, outcome: Outcome) -> Wish:
    """Returns whether the draws of the last round come out as an outcome says. The false claim has slot 0."""
    own = [name for role, name in name_parties(agent) if name.startswith("own")]

    def is_wished(state: GameState) -> bool:
        game_round = state.rounds.get(ROUNDS - 1)
        if game_round is None or game_round.seed is None:
            return True
        if game_round.late_seed is not None:
            late = get_late_draw(state, game_round, 0)
            hand = _hand(state, own, state.terms.draws) if late is not None and late.segment == 0 else None
            return hand == outcome.late
        draws = range(state.terms.draws)
        hit = [draw for draw in draws if get_drawn_segment(state, game_round, 0, draw) == 0]
        return (_hand(state, own, hit[0]) if hit else None) == outcome.drawn

    return is_wished


def _hand(state: GameState, own: list[str], draw: int) -> tuple[bool, ...]:
    game_round = state.rounds[ROUNDS - 1]
    seats = (get_drawn_seat(state, game_round, 0, draw, rank) for rank in range(RANKS))
    return tuple(state.seats[seat].account in own for seat in seats if seat is not None)


# Terms that nobody joins
def _weigh_terms(agent: Agent) -> Worth:
    """Returns the result of a task that the contract refuses or no node joins: the submitter has paid gas and
    gets no model."""
    reasons, digest = find_reasons(dict(agent.changes)), make_word("postTask", agent.changes).hex()
    honest_wei = _weigh_honest((0, 0, 0), True, (0,))
    net = Fraction(-OTHER_GAS * GAS_PRICE) if reasons else honest_wei
    return Worth(_round(net), _round(net - honest_wei), digest, reasons, (), 0)


def find_reasons(changes: dict[str, int]) -> tuple[str, ...]:
    """Returns why such a task is not posted or not joined. The change `reduction` is the number of terms of a
    node of its program."""
    reduction = changes.pop("reduction", 1)
    terms = change_terms(make_terms(), changes)
    refusal = check_terms(terms, LIMITS)
    if refusal is not None:
        return (refusal.name,)
    try:
        require_valid(reduce_many(Operation.MAXIMUM_OF, reduction))
    except InvalidInput as refused:
        return (f"not joined: {refused}".split(",")[0],)
    rules = list_binding(check_money(terms, FIGURES))
    return tuple(f"not joined: {name}" for name in sorted({one.name for one in rules if not one.holds}))
