"""Tells an operator that stops a node what its seat keeps locked, and until when to be back."""

from protocol.actions.runtime.measures import ASK, COMMIT, CONTEST, DISPUTE, VOTE, list_deadlines
from protocol.actions.runtime.party import Party
from protocol.adapters.chain.gate import BLOCK_S
from protocol.spec.game.fates import find_seat, get_stake
from protocol.spec.tokens import format_tokens

HOUR_S, NUMBER_MASK = 3600, 0xFFFF
COSTS = {
    COMMIT: "the claim of the running round is due",
    VOTE: "a vote is due",
    **dict.fromkeys((ASK, DISPUTE, CONTEST), "an answer is due, and silence costs all of the stake"),
}
ANY_TIME = "if somebody questions a statement of this seat now, no answer by then costs all of the stake"


def tell_parting(party: Party) -> None:
    """Says it where the account has a seat of the task."""
    if party.joined is None or not party.is_task_known:
        return
    game, seat = party.game, find_seat(party.game, party.account)
    if seat is None:
        return
    stake = format_tokens(get_stake(game, seat.number))
    name = f"{seat.role.name.lower()} {seat.number & NUMBER_MASK}"
    party.say(
        f"WARNING: this node stops, its seat stays: {name} keeps {stake} locked. {_tell_return(party)}. "
        "`touchstone leave` gives the seat up; the node is needed until the stake is out"
    )


def _tell_return(party: Party) -> str:
    head = party.state.head_block
    if not party.game.rounds:
        return "Be back before the task begins: a round that is missed costs a fee"
    soonest, duty = min(((last, duty) for duty, last in list_deadlines(party, head + 1)), default=(0, ""))
    silence = head + party.game.terms.windows.respond
    last, why = (soonest, COSTS[duty]) if duty and soonest <= silence else (silence, ANY_TIME)
    block_s = BLOCK_S.get(party.chain.limits.name)
    hours = "" if block_s is None else f" (in {(last - head) * block_s / HOUR_S:.1f} hours)"
    return f"Be back before block {last}{hours}: {why}"
