"""Subcommands of a task's shares, which own its model.

A share is minted for each wei of pay that a seat settles. `shares pay` pays revenue to the holders, `shares
claim` takes out this account's part, `shares vote` and `shares halt` end a task for the majority of its
shares. `contracts/game/interfaces/IShares.sol` is the manual of the contract.
"""

from dataclasses import dataclass

from touchstone.protocol.adapters.chain.chain_client import GameChain
from touchstone.protocol.adapters.chain.pace import Pace, read_pace
from touchstone.protocol.spec.errors import InvalidInput
from touchstone.protocol.spec.game.terms import EPOCH_ROUNDS
from touchstone.protocol.spec.tokens import format_tokens
from touchstone.scripts.account.requirements import notify_wallet, require_tokens
from touchstone.scripts.account.sending import send
from touchstone.scripts.account.task_names import find_game, read_state, show_task
from touchstone.scripts.command_line.console import Console
from touchstone.scripts.command_line.typed_amounts import parse_tokens
from touchstone.scripts.documents.document_fields import format_id
from touchstone.scripts.documents.posting_documents import HaltDocument
from touchstone.scripts.documents.stake_documents import (
    SharesClaimDocument,
    SharesDocument,
    SharesPayDocument,
)
from touchstone.scripts.tasks.task_ending import notify_halt

ALL, NONE = "all", "none"
"""What `shares vote` takes instead of an amount."""


def parse_votes(text: str) -> int | None:
    """Returns the number of shares to vote with; None for all. Raises InvalidInput for other words."""
    if text in (ALL, NONE):
        return None if text == ALL else 0
    try:
        return parse_tokens(text)
    except InvalidInput as error:
        raise InvalidInput(
            what="not a number of shares",
            expected=f"{ALL}, {NONE}, or a positive number such as 12.5",
            actual=str(error.actual),
            remedy="Give whole shares, as `touchstone shares show` counts them.",
        ) from error


@dataclass(frozen=True)
class Shares:
    """Shares of a task, and this account's part. Shares are counted in wei of pay. `since` is the block from
    which more than half of all shares vote for the halt, 0 if they do not. `halt_block` is the first in which
    the vote halts the task, 0 without a majority. Every seat must have settled all rounds before `round`.
    `is_ended` says that the task is halted or closed. `rounds` is the task's number of rounds."""

    task: bytes
    token: str
    supply: int
    held: int
    votes: int
    claimable_wei: int
    revenue_wei: int
    voting: int
    since: int
    halt_block: int
    round: int
    is_ended: bool
    rounds: int

    @property
    def is_too_short(self) -> bool:
        """Whether no vote can halt the task, because it is shorter than an epoch."""
        return self.rounds < EPOCH_ROUNDS

    def to_document(self) -> SharesDocument:
        """Returns the shares as a JSON document."""
        return SharesDocument(
            task=format_id(self.task),
            token=self.token,
            supply=str(self.supply),
            held=str(self.held),
            votes=str(self.votes),
            claimable_wei=str(self.claimable_wei),
            revenue_wei=str(self.revenue_wei),
            voting=str(self.voting),
            majority_since=self.since,
            halt_block=self.halt_block,
            settled_before=self.round,
        )


async def read_shares(chain: GameChain, name: str) -> Shares:
    """Returns the shares of the task called `name`. Raises InvalidInput if no task or more than one has this
    name."""
    task, game = find_game(await read_state(chain, chain.address), name)
    token = await chain.open_shares(task)
    voting, since, round_ = await token.halt_vote()
    return Shares(
        task=task,
        token=token.address,
        supply=await token.total_supply(),
        held=await token.balance_of(chain.address),
        votes=await token.votes_of(chain.address),
        claimable_wei=await token.claimable_of(chain.address),
        revenue_wei=await token.revenue_wei(),
        voting=voting,
        since=since,
        halt_block=since + game.terms.windows.dispute if since else 0,
        round=round_ if since else 0,
        is_ended=game.is_halted or game.is_closed,
        rounds=game.terms.rounds,
    )


async def show_shares(chain: GameChain, name: str, console: Console) -> SharesDocument:
    """Shows how many shares there are, this account's, and how the vote stands."""
    now, pace = await read_shares(chain, name), await read_pace(chain)
    percent = 100 * now.held / now.supply if now.supply else 0.0
    console.notify(f"{show_task(now.task)} has {show_amount(now.supply)} shares; their token is {now.token}")
    console.notify(
        f"this account holds {show_amount(now.held)} ({percent:.2f} %); {show_amount(now.votes)} vote to halt"
    )
    console.notify(f"revenue paid in: {format_tokens(now.revenue_wei)}")
    console.notify(f"this account can claim: {format_tokens(now.claimable_wei)}")
    if not now.supply:
        console.notify("shares come with settled pay, one for each token: no seat has settled a round yet")
    console.notify(f"{show_amount(now.voting)} shares vote to halt the task, {_describe_vote(now, pace)}")
    return now.to_document()


def show_amount(amount: int) -> str:
    """Returns a number of shares, with as many decimals as an amount of tokens."""
    return format_tokens(amount).removesuffix(" tokens")


def _describe_vote(now: Shares, pace: Pace) -> str:
    if now.is_ended:
        return "which is halted or closed already"
    if now.is_too_short:
        return f"which is too short: it has {now.rounds} rounds, and a vote needs {EPOCH_ROUNDS} settled ones"
    if not now.since:
        return "no majority, which is more than half of all shares"
    from_block = pace.show_block(now.halt_block)
    return (
        f"the majority since block {now.since}; they can halt it from {from_block} on, once all seats have "
        f"settled round {now.round - 1}"
    )


