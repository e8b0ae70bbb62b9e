"""The words for each custom error of the contracts: what the rule is, what was expected, what was found, what
to do."""

from typing import NamedTuple


class Wording(NamedTuple):
    """How one custom error reads; `expected` and `actual` are format strings over the error's values."""

    what: str
    expected: str
    actual: str
    remedy: str


_WAIT = "Wait for the block; the windows of a round are in docs/spec.md, section 7."
_RELOAD = "Read the round again: somebody else may have acted first."
_OWN = "Use the account that the round names."
_PROOF = "Rebuild the proof from the stored state; a damaged store is restored from the journal."
_SHOW = "Fetch the block from another node of the chain and make the proof again (`Randomness.prove`)."
_LATE = "The chance is gone for this round; the next one starts with `advance`."

WORDINGS: dict[str, Wording] = {
    "AlreadyCommitted": Wording(
        "a claim is irrevocable", "no claim of slot {slot} yet", "one is committed", "Go on with that claim."
    ),
    "AlreadyEnrolled": Wording(
        "one role an account a round",
        "an account that is not enrolled",
        "{account}",
        "Go on, or use another account.",
    ),
    "AlreadyMerged": Wording(
        "the outer root is posted",
        "a round without an outer root",
        "{poster} posted it in block {posted_block}",
        "Compare it and contest it if it differs.",
    ),
    "AlreadyOpened": Wording(
        "already opened", "nothing opened for slot {slot}, draw {draw}", "it is open", _RELOAD
    ),
    "AlreadySealed": Wording("the draw is sealed", "no seal yet", "sealed with {seed}", _RELOAD),
    "AlreadySettled": Wording("settled once only", "slot {slot} open", "settled", _RELOAD),
    "BadTerms": Wording(
        "the task's terms break a rule",
        "a value allowed by docs/spec.md",
        "{field} = {value}",
        "Change the task file.",
    ),
    "BoundaryMismatch": Wording(
        "the boundary is not under the claim",
        "a path to {claim_root}",
        "another root, boundary {boundary}",
        _PROOF,
    ),
    "BufferMismatch": Wording(
        "the buffer is not the trace's", "buffer {buffer} under {trace_root}", "another root", _PROOF
    ),
    "ClaimNotDisputable": Wording(
        "this claim cannot be disputed",
        "a claim revealed and not settled",
        "status {status}",
        "Choose another claim.",
    ),
    "ClockOver": Wording(
        "the clock has run out",
        "a block before {clock_block}",
        "block {block_number}",
        "Call timeout: anybody may.",
    ),
    "ClockRunning": Wording(
        "the clock still runs", "a block from {clock_block} on", "block {block_number}", _WAIT
    ),
    "CommitmentMismatch": Wording(
        "the reveal is not what was committed",
        "{expected}",
        "{actual}",
        "Reveal state and salt from the journal.",
    ),
    "ConstantDemanded": Wording(
        "everybody has the constants",
        "a buffer that only the claimant has",
        "constant {buffer}",
        "Take it from the task's program.",
    ),
    "ContestRunning": Wording("one contest at a time", "no contest", "one by {rival}", "Wait for its end."),
    "DemandUnknown": Wording(
        "no such open demand",
        "the oldest open one: {answered} of {made} are answered",
        "number {demand}",
        _RELOAD,
    ),
    "DisputeExists": Wording(
        "disputed already", "a new dispute", "{dispute}", "Join it: anybody may prove or demand."
    ),
    "DisputeOpen": Wording(
        "a dispute holds the settlement",
        "no open dispute on slot {slot}",
        "at least one",
        "Wait for its end.",
    ),
    "DisputeWindowClosed": Wording(
        "too late to dispute", "a block before {closes_block}", "block {block_number}", _LATE
    ),
    "ERC20InsufficientAllowance": Wording(
        "the vault may not take that many tokens",
        "{needed} approved",
        "{allowance}",
        "Approve the vault first.",
    ),
    "ERC20InsufficientBalance": Wording(
        "too few tokens",
        "{needed}",
        "{balance} of {sender}",
        "Get tokens of the deployment's token contract.",
    ),
    "ElementUnknown": Wording(
        "no such element", "a number below {count}", "{element}", "Name an element that the node computes."
    ),
    "EndNotOpened": Wording(
        "the solver has not opened the end", "an end state of slot {slot}, draw {draw}", "none", _WAIT
    ),
    "EndpointMismatch": Wording(
        "a step root does not fit the claim", "{expected} at {index}", "{actual}", _PROOF
    ),
    "EscrowTooSmall": Wording(
        "the task's escrow is used up", "{needed_wei}", "{escrow_wei}", "Wait for the task to close."
    ),
    "ExposureExists": Wording("this stake is exposed already", "a new exposure", "{exposure}", _RELOAD),
    "ExposureUnknown": Wording("no such exposure", "an open exposure", "{exposure}", _RELOAD),
    "FactsMismatch": Wording(
        "these are not the facts of the task's steps",
        "{expected_step_root}",
        "{actual_step_root}",
        "Build them from the task's spec again.",
    ),
    "HeadMismatch": Wording(
        "the head is not the program's", "leaf 0 of {program_root}", "another head", _PROOF
    ),
    "HeaderMalformed": Wording(
        "this chain's headers have another shape",
        "a block header as Ethereum encodes it",
        "something else at byte {at_byte}",
        "This chain cannot hold rounds; deploy on another one.",
    ),
    "HeaderMismatch": Wording(
        "the header is not the posted step state", "{expected_state_root}", "{actual_state_root}", _PROOF
    ),
    "IndexOutside": Wording(
        "an element or an index lies outside of its buffer",
        "a number below {size}",
        "{index}",
        "Where a token is wrong, prove that instead.",
    ),
    "LastStateUnknown": Wording(
        "the claim's last state is not opened there",
        "a last state of slot {slot}, draw {draw}",
        "none",
        "Name a draw whose end the solver opened.",
    ),
    "LeafMismatch": Wording("a leaf is not under its root", "leaf {index} of {root}", "another leaf", _PROOF),
    "LeafUnknown": Wording(
        "no such leaf",
        "a number below {leaf_count}",
        "{leaf_index}",
        "Name a leaf, a position or a scalar that the buffer has.",
    ),
    "LeavesMismatch": Wording(
        "the leaves are not under their root",
        "{count} leaves of {root} from {first_leaf} on",
        "other leaves",
        _PROOF,
    ),
    "LeavesNotOpened": Wording(
        "the solver has not opened the leaves",
        "leaves of slot {slot}, draw {draw}, phase {phase}",
        "none",
        _WAIT,
    ),
    "NoContest": Wording("nothing is contested", "a running contest of {rival}", "none", _RELOAD),
    "NoFault": Wording(
        "the claim is right here",
        "a fault",
        "none at index {index}",
        "Check the computation: a proof of nothing costs only gas.",
    ),
    "NodeMalformed": Wording(
        "the node has another length", "{expected_bytes} bytes", "{actual_bytes} bytes", _PROOF
    ),
    "NodeMismatch": Wording(
        "the node is not the program's", "node {number} of {program_root}", "another node", _PROOF
    ),
    "NodeUnsound": Wording(
        "no program has such a node",
        "a sound {what}",
        "{value}",
        "Do not stake on this task; tell its submitter.",
    ),
    "NodesMismatch": Wording("the nodes do not hash to the contested one", "{expected}", "{actual}", _PROOF),
    "NotAuditor": Wording("another account is drawn for this audit", "{expected}", "{actual}", _OWN),
    "NotClaimant": Wording("only the claimant answers", "{expected}", "{actual}", _OWN),
    "NotDrawn": Wording(
        "no such audit is drawn", "an audit of the draw", "slot {slot}, draw {draw}, rank {rank}", _RELOAD
    ),
    "NotEnrolled": Wording(
        "not enrolled in this round", "an enrolled account", "{account}", "Enrol in the next round."
    ),
    "NotEscalated": Wording(
        "the reserves were not called", "an escalated draw", "slot {slot}, draw {draw}", _RELOAD
    ),
    "NotJudged": Wording(
        "claims are not judged yet",
        "{expected} judged",
        "{judged}",
        "Call judge on the others first: anybody may.",
    ),
    "OtherSet": Wording(
        "the outer root is over another set of claims",
        "a root over {accepted} claims",
        "over {included}",
        "Compute it again: a claim was convicted meanwhile.",
    ),
    "NotMerged": Wording(
        "the outer root does not stand yet", "block {ready_block} or later", "block {block_number}", _WAIT
    ),
    "NotModule": Wording(
        "only the contracts call this", "a contract of the deployment", "{caller}", "Use the public calls."
    ),
    "NotOpener": Wording("only the opener names the step", "{expected}", "{actual}", _OWN),
    "NotPoster": Wording("the poster's turn", "{expected}", "{actual}", _OWN),
    "NotSealed": Wording(
        "the opening was not sealed", "a seal {seal_hash}", "none", "Call sealOpening, then wait one block."
    ),
    "NotSolver": Wording("another account made this claim", "{expected}", "{actual}", _OWN),
    "NotSubmitter": Wording(
        "only the submitter posts a task",
        "{expected}",
        "{actual}",
        "Post with the account that the terms name.",
    ),
    "NotYet": Wording("too early", "block {ready_block} or later", "block {block_number}", _WAIT),
    "NotYourTurn": Wording("another move is due", "{expected}", "{actual}", _WAIT),
    "NothingDue": Wording(
        "no verdict is due", "a claim whose deadline has passed", "slot {slot} is {actual}", _WAIT
    ),
    "NothingToContest": Wording(
        "no root was posted", "an outer root over accepted claims", "one posted by {poster}", _WAIT
    ),
    "NothingToWithdraw": Wording(
        "nothing can leave yet",
        "block {ready_block} or later",
        "block {block_number}",
        "Request unbonding, then wait.",
    ),
    "OutputMismatch": Wording(
        "the trace does not end in the claimed state",
        "the root of tensor {tensor} in buffer {buffer}",
        "another root",
        "Recompute the step; a claim whose steps do not add up has no trace.",
    ),
    "OutsideWindow": Wording(
        "the window is closed",
        "a block from {opens_block} up to and without {closes_block}",
        "block {block_number}",
        _WAIT,
    ),
    "OwnClaim": Wording("nobody disputes its own claim", "another account", "{account}", _OWN),
    "OwnRoot": Wording("nobody contests its own root", "another account", "{poster}", _OWN),
    "PlaceUnknown": Wording(
        "the node has no such operand", "0 to {operands}", "{place}", "Name an operand that the node has."
    ),
    "ProofTooShort": Wording(
        "the proof is cut off", "{expected_bytes} bytes or more", "{actual_bytes} bytes", _SHOW
    ),
    "QueueFull": Wording(
        "too many disputes wait for this claimant",
        "fewer than {cap}",
        "{cap}",
        "Wait until one of them ends.",
    ),
    "RandomnessGone": Wording(
        "the block's hash is gone",
        "a block whose hash the chain still knows",
        "block {block_number}",
        _LATE,
    ),
    "RandomnessPending": Wording(
        "this block's randomness is not known yet",
        "a block behind block {block_number}",
        "block {of_block}",
        _WAIT,
    ),
    "RootReplaced": Wording(
        "the contested root was replaced",
        "the root that {rival} contested",
        "another",
        "End the contest with timeout; nobody loses.",
    ),
    "RootsMismatch": Wording(
        "these are not the posted step roots",
        "{expected}",
        "{actual}",
        "Take them from the event StepRootsPosted.",
    ),
    "RoundFull": Wording(
        "the round is full", "fewer than {capacity} as {role}", "{capacity}", "Enrol in the next round."
    ),
    "RoundNotSettled": Wording(
        "claims are not settled yet",
        "{expected} settled",
        "{settled}",
        "Call settleClaim on the others first: anybody may.",
    ),
    "RoundNotTrained": Wording("the round is not in training", "TRAINING", "{actual}", _RELOAD),
    "SameRoot": Wording(
        "nothing to contest", "another root than the posted one", "the same: {root}", "Nothing: you agree."
    ),
    "ScheduleMismatch": Wording(
        "the learning rate is not the schedule's",
        "segment {segment_index} of {schedule_root}",
        "another sum or path",
        "Compute the schedule from the task again.",
    ),
    "SealTooYoung": Wording(
        "the seal must be one block old",
        "a block after {sealed_block}",
        "block {block_number}",
        "Wait one block.",
    ),
    "SlotUnknown": Wording("no such slot", "a slot below {solvers}", "{slot}", "Read the round's solvers."),
    "StartNotOpened": Wording(
        "the solver has not opened the start", "a start state of slot {slot}, draw {draw}", "none", _WAIT
    ),
    "StepUnknown": Wording(
        "no such step", "a number below {count}", "{index}", "Name a step that the segment has."
    ),
    "TaskExists": Wording("the task exists", "a new task", "{task}", "Change its salt to post it again."),
    "TaskFinished": Wording(
        "the task has had all its rounds", "a running task", "{task}", "Export the model."
    ),
    "TaskUnknown": Wording(
        "unknown task", "a task of this deployment", "{task}", "List them with `touchstone status`."
    ),
    "TooLittleStake": Wording(
        "too little free stake",
        "{needed_wei}",
        "{free_wei} of {account}",
        "Add some with `touchstone stake AMOUNT`.",
    ),
    "TooManyDemands": Wording(
        "too many demands",
        "at most {cap} of one challenger",
        "more by {challenger}",
        "Prove with what was answered.",
    ),
    "TooManyTerms": Wording(
        "a sum too long to be judged",
        "at most {most} terms",
        "{actual}",
        "Do not stake on this task; tell its submitter.",
    ),
    "TraceMismatch": Wording("the opened buffers are not the trace's", "{trace_root}", "{actual}", _PROOF),
    "WrongAuditStatus": Wording("the audit is not there yet, or past it", "{expected}", "{actual}", _RELOAD),
    "WrongChild": Wording(
        "no such child was posted",
        "a child that differs, below {count}",
        "{child}",
        "Name one of the posted nodes that differs.",
    ),
    "WrongClaimStatus": Wording(
        "the claim's life does not allow this", "another status of slot {slot}", "{actual}", _RELOAD
    ),
    "WrongHeader": Wording("this is not the block's header", "{expected_hash}", "{actual_hash}", _SHOW),
    "WrongInputCount": Wording("a wrong number of inputs", "{expected}", "{actual}", _PROOF),
    "WrongLeafBytes": Wording("the leaves have another length", "{expected} bytes", "{actual} bytes", _PROOF),
    "WrongCount": Wording(
        "a list is too long or too short", "{expected}", "{actual}", "Give every audit its own entry."
    ),
    "WrongLeafCount": Wording("a wrong number of leaves", "{expected}", "{actual}", _PROOF),
    "WrongNodeCount": Wording("a wrong number of nodes", "{expected}", "{actual}", _PROOF),
    "WrongOpeningBytes": Wording(
        "the openings have another length", "{expected} bytes or more", "{actual} bytes", _PROOF
    ),
    "WrongPhase": Wording(
        "that draw is not of this phase", "the phase of draw {draw}", "phase {phase}", _RELOAD
    ),
    "WrongReceipt": Wording(
        "the token delivered another amount",
        "{expected_wei}",
        "{received_wei}",
        "Use a token without transfer fees.",
    ),
    "WrongRootCount": Wording("a wrong number of step roots", "{expected}", "{actual}", _PROOF),
    "WrongRound": Wording("another round is running", "round {expected}", "round {actual}", _RELOAD),
    "WrongSignature": Wording(
        "this is not what drand signed",
        "the signature of round {drand_round}",
        "another one",
        "Ask another server of drand.",
    ),
    "WrongStage": Wording("the dispute is at another stage", "{expected}", "{actual}", _RELOAD),
    "WrongStart": Wording(
        "the claim starts elsewhere",
        "{expected_state_root}",
        "{actual_state_root}",
        "Start from the global model of this round.",
    ),
    "WrongStatus": Wording("the round is at another stage", "status {expected}", "status {actual}", _RELOAD),
    "WrongSteps": Wording(
        "the state has the wrong step numbers",
        "local {expected_local}, global {expected_global}",
        "local {actual_local}, global {actual_global}",
        _PROOF,
    ),
    "WrongTensor": Wording(
        "no such tensor", "0 (weights) or 1 (momentum)", "{tensor}", "Name the tree that differs."
    ),
    "ZeroAmount": Wording("an amount of zero", "more than nothing", "nothing", "Pass an amount."),
}
"""Custom error -> its words. A test holds that every error of the interfaces is here and fits."""
