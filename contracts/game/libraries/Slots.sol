// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.28;

import {SeatRole} from "../GameTypes.sol";
import {LibBit} from "solady/utils/LibBit.sol";

/// @title Between seat numbers and slots: a solver's slot is its place in the round's pool.
library Slots {
    /// @notice The slot of a seat number; of no meaning where the pool does not hold it.
    function slotOf(uint256 pool, uint256 number) internal pure returns (uint256) {
        unchecked {
            return LibBit.popCount(pool & ((1 << number) - 1));
        }
    }

    /// @notice The seat number in a slot; the slot is below the pool's count.
    function numberAt(uint256 pool, uint256 slot) internal pure returns (uint256) {
        unchecked {
            for (; slot != 0; --slot) {
                pool &= pool - 1;
            }
        }
        return LibBit.ffs(pool);
    }

    /// @notice The slots of those seat numbers that the pool holds.
    function slotsOf(uint256 pool, uint256 numbers) internal pure returns (uint256 slots) {
        unchecked {
            for (uint256 left = numbers & pool; left != 0; left &= left - 1) {
                slots |= 1 << slotOf(pool, LibBit.ffs(left));
            }
        }
    }

    /// @notice Ids of solver seats, ascending.
    function idsOf(uint256 numbers) internal pure returns (uint256[] memory ids) {
        ids = new uint256[](LibBit.popCount(numbers));
        unchecked {
            for (uint256 i = 0; numbers != 0; ++i) {
                ids[i] = uint256(SeatRole.SOLVER) << 16 | LibBit.ffs(numbers);
                numbers &= numbers - 1;
            }
        }
    }

    /// @notice All slots of a pool.
    function all(uint256 pool) internal pure returns (uint256) {
        unchecked {
            return (1 << LibBit.popCount(pool)) - 1;
        }
    }
}
