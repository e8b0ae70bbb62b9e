// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.28;

import {IRandomness} from "../../../contracts/interfaces/IRandomness.sol";
import {RandomnessWorld} from "../RandomnessWorld.sol";
import {BLS} from "solady/utils/ext/ithaca/BLS.sol";

/// @title The same, mixed with the round of drand that the block's time names.
contract DrandRandomnessTest is RandomnessWorld {
    uint256 private constant NEGATIVE = 1;

    // drand
    /// forge-config: default.evm_version = "prague"
    function test_readMixed_rightRound_mixes() public view {
        bytes32 expected = sha256(abi.encode(prevrandao, words(".beacons.randomness")[SIGNED]));
        assertEq(mixed.read(1, bytes.concat(_point(SIGNED), header)), expected, "mixed");
    }

    /// forge-config: default.evm_version = "prague"
    function test_readMixed_wrongSignature_reverts() public {
        bytes memory proof = bytes.concat(_point(NEGATIVE), header);
        vm.expectRevert(abi.encodeWithSelector(IRandomness.WrongSignature.selector, 1000));
        mixed.read(1, proof);
    }

    function test_readMixed_shortProof_reverts() public {
        vm.expectRevert(abi.encodeWithSelector(IRandomness.ProofTooShort.selector, 128, 127));
        mixed.read(1, new bytes(127));
        // A point and an empty header.
        vm.expectRevert(
            abi.encodeWithSelector(IRandomness.WrongHeader.selector, keccak256(header), keccak256(""))
        );
        mixed.read(1, new bytes(128));
    }

    /// @dev What a chain without EIP-2537 gets, if somebody deploys there by hand.
    function test_readMixed_noPrecompiles_reverts() public {
        bytes memory proof = bytes.concat(_point(SIGNED), header);
        vm.expectRevert(BLS.MapFpToG1Failed.selector);
        mixed.read(1, proof);
    }
}
