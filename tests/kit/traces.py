"""Plays as traces: what the Solidity runner sends to the contracts, and what it must find after each call.

python -m tests.kit.traces            write tests/vectors/plays
python -m tests.kit.traces --check    compare only; exit 1 and name the files that differ
python -m tests.kit.traces --report   count plays, calls, refusals and events
python -m tests.kit.traces --explain GROUP/PLAY CALL    what the digest of a call is made of
"""

import argparse
import json
import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from eth_abi.abi import encode

from tests.kit.deployment import DEPLOYER, NAMES, list_addresses, list_arguments
from tests.kit.members import make_member
from tests.kit.observing import compute_digest, list_words
from tests.kit.played_calls import encode_contract_call, find_entry, list_plain
from tests.kit.played_task import Sent
from tests.kit.plays import GROUPS
from tests.kit.world import Play, World
from touchstone.protocol.adapters.chain.abi import load_abi
from touchstone.protocol.adapters.chain.deployment import find_receiver
from touchstone.protocol.spec.game import events
from touchstone.protocol.spec.game.enums import ContestTurn
from touchstone.protocol.spec.game.events import GameEvent

FOLDER = Path(__file__).resolve().parents[1] / "vectors" / "plays"
CHANGED_NAMES = {
    "PayHeld": "RestitutionHeld", "ContestOver": "ContestEnded", "QueryOver": "QueryEnded",
    "StatementDisputed": "DisputeOpened", "DisputeOver": "DisputeEnded", "VoteCounted": "VotesCounted",
    "VoteOpened": "VotesOpened",
}  # fmt: skip
"""Events of the machine that have another name on the chain."""


HANDED = 4
"""Where in a call of `Votes` the votes stand."""
OWN_EVENTS = {
    "TopUp": "SeatToppedUp", "PostTask": "TaskPosted", "postClaimRoots": "StepRootsPosted",
    "postVoteRoots": "StepRootsPosted", "nameStep": "StepNamed", "postTrace": "TracePosted",
    "demandLeaves": "LeafDemanded LeavesDue", "showLeaves": "LeafShown",
    "payRevenue": "RevenuePaid", "claimRevenue": "RevenueClaimed", "voteHalt": "HaltVoted",
}  # fmt: skip
"""Logs of calls that the machine has not, or logs as a movement of money."""


def list_event_names(call: str, logged: tuple[GameEvent, ...]) -> list[str]:
    """Returns names of the logs that a call leaves, each once, sorted; not those of money."""
    names = set(OWN_EVENTS.get(call, "").split())
    for event in logged:
        kind = type(event).__name__
        if isinstance(event, events.ContestMoved):
            is_new = event.contest.turn == ContestTurn.ANSWER and event.contest.level == 0
            is_posted = event.contest.turn == ContestTurn.CONTESTER
            names.add("Contested" if is_new else "NodesPosted" if is_posted else "ChildNamed")
        elif isinstance(event, events.SeatConvicted) and event.statement is not None:
            names |= {kind, "StatementConvicted"}
        elif not isinstance(event, events.WeiMoved):
            names.add(CHANGED_NAMES.get(kind, kind))
    return sorted(names)


def make_trace(world: World) -> dict[str, Any]:
    """Returns a play as the runner reads it."""
    accounts = sorted(party.address for party in world.parties.values())
    seats = sorted({number for one in world.log for number in one.state.seats})
    return {
        "task": "0x" + world.task.hex(),
        "accounts": accounts,
        "seats": seats,
        "calls": [_make_step(one, accounts, seats) for one in world.log],
    }


def find_origin(one: Sent) -> str:
    """Returns who signed the transaction of a call."""
    is_direct = one.relay is None or one.relay.is_coded
    return one.sender if is_direct else make_member("relaying").address


def encode_relayed(one: Sent) -> bytes:
    """Returns the votes that a relayed call logs whole."""
    if one.relay is None or one.made is None or one.relay.taken == ():
        return b""
    handed = one.made[HANDED]
    taken = range(len(handed)) if one.relay.taken is None else one.relay.taken
    kind = find_entry("Votes", "judge").inputs[-1].kind
    return encode([kind], [list_plain([handed[i] for i in taken])])


def _make_step(one: Sent, accounts: list[str], seats: list[int]) -> dict[str, Any]:
    assert one.made is not None
    number, header = one.header or (0, bytes(32))
    is_seen = one.refused is None and one.call != "Deposit" or one.call == "Deposit" and bool(one.events)
    digest = compute_digest(one, accounts, seats) if is_seen else bytes(32)
    names = list_event_names(one.call, one.events) if one.refused is None else []
    names = sorted([*names, "VotesRelayed"]) if encode_relayed(one) else names
    return {
        "call": one.call,
        "sender": one.sender,
        "origin": find_origin(one),
        "isCoded": one.relay is not None and one.relay.is_coded,
        "to": find_receiver(one.made[0]),
        "block": one.block,
        "data": "0x" + encode_contract_call(one.made).hex(),
        "header": number,
        "hash": "0x" + header.hex(),
        "refused": one.refused or "",
        "reason": "0x" + one.reason.ljust(32, b"\0").hex(),
        "events": " ".join(names),
        "relayed": "0x" + encode_relayed(one).hex(),
        "digest": "0x" + digest.hex(),
    }


