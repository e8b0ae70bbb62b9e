import pytest

from protocol.adapters.wire.addresses import find_caller


@pytest.mark.parametrize(
    ("address", "caller"),
    [
        ("93.184.215.14", "93.184.215.14"),
        ("::ffff:93.184.215.14", "93.184.215.14"),
        ("2606:4700:0:1:2:3:4:5", "2606:4700:0:1::/64"),
        ("2606:4700:0:1:ffff::", "2606:4700:0:1::/64"),
        ("2606:4700:0:2::1", "2606:4700:0:2::/64"),
        ("fe80::1%eth0", "fe80::/64"),
        ("::1", "::/64"),
        ("", ""),
    ],
)
def test_of_version_6_a_network_counts_as_one_caller(address: str, caller: str) -> None:
    assert find_caller(address) == caller
