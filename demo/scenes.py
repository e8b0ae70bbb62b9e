"""Shows a run as a story of five scenes, from what the chain and the parties say."""

import re
import textwrap
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from touchstone.demo.roster import Member
from touchstone.demo.screen import Screen
from touchstone.demo.waits import list_some
from touchstone.demo.watch import Watch
from touchstone.explorer.conviction_words import describe_number, format_pair
from touchstone.explorer.names import show_wei
from touchstone.protocol.adapters.chain.contract_events import Event
from touchstone.protocol.spec.game.assignments import list_draws
from touchstone.protocol.spec.game.drawn_audits import get_drawn
from touchstone.protocol.spec.game.enums import SeatRole
from touchstone.protocol.spec.game.log_values import list_bits

TRAINED = re.compile(r"round (\d+): trained (\d+) of (\d+) steps, loss (\S+)")
REPLAYED = re.compile(r"(\S+)'s claim of round (\d+), segment (\d+): replayed it, (\w+)")
MOST_LINES = 10
"""Lines of a scene, after its heading."""
SHOWN_SOLVERS = 4
HASH_DIGITS = 16
SHARES_WIDTH = 110
DIVERGED = "diverged"
NO_BREAK = "\u00a0"
CARDINALS = ("no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")
WORDS = {"SUBTRACT": "subtraction", "ADD": "addition", "MULTIPLY": "multiplication", "DIVIDE": "division"}
MOST_FORMULA = 70
"""Characters of a formula."""
TRAIN, COMMIT, AUDIT, DISPUTE, END = range(1, 6)
"""The scenes."""


def count_in_words(count: int, noun: str = "") -> str:
    """Returns a count up to ten as a word, with a noun in its number."""
    word = CARDINALS[count] if count < len(CARDINALS) else f"{count:,}"
    return f"{word} {noun}{'' if count == 1 else 's'}" if noun else word


def name_operation(name: str) -> str:
    """Returns the word for an operation of a program."""
    return WORDS.get(name, name.lower().replace("_", " "))


