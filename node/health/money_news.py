"""Tells an operator about money: one line for each event that concerns its seat.

Each line is printed once, as soon as the state shows it. All that happened before the node began is summed up
in one line.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from touchstone.node.kit.view import View
from touchstone.node.records.round_seats import find_own_slot
from touchstone.protocol.adapters.chain.answers import Head
from touchstone.protocol.adapters.chain.chain_client import GameChain
from touchstone.protocol.adapters.chain.gate import BLOCK_S
from touchstone.protocol.adapters.chain.pace import Pace, measure_pace
from touchstone.protocol.economics.account_money import AccountMoney, compute_account
from touchstone.protocol.economics.duty_ends import estimate_round_blocks, find_due
from touchstone.protocol.economics.money_words import describe_money, estimate_unlock
from touchstone.protocol.spec.game.enums import RoundPhase
from touchstone.protocol.spec.game.logged_game import LoggedGame
from touchstone.protocol.spec.game.money_book import SettledRound
from touchstone.protocol.spec.game.money_reasons import FEES, PAID, MoneyKind, MoneyReason, Sums, add_sums
from touchstone.protocol.spec.game.pools import find_seat
from touchstone.protocol.spec.game.restitution import compute_restitution
from touchstone.protocol.spec.game.round_machine import get_state_at
from touchstone.protocol.spec.game.round_pay import list_round_sums
from touchstone.protocol.spec.game.settling import is_in_pool
from touchstone.protocol.spec.game.state import GameRound, GameState, Seat
from touchstone.protocol.spec.tokens import format_tokens

MEASURED_BLOCKS = 8
"""After this many blocks, the block time that this node measured replaces the preset's."""
MERGED, UNMERGED = "merged", "unmerged"
Key = tuple[int, int, int, str, int]
"""(first round of the seat, seat number, round, kind, wei): identifies a line that is printed once."""

ROUND_LINES: Mapping[str, str] = {
    MoneyReason.ACCEPTED_CLAIM: "your claim was accepted, {wei} earned, paid out {when}",
    MERGED: "your claim was merged, {wei} earned, paid out {when}",
    UNMERGED: "your claim was accepted and not merged, {wei} earned, paid out {when}",
    MoneyReason.AUDIT: "your audits count, {wei} earned, paid out {when}",
    MoneyReason.LATE_AUDIT: "your late audits count, {wei} earned, paid out {when}",
    MoneyReason.RESTITUTION: (
        "the round was undone; a slashed stake pays your claim: {wei} earned, paid out {when}"
    ),
    MoneyReason.UNDONE_ROUND: (
        "the round was undone, because an earlier root was wrong: the escrow does not pay {wei}"
    ),
    MoneyReason.UNSERVED_VOTE: (
        "you and another auditor got no data from a solver. Each of you is charged too: {wei}, taken {when}"
    ),
}
"""The message for each kind of event of a round."""
ROUND_WARNINGS: Mapping[str, str] = {
    MoneyReason.REJECTED_CLAIM: "your claim was rejected by its auditors, {wei} are not paid",
    MoneyReason.LATE_REJECTED_CLAIM: "your claim was rejected by a late audit, {wei} are not paid",
    MoneyReason.UNDECIDED_CLAIM: "your claim was not audited in time, {wei} are not paid",
    MoneyReason.MISSED_DRAW: (
        "nobody recorded the randomness of the draw, so no claim of the round counts: {wei} are not paid"
    ),
    MoneyReason.UNSERVED_CLAIM: (
        "two of three auditors got no data from this node, {wei} are not paid. Check that peers reach it: "
        "touchstone doctor"
    ),
    MoneyReason.UNSERVED_FEE: "a fee of {wei} for data that auditors did not get is taken {when}",
    MoneyReason.MISSED_ROUND: "the round closed without your claim. A fee of {wei} is taken {when}",
}
"""The messages for events that an operator should look into. A conviction is one line, not one a round."""
ACCOUNT_LINES: Mapping[MoneyReason, str] = {
    MoneyReason.SLASH_SHARE: "{wei} of a convicted seat's stake are your credit: touchstone withdraw",
    MoneyReason.BOND_SHARE: "{wei} of a bond that was lost are your credit: touchstone withdraw",
    MoneyReason.RESTORED_PAY: "a convicted auditor had rejected your claim falsely: its stake pays you {wei}",
    MoneyReason.REVENUE: "{wei} of revenue are your credit: touchstone withdraw",
    MoneyReason.ANSWERED_QUERY: "a query of this node was answered: the bond of {wei} is lost",
    MoneyReason.LOST_DISPUTE: "WARNING: a dispute of this node failed: the bond of {wei} is lost",
    MoneyReason.LOST_CONTEST: "WARNING: a contest of this node failed: the bond of {wei} is lost",
    MoneyReason.CONVICTION: (
        "WARNING: YOUR SEAT WAS CONVICTED: its stake of {wei} is gone, and no round that is not settled is "
        "paid. The explorer shows what decided it. Look at the machine before you stake again"
    ),
}
EARNED = PAID | {MoneyReason.RESTITUTION}


