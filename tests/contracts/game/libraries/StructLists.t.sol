// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.28;

import {TaskId} from "../../../../contracts/Types.sol";
import {IRefusals} from "../../../../contracts/game/interfaces/IRefusals.sol";
import {IRounds} from "../../../../contracts/game/interfaces/IRounds.sol";
import {IVotes} from "../../../../contracts/game/interfaces/IVotes.sol";
import {StructLists} from "../../../../contracts/game/libraries/StructLists.sol";
import {Test} from "../../Test.sol";

/// @dev Sends lists as `Rounds` and `Votes` do; round 99 does not exist.
contract ListStub {
    function factsOf(TaskId, uint256 first, uint256 last) external pure returns (IRounds.Facts[] memory facts) {
        if (last == 99) revert IRefusals.RoundUnknown(last);
        facts = new IRounds.Facts[](last + 1 - first);
        for (uint256 i = 0; i < facts.length; ++i) {
            (facts[i].isUndone, facts[i].isShort) = (i % 2 == 1, i % 3 == 1);
            facts[i].pool = uint64(first + i);
            (facts[i].committed, facts[i].missing) = (uint64(10 + i), uint64(20 + i));
            (facts[i].verifiers, facts[i].whistleblowers) = (uint24(30 + i), uint24(40 + i));
            facts[i].dutyUntil = last;
        }
        StructLists.send(facts);
    }

    function endsOf(TaskId task, uint256 first, uint256 last) external pure returns (IVotes.Ends[] memory ends) {
        ends = new IVotes.Ends[](last + 1 - first);
        for (uint256 i = 0; i < ends.length; ++i) {
            (ends[i].accepted, ends[i].convicted) = (uint64(first + i), uint64(50 + i));
            (ends[i].unserved, ends[i].lateRejected) = (uint64(60 + i), uint64(70 + i));
            ends[i].restored = uint64(uint256(TaskId.unwrap(task)));
        }
        StructLists.send(ends);
    }
}

/// @title Lists that were sent and loaded word by word are those that the compiler decodes.
contract StructListsTest is Test {
    TaskId private constant TASK = TaskId.wrap(bytes32(uint256(5)));
    ListStub private stub;

    function setUp() public {
        stub = new ListStub();
    }

    function loadFacts(uint256 first, uint256 last) external view returns (IRounds.Facts[] memory) {
        return StructLists.loadFacts(IRounds(address(stub)), TASK, first, last);
    }

    function loadEnds(uint256 first, uint256 last) external view returns (IVotes.Ends[] memory) {
        return StructLists.loadEnds(IVotes(address(stub)), TASK, first, last);
    }

    function test_facts_anyLength_areWhatWasSent() public view {
        for (uint256 count = 1; count <= 4; ++count) {
            IRounds.Facts[] memory facts = stub.factsOf(TASK, 7, 6 + count);
            assertEq(facts.length, count, "as many");
            assertEq(facts[count - 1].pool, 6 + count, "the last round");
            assertEq(facts[count - 1].dutyUntil, 6 + count, "the last field");
            assertEq(facts[0].missing, 20, "a field within");
            assertEq(abi.encode(this.loadFacts(7, 6 + count)), abi.encode(facts), "loaded");
        }
    }

    function test_ends_anyLength_areWhatWasSent() public view {
        for (uint256 count = 1; count <= 4; ++count) {
            IVotes.Ends[] memory ends = stub.endsOf(TASK, 7, 6 + count);
            assertEq(ends.length, count, "as many");
            assertEq(ends[count - 1].accepted, 6 + count, "the last round");
            assertEq(ends[count - 1].restored, 5, "the last field");
            assertEq(ends[0].unserved, 60, "a field within");
            assertEq(abi.encode(this.loadEnds(7, 6 + count)), abi.encode(ends), "loaded");
        }
    }

    function test_load_refused_revertsAsTheModule() public {
        vm.expectRevert(abi.encodeWithSelector(IRefusals.RoundUnknown.selector, 99));
        this.loadFacts(0, 99);
    }

    /// @dev What is made after a list was loaded lies behind its pointers.
    function test_load_madeLater_isApart() public view {
        IVotes.Ends[] memory ends = StructLists.loadEnds(IVotes(address(stub)), TASK, 0, 1);
        bytes memory behind = new bytes(1024);
        for (uint256 i = 0; i < behind.length; ++i) {
            behind[i] = 0xff;
        }
        assertEq(ends[1].accepted, 1, "still the second");
        assertEq(ends[1].lateRejected, 71, "all of it");
    }
}
