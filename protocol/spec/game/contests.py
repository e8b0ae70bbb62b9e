"""The contest of a posted root: how it is opened, whose move it is, how it ends. Twin of `Contests.sol`.

A contest goes down the root's tree level by level, to one leaf that the contract computes.

    contest -> answer (the two roots, then 16 nodes a turn) -> nameChild -> ... -> bringLeaf

The contester needs no rival root (findings, M4). An account that has the tree answers, the contester names a
child, and in the end the root falls or stands. A fall convicts the signers and undoes later rounds.
"""

from dataclasses import replace

from touchstone.protocol.spec.game.bond_outcomes import forfeit_bond, return_bond
from touchstone.protocol.spec.game.calls import (
    AnswerContest,
    BringLeaf,
    EndRootContest,
    NameChild,
    OpenContest,
)
from touchstone.protocol.spec.game.convicting import convict_signers
from touchstone.protocol.spec.game.draft import Draft
from touchstone.protocol.spec.game.enums import ContestTurn, GameOutcome, RoundPhase
from touchstone.protocol.spec.game.events import ContestMoved, ContestOver, RootFell
from touchstone.protocol.spec.game.rounds import get_round
from touchstone.protocol.spec.game.rule_refusals import require, require_window
from touchstone.protocol.spec.game.state import GameState, RootContest
from touchstone.protocol.spec.game.vault import bond_of


def get_contest(state: GameState, number: int) -> RootContest:
    """Returns an open contest. Refuses NothingOpen."""
    require(number in state.contests, "NothingOpen", "an open contest", number)
    return state.contests[number]


def apply_open_contest(draft: Draft, call: OpenContest, sender: str) -> None:
    """Opens a contest. The k-th open contest costs k bonds, because a right root falls if not all contests
    can be answered in time."""
    state, game_round = draft.state, get_round(draft.state, call.round)
    require(game_round.phase == RoundPhase.POSTED, "NothingOpen", "a posted root", game_round.phase.name)
    require_window(game_round.opened, game_round.root_until, draft.block)
    bond = state.terms.amounts.contest_bond * (1 + len(state.contests))
    require(bond <= call.bond_limit, "WrongBond", bond, call.bond_limit)
    number, clock = state.next_number, draft.block + state.terms.windows.respond
    assert game_round.root is not None
    posting = (game_round.root, game_round.root_until)
    draft.emit(ContestMoved(RootContest(number, call.round, *posting, sender, ContestTurn.ANSWER, clock)))
    draft.take(sender, bond_of(number), bond)


def is_moot(state: GameState, contest: RootContest) -> bool:
    """Returns whether the contested posting is gone, because its root fell, or an earlier root did. If the
    same root is posted again, that is another posting, because nobody could answer for the root meanwhile."""
    game_round = state.rounds[contest.round]
    is_there = (game_round.root, game_round.root_until) == (contest.root, contest.root_until)
    return game_round.phase != RoundPhase.POSTED or not is_there


def _get_turn(draft: Draft, number: int, turn: ContestTurn) -> RootContest:
    contest = get_contest(draft.state, number)
    require(not is_moot(draft.state, contest), "NothingOpen", "the contested root", contest.round)
    require(contest.turn == turn, "WrongTurn", contest.turn.name, turn.name)
    require(draft.block <= contest.clock, "OutsideWindow", f"until {contest.clock}", draft.block)
    return contest


def _pass_turn(draft: Draft, contest: RootContest, turn: ContestTurn, **changes: object) -> None:
    clock = draft.block + draft.state.terms.windows.respond
    changed = replace(contest, turn=turn, clock=clock, **changes)  # type: ignore[arg-type]
    draft.emit(ContestMoved(changed))


def apply_answer_contest(draft: Draft, call: AnswerContest, sender: str) -> None:
    """Answers a contest. Any account that has the tree may answer."""
    contest = _get_turn(draft, call.contest, ContestTurn.ANSWER)
    require(call.is_hashing, "ProofInvalid", "16 nodes that hash to their parent")
    _pass_turn(draft, contest, ContestTurn.CONTESTER, answerer=sender)


def apply_name_child(draft: Draft, call: NameChild, sender: str) -> None:
    """Moves a contest one level down. On the last level the child is a leaf."""
    contest = _get_turn(draft, call.contest, ContestTurn.CONTESTER)
    require(contest.contester == sender, "NotContester", contest.contester, sender)
    level = contest.level + 1
    is_leaf = level >= draft.state.terms.contest_levels
    _pass_turn(draft, contest, ContestTurn.LEAF if is_leaf else ContestTurn.ANSWER, level=level)


def apply_bring_leaf(draft: Draft, call: BringLeaf, sender: str) -> None:
    """Ends a contest by the leaf, which the contract computes from its inputs. A wrong leaf is refused; then
    the root falls when the time is over. So no call has to both compute a leaf and undo rounds."""
    contest = _get_turn(draft, call.contest, ContestTurn.LEAF)
    require(call.is_right, "ProofInvalid", "the inputs of the named leaf, and the posted leaf")
    _stand(draft, replace(contest, answerer=sender))


def apply_end_contest(draft: Draft, call: EndRootContest, sender: str) -> None:
    """Ends a contest in which the side on turn was silent. A silent contester loses its bond; an unanswered
    root falls. If the root is already gone, the contest is moot."""
    contest = get_contest(draft.state, call.contest)
    if is_moot(draft.state, contest):
        return_bond(draft, contest.number, contest.contester)
        draft.emit(ContestOver(contest.number, GameOutcome.MOOT))
        return
    require(draft.block > contest.clock, "NotLate", f"a block after {contest.clock}", draft.block)
    if contest.turn == ContestTurn.CONTESTER:
        _stand(draft, contest)
    else:
        _fall(draft, contest)


def _stand(draft: Draft, contest: RootContest) -> None:
    forfeit_bond(draft, contest.number, contest.answerer)
    draft.emit(ContestOver(contest.number, GameOutcome.HOLDS))


def _fall(draft: Draft, contest: RootContest) -> None:
    """Makes a root fall, and undoes the later rounds. Other contests of these rounds become moot, and end
    once an account sends EndRootContest."""
    state, index = draft.state, contest.round
    signers = state.rounds[index].signers
    later = [r for r in state.rounds if r > index and state.rounds[r].phase != RoundPhase.UNDONE]
    return_bond(draft, contest.number, contest.contester)
    draft.emit(ContestOver(contest.number, GameOutcome.FALLS))
    draft.emit(RootFell(index))
    convict_signers(draft, signers, contest.contester, index, later)
