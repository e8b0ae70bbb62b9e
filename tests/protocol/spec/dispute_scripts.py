"""The disputes that both twins must play alike: every clock, both kinds of claim, queues, demands, proofs."""

from typing import Any

from protocol.spec.dispute_moves import (
    AnswerDemand,
    DemandLeaf,
    NameStep,
    OpenDispute,
    PostStepRoots,
    ProveBinding,
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
    make_step_header,
)


def opening(dispute: bytes = A, **facts: Any) -> OpenDispute:
    return OpenDispute(CLAIM, dispute, CLAIMANT, **facts)


OPENED: tuple[Turn, ...] = ((0, "opener", Seal(A)), (1, "opener", opening()))
ROOTED: tuple[Turn, ...] = (*OPENED, (2, "claimant", PostStepRoots(A, 3)))
NAMED: tuple[Turn, ...] = (*ROOTED, (3, "opener", NameStep(A, 1)))


def demand(state_index: int = 2, tensor: int = 0, leaf: int = 0) -> DemandLeaf:
    return DemandLeaf(A, state_index, tensor, leaf)


def answer(number: int, **facts: Any) -> AnswerDemand:
    return AnswerDemand(A, number, 2, 0, 0, **facts)


def binding(index: int = 1, **facts: Any) -> ProveBinding:
    return ProveBinding(A, index, make_step_header(index, shift=1), **facts)


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
                                    (7, "other", Timeout(A)), (8, "opener", NameStep(A, 0)))),
    DisputeScript(
        "refused names",
        (*ROOTED, (3, "other", NameStep(A, 0)), (3, "opener", NameStep(A, 2)), (4, "opener", NameStep(A, 1))),
    ),
)  # fmt: skip
PROOFS = (
    DisputeScript("nothing proven", (*NAMED, (10, "other", Timeout(A)), (11, "opener", demand()),
                                     (11, "other", Timeout(A)), (12, "opener", demand()))),
    DisputeScript("demand unanswered", (*NAMED, (4, "opener", demand()), (8, "other", Timeout(A)),
                                        (9, "claimant", answer(0)), (9, "other", Timeout(A)))),
    DisputeScript("demand answered", (*NAMED, (4, "opener", demand()), (6, "claimant", answer(0)),
                                      (11, "other", Timeout(A)), (16, "other", Timeout(A)))),
    DisputeScript(
        "last demand after the stage's clock",
        (*NAMED, (10, "other", demand()), (11, "other", Timeout(A)), (14, "claimant", answer(0)),
         (18, "other", Timeout(A)), (19, "other", Timeout(A))),
    ),
    DisputeScript(
        "two demands, in their order",
        (*NAMED, (4, "opener", demand()), (4, "other", demand(tensor=1)), (5, "claimant", answer(1)),
         (6, "claimant", answer(0)), (7, "claimant", answer(0)), (11, "other", Timeout(A))),
    ),
    DisputeScript(
        "refused demands and answers",
        (
            *NAMED,
            (4, "claimant", demand()),
            (4, "other", demand(state_index=3)),
            (4, "other", demand(tensor=3)),
            (4, "other", demand(leaf=2)),
            (4, "claimant", answer(0)),
            (5, "opener", demand()),
            (6, "other", answer(0)),
            (6, "claimant", answer(0, is_header_right=False)),
            (6, "claimant", answer(0, is_leaf_right=False)),
            (7, "claimant", answer(0)),
        ),
    ),
    DisputeScript(
        "too many demands",
        (*NAMED, *((4, "opener", demand()) for _ in range(9)), (4, "other", demand())),
    ),
)  # fmt: skip
BINDING = (
    DisputeScript("binding proven before a step is named", (*ROOTED, (3, "other", binding()),
                                                            (4, "other", binding()))),
    DisputeScript("binding proven", (*NAMED, (4, "other", binding(3)),
                                     (4, "other", binding(2, is_fault=False)),
                                     (4, "other", binding(is_header_right=False)), (4, "opener", binding()))),
    DisputeScript("binding proven after the close",
                  (*NAMED, (11, "other", Timeout(A)), (12, "other", binding()))),
    DisputeScript("binding without roots", (*OPENED, (2, "other", binding()))),
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
        "second dispute is closed by the first conviction",
        (*OPENED, (1, "other", Seal(B)), (2, "other", opening(B)), (6, "other", Timeout(A)),
         (7, "other", Timeout(B))),
    ),
)  # fmt: skip
SCRIPTS = OPENINGS + ROOTS + PROOFS + BINDING + QUEUES
