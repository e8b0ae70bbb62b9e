"""Lists the refusals of the round's rules, by the name of the contract's error, with a remedy for each."""

from functools import partial
from typing import Any

from touchstone.protocol.spec.errors import InvalidInput

REMEDIES = {
    "AlreadyQueried": "Wait for the answer, or query another leaf.",
    "AlreadyCommitted": "A seat commits once a round; wait for the next round.",
    "AlreadySeated": "An account can hold one seat of a task: use it, or wait until its number is free.",
    "AlreadySettled": "Nothing is left to settle up to this round.",
    "AmountTooLarge": "Offer an amount within the deployment's limits.",
    "AmountTooSmall": "Offer an amount that the deployment's limits allow.",
    "ClaimUndecided": "Wait until the claim and, for a vote, its draw are decided.",
    "ContestRuns": "Wait until the contest has ended.",
    "CreditTooSmall": "Deposit more first: stakes and bonds are taken from the sender's credit.",
    "TaskIsClosed": "The task is closed: there is no seat to take, to leave or to pay out any more.",
    "LeafNotQueried": "Query a leaf that exists; for a REJECT, the leaf that it names.",
    "NoMajority": "Bring merge signatures of more than half of the round's seats that are not convicted.",
    "NotCommitter": "Use the account of a seat in this round's pool.",
    "NotContester": "Only the account that opened the contest can name the child.",
    "NotLate": "Wait until the clock has run out.",
    "NotMergeable": "Merge claims that were accepted in time, at least one, each once.",
    "NotNewest": "Only the newest round without a root can get one, posted or kept.",
    "NotHolder": "Send it from the seat's account.",
    "NotSettleable": "Wait until the windows are over and nothing is open, and settle whole epochs.",
    "NotSilent": "Name, in order, three rounds or draws that the seat missed since it last acted.",
    "NotPaused": "Wait until the running round has ended.",
    "NotSubmitter": "Only the submitter can halt the task, or the majority of its shares.",
    "NothingMoved": "Name an amount above zero; withdraw only where there is credit.",
    "NothingOpen": "The query, dispute or contest has ended already, or never existed.",
    "NoDrawDue": "Wait for the block whose randomness decides. Too late a recording does not count.",
    "OutsideWindow": "Send it while the window is open.",
    "OwnStatement": "Send it from another account than the one that made the statement.",
    "PoolTooSmall": "Wait until more seats have joined.",
    "ProofInvalid": "Bring a proof that holds.",
    "RingFull": "Settle all seats of the oldest epoch, and free it.",
    "RoundUnknown": "Name a round that has been opened and not been freed.",
    "RoundNotRunning": "The round does not run any more: go on with the one that runs now.",
    "RoundUndone": "An earlier root fell and undid the round: go on with the one that runs now.",
    "ProofNotCommitted": "Commit to the proof first, and show it while the commitment is valid.",
    "SeatIsConvicted": "The seat was convicted: nothing is left to do with it.",
    "SeatNotActive": "The seat is leaving already, or was convicted: nothing is left to do with it.",
    "SeatUnknown": "Name a seat of this task.",
    "SeatsTaken": "Bring more stake than the smallest solver seat has, or wait until a number is free.",
    "SeatBusy": "Wait until all rounds that hold the seat are settled and nothing on it is open.",
    "StakeWrong": "Bring at least the task's stake, and no more than the greatest amount.",
    "StartPending": "Record the beacon of the start that was asked for, or wait until it has expired.",
    "StatementUnknown": "Name a claim that was committed or a vote that was drawn.",
    "TaskHalted": "The submitter or the shares have halted the task.",
    "TaskOver": "All rounds of the task have been used, or the task has paused for `dispute` blocks.",
    "TaskRuns": "Wait until no round runs or is to come, all seats are paid out and no contest is open.",
    "WindowTooLong": "Choose a shorter window.",
    "WindowTooShort": "Choose a longer window.",
    "WordNotQueried": "Only an ACCEPT or a REJECT of a state leaf can be queried, and never in exact tasks.",
    "WrongBase": "Train from the root that the chain gives.",
    "WrongBeacon": "Train the shard that the chain's beacon assigns.",
    "WrongBond": "Name a greater limit: the k-th open one costs k bonds, and others may open theirs first.",
    "WrongSegments": "Claim as many segments as all audits of a claim need, and at most the round's number.",
    "WrongTurn": "Wait for your turn.",
}
"""What the caller can do about each refusal, by name. Some names are the contracts' own: ContestExists and
DisputeExists (a salt may be reused there; here each bond has a new number), and TooManyOpen (more than 2,047
open about one epoch)."""


EXPECTED = "a call that the contracts take now"
"""The expectation of rules that have no value of their own."""


class GameRefusal(InvalidInput):
    """The machine refuses a call, and the state is unchanged. `name` is the name of the contract's error; it
    is also shown as the actual value if no other is given."""

    def __init__(self, *, name: str, expected: object = "", actual: object = "") -> None:
        self.name = name
        expected, actual = expected if expected != "" else EXPECTED, actual if actual != "" else name
        super().__init__(what=name, expected=expected, actual=actual, remedy=REMEDIES[name])

    def __reduce__(self) -> tuple[Any, ...]:
        return partial(GameRefusal, name=self.name, expected=self.expected, actual=self.actual), ()


def require(condition: bool, name: str, expected: object = "", actual: object = "") -> None:
    """Refuses by `name` unless `condition` holds."""
    if not condition:
        raise GameRefusal(name=name, expected=expected, actual=actual)


def require_window(first: int, last: int, block: int) -> None:
    """Refuses unless first <= block <= last."""
    require(first <= block <= last, "OutsideWindow", f"blocks {first} to {last}", block)
