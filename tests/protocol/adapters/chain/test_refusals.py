"""What a revert says in our words, known or not."""

from protocol.adapters.chain.refusals import explain_revert


def test_an_unknown_error_is_still_a_refusal() -> None:
    assert explain_revert(b"\x01\x02\x03\x04", "here").name == "Unknown"
    assert explain_revert(b"", "here").values == {"data": b""}
