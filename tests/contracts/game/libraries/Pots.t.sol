// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.28;

import {TaskId} from "../../../../contracts/Types.sol";
import {Pots} from "../../../../contracts/game/libraries/Pots.sol";
import {Test} from "../../Test.sol";

/// @title Names of pots are what the compiler's encoder makes of them.
contract PotsTest is Test {
    function testFuzz_names_areTheHashOfNameAndTask(bytes32 word) public pure {
        TaskId task = TaskId.wrap(word);
        assertEq(Pots.escrow(task), keccak256(abi.encode("escrow", word)), "escrow");
        assertEq(Pots.stakes(task), keccak256(abi.encode("stakes", word)), "stakes");
        assertEq(Pots.bonds(task), keccak256(abi.encode("bonds", word)), "bonds");
        assertEq(Pots.held(task), keccak256(abi.encode("held", word)), "held");
        assertEq(Pots.restitution(task), keccak256(abi.encode("restitution", word)), "restitution");
    }
}