@dataclass
class Scenes:
    """Shows scene after scene. What belongs to a later scene waits until it opens; what comes after its own
    scene is left to the log. `losses` are the first and the latest loss of round 0, by name; `moves` counts
    those of the dispute."""

    screen: Screen
    watch: Watch
    members: Sequence[Member]
    fault: str
    segment_steps: int
    now: int = 0
    waiting: dict[int, list[str]] = field(default_factory=dict)
    counts: dict[int, int] = field(default_factory=dict)
    losses: dict[str, tuple[str, str]] = field(default_factory=dict)
    seen: set[str] = field(default_factory=set)
    rejecting: str = ""

    @property
    def solvers(self) -> list[str]:
        """Returns the names of the solvers."""
        return [one.name for one in self.members if one.role == SeatRole.SOLVER]

    @property
    def cheats(self) -> list[str]:
        """Returns the names of those who cheat."""
        return [one.name for one in self.members if not one.is_honest]

    # Telling
    def begin(self, about: Sequence[str]) -> None:
        """Opens the first scene. `about` says what is trained, and where."""
        count = count_in_words(len(self.solvers)).capitalize()
        end = "we tell one of them to cheat" if self.cheats else "all of them are honest"
        self._open(TRAIN, f"{count} strangers train; {end}.")
        for line in about:
            self.add_line(TRAIN, line)
        for name in self.cheats:
            kind = name_operation(self.fault)
            self.add_line(TRAIN, f"{name} errs on purpose: the last {kind} of each step gives a wrong number")

    def finish(self, heading: str, lines: Sequence[str]) -> None:
        """Opens the last scene, with what the run came to."""
        if self.now < DISPUTE and not self.cheats:
            self._open(DISPUTE, "Nobody disputes anything: no number is wrong.")
        self._open(END, heading)
        for line in lines:
            self.add_line(END, line)

    def add_line(self, scene: int, line: str) -> None:
        """Takes a line of a scene."""
        if scene > self.now:
            self.waiting.setdefault(scene, []).append(line)
        elif scene == self.now and self.counts[scene] < MOST_LINES:
            self.counts[scene] += 1
            self.screen.show(f"   {line}")

    def _open(self, scene: int, heading: str) -> None:
        if scene <= self.now:
            return
        self.now, self.counts[scene] = scene, 0
        self.screen.show(f"{scene}  {heading}", "bold")
        for line in self.waiting.pop(scene, ()):
            self.add_line(scene, line)

    def _is_first(self, mark: str) -> bool:
        is_first = mark not in self.seen
        self.seen.add(mark)
        return is_first

    # What parties say
    def hear(self, name: str, line: str) -> None:
        """Takes a line of a party, with names in it."""
        trained, replayed = TRAINED.search(line), REPLAYED.search(line)
        if trained and trained[1] == "0":
            first, _ = self.losses.get(name, (trained[4], ""))
            self.losses[name] = (first, trained[4])
            if trained[2] == trained[3] and self._is_first(f"trained {name}"):
                self._describe_training(name, trained[3])
        if replayed and replayed[2] == "0" and replayed[4].startswith("REJECT") and not self.rejecting:
            self.rejecting = name
            self._open_audits()

    def _describe_training(self, name: str, steps: str) -> None:
        shown = [one for one in self.solvers if f"trained {one}" in self.seen]
        if len(shown) <= SHOWN_SOLVERS or name in self.cheats:
            first, last = self.losses[name]
            self.add_line(TRAIN, f"{name:<9} trained {steps} steps on its own shard: loss {first} -> {last}")

    # What the chain says
    def take_event(self, event: Event) -> None:
        """Takes an event of the task."""
        if handle := _HANDLERS.get(event.name):
            handle(self, event)

    def _claimed(self, event: Event) -> None:
        values, game = event.arguments, self.watch.game
        if values["round"] != 0:
            return
        claims = game.rounds[0].claims
        claim, who = claims[values["slot"]], self.watch.names.of_slot(game, 0, values["slot"])
        if len(claims) <= SHOWN_SOLVERS or who in self.cheats:
            root = claim.claim_root.hex()[:HASH_DIGITS]
            about = f"{claim.segments} segments of {self.segment_steps} steps"
            self.add_line(COMMIT, f"{who:<9} {root}... over {about}, in block {event.block_number}")
        if len(claims) == len(game.rounds[0].pool.solvers):
            self._open_commitments()

    def _open_commitments(self) -> None:
        self._open(COMMIT, "Each hands in one hash; nothing can be changed now.")

    def _drawn(self, event: Event) -> None:
        game, index = self.watch.game, int(event.arguments["round"])
        if index != 0:
            return
        self._open_commitments()
        for slot, draw in list_draws(game, game.rounds[0])[:SHOWN_SOLVERS]:
            drawn = get_drawn(game, 0, slot, draw, 0)
            if drawn is not None:
                first = drawn.segment * self.segment_steps
                solver, auditor = self.watch.names.of(drawn.solver), self.watch.names.of(drawn.seat.account)
                last = first + self.segment_steps - 1
                draws = f"block {event.block_number} draws steps {first} to {last} of {solver}"
                self.add_line(AUDIT, f"{draws}, for {auditor} to repeat")

    def _open_audits(self) -> None:
        found = ""
        if self.rejecting:
            steps = count_in_words(self.segment_steps, "step")
            found = f"; {self.rejecting} repeats {steps}, blind, and gets something else"
        self._open(AUDIT, f"A later block's randomness picks what is checked{found}.")

    def _rooted(self, event: Event) -> None:
        values, game = event.arguments, self.watch.game
        if values["round"] != 0:
            return
        self._open_audits()
        slots = list_bits(values["merged"])
        merged = [self.watch.names.of_slot(game, 0, slot) for slot in slots]
        self.add_line(
            AUDIT, f"{list_some(merged, SHOWN_SOLVERS)}: repeated, and the same; merged into the model"
        )
        out = [name for name in self.cheats if name not in merged]
        if out:
            signers = count_in_words(len(list_bits(values["signers"])), "solver")
            self.add_line(AUDIT, f"{list_some(out)}: left out; {signers} signed the hash of the new model")

    def _disputed(self, event: Event) -> None:
        values, watch = event.arguments, self.watch
        dispute = watch.state.inner[watch.task].disputes[bytes(values["dispute"])]
        accused = watch.names.of_seat(watch.game, dispute.seat)
        self._open_commitments()
        self._open_audits()
        self._open(DISPUTE, f"{accused} must show its work.")
        if self._is_first("dispute"):
            bond = show_wei(values["bond_wei"])
            self.add_line(
                DISPUTE, f"{watch.names.of(values['opener'])} disputes the result, with a bond of {bond}"
            )

    def _moved(self, event: Event) -> None:
        values, watch = event.arguments, self.watch
        dispute = watch.state.inner[watch.task].disputes[bytes(values["dispute"])]
        accused, opener = watch.names.of_seat(watch.game, dispute.seat), watch.names.of(dispute.opener)
        if not self._is_first(event.name):
            return
        said = {
            "StepRootsPosted": f"{accused} posts its state after each of {self.segment_steps} steps",
            "StepNamed": f"{opener} names step {values.get('step')} of them as the first that is wrong",
            "TracePosted": f"{accused} posts one hash over every number of that step",
        }[event.name]
        self.add_line(DISPUTE, f"move {len(self.seen & MOVES)}: {said}")

    def _convicted(self, event: Event) -> None:
        watch, seat = self.watch, int(event.arguments["seat"])
        held = {**watch.game.former, **watch.game.seats}[seat]
        who, number = watch.names.of(held.account), watch.numbers.get(held.account)
        self._open_commitments()
        self._open_audits()
        self._open(DISPUTE, f"{who} must show its work.")
        if number is not None:
            moves = count_in_words(len(self.seen & MOVES), "move")
            kind = name_operation(number.operation.name)
            self.add_line(DISPUTE, f"after {moves} one {kind} is left: {number.formula[:MOST_FORMULA]}")
            claimed, exact = number.to_json()["claimed"], number.exact_shown
            told = describe_number(who, claimed, exact)
            self.add_line(DISPUTE, f"{told}: the contract computes {format_pair(claimed, exact)[1]}. Guilty.")
        self.add_line(DISPUTE, f"{who} has lost its stake of {show_wei(event.arguments['stake_wei'])}")