@dataclass
class MoneyNews:
    """The money lines that were already printed for one account. `rounds` are as last seen, `open` those
    whose claims are still audited. `sums` is wei by reason. `settled` are the settled rounds of seats.
    `first` is the head at the first line, from which the block time is measured. `looked_at` is the state
    that was looked at last."""

    told: set[Key] = field(default_factory=set)
    rounds: dict[int, GameRound] = field(default_factory=dict)
    open: set[int] = field(default_factory=set)
    sums: dict[MoneyReason, int] = field(default_factory=dict)
    settled: set[tuple[int, int]] = field(default_factory=set)
    first: Head | None = None
    looked_at: tuple[LoggedGame, int] | None = None

    def list_lines(self, view: View, chain: GameChain) -> list[str]:
        """Returns the new lines."""
        game, block = view.game, view.head_block + 1
        before, self.looked_at = self.looked_at, (game, block)
        if before is not None and before[0] is game and before[1] == block:
            return []
        now = get_state_at(game, block)
        lines = [
            *self._list_of_rounds(now, view, chain, block),
            *self._list_of_account(game, view.account),
            *self._list_settled(game, view.account),
        ]
        if before is None:
            money = compute_account(now, game.money, view.account, block)
            due = estimate_unlock(now, money, block) if has_history(money) else None
            wait = "" if due is None else self._find_pace(view, chain).show_wait(due)
            return list(describe_beginning(money, wait))
        return lines

    def _find_pace(self, view: View, chain: GameChain) -> Pace:
        """Returns the block time as measured since the first line; until then, the preset's."""
        head = chain.connection.health.head
        if head is None:
            return Pace(view.head_block, None)
        self.first = self.first or head
        if head.number >= self.first.number + MEASURED_BLOCKS:
            return measure_pace(self.first, head)
        return Pace(head.number, BLOCK_S.get(chain.bounds.name))

    # Rounds
    def _list_of_rounds(self, now: GameState, view: View, chain: GameChain, block: int) -> Iterator[str]:
        """Yields rounds that have changed since the last look, and those that a deadline may have decided."""
        seat, before, self.rounds = find_seat(now, view.account), self.rounds, dict(now.rounds)
        if seat is None:
            return
        for index, game_round in now.rounds.items():
            if before.get(index) is game_round and index not in self.open:
                continue
            is_due = game_round.closed is not None and seat.settled <= game_round.index
            if not is_due or not is_in_pool(game_round, seat):
                continue
            sums = list_round_sums(now, seat, game_round, block)
            (self.open.add if MoneyReason.OPEN_CLAIM in sums else self.open.discard)(game_round.index)
            for what, wei in _list_news(now, seat, game_round, sums, block):
                key = (seat.joined, seat.number, game_round.index, what, wei)
                if key not in self.told:
                    self.told.add(key)
                    due = find_due(now, seat, game_round.index, block, estimate_round_blocks(now))
                    yield _format_round(
                        game_round.index, what, wei, self._find_pace(view, chain).show_wait(due)
                    )

    # Settlements and ends
    def _list_of_account(self, game: LoggedGame, account: str) -> Iterator[str]:
        sums = game.money.find(account).sums
        for reason, line in ACCOUNT_LINES.items():
            more = sums.get(reason, 0) - self.sums.get(reason, 0)
            if more > 0:
                self.sums[reason] = sums[reason]
                yield line.format(wei=format_tokens(more))

    def _list_settled(self, game: LoggedGame, account: str) -> Iterator[str]:
        rounds = game.money.find(account).rounds
        new = {at: one for at, one in rounds.items() if at not in self.settled}
        self.settled |= new.keys()
        for block in sorted({one.block for one in new.values()}):
            yield describe_settled({at: one for at, one in new.items() if one.block == block})


def _list_news(
    now: GameState, seat: Seat, game_round: GameRound, sums: Sums, block: int
) -> Iterator[tuple[str, int]]:
    restitution = compute_restitution(now, seat, game_round, block)
    sums = add_sums(sums, {MoneyReason.RESTITUTION: restitution})
    yield from ((reason, wei) for reason, wei in sums.items() if reason in {**ROUND_LINES, **ROUND_WARNINGS})
    if game_round.phase == RoundPhase.POSTED and (pay := sums.get(MoneyReason.ACCEPTED_CLAIM)):
        slot = find_own_slot(now, game_round, seat.account)
        yield MERGED if slot in game_round.merged else UNMERGED, pay


def _format_round(index: int, what: str, wei: int, when: str) -> str:
    line = {**ROUND_LINES, **ROUND_WARNINGS}[what].format(wei=format_tokens(wei), when=when)
    return f"{'WARNING: ' if what in ROUND_WARNINGS else ''}round {index}: {line}"


def describe_settled(rounds: Mapping[tuple[int, int], SettledRound]) -> str:
    """Describes a settlement. `rounds` are the settled rounds, by seat and round."""
    indices = sorted(index for _, index in rounds)
    first, last = indices[0], indices[-1]
    name = f"round {first} is settled" if first == last else f"rounds {first} to {last} are settled"
    paid, fees = (sum(_sum(one.sums, reasons) for one in rounds.values()) for reasons in (EARNED, FEES))
    line = (
        f"{name}: {format_tokens(paid)} are your credit (touchstone withdraw)" if paid else f"{name}: no pay"
    )
    return f"{line}; fees of {format_tokens(fees)} were taken out of your stake" if fees else line


def _sum(sums: Sums, reasons: Iterable[MoneyReason]) -> int:
    return sum(sums.get(reason, 0) for reason in reasons)


def has_history(money: AccountMoney) -> bool:
    """Returns whether an account has earned, owed or lost anything in a task."""
    settled, lost = money.sum_settled(MoneyKind.SETTLED), money.sum_settled(MoneyKind.LOST)
    return bool(money.earned or money.owed or settled or lost)


def describe_beginning(money: AccountMoney, wait: str = "") -> Iterator[str]:
    """Yields a line on what the account already has in the task when the node begins; none if it has
    nothing but what it has locked. `wait` says when the locked money comes back."""
    if has_history(money):
        yield f"so far in this task {describe_money(money, wait)} (why: `touchstone status`)"
