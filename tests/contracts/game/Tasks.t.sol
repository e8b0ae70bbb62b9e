// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.28;

import {TaskId} from "../../../contracts/Types.sol";
import {GameTerms} from "../../../contracts/game/GameTypes.sol";
import {ITasks} from "../../../contracts/game/interfaces/ITasks.sol";
import {Pots} from "../../../contracts/game/libraries/Pots.sol";
import {Hashing} from "../../../contracts/libraries/Hashing.sol";
import {GameWorld} from "./GameWorld.sol";

/// @title Tasks are announced, posted, paid for and closed.
contract TasksTest is GameWorld {
    // Tasks
    function test_announce_address_isKept() public {
        vm.expectEmit(true, true, true, true, address(tasks));
        emit ITasks.Announced(stranger, "https://node", "certificate");
        vm.prank(stranger);
        tasks.announce("https://node", "certificate");
        (string memory url, bytes32 certificate) = tasks.peerOf(stranger);
        assertEq(bytes(url), bytes("https://node"), "url");
        assertEq(certificate, "certificate", "certificate");
    }

    function test_postTask_funded_isThere() public {
        GameTerms memory wanted = soundTerms();
        TaskId id = TaskId.wrap(sha256(bytes.concat(abi.encode(wanted), TRAINING)));
        give(submitter, 2560);
        vm.expectEmit(true, true, true, true, address(tasks));
        emit ITasks.TaskPosted(id, submitter, wanted, TRAINING, 2560);
        vm.prank(submitter);
        task = tasks.postTask(wanted, TRAINING);
        assertEq(TaskId.unwrap(task), TaskId.unwrap(id), "id");
        assertEq(abi.encode(tasks.termsOf(task)), abi.encode(wanted), "terms");
        assertEq(vault.potOf(Pots.escrow(task)), 2560, "escrow");
        assertEq(vault.creditOf(submitter), 0, "taken");
        assertTrue(!tasks.isClosed(task), "open");
        assertEq(tasks.domainOf(task), Hashing.domain(block.chainid, address(tasks), task), "domain");
        (,,, uint256 since,,, bytes32 root) = lineNow();
        assertEq(root, Hashing.outerRoot("weights", "zero"), "root");
        assertEq(since, FIRST_BLOCK, "paused since");
        vm.expectRevert(abi.encodeWithSelector(ITasks.TaskExists.selector, id));
        vm.prank(submitter);
        tasks.postTask(wanted, TRAINING);
    }

    function test_escrowFor_terms_isTheMostThatCanBePaid() public view {
        GameTerms memory wanted = soundTerms();
        assertEq(tasks.escrowFor(wanted), 4 * 4 * (100 + 6 * 10), "without late audits");
        wanted.lateChance = 1;
        assertEq(tasks.escrowFor(wanted), 4 * 4 * (100 + 6 * 10 + 3 * 7), "with them");
    }
}