MOVES = frozenset({"StepRootsPosted", "StepNamed", "TracePosted"})
_HANDLERS: dict[str, Callable[[Scenes, Event], None]] = {
    "ClaimTaken": Scenes._claimed,
    "AuditsDrawn": Scenes._drawn,
    "RootPosted": Scenes._rooted,
    "DisputeOpened": Scenes._disputed,
    "StepRootsPosted": Scenes._moved,
    "StepNamed": Scenes._moved,
    "TracePosted": Scenes._moved,
    "SeatConvicted": Scenes._convicted,
}


# The last scene
def describe_end(report: dict[str, Any]) -> tuple[str, list[str]]:
    """Returns the heading and the lines of the last scene, from the report."""
    losses = [one["loss"] for one in report["loss"]]
    cheats = [one["name"] for one in report["parties"] if not one["is_honest"]]
    without = " without it" if len(cheats) == 1 else ""
    better = f"better{without}" if losses and losses[-1] < losses[0] else "not better"
    curve = f": {losses[0]:.2f} -> {losses[-1]:.2f}" if losses else ""
    return f"The model is {better}{curve}; who got what.", [*_describe_loss(report), *describe_shares(report)]


def _describe_loss(report: dict[str, Any]) -> list[str]:
    losses = ", ".join(f"{one['loss']:.2f}" for one in report["loss"])
    lines = [f"held-out loss in nats, untrained and after each round: {losses}"]
    other = report.get("with_cheat")
    if other is not None:
        after = other["round"] + 1
        honest = [f", not {one['loss']:.2f}" for one in report["loss"] if one["rounds_done"] == after]
        is_number = other["loss"] is not None and other["shown"] != DIVERGED
        end = f"ended at {other['shown']}" if is_number else DIVERGED
        with_it = f"with the false claim, round {other['round']} would have {end}"
        lines.append(with_it + "".join(honest))
    return lines


def describe_shares(report: dict[str, Any]) -> list[str]:
    """Returns who has how much more or less, those with the same amount together."""
    groups: dict[int, list[str]] = {}
    for one in report["parties"]:
        groups.setdefault(one["change"], []).append(one["name"])
    said = []
    for change, names in sorted(groups.items(), reverse=True):
        amount = f"{'+' if change > 0 else ''}{show_wei(change).split()[0]}" if change else "0"
        said.append(f"{list_some(names, SHOWN_SOLVERS)} {amount}{' each' if len(names) > 1 else ''}")
    said.append(f"burned {show_wei(report['burned']).split()[0]}")
    # An item stays in one line.
    text = "; ".join(one.replace(" ", NO_BREAK) for one in said)
    lines = textwrap.wrap(f"tokens: {text}", SHARES_WIDTH, break_on_hyphens=False)
    return [line.replace(NO_BREAK, " ") for line in lines]
