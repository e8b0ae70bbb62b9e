"""The used part of the ABI of an ERC-20 token (EIP-20); any such token can be staked."""

from touchstone.protocol.adapters.chain.abi import parse_abi


def _function(name: str, inputs: str, output: str, mutability: str = "view") -> dict[str, object]:
    return {
        "type": "function",
        "name": name,
        "stateMutability": mutability,
        "inputs": [{"name": f"a{i}", "type": kind} for i, kind in enumerate(inputs.split())],
        "outputs": [{"name": "", "type": output}],
    }


ERC20_ABI = parse_abi(
    "IERC20",
    [
        _function("approve", "address uint256", "bool", "nonpayable"),
        _function("transfer", "address uint256", "bool", "nonpayable"),
        _function("transfer", "address uint256", "bool", "nonpayable"),
        _function("allowance", "address address", "uint256"),
        _function("balanceOf", "address", "uint256"),
        _function("symbol", "", "string"),
        _function("decimals", "", "uint8"),
    ],
)
