// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.28;

import {Test} from "../Test.sol";
import {Handler} from "./Handler.sol";

/// @title The contracts of the round under the fuzzer: every property of Properties.sol after every call, and an end for every task at the end of each run.
/// @dev With FUZZ_COUNTS set the counts of each run are appended to that file.
contract ProtocolInvariantTest is Test {
    struct FuzzSelector {
        address addr;
        bytes4[] selectors;
    }

    Handler private play;

    function setUp() public {
        play = new Handler();
        play.setUp();
    }

    function targetContracts() external view returns (address[] memory targets) {
        targets = new address[](1);
        targets[0] = address(play);
    }

    function targetSelectors() external view returns (FuzzSelector[] memory targets) {
        bytes4[18] memory handlers = [
            play.honestSolver.selector,
            play.cheatingSolver.selector,
            play.honestAuditor.selector,
            play.cheatingAuditor.selector,
            play.honestMerger.selector,
            play.forgingMerger.selector,
            play.fairOpener.selector,
            play.bully.selector,
            play.accused.selector,
            play.querier.selector,
            play.answerer.selector,
            play.contester.selector,
            play.finder.selector,
            play.leaver.selector,
            play.thief.selector,
            play.holder.selector,
            play.keeper.selector,
            play.waiting.selector
        ];
        targets = new FuzzSelector[](1);
        targets[0] = FuzzSelector(address(play), new bytes4[](handlers.length));
        for (uint256 i = 0; i < handlers.length; ++i) {
            targets[0].selectors[i] = handlers[i];
        }
    }

    /// @dev Every handler checks every property after its call and reverts where one is broken; a revert fails the run. Only `./dev fuzz` plays it.
    function invariant_everyProperty() public view {
        play.checkSolvency();
    }

    /// @dev What every test run plays: each handler does something, and the task comes to its end.
    function test_handlers_everyOne_doesSomething() public {
        bytes4[] memory selectors = this.targetSelectors()[0].selectors;
        for (uint256 i = 0; i < 16 * selectors.length; ++i) {
            uint256 seed = uint256(keccak256(abi.encode(i)));
            (bool ok, bytes memory reason) =
                address(play).call(abi.encodeWithSelector(selectors[seed % selectors.length], seed >> 8));
            if (ok) continue;
            assembly ("memory-safe") {
                revert(add(reason, 32), mload(reason))
            }
        }
        string[14] memory names = [
            "honestSolver",
            "cheatingSolver",
            "honestAuditor",
            "cheatingAuditor",
            "honestMerger",
            "fairOpener",
            "bully",
            "accused",
            "querier",
            "answerer",
            "contester",
            "finder",
            "thief",
            "holder"
        ];
        for (uint256 i = 0; i < names.length; ++i) {
            assertTrue(play.countOf(string.concat("success ", names[i])) > 0, names[i]);
        }
        assertTrue(play.countOf("seat convicted") > 0 && play.countOf("claim accepted") > 0, "both ends");
        play.finish();
    }

    function afterInvariant() external {
        play.finish();
        string memory path = vm.envOr("FUZZ_COUNTS", string(""));
        if (bytes(path).length > 0) vm.writeLine(path, play.counts());
    }
}
