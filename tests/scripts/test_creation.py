"""Where contracts land."""

import pytest

from protocol.spec.errors import EnvironmentFault
from scripts.deploy import compute_creation_address, require_address


def test_creation_addresses_are_those_of_ethereum() -> None:
    # The first contracts of a well-known account, as block explorers show them.
    account = "0x6ac7ea33f8831ea9dcc53393aaa88b25a785dbf0"
    assert compute_creation_address(account, 0) == "0xcd234a471b72ba2f1ccf0a70fcaba648a5eecd8d"
    assert compute_creation_address(account, 1) == "0x343c43a37d37dff08ae8c4a11544c718abb4fcf8"
    assert compute_creation_address(account, 2) == "0xf778b86fa74e846c4f0a1fbd1335fe81c00a0c91"


def test_a_contract_that_landed_elsewhere_is_refused() -> None:
    require_address("Rounds", "0x1", "0x1")
    with pytest.raises(EnvironmentFault, match="Rounds landed"):
        require_address("Rounds", "0x1", "0x2")
