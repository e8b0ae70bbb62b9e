// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.28;

import {Log, Logs} from "../../../../contracts/game/libraries/Logs.sol";
import {Test} from "../../Test.sol";

/// @title Entries of four bytes, as an event gets them.
contract LogsTest is Test {
    using Logs for Log;

    function test_seal_entries_standOneBehindTheOther() public pure {
        Log memory log = Logs.create(3);
        log.append(0x01020304);
        log.append(0xfffffffe);
        assertEq(log.seal(), hex"01020304fffffffe", "two of three");
    }

    function test_append_full_leavesWhatLiesBehind() public pure {
        Log memory log = Logs.create(8);
        uint256[1] memory behind = [type(uint256).max];
        bytes memory expected;
        for (uint32 entry = 1; entry <= 8; ++entry) {
            log.append(entry);
            expected = bytes.concat(expected, bytes4(entry));
        }
        assertEq(log.seal(), expected, "all of them");
        assertEq(behind[0], type(uint256).max, "what was made later");
    }

    function test_seal_nothing_isEmpty() public pure {
        assertEq(Logs.create(4).seal().length, 0, "no entry");
    }
}
