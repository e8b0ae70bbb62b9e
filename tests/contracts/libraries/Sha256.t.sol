// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.28;

import {Sha256} from "../../../contracts/libraries/Sha256.sol";
import {Test} from "../Test.sol";

/// @title The chain's SHA-256, of any part of memory.
contract Sha256Test is Test {
    function testFuzz_digest_anyPart_isThatOfTheCompiler(bytes memory data, uint256 from, uint256 length)
        public
        pure
    {
        from = bound(from, 0, data.length);
        length = bound(length, 0, data.length - from);
        bytes memory part = new bytes(length);
        for (uint256 i = 0; i < length; ++i) {
            part[i] = data[from + i];
        }
        uint256 place;
        assembly ("memory-safe") {
            place := add(add(data, 32), from)
        }
        assertEq(Sha256.digest(place, length), sha256(part), "digest");
    }

    function test_digest_nothing_isTheKnownOne() public pure {
        bytes32 expected = 0xe3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855;
        assertEq(Sha256.digest(0x80, 0), expected, "of no bytes (FIPS 180-4)");
    }
}
