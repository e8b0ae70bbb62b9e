// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.28;

import {AUDIT_WORDS, Audit} from "../../../../contracts/game/GameTypes.sol";
import {IRounds} from "../../../../contracts/game/interfaces/IRounds.sol";
import {Audits} from "../../../../contracts/game/libraries/Audits.sol";
import {TaskId} from "../../../../contracts/Types.sol";
import {Test} from "../../Test.sol";

/// @dev Answers as `Rounds` does, of a pool with two slots: word i is 100 + i.
contract AuditStub {
    function auditOf(TaskId, uint256, uint256, bool) external pure returns (uint256[] memory words) {
        words = new uint256[](AUDIT_WORDS + 4);
        for (uint256 i = 0; i < words.length; ++i) {
            words[i] = 100 + i;
        }
    }
}

contract AuditsTest is Test {
    function _audit() private returns (Audit memory audit) {
        audit = Audits.load(IRounds(address(new AuditStub())), TaskId.wrap(0), 0, 3, true);
        // What lies behind the answer is not zero.
        bytes32[] memory behind = new bytes32[](300);
        for (uint256 i = 0; i < behind.length; ++i) {
            behind[i] = "something";
        }
    }

    function test_claimAt_readsTheWordsOfASlot() public {
        Audit memory audit = _audit();
        assertEq(audit.parameterCount, 100 + AUDIT_WORDS - 1, "the last field");
        for (uint256 slot = 0; slot < 2; ++slot) {
            (bytes32 root, uint256 segments) = Audits.claimAt(audit, slot);
            assertEq(uint256(root), 100 + AUDIT_WORDS + 2 * slot, "root");
            assertEq(segments, 101 + AUDIT_WORDS + 2 * slot, "segments");
        }
    }

    function test_claimAt_slotBehindThePool_hasNone() public {
        Audit memory audit = _audit();
        for (uint256 slot = 2; slot < 130; ++slot) {
            (bytes32 root, uint256 segments) = Audits.claimAt(audit, slot);
            assertTrue(root == 0 && segments == 0, "no claim");
        }
    }
}
