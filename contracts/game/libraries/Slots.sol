// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.28;

import {SeatRole} from "../GameTypes.sol";
import {LibBit} from "solady/utils/LibBit.sol";

/// @title Between seat numbers and slots: a solver's slot is its place in the round's pool.
library Slots {
    /// @notice The slot of a seat number; of no meaning where the pool does not hold it.
    function slotOf(uint256 pool, uint256 number) internal pure returns (uint256) {
        return LibBit.popCount(pool & ((1 << number) - 1));
    }

    /// @notice The seat number in a slot; the slot is below the pool's count.
    function numberAt(uint256 pool, uint256 slot) internal pure returns (uint256) {
        for (; slot != 0; --slot) {
            pool &= pool - 1;
        }
        return LibBit.ffs(pool);
    }

    /// @notice The slots of those seat numbers that the pool holds.
    function slotsOf(uint256 pool, uint256 numbers) internal pure returns (uint256 slots) {
        for (uint256 left = numbers & pool; left != 0; left &= left - 1) {
            slots |= 1 << slotOf(pool, LibBit.ffs(left));
        }
    }

    /// @notice The lowest number of a bitmap that has none below `from`. Mostly it is `from` itself, so that bit is looked at first.
    function lowest(uint256 numbers, uint256 from) internal pure returns (uint256) {
        return numbers >> from & 1 == 1 ? from : LibBit.ffs(numbers);
    }

    /// @notice Ids of solver seats, ascending.
    function idsOf(uint256 numbers) internal pure returns (uint256[] memory ids) {
        ids = new uint256[](LibBit.popCount(numbers));
        uint256 number;
        for (uint256 i = 0; numbers != 0; ++i) {
            number = lowest(numbers, number);
            ids[i] = uint256(SeatRole.SOLVER) << 16 | number;
            numbers &= numbers - 1;
            ++number;
        }
    }

    /// @notice All slots of a pool.
    function all(uint256 pool) internal pure returns (uint256) {
        return (1 << LibBit.popCount(pool)) - 1;
    }
}
