"""Whatever of the contracts others can call, read or catch says in NatSpec what it is for."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.architecture.solidity import (
    INHERITED,
    Declaration,
    list_files,
    parse_declarations,
    read_bases,
    read_declarations,
)
from tests.architecture.sources import ROOT, list_sources

PUBLIC = frozenset({"external", "public"})
SHARED = frozenset({"contracts/Types.sol"})
"""Where structs stand at file level that calls take or answer."""


def is_interface(unit: str) -> bool:
    """Whether a name is an interface's: ITasks."""
    return unit[:1] == "I" and unit[1:2].isupper()


def read_interfaces() -> dict[str, frozenset[str]]:
    """The functions of each interface."""
    found: dict[str, set[str]] = {}
    for path in list_files():
        for one in read_declarations(path):
            if is_interface(one.unit) and one.kind == "function":
                found.setdefault(one.unit, set()).add(one.name)
    return {unit: frozenset(names) for unit, names in found.items()}


def read_ancestors() -> dict[str, tuple[str, ...]]:
    """Everything that each contract is, near ones first."""
    bases = {unit: found for path in list_files() for unit, found in read_bases(path).items()}

    def climb(unit: str) -> Iterator[str]:
        for base in bases.get(unit, ()):
            yield base
            yield from climb(base)

    return {unit: tuple(climb(unit)) for unit in bases}


def find_gaps(
    one: Declaration, interfaces: dict[str, frozenset[str]], ancestors: tuple[str, ...]
) -> list[str]:
    """What the NatSpec of a declaration lacks."""
    if not is_seen(one):
        return []
    source = next((base for base in ancestors if one.name in interfaces.get(base, ())), None)
    if source is not None:
        return [] if one.texts_of(INHERITED) == (source,) else [f"@inheritdoc {source}"]
    gaps = [] if any(one.texts_of("notice")) else ["@notice"]
    if one.kind == "enum":
        return gaps
    said = {text.split()[0] for text in one.texts_of("param") if len(text.split()) > 1}
    gaps += [f"@param {name}" for name in one.parameters if name and name not in said]
    unknown = {text.split()[0] for text in one.texts_of("param") if text} - set(one.parameters)
    gaps += [f"no parameter {name}" for name in sorted(unknown)]
    results = one.texts_of("return")
    return gaps + [f"@return {i}" for i in range(len(one.returns)) if i >= len(results) or not results[i]]


def is_seen(one: Declaration) -> bool:
    """Whether a declaration can be called, read or caught from outside of the code around it."""
    if one.kind in ("function", "variable"):
        return one.visibility in PUBLIC
    if one.kind in ("event", "error") or is_interface(one.unit):
        return True
    return not one.unit and one.path.relative_to(ROOT).as_posix() in SHARED


@pytest.mark.parametrize("path", list_files(), ids=lambda path: path.name)
def test_everything_that_others_see_is_documented(path: Path) -> None:
    interfaces, ancestors = read_interfaces(), read_ancestors()
    gaps = {
        f"{one.unit}.{one.name}": found
        for one in read_declarations(path)
        if (found := find_gaps(one, interfaces, ancestors.get(one.unit, ())))
    }
    assert not gaps


@pytest.mark.parametrize("path", list_files(), ids=lambda path: path.name)
def test_files_that_comments_name_exist(path: Path) -> None:
    names = re.findall(r"[\w/]+/[\w.-]+\.(?:py|md|toml)\b|`\w+\.py`", path.read_text())
    twins = {source.name for source in list_sources("protocol")}
    lost = [name for name in names if name.strip("`") not in twins and not (ROOT / name).is_file()]
    assert not lost


def test_there_is_something_to_document() -> None:
    seen = [one for path in list_files() for one in read_declarations(path) if is_seen(one)]
    kinds = {kind: sum(one.kind == kind for one in seen) for kind in ("function", "event", "error", "struct")}
    assert kinds["function"] > 150 and kinds["event"] >= 50 and kinds["error"] > 100 and kinds["struct"] > 10


TEXT = """
interface IHouse {
    /// @notice A room.
    /// @param doors how many
    struct Room {
        uint256 doors;
        mapping(address => uint256) guests;
    }

    event Opened(address indexed by, bytes32);
    /// @notice Locked.
    /// @param by
    error Locked(address by);

    /// Opens it
    /// for all.
    /// @param keys of
    ///        the door
    /// @return whether
    function open(bytes32[] calldata keys, uint256 door)
        external
        view
        returns (bool, uint256 second);
}

contract House is IHouse {
    uint256 public constant DOORS = 3;
    /// @inheritdoc IHouse
    function open(bytes32[] calldata, uint256) external view returns (bool, uint256) {}
    function close() public {}
    function _lock() private {}
}
"""


def test_gaps_are_found() -> None:
    found = {
        f"{one.unit}.{one.name}": find_gaps(one, {"IHouse": frozenset({"open"})}, bases)
        for one in parse_declarations(Path(ROOT / "x.sol"), TEXT)
        for bases in [("IHouse",) if one.unit == "House" else ()]
    }
    assert found == {
        "IHouse.Room": ["@param guests"],
        "IHouse.Opened": ["@notice", "@param by"],
        "IHouse.Locked": ["@param by"],
        "IHouse.open": ["@param door", "@return 1"],
        "House.DOORS": ["@notice"],
        "House.open": [],
        "House.close": ["@notice"],
        "House._lock": [],
    }


def test_another_source_than_the_interface_is_no_documentation() -> None:
    text = TEXT.replace("@inheritdoc IHouse", "@notice Opens.")
    (open_,) = [o for o in parse_declarations(ROOT / "x.sol", text) if (o.unit, o.name) == ("House", "open")]
    assert find_gaps(open_, {"IHouse": frozenset({"open"})}, ("IHouse",)) == ["@inheritdoc IHouse"]
