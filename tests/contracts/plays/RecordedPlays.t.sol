// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.28;

import {TaskId} from "../../../contracts/Types.sol";
import {DevToken} from "../../../contracts/devnet/DevToken.sol";
import {IContests} from "../../../contracts/game/interfaces/IContests.sol";
import {IVault} from "../../../contracts/game/interfaces/IVault.sol";
import {IRounds} from "../../../contracts/game/interfaces/IRounds.sol";
import {ISeats} from "../../../contracts/game/interfaces/ISeats.sol";
import {IShares} from "../../../contracts/game/interfaces/IShares.sol";
import {ITasks} from "../../../contracts/game/interfaces/ITasks.sol";
import {IVotes} from "../../../contracts/game/interfaces/IVotes.sol";
import {Test} from "../Test.sol";
import {Vm} from "../Vm.sol";
import {Observer} from "./Observer.sol";

/// @dev Source: Foundry's `Vm` interface.
interface CodeVm {
    function getCode(string calldata artifact) external view returns (bytes memory);
}

/// @title Replays every recorded play on the contracts: each call passes or is refused by name as in the machine, and leaves the same state.
/// @dev Plays stand in tests/kit/plays, `python -m tests.kit.traces` records them. After a failure that names a play, the number of a call and the
/// observed words, `python -m tests.kit.traces --explain PLAY CALL` tells what the machine has.
contract RecordedPlaysTest is Test {
    error Differs(string play, uint256 call_, string what, bytes expected, bytes actual);
    error StateDiffers(string play, uint256 call_, string name, uint256[] observed);

    string private constant FOLDER = "tests/vectors/plays/";
    uint256 private constant WEALTH = 1 << 100;

    /// @dev One call, as the file has it.
    struct Sent {
        string call;
        address sender;
        address origin;
        bool isCoded;
        string to;
        uint256 block;
        bytes data;
        uint256 header;
        bytes32 hash;
        string refused;
        bytes32 reason;
        string events;
        bytes relayed;
        bytes32 digest;
    }

    string private constant SENT =
        "Sent(string call,address sender,address origin,bool isCoded,string to,uint256 block,bytes data,uint256 header,bytes32 hash,string refused,bytes32 reason,string events,bytes relayed,bytes32 digest)";

    struct Trace {
        string name;
        TaskId task;
        address[] accounts;
        uint256[] seats;
        Sent[] calls;
    }

    mapping(bytes32 => address) private _contractOf;
    mapping(bytes32 => bytes4) private _selectorOf;
    mapping(bytes32 => string) private _eventOf;
    DevToken private _token;
    address private _vault;
    Observer private _observer;

    function setUp() public {
        string memory json = vm.readFile(string.concat(FOLDER, "deployment.json"));
        string[] memory names = vm.parseJsonStringArray(json, ".name");
        address[] memory places = vm.parseJsonAddressArray(json, ".address");
        bytes[] memory arguments = vm.parseJsonBytesArray(json, ".arguments");
        string[16] memory artifacts = _artifacts();
        assertEq(names.length, artifacts.length, "every contract of a deployment");
        for (uint256 i = 0; i < names.length; ++i) {
            string memory artifact = string.concat(names[i], ".sol:", names[i]);
            assertEq(_key(artifact), _key(artifacts[i]), "in the order of a deployment");
            bytes memory code = bytes.concat(_codeOf(names[i], artifact), arguments[i]);
            vm.prank(vm.parseJsonAddress(json, ".deployer"));
            assertEq(_create(code), places[i], "a contract is where the plays expect it");
            _contractOf[_key(names[i])] = places[i];
        }
        _readNames(json);
        (_token, _vault) = (DevToken(_at("DevToken")), _at("Vault"));
        _observer = new Observer(
            IVault(_vault),
            ITasks(_at("Game")),
            ISeats(_at("Game")),
            IRounds(_at("Game")),
            IVotes(_at("Game")),
            IContests(_at("Game")),
            IShares(_at("Shares"))
        );
    }

    /// @dev By name, so that `./dev mutate` knows what this suite rests on.
    function _artifacts() private pure returns (string[16] memory) {
        return [
            "DevToken.sol:DevToken",
            "Referee.sol:Referee",
            "BlockRandomness.sol:BlockRandomness",
            "Vault.sol:Vault",
            "Game.sol:Game",
            "Tasks.sol:Tasks",
            "Seats.sol:Seats",
            "Rounds.sol:Rounds",
            "Votes.sol:Votes",
            "Settlement.sol:Settlement",
            "Queries.sol:Queries",
            "Disputes.sol:Disputes",
            "Steps.sol:Steps",
            "Evidence.sol:Evidence",
            "Contests.sol:Contests",
            "Shares.sol:Shares"
        ];
    }

    /// @dev With PLAYS_CODE set, out of the file "Name.json" of that folder: then no contract has to be compiled.
    function _codeOf(string memory name, string memory artifact) private view returns (bytes memory) {
        string memory folder = vm.envOr("PLAYS_CODE", string(""));
        bool isBuilt = bytes(folder).length == 0;
        return CodeVm(address(vm)).getCode(isBuilt ? artifact : string.concat(folder, "/", name, ".json"));
    }

    function _create(bytes memory code) private returns (address made) {
        assembly ("memory-safe") {
            made := create(0, add(code, 32), mload(code))
        }
    }

    function _readNames(string memory json) private {
        string[] memory names = vm.parseJsonStringArray(json, ".errorName");
        bytes32[] memory digests = vm.parseJsonBytes32Array(json, ".errorSelector");
        for (uint256 i = 0; i < names.length; ++i) {
            _selectorOf[_key(names[i])] = bytes4(digests[i]);
        }
        names = vm.parseJsonStringArray(json, ".eventName");
        digests = vm.parseJsonBytes32Array(json, ".eventTopic");
        for (uint256 i = 0; i < names.length; ++i) {
            _eventOf[digests[i]] = names[i];
        }
    }

    function _key(string memory name) private pure returns (bytes32) {
        return keccak256(bytes(name));
    }

    function _at(string memory name) private view returns (address) {
        return _contractOf[_key(name)];
    }

    // Plays by their group
    function test_tasks() public {
        _replayGroup("tasks");
    }

    function test_seats() public {
        _replayGroup("seats");
    }

    function test_rounds() public {
        _replayGroup("rounds");
    }

    function test_votes() public {
        _replayGroup("votes");
    }

    function test_queries() public {
        _replayGroup("queries");
    }

    function test_contests() public {
        _replayGroup("contests");
    }

    function test_settlement() public {
        _replayGroup("settlement");
    }

    function test_ring() public {
        _replayGroup("ring");
    }

    function test_shares() public {
        _replayGroup("shares");
    }

    function test_silence() public {
        _replayGroup("silence");
    }

    function test_descents() public {
        _replayGroup("descents");
    }

    function test_steps() public {
        _replayGroup("steps");
    }

    function test_relayed() public {
        _replayGroup("relayed");
    }

    function test_evidence() public {
        _replayGroup("evidence");
    }

    function test_moments() public {
        _replayGroup("moments");
    }

    function test_falseVotes() public {
        _replayGroup("false_votes");
    }

    function test_disputeRoots() public {
        _replayGroup("dispute_roots");
    }

    function test_convictions() public {
        _replayGroup("convictions");
    }

    function test_disputes() public {
        _replayGroup("disputes");
    }

    function _replayGroup(string memory group) private {
        string memory index = vm.readFile(string.concat(FOLDER, "index.json"));
        string[] memory names = vm.parseJsonStringArray(index, string.concat(".", group));
        assertTrue(names.length > 0, "the group has plays");
        for (uint256 i = 0; i < names.length; ++i) {
            uint256 before = vm.snapshotState();
            _replay(_read(string.concat(group, "/", names[i])));
            vm.revertToState(before);
        }
    }

    function _read(string memory name) private view returns (Trace memory t) {
        string memory json = vm.readFile(string.concat(FOLDER, name, ".json"));
        (t.name, t.task) = (name, TaskId.wrap(vm.parseJsonBytes32(json, ".task")));
        t.accounts = vm.parseJsonAddressArray(json, ".accounts");
        t.seats = vm.parseJsonUintArray(json, ".seats");
        t.calls = abi.decode(vm.parseJsonTypeArray(json, ".calls", SENT), (Sent[]));
    }

    function _replay(Trace memory t) private {
        _contractOf[_key("TaskShares")] = IShares(_at("Shares")).sharesOf(t.task);
        for (uint256 i = 0; i < t.accounts.length; ++i) {
            _token.mint(t.accounts[i], WEALTH);
            vm.prank(t.accounts[i]);
            _token.approve(_vault, type(uint256).max);
        }
        for (uint256 i = 0; i < t.calls.length; ++i) {
            Sent memory one = t.calls[i];
            vm.roll(one.block);
            if (one.header != 0) vm.setBlockhash(one.header, one.hash);
            _send(t, i, one);
            if (one.digest != 0) _requireState(t, i);
        }
    }

    function _send(Trace memory t, uint256 i, Sent memory one) private {
        vm.recordLogs();
        if (one.isCoded) vm.etch(one.sender, hex"ef0100000000000000000000000000000000000000dead");
        vm.prank(one.sender, one.origin);
        (bool isDone, bytes memory answer) = _at(one.to).call(one.data);
        if (bytes(one.refused).length == 0) {
            if (!isDone) revert Differs(t.name, i, string.concat(one.call, " passes"), "", answer);
            return _requireEvents(t, i, one);
        }
        bytes4 selector = _selectorOf[_key(one.refused)];
        string memory what = string.concat(one.call, " is refused by ", one.refused);
        assertTrue(selector != 0, what);
        if (isDone || bytes4(answer) != selector) {
            revert Differs(t.name, i, what, abi.encodePacked(selector), answer);
        }
        if (one.reason != 0 && _firstOf(answer) != one.reason) {
            revert Differs(t.name, i, string.concat(what, " for a reason"), abi.encode(one.reason), answer);
        }
    }

    /// @dev The first argument of an error.
    function _firstOf(bytes memory answer) private pure returns (bytes32 word) {
        if (answer.length < 36) return 0;
        assembly ("memory-safe") {
            word := mload(add(answer, 36))
        }
    }

    /// @dev Names of the logs, each once, sorted: the machine's events have another order where one call has several.
    function _requireEvents(Trace memory t, uint256 i, Sent memory one) private {
        Vm.Entry[] memory logs = vm.getRecordedLogs();
        _requireRelayed(t, i, one, logs);
        string[] memory names = new string[](logs.length);
        uint256 count = 0;
        for (uint256 j = 0; j < logs.length; ++j) {
            string memory name = _eventOf[logs[j].topics[0]];
            if (bytes(name).length != 0) count = _insert(names, count, name);
        }
        string memory found = "";
        for (uint256 j = 0; j < count; ++j) {
            found = string.concat(found, j == 0 ? "" : " ", names[j]);
        }
        if (_key(found) != _key(one.events)) {
            revert Differs(t.name, i, string.concat(one.call, " logs"), bytes(one.events), bytes(found));
        }
    }

    /// @dev What a call by way of a contract has logged whole: the votes that were taken, and nothing in any other call.
    function _requireRelayed(Trace memory t, uint256 i, Sent memory one, Vm.Entry[] memory logs)
        private
        pure
    {
        bytes memory found = "";
        for (uint256 j = 0; j < logs.length; ++j) {
            if (logs[j].topics[0] == IVotes.VotesRelayed.selector) found = bytes.concat(found, logs[j].data);
        }
        if (keccak256(found) != keccak256(one.relayed)) {
            revert Differs(t.name, i, "votes that are logged whole", one.relayed, found);
        }
    }

    function _insert(string[] memory names, uint256 count, string memory name)
        private
        pure
        returns (uint256)
    {
        uint256 at = count;
        while (at > 0 && _isLess(name, names[at - 1])) --at;
        if (at > 0 && _key(names[at - 1]) == _key(name)) return count;
        for (uint256 j = count; j > at; --j) {
            names[j] = names[j - 1];
        }
        names[at] = name;
        return count + 1;
    }

    function _isLess(string memory a, string memory b) private pure returns (bool) {
        return bytes32(bytes(a)) < bytes32(bytes(b));
    }

    function _requireState(Trace memory t, uint256 i) private {
        uint256 before = vm.snapshotState();
        uint256[] memory words = _observer.observe(t.task, t.accounts, t.seats);
        vm.revertToState(before);
        if (keccak256(abi.encodePacked(words)) != t.calls[i].digest) {
            revert StateDiffers(t.name, i, t.calls[i].call, words);
        }
    }
}
