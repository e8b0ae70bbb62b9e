// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.28;

/// @title The seats of a frozen pool in the order that a seed gives them.
library Order {
    /// @dev Fisher-Yates over the seat numbers below `span`, cut short once `need` of the pool's members are found; the bitmap must hold as many.
    /// Four steps share a hash, each takes 64 bits modulo what is left: no seat is likelier than another by more than span / 2^64.
    function fisherYates(bytes32 seed, uint256 span, uint256[] memory bitmap, uint256 need)
        internal
        view
        returns (uint256[] memory order)
    {
        order = new uint256[](need);
        uint256[] memory moved = new uint256[](span); // what stands at a place, plus one; 0: its own number
        assembly ("memory-safe") {
            let random := 0
            let next := add(order, 32)
            let end := add(next, shl(5, need))
            for { let i := 0 } lt(next, end) { i := add(i, 1) } {
                switch and(i, 3)
                case 0 {
                    mstore(0, seed)
                    mstore(32, shr(2, i))
                    if iszero(staticcall(gas(), 2, 0, 64, 0, 32)) { invalid() }
                    random := mload(0)
                }
                default { random := shr(64, random) }
                let j := add(i, mod(and(random, 0xffffffffffffffff), sub(span, i)))
                let at := add(add(moved, 32), shl(5, j))
                let here := mload(add(add(moved, 32), shl(5, i)))
                let seat := mload(at)
                seat := sub(add(seat, mul(iszero(seat), add(j, 1))), 1)
                mstore(at, add(here, mul(iszero(here), add(i, 1))))
                mstore(next, seat)
                next := add(next, shl(5, and(1, shr(and(seat, 255), mload(add(add(bitmap, 32), shl(5, shr(8, seat))))))))
            }
        }
    }

    /// @dev SHA-256 of two words, in the scratch space.
    function hash(bytes32 a, uint256 b) internal view returns (bytes32 digest) {
        assembly ("memory-safe") {
            mstore(0, a)
            mstore(32, b)
            if iszero(staticcall(gas(), 2, 0, 64, 0, 32)) { invalid() }
            digest := mload(0)
        }
    }
}
