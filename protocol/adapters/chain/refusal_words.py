"""The words for custom errors whose Solidity sources have none."""

from typing import NamedTuple


class Wording(NamedTuple):
    """The words of one custom error. `expected` and `actual` are format strings over the error's values."""

    what: str
    expected: str
    actual: str
    remedy: str


_WAIT = "Wait for the block."


_PROOF = "Rebuild the proof from the stored state; a damaged store is restored from the journal."


_SHOW = "Fetch the block from another node of the chain and make the proof again (`Randomness.prove`)."


_LATE = "It is too late to use this block; the draw moves on to a later one."


WORDINGS: dict[str, Wording] = {
    "BufferMismatch": Wording(
        "the buffer does not belong to the trace",
        "buffer {buffer} under {trace_root}",
        "another root",
        _PROOF,
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
    "HeaderMalformed": Wording(
        "this chain's headers have another shape",
        "a block header as Ethereum encodes it",
        "something else at byte {at_byte}",
        "This chain cannot hold rounds; deploy on another one.",
    ),
    "IndexOutside": Wording(
        "an element or an index lies outside of its buffer",
        "a number below {size}",
        "{index}",
        "If a token is wrong, prove that instead.",
    ),
    "LeavesMismatch": Wording(
        "the leaves are not under their root",
        "{count} leaves of {root} from {first_leaf} on",
        "other leaves",
        _PROOF,
    ),
    "NodeMalformed": Wording(
        "the node has the wrong length", "{expected_bytes} bytes", "{actual_bytes} bytes", _PROOF
    ),
    "NodeMismatch": Wording(
        "the node does not belong to the program", "node {number} of {program_root}", "another node", _PROOF
    ),
    "NodeUnsound": Wording(
        "the node is invalid",
        "a valid {what}",
        "{value}",
        "Do not stake on this task; tell its submitter.",
    ),
    "ProofTooShort": Wording(
        "the proof is cut off", "{expected_bytes} bytes or more", "{actual_bytes} bytes", _SHOW
    ),
    "RandomnessGone": Wording(
        "the block's hash is gone",
        "a block whose hash the chain still knows",
        "block {block_number}",
        _LATE,
    ),
    "RandomnessPending": Wording(
        "this block's randomness is not known yet",
        "a block after block {block_number}",
        "block {of_block}",
        _WAIT,
    ),
    "TooManyTerms": Wording(
        "a sum too long to be judged",
        "at most {most} terms",
        "{actual}",
        "Do not stake on this task; tell its submitter.",
    ),
    "TraceMismatch": Wording(
        "the opened buffers do not belong to the trace", "{trace_root}", "{actual}", _PROOF
    ),
    "UnknownFormat": Wording(
        "no such numeric format",
        "0 (float32) or 1 (exact)",
        "{numeric_format}",
        "Do not stake on this task; tell its submitter.",
    ),
    "WrongHeader": Wording("this is not the block's header", "{expected_hash}", "{actual_hash}", _SHOW),
    "WrongLeafBytes": Wording(
        "the leaves have the wrong length", "{expected} bytes", "{actual} bytes", _PROOF
    ),
    "WrongOpeningBytes": Wording(
        "the openings have the wrong length", "{expected} bytes or more", "{actual} bytes", _PROOF
    ),
    "WrongSignature": Wording(
        "this is not what drand signed",
        "the signature of round {drand_round}",
        "another one",
        "Ask another server of drand.",
    ),
}
"""Words by custom error. A test checks that they fit, and that none of these errors has words in its
source."""
