// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.28;

import {ExactSum} from "../../../contracts/libraries/ExactSum.sol";
import {Float32} from "../../../contracts/libraries/Float32.sol";
import {Run} from "../../../contracts/libraries/Runs.sol";
import {Test} from "../Test.sol";

/// @dev The edges of the two bounds, which no sum of a vector meets exactly; all else by way of `Judge`.
contract ExactSumTest is Test {
    uint32 private constant ONE = 0x3f800000;
    /// @dev 2^-124, what may be lost below the normal numbers for each term.
    uint32 private constant UNDERFLOW = 3 << 23;
    /// @dev 2^127, and 2^-149.
    uint32 private constant SAFE = 254 << 23;
    uint32 private constant LEAST = 1;

    /// @dev The sum of `a` times 1.0 and `b` times 2^-149, with no bound but the one for underflow.
    function _isFault(uint32 a, uint32 b, uint32 claimed) private pure returns (bool) {
        return ExactSum.isProductFault(_pair(a, b), _pair(ONE, LEAST), 2, claimed, 0);
    }

    function _pair(uint32 first, uint32 second) private pure returns (Run memory) {
        bytes memory data = new bytes(8);
        Float32.store(data, 0, first);
        Float32.store(data, 1, second);
        return Run(data, 0, false);
    }

    /// @dev Two terms: as far off as both may lose is no fault, one place further is.
    function test_isProductFault_atTheBound_isNone() public pure {
        uint32 most = UNDERFLOW + (1 << 23);
        assertTrue(!_isFault(0, 0, most), "2^-123");
        assertTrue(!_isFault(0, 0, most | Float32.SIGN_BIT), "-2^-123");
        assertTrue(_isFault(0, 0, most + 1), "above");
        assertTrue(_isFault(0, 0, most + 1 | Float32.SIGN_BIT), "below");
    }

    /// @dev From a size of 2^127 on somebody's sum may have been infinite on the way, whichever sign its terms have.
    function test_isProductFault_infinityFromTheSafePowerOn_isNone() public pure {
        assertTrue(_isFault(SAFE - 1, 0, Float32.INFINITY), "below 2^127");
        assertTrue(!_isFault(SAFE, 0, Float32.INFINITY), "2^127");
        assertTrue(!_isFault(SAFE, LEAST, Float32.INFINITY), "2^127 + 2^-298");
        assertTrue(!_isFault(SAFE, LEAST | Float32.SIGN_BIT, Float32.INFINITY), "2^127 - 2^-298");
    }

    /// @dev Words are summed around the exponents of the one before: at the lower end no window may hold zeros, which have no hidden bit.
    function test_isProductFault_zerosBehindSmallNumbers_areZeros() public pure {
        (bytes memory a, bytes memory b) = (new bytes(64), new bytes(64));
        for (uint256 i = 0; i < 16; ++i) {
            if (i < 8) Float32.store(a, i, 15 << 23); // 2^-112
            Float32.store(b, i, 227 << 23); // 2^100
        }
        uint32 sum = 118 << 23; // 8 * 2^-12
        assertTrue(!ExactSum.isProductFault(Run(a, 0, false), Run(b, 0, false), 16, sum, 0), "exact");
    }

    /// @dev At the upper end no window may hold infinities, which are no numbers.
    function test_isProductFault_infinitiesBehindLargeNumbers_excuseAll() public pure {
        (bytes memory a, bytes memory b) = (new bytes(64), new bytes(64));
        for (uint256 i = 0; i < 16; ++i) {
            Float32.store(a, i, i < 8 ? 250 << 23 : Float32.INFINITY);
            Float32.store(b, i, 250 << 23);
        }
        assertTrue(!ExactSum.isProductFault(Run(a, 0, false), Run(b, 0, false), 16, 0, 0), "not finite");
    }
}
