// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.28;

import {RandomnessWorld} from "../RandomnessWorld.sol";
import {BLS} from "solady/utils/ext/ithaca/BLS.sol";

/// @title Rounds of drand, and points that are no signatures.
contract QuicknetTest is RandomnessWorld {
    // drand
    function test_roundAfter_vectors() public view {
        string[] memory name = names(".rounds");
        for (uint256 i = 0; i < name.length; ++i) {
            uint64 round = mixed.drandRound(numbers(".rounds.timestamp")[i]);
            assertEq(round, numbers(".rounds.round")[i], name[i]);
        }
    }

    /// forge-config: default.evm_version = "prague"
    function test_beacons_vectors() public view {
        string[] memory name = names(".beacons");
        for (uint256 i = 0; i < name.length; ++i) {
            bytes memory point = _point(i);
            assertEq(harness.randomness(point), words(".beacons.randomness")[i], name[i]);
            bytes32 both =
                sha256(abi.encode(words(".beacons.prevrandao")[i], words(".beacons.randomness")[i]));
            assertEq(both, words(".beacons.mixed")[i], name[i]);
            uint64 round = uint64(numbers(".beacons.round")[i]);
            assertEq(harness.verify(round, point), flags(".beacons.isSigned")[i], name[i]);
            assertTrue(!harness.verify(round + 1, point), "another round");
        }
    }

    /// @dev Half of the field is the last y that a compressed point calls the smaller one.
    function test_randomness_largerHalf_beginsAboveHalf() public view {
        bytes32 high = 0x000000000000000000000000000000000d0088f51cbff34d258dd3db21a5d66b;
        uint256 low = 0xb23ba5c279c2895fb39869507b587b120f55ffff58a9ffffdcff7fffffffd555;
        bytes32 x = "low part of x";
        for (uint256 above = 0; above < 2; ++above) {
            uint128 head = uint128(above == 0 ? 0x80 : 0xa0) << 120;
            bytes memory point = abi.encode(bytes32(0), x, high, bytes32(low + above));
            assertEq(harness.randomness(point), sha256(abi.encodePacked(head, x)), "half, and one more");
        }
    }

    /// @dev Without the check against the curve and the group, somebody could hand in a point that pairs as it likes.
    /// forge-config: default.evm_version = "prague"
    function test_verify_noPointOfTheGroup_reverts() public {
        bytes memory offCurve = _point(SIGNED);
        offCurve[127] ^= 0x01;
        // (0, 2) is on y^2 = x^3 + 4, but not in the group of prime order.
        bytes memory offGroup = new bytes(128);
        offGroup[127] = 0x02;
        vm.expectRevert(BLS.PairingFailed.selector);
        harness.verify(1000, offCurve);
        vm.expectRevert(BLS.PairingFailed.selector);
        harness.verify(1000, offGroup);
    }

    /// forge-config: default.evm_version = "prague"
    function test_verify_infinity_isNoSignature() public view {
        assertTrue(!harness.verify(1000, new bytes(128)), "infinity");
    }
}