async def pay_revenue(chain: GameChain, name: str, amount_wei: int, console: Console) -> SharesPayDocument:
    """Pays revenue, first from credit and then from the wallet. Raises InvalidInput if the task has no shares
    yet, or there is too little money."""
    now = await read_shares(chain, name)
    if not now.supply:
        raise _no_holders(now)
    await require_tokens(chain, chain.address, amount_wei)
    settled, opened = await _read_settled(chain, now.task)
    if settled < opened:
        console.notify(
            f"WARNING: {opened} rounds were opened, and not all seats have settled round {settled} and later "
            "ones. Work that is settled later gets no part of this revenue"
        )
    await send(chain.deposit_missing(amount_wei))
    await send(chain.shares.pay_revenue(now.task, amount_wei))
    console.notify(f"paid {format_tokens(amount_wei)} to the holders of {show_amount(now.supply)} shares")
    await notify_wallet(chain, console)
    console.notify(f"Next, by each holder: touchstone shares claim {show_task(now.task)}")
    return SharesPayDocument(format_id(now.task), str(amount_wei), str(now.supply))


def _no_holders(now: Shares) -> InvalidInput:
    return InvalidInput(
        what="nobody holds a share of the task yet",
        expected="a task of which a seat has settled work",
        actual="no shares",
        where=show_task(now.task),
        remedy="Pay once work is settled: the payment belongs to the accounts that hold shares at that "
        "moment.",
    )


async def _read_settled(chain: GameChain, task: bytes) -> tuple[int, int]:
    """Returns the first round that some seat has not settled, and how many rounds were opened."""
    opened = await chain.game.next_round(task)
    return min(await chain.game.settled_by(task), opened), opened


async def claim_revenue(chain: GameChain, name: str, console: Console) -> SharesClaimDocument:
    """Claims this account's part of the revenue. Raises InvalidInput if that is nothing."""
    now = await read_shares(chain, name)
    if not now.claimable_wei:
        raise InvalidInput(
            what="there is no revenue to claim",
            expected=f"revenue of {chain.address}",
            actual=f"{show_amount(now.held)} of {show_amount(now.supply)} shares, nothing earned",
            where=show_task(now.task),
            remedy="Revenue belongs to the accounts that held shares when it was paid (`touchstone shares "
            "show`).",
        )
    receipt = await send(chain.shares.claim_revenue(now.task, chain.address))
    amount_wei = receipt.find("RevenueClaimed").arguments["wei_"]
    console.notify(f"claimed {format_tokens(amount_wei)}: it is now credit of {chain.address}")
    console.notify("Next: touchstone withdraw")
    return SharesClaimDocument(format_id(now.task), str(amount_wei))


def _refuse_ended(shares: Shares) -> None:
    if shares.is_ended:
        raise InvalidInput(
            what="there is nothing left to halt",
            expected="a task that still opens rounds",
            actual=f"{show_task(shares.task)} is halted or closed",
            remedy="`touchstone shares vote TASK none` frees shares that voted.",
        )
    if shares.is_too_short:
        raise InvalidInput(
            what="no vote can halt this task",
            expected=f"a task of {EPOCH_ROUNDS} rounds or more: all seats have to settle so many first",
            actual=f"{show_task(shares.task)} has {shares.rounds} rounds",
            remedy="Its submitter can halt it: `touchstone task halt`.",
        )


async def vote_halt(chain: GameChain, name: str, amount: int | None, console: Console) -> SharesDocument:
    """Votes with `amount` shares from now on (None: all, 0: none). Raises InvalidInput if this account has
    fewer, or the task is over already."""
    before = await read_shares(chain, name)
    wanted = before.held if amount is None else amount
    if wanted:
        _refuse_ended(before)
    if wanted > before.held or not before.held:
        raise _too_few_shares(wanted, before)
    await send(chain.shares.vote_halt(before.task, wanted))
    if wanted:
        console.notify(
            f"{show_amount(wanted)} shares of this account vote to halt; they cannot be transferred"
        )
    else:
        console.notify("no share of this account votes to halt any more; all can be transferred")
    return await show_shares(chain, name, console)


def _too_few_shares(wanted: int, before: Shares) -> InvalidInput:
    return InvalidInput(
        what="this account has too few shares",
        expected=f"{show_amount(wanted)} shares" if wanted else "shares of the task",
        actual=show_amount(before.held),
        where=show_task(before.task),
        remedy="Vote with those that you have: `touchstone shares show` tells how many.",
    )


async def halt_by_vote(chain: GameChain, name: str, console: Console) -> HaltDocument:
    """Halts the task; any account may once the majority has voted long enough. Raises InvalidInput if it has
    not, or if the task is over already."""
    now = await read_shares(chain, name)
    _refuse_ended(now)
    pace, (settled, _) = await read_pace(chain), await _read_settled(chain, now.task)
    is_due = now.since and now.halt_block <= pace.head_block + 1 and settled >= now.round
    if not is_due:
        stands = "no majority"
        if now.since:
            stands = (
                f"a majority that counts from {pace.show_block(now.halt_block)}; all seats have settled "
                f"{settled} rounds of the {now.round} that it needs"
            )
        raise _no_majority_yet(stands, now)
    await send(chain.shares.halt_by_vote(now.task))
    notify_halt(now.task, console)
    return HaltDocument(format_id(now.task))


def _no_majority_yet(stands: str, now: Shares) -> InvalidInput:
    return InvalidInput(
        what="the vote does not halt the task yet",
        expected="a majority that has stood for the task's dispute window, and work that is settled",
        actual=f"{show_amount(now.voting)} of {show_amount(now.supply)} shares vote for it, {stands}",
        where=show_task(now.task),
        remedy="See `touchstone shares show`; running nodes settle by themselves.",
    )