def render(trace: Mapping[str, Any]) -> str:
    """Returns the file's text: a line a call, so that a changed call shows in a diff."""
    head = [f'  "{key}": {json.dumps(trace[key])},' for key in ("task", "accounts", "seats")]
    lines = ",\n".join("    " + json.dumps(step) for step in trace["calls"])
    return "{\n" + "\n".join(head) + f'\n  "calls": [\n{lines}\n  ]\n}}\n'


def render_deployment() -> str:
    """Returns what the runner creates, in order, and by which selector it knows a refusal or an event."""
    errors, topics = dict[str, str](), dict[str, str]()
    for name in (*NAMES, "TaskShares"):
        for entry in load_abi(name):
            if entry.kind == "error":
                errors[entry.name] = "0x" + entry.selector.hex()
            if entry.kind == "event" and name not in ("DevToken", "Vault", "TaskShares"):
                topics[entry.name] = "0x" + entry.digest.hex()
    table = {
        "deployer": DEPLOYER,
        "name": list(NAMES),
        "address": [list_addresses()[name] for name in NAMES],
        "arguments": ["0x" + list_arguments()[name].hex() for name in NAMES],
        "errorName": sorted(errors),
        "errorSelector": [errors[name].ljust(66, "0") for name in sorted(errors)],
        "eventName": sorted(topics),
        "eventTopic": [topics[name] for name in sorted(topics)],
    }
    return json.dumps(table, indent=1) + "\n"


def list_plays() -> Iterator[tuple[str, Play]]:
    """Yields all plays as GROUP/NAME."""
    for group, plays in GROUPS.items():
        for name, play in plays.items():
            yield f"{group}/{name}", play


@cache
def play_once(name: str) -> World:
    """Returns the world after a play."""
    return dict(list_plays())[name]()


def list_files() -> Iterator[tuple[Path, str]]:
    """Yields every file with its text."""
    yield FOLDER / "deployment.json", render_deployment()
    names = dict[str, list[str]]()
    for name, _ in list_plays():
        group, play = name.split("/")
        names.setdefault(group, []).append(play)
        yield FOLDER / f"{name}.json", render(make_trace(play_once(name)))
    yield FOLDER / "index.json", json.dumps(names, indent=1) + "\n"


def report() -> str:
    """Returns how many plays, calls, refusals and events there are, and which."""
    refusals, logged, count = Counter[str](), Counter[str](), 0
    for name, _ in list_plays():
        for one in play_once(name).log:
            count += 1
            if one.refused is not None:
                refusals[one.refused] += 1
            else:
                logged.update(list_event_names(one.call, one.events))
    lines = [f"{len(dict(list_plays()))} plays, {count} calls, {refusals.total()} refusals"]
    for what, counted in (("refusals", refusals), ("events", logged)):
        lines.append(f"{len(counted)} {what}: " + ", ".join(f"{k} {n}" for k, n in sorted(counted.items())))
    return "\n".join(lines)


def explain(name: str, number: int) -> str:
    """Returns the words of a call's digest."""
    world = play_once(name)
    trace, one = make_trace(world), world.log[number]
    words = list_words(one, trace["accounts"], trace["seats"])
    return "\n".join(f"{i:3} {what}: {word} {word:#x}" for i, (what, word) in enumerate(words))


def main(arguments: list[str] | None = None) -> int:
    """Writes or compares all traces; returns the exit status."""
    parser = argparse.ArgumentParser(prog="python -m tests.kit.traces", description="Recorded plays.")
    parser.add_argument("--check", action="store_true", help="compare only; exit 1 where a file differs")
    parser.add_argument("--report", action="store_true", help="count plays, calls, refusals and events")
    parser.add_argument("--explain", nargs=2, metavar=("PLAY", "CALL"), help="the words of a digest")
    options = parser.parse_args(arguments)
    if options.report or options.explain:
        print(report() if options.report else explain(options.explain[0], int(options.explain[1])))
        return 0
    files = dict(list_files())
    stale = [path for path, text in files.items() if not path.exists() or path.read_text() != text]
    left = [path for path in FOLDER.rglob("*.json") if path not in files]
    if not options.check:
        for path in stale:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(files[path])
        for path in left:
            path.unlink()
    names = ", ".join(str(path.relative_to(FOLDER)) for path in [*stale, *left]) or "none"
    print(f"{'differ' if options.check else 'written'}: {names}")
    return 1 if options.check and (stale or left) else 0


if __name__ == "__main__":
    sys.exit(main())
