"""The disputes that both twins must play alike: every clock, both kinds of claim, queues, demands, proofs."""

from typing import Any

from protocol.spec.dispute_moves import (
    AnswerDemand,
    DemandLeaf,
    NameStep,
    OpenDispute,
    PostStepRoots,
    PostTrace,
    ProveOperation,
    ProveScalar,
    ProveToken,
    Timeout,
)
from tests.protocol.spec.dispute_play import (
    CLAIM,
    CLAIMANT,
    A,
    B,
    DisputeScript,
    Seal,
    Turn,
)


def opening(dispute: bytes = A, **facts: Any) -> OpenDispute:
    return OpenDispute(CLAIM, dispute, CLAIMANT, **facts)


OPENED: tuple[Turn, ...] = ((0, "opener", Seal(A)), (1, "opener", opening()))
ROOTED: tuple[Turn, ...] = (*OPENED, (2, "claimant", PostStepRoots(A, 3)))
NAMED: tuple[Turn, ...] = (*ROOTED, (3, "opener", NameStep(A, 1)))
TRACED: tuple[Turn, ...] = (*NAMED, (4, "claimant", PostTrace(A)))


def demand(node: int = 0, place: int = 0, leaf: int = 0, **facts: Any) -> DemandLeaf:
    return DemandLeaf(A, node, place, leaf, **facts)


def answer(number: int, node: int = 0, place: int = 0, leaf: int = 0, **facts: Any) -> AnswerDemand:
    return AnswerDemand(A, number, node, place, leaf, **facts)


def operation(**facts: Any) -> ProveOperation:
    return ProveOperation(A, 0, 0, **facts)


def token(is_label: bool = False, position: int = 2, **facts: Any) -> ProveToken:
    return ProveToken(A, is_label, position, **facts)


def scalar(which: int = 0, **facts: Any) -> ProveScalar:
    return ProveScalar(A, which, **facts)


