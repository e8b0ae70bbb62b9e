"""The ABI is the only list of calls: every call in the sources is in it, with as many arguments."""

import ast
import re
from collections.abc import AsyncIterator, Iterable, Iterator
from pathlib import Path

import pytest

from tests.protocol.adapters.anvil import STAKE_WEI, TestChain, make_deployment, run_test_chain
from touchstone.protocol.adapters.chain import contract
from touchstone.protocol.adapters.chain.abi import load_own_abi, to_snake_case
from touchstone.protocol.adapters.chain.connection import Connection
from touchstone.protocol.adapters.chain.contract import Contract
from touchstone.protocol.adapters.chain.contract_events import EventReader
from touchstone.protocol.adapters.chain.deployment import GAME_CONTRACTS
from touchstone.protocol.adapters.chain.erc20 import ERC20_ABI
from touchstone.protocol.spec.errors import InvalidInput

ROOT = Path(__file__).resolve().parents[4]
FOLDERS = ("demo", "lab", "explorer", "node", "protocol", "scripts", "tests", "verifier", "whistleblower")
ABIS = {field: load_own_abi(name) for field, name in GAME_CONTRACTS.items()} | {"token": ERC20_ABI}
OWN = {"randomness": {"prove": 1}}
"""Methods that are no call of the contract, and their arguments."""


NAMING = ("encode", "estimate_gas")
"""Methods whose first argument names a function."""


def find_field(node: ast.expr) -> str:
    """The contract that an expression such as `party.chain.game` stands for; empty: none."""
    if not isinstance(node, ast.Attribute) or node.attr not in ABIS:
        return ""
    owner = node.value
    name = owner.attr if isinstance(owner, ast.Attribute) else owner.id if isinstance(owner, ast.Name) else ""
    return node.attr if name == "chain" else ""


def list_aliases(tree: ast.AST) -> dict[str, str]:
    """Names that stand for a contract: `book = party.chain.vault`."""
    found: dict[str, str] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign):
            target, value = node.targets[0], node.value
            pairs: Iterable[tuple[ast.expr, ast.expr]] = [(target, value)]
            if isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple):
                pairs = zip(target.elts, value.elts, strict=False)
            found |= {t.id: find_field(v) for t, v in pairs if isinstance(t, ast.Name) and find_field(v)}
    return found


def list_calls(source: str) -> Iterator[tuple[str, str, int]]:
    """(contract's field, method, number of arguments) of each call in a source."""
    tree = ast.parse(source)
    aliases = list_aliases(tree)
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
            continue
        owner = node.func.value
        field = find_field(owner) or (aliases.get(owner.id, "") if isinstance(owner, ast.Name) else "")
        if field and not any(isinstance(argument, ast.Starred) for argument in node.args):
            method, arguments = node.func.attr, node.args
            if method in NAMING and arguments and isinstance(arguments[0], ast.Constant):
                method, arguments = str(arguments[0].value), arguments[1:]
            yield field, method, len(arguments) + len(node.keywords)


def find_mistakes(source: str) -> list[str]:
    return list(list_mistakes(list_calls(source)))


def list_mistakes(calls: Iterable[tuple[str, str, int]]) -> Iterator[str]:
    for field, method, count in calls:
        known = {to_snake_case(e.name): len(e.inputs) for e in ABIS[field] if e.kind == "function"}
        known |= OWN.get(field, {})
        if known.get(method) != count:
            yield f"{field}.{method} with {count} arguments"


def test_every_call_in_the_sources_is_in_the_abi() -> None:
    texts = {path: path.read_text() for folder in FOLDERS for path in (ROOT / folder).rglob("*.py")}
    named = re.compile(rf"\bchain\.(?:{'|'.join(ABIS)})\b")
    calls = {path: list(list_calls(text)) for path, text in texts.items() if named.search(text)}
    assert not {str(path): wrong for path, found in calls.items() if (wrong := list(list_mistakes(found)))}
    assert sum(map(len, calls.values())) > 50


def test_a_wrong_call_is_found() -> None:
    assert find_mistakes("await chain.vault.deposit(1)\nawait party.chain.vault.credit_of(a)") == []
    assert find_mistakes("await chain.vault.depozit(1)") == ["vault.depozit with 1 arguments"]
    assert find_mistakes("await self.party.chain.vault.deposit()") == ["vault.deposit with 0 arguments"]
    assert find_mistakes("a, b = 1, chain.game\nb.judge(1)") == ["game.judge with 1 arguments"]
    assert find_mistakes("chain.game.encode('judge', 1)") == ["game.judge with 1 arguments"]
    assert find_mistakes("await chain.vault.estimate_gas('deposit', 1)") == []


def make_contract() -> Contract:
    connection, zero = Connection("http://127.0.0.1:1"), "0x" + 40 * "0"
    deployment = make_deployment(1, [zero] * (1 + len(GAME_CONTRACTS)))
    return Contract("Vault", zero, connection, None, EventReader(connection, deployment))


async def test_a_function_that_is_not_in_the_abi_is_no_method() -> None:
    with pytest.raises(AttributeError, match="Vault has no function mint"):
        await make_contract().mint(1)


async def test_nothing_is_sent_without_an_account() -> None:
    with pytest.raises(InvalidInput, match="can only read") as refusal:
        await make_contract().deposit(1)
    assert "Vault.deposit" in str(refusal.value.actual)


async def test_arguments_that_do_not_fit_are_refused() -> None:
    with pytest.raises(InvalidInput, match="does not fit"):
        await make_contract().credit_of(7)


@pytest.fixture
async def net(tmp_path: Path) -> AsyncIterator[TestChain]:
    async with run_test_chain(tmp_path) as net:
        yield net


async def test_what_is_sent_is_logged_with_its_transaction(
    net: TestChain, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level("INFO", logger=contract.__name__):
        receipt = await net.chain.vault.deposit(STAKE_WEI)
    (record,) = caplog.records
    assert record.getMessage() == f"Vault.deposit is mined in block {receipt.block_number}"
    assert vars(record)["transaction"] == receipt.transaction_hash.hex() and vars(record)["round"] is None
