"""Makes the JSON of a conviction: its sentences, its number, and where its page is."""

from typing import Any

from touchstone.explorer.conviction_words import ConvictionFacts, describe_conviction
from touchstone.explorer.names import Names, make_person, show_wei
from touchstone.explorer.story import Conviction
from touchstone.explorer.task_documents import to_hex
from touchstone.protocol.spec.game.inner_dispute import InnerDispute
from touchstone.protocol.spec.game.logged_game import LoggedGame

SHOWN_TERMS = 16
"""The most terms of a convicted number that are shown outside of its own board."""


def make_conviction(
    task: bytes,
    one: Conviction,
    game: LoggedGame | None,
    steps: tuple[int, int],
    dispute: InnerDispute | None,
    number: dict[str, Any] | None,
    names: Names,
) -> dict[str, Any]:
    """Returns a seat that was closed. `steps` are those of a round and of a segment; `dispute` is the one
    that ended with the conviction. Operands of a long sum are left out; a dispute's board has all."""
    facts = gather_facts(one, game, steps, dispute, number, names)
    headline, *story = describe_conviction(facts)
    if number is not None:
        number = number | {"operands": number.get("operands", [])[:SHOWN_TERMS]}
    return {
        "task": to_hex(task),
        "page": f"/conviction/{to_hex(task)}/{one.name}",
        "headline": headline,
        "story": story,
        "block": one.block,
        "transaction": to_hex(one.transaction_hash),
        "seat": one.seat,
        **make_person(one.account, names),
        "finder": names.of(one.finder),
        "finder_account": one.finder,
        "proof": one.proof.name,
        "stake": show_wei(one.stake_wei),
        "dispute": to_hex(one.dispute),
        "number": number,
    }


def gather_facts(
    one: Conviction,
    game: LoggedGame | None,
    steps: tuple[int, int],
    dispute: InnerDispute | None,
    number: dict[str, Any] | None,
    names: Names,
) -> ConvictionFacts:
    """Returns what is known of a conviction for its sentences; the arguments are those of
    `make_conviction`."""
    statement = one.statement or (None if dispute is None else dispute.statement)
    step = None if dispute is None or dispute.step is None else dispute.segment * steps[1] + dispute.step
    is_step_known = step is not None and step < steps[0]
    return ConvictionFacts(
        name=names.of(one.account) if one.account else "a member",
        finder=names.of(one.finder),
        submitter="" if game is None else names.of(game.terms.submitter),
        block=one.block,
        proof=one.proof,
        stake_wei=one.stake_wei,
        number=number,
        round=None if statement is None else statement.round,
        step=step if is_step_known else None,
        steps=steps[0],
        is_claim=None if statement is None else statement.draw is None,
        is_silent=dispute is not None and dispute.trace is None,
        shares=None if one.shares is None else tuple((names.of(who), wei) for who, wei in one.shares),
        is_burned=game is not None and game.is_closed and not game.falls,
        is_model_untouched=one.is_model_untouched,
    )