OPENINGS = (
    DisputeScript(
        "seals and openings",
        (
            (0, "opener", opening()),
            (1, "opener", Seal(A)),
            (1, "opener", opening()),
            (2, "opener", opening(is_disputable=False)),
            (3, "opener", opening()),
            (4, "opener", opening()),
            (5, "claimant", Seal(B)),
            (6, "claimant", opening(B)),
        ),
    ),
    DisputeScript("claimant silent", (*OPENED, (5, "other", Timeout(A)), (6, "claimant", PostStepRoots(A, 3)),
                                      (6, "other", Timeout(A)), (7, "other", Timeout(A)))),
    DisputeScript("auditor silent", (*OPENED, (6, "opener", Timeout(A))), by_solver=False),
    DisputeScript("auditor answers, opener silent", (*ROOTED, (7, "other", Timeout(A))), by_solver=False),
)  # fmt: skip
ROOTS = (
    DisputeScript(
        "refused roots",
        (
            *OPENED,
            (2, "other", PostStepRoots(A, 3)),
            (2, "claimant", PostStepRoots(A, 2)),
            (2, "claimant", PostStepRoots(A, 3, are_endpoints_met=False)),
            (2, "opener", NameStep(A, 0)),
            (2, "opener", demand()),
            (3, "claimant", PostStepRoots(A, 3)),
            (4, "claimant", PostStepRoots(A, 3)),
        ),
    ),
    DisputeScript("opener silent", (*ROOTED, (6, "other", Timeout(A)), (7, "opener", NameStep(A, 0)),
                                    (7, "other", Timeout(A)), (8, "opener", NameStep(A, 0)),
                                    (8, "other", operation()))),
    DisputeScript(
        "refused names",
        (*ROOTED, (3, "other", NameStep(A, 0)), (3, "opener", NameStep(A, 2)),
         (3, "opener", NameStep(A, 0, are_roots_right=False)), (3, "claimant", PostTrace(A)),
         (4, "opener", NameStep(A, 1))),
    ),
)  # fmt: skip
TRACES = (
    DisputeScript("no trace", (*NAMED, (7, "other", Timeout(A)), (8, "claimant", PostTrace(A)),
                               (8, "other", Timeout(A)))),
    DisputeScript("no trace of an auditor", (*NAMED, (8, "other", Timeout(A))), by_solver=False),
    DisputeScript(
        "refused traces",
        (
            *NAMED,
            (4, "other", PostTrace(A)),
            (4, "claimant", PostTrace(A, are_facts_right=False)),
            (4, "claimant", PostTrace(A, are_headers_right=False)),
            (5, "claimant", PostTrace(A, is_head_right=False)),
            (5, "claimant", PostTrace(A, are_outputs_right=False)),
            (5, "opener", demand()),
            (5, "opener", operation()),
            (6, "claimant", PostTrace(A)),
            (7, "claimant", PostTrace(A)),
        ),
    ),
    DisputeScript("a state with other step numbers has no trace",
                  (*NAMED, (4, "claimant", PostTrace(A, are_steps_right=False)), (8, "other", Timeout(A)))),
    DisputeScript("trace of an auditor", (*TRACED, (5, "other", operation(is_fault=False)),
                                          (6, "other", token())), by_solver=False),
)  # fmt: skip
DEMANDS = (
    DisputeScript("nothing proven", (*TRACED, (11, "other", Timeout(A)), (12, "opener", demand()),
                                     (12, "other", Timeout(A)), (13, "opener", demand()))),
    DisputeScript("demand unanswered", (*TRACED, (5, "opener", demand()), (9, "other", Timeout(A)),
                                        (10, "claimant", answer(0)), (10, "other", Timeout(A)))),
    DisputeScript("demand answered", (*TRACED, (5, "opener", demand()), (7, "claimant", answer(0)),
                                      (12, "other", Timeout(A)), (17, "other", Timeout(A)))),
    DisputeScript(
        "last demand after the stage's clock",
        (*TRACED, (11, "other", demand()), (12, "other", Timeout(A)), (15, "claimant", answer(0)),
         (19, "other", Timeout(A)), (20, "other", Timeout(A))),
    ),
    DisputeScript(
        "two demands, in their order",
        (*TRACED, (5, "opener", demand()), (5, "other", demand(1, 1, 1)), (6, "claimant", answer(1, 1, 1, 1)),
         (7, "claimant", answer(0)), (8, "claimant", answer(0)), (9, "claimant", answer(1, 1, 1, 1)),
         (11, "other", Timeout(A))),
    ),
    DisputeScript(
        "a later demand gives the first no more time",
        (*TRACED, (5, "opener", demand(0, 2)), (6, "claimant", answer(0, 0, 2)), (7, "opener", demand()),
         (9, "other", demand(0, 1)), (11, "other", Timeout(A)), (12, "claimant", answer(1)),
         (12, "other", Timeout(A))),
    ),
    DisputeScript(
        "refused demands and answers",
        (
            *TRACED,
            (5, "claimant", demand()),
            (5, "other", demand(are_facts_right=False)),
            (5, "other", demand(is_node_right=False)),
            (5, "other", demand(place=3, is_place_known=False)),
            (5, "other", demand(2, 1, is_no_constant=False)),
            (5, "other", demand(leaf=2, is_leaf_known=False)),
            (5, "claimant", answer(0)),
            (6, "opener", demand()),
            (7, "other", answer(0)),
            (7, "claimant", answer(0, is_header_right=False)),
            (7, "claimant", answer(0, is_length_right=False)),
            (7, "claimant", answer(0, is_buffer_right=False)),
            (7, "claimant", answer(0, is_leaf_right=False)),
            (8, "claimant", answer(0)),
        ),
    ),
    DisputeScript(
        "too many demands",
        (*TRACED, *((5, "opener", demand()) for _ in range(9)), (5, "other", demand())),
    ),
)  # fmt: skip
PROOFS = (
    DisputeScript("operation proven", (*TRACED, (5, "other", operation(are_facts_right=False)),
                                       (5, "other", operation(is_header_right=False)),
                                       (5, "other", operation(is_fault=False)), (5, "opener", operation()),
                                       (6, "other", operation()))),
    DisputeScript("operation proven after the close",
                  (*TRACED, (12, "other", Timeout(A)), (13, "other", operation()))),
    DisputeScript("token proven", (*TRACED, (5, "other", token(position=64, is_position_known=False)),
                                   (5, "other", token(is_buffer_right=False)),
                                   (5, "other", token(are_leaves_right=False)),
                                   (5, "other", token(is_fault=False)), (6, "other", token()))),
    DisputeScript("label proven after the close",
                  (*TRACED, (12, "other", Timeout(A)), (13, "other", token(True, 9, is_fault=False)),
                   (13, "other", token(True, 9)))),
    DisputeScript("scalar proven", (*TRACED, (5, "other", scalar(3)),
                                    (5, "other", scalar(is_header_right=False)),
                                    (5, "other", scalar(is_buffer_right=False)),
                                    (5, "other", scalar(2, are_leaves_right=False)),
                                    (5, "other", scalar(1, is_fault=False)), (6, "other", scalar(2)))),
    DisputeScript("proof beside an open demand", (*TRACED, (5, "opener", demand()), (6, "other", scalar()))),
)  # fmt: skip
QUEUES = (
    DisputeScript(
        "second dispute waits its turn",
        (
            *OPENED,
            (1, "other", Seal(B)),
            (2, "other", opening(B)),
            (2, "claimant", PostStepRoots(B, 3)),
            (3, "claimant", PostStepRoots(A, 3)),
            (8, "other", Timeout(B)),
            (8, "other", Timeout(A)),
            (9, "claimant", PostStepRoots(B, 3)),
        ),
    ),
    DisputeScript(
        "both disputes are closed, the second for a doubled bond",
        (
            *OPENED,
            (1, "other", Seal(B)),
            (2, "other", opening(B)),
            (2, "claimant", PostStepRoots(A, 3)),
            (7, "other", Timeout(A)),
            (8, "claimant", PostStepRoots(B, 3)),
            (12, "opener", Timeout(B)),
            (13, "opener", Timeout(B)),
        ),
    ),
    DisputeScript(
        "second dispute is closed by the first conviction",
        (*OPENED, (1, "other", Seal(B)), (2, "other", opening(B)), (6, "other", Timeout(A)),
         (7, "other", Timeout(B))),
    ),
)  # fmt: skip
SCRIPTS = OPENINGS + ROOTS + TRACES + DEMANDS + PROOFS + QUEUES
