import pytest

from touchstone.protocol.adapters.wire.addresses import NETWORK_BITS, find_caller


@pytest.mark.parametrize(
    ("address", "caller"),
    [
        ("93.184.215.14", "93.184.215.14"),
        ("::ffff:93.184.215.14", "93.184.215.14"),
        ("2606:4700:0:1:2:3:4:5", "2606:4700::/48"),
        ("2606:4700:0:ffff::1", "2606:4700::/48"),
        ("2606:4700:1:1::1", "2606:4700:1::/48"),
        ("fe80::1%eth0", "fe80::/48"),
        ("::1", "::/48"),
        ("", ""),
    ],
)
def test_of_version_6_all_networks_of_a_line_count_as_one_caller(address: str, caller: str) -> None:
    """A house is given 256 or 65,536 of them: as many callers took all handshakes."""
    assert find_caller(address) == caller


def test_one_network_of_version_6_may_count_alone() -> None:
    networks = {find_caller(f"2606:4700:0:1:{number}::", NETWORK_BITS) for number in range(9)}
    assert networks == {"2606:4700:0:1::/64"} != {find_caller("2606:4700:0:2::", NETWORK_BITS)}
