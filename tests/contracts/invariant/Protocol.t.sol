// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.28;

import {Test} from "../Test.sol";
import {ProtocolHandler} from "./Handler.sol";

/// @title The whole protocol under the fuzzer: every property of Properties.sol after every call, and an end for everything at the end of each run.
/// @dev One campaign, so that every call is checked against every property. With FUZZ_COUNTS set the counts of each run are appended to that file.
contract ProtocolInvariantTest is Test {
    struct FuzzSelector {
        address addr;
        bytes4[] selectors;
    }

    ProtocolHandler private play;

    function setUp() public {
        play = new ProtocolHandler();
        play.setUp();
    }

    function targetContracts() external view returns (address[] memory targets) {
        targets = new address[](1);
        targets[0] = address(play);
    }

    function targetSelectors() external view returns (FuzzSelector[] memory targets) {
        bytes4[16] memory handlers = [
            play.honestSolver.selector,
            play.cheatingSolver.selector,
            play.honestVerifier.selector,
            play.cheatingVerifier.selector,
            play.honestWhistleblower.selector,
            play.cheatingWhistleblower.selector,
            play.honestMerger.selector,
            play.forgingMerger.selector,
            play.honestChallenger.selector,
            play.cheatingClaimant.selector,
            play.keeper.selector,
            play.bullying.selector,
            play.thief.selector,
            play.repeating.selector,
            play.leaving.selector,
            play.waiting.selector
        ];
        targets = new FuzzSelector[](1);
        targets[0] = FuzzSelector(address(play), new bytes4[](handlers.length));
        for (uint256 i = 0; i < handlers.length; ++i) {
            targets[0].selectors[i] = handlers[i];
        }
    }

    /// @dev Every handler checks every property after its call and reverts where one is broken; a revert fails the run. Only `./dev fuzz` plays it
    /// (foundry.toml): an hour of calls. What every test run plays is below.
    function invariant_everyProperty() public view {
        play.checkSolvency();
    }

    /// @dev Handler health: what mostly finds nothing to do proves nothing. The long campaign asks for more.
    function test_handlers_everyOne_doesSomething() public {
        bytes4[] memory selectors = this.targetSelectors()[0].selectors;
        for (uint256 i = 0; i < 40 * selectors.length; ++i) {
            uint256 seed = uint256(keccak256(abi.encode(i)));
            (bool ok, bytes memory reason) =
                address(play).call(abi.encodeWithSelector(selectors[seed % selectors.length], seed >> 8));
            if (ok) continue;
            assembly ("memory-safe") {
                revert(add(reason, 32), mload(reason))
            }
        }
        string[16] memory names = [
            "honestSolver",
            "cheatingSolver",
            "honestVerifier",
            "cheatingVerifier",
            "honestWhistleblower",
            "cheatingWhistleblower",
            "honestMerger",
            "forgingMerger",
            "honestChallenger",
            "cheatingClaimant",
            "keeper",
            "bullying",
            "thief",
            "repeating",
            "leaving",
            "waiting"
        ];
        (uint256 allCalls, uint256 allSuccesses) = (0, 0);
        for (uint256 i = 0; i < names.length; ++i) {
            uint256 calls = play.countOf(string.concat("calls ", names[i]));
            uint256 successes = play.countOf(string.concat("success ", names[i]));
            assertTrue(successes > 0, names[i]);
            (allCalls, allSuccesses) = (allCalls + calls, allSuccesses + successes);
        }
        assertTrue(5 * allSuccesses >= allCalls, "a fifth of all calls");
        assertTrue(play.countOf("claim ACCEPTED") > 0 && play.countOf("claim CONVICTED") > 0, "both ends");
        play.finish();
    }

    function afterInvariant() external {
        play.checkLockIdentity();
        play.checkFinality();
        play.finish();
        string memory path = vm.envOr("FUZZ_COUNTS", string(""));
        if (bytes(path).length > 0) vm.writeLine(path, play.counts());
    }
}
