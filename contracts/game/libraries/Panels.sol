// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.28;

import {AuditDraw} from "../../libraries/AuditDraw.sol";
import {SeatRole} from "../GameTypes.sol";
import {Slots} from "./Slots.sol";
import {LibBit} from "solady/utils/LibBit.sol";

/// @notice The auditors of a round, mixed by its seed.
/// @param members numbers of the seats in the frozen pool, ascending
/// @param order the first places of the mixed pool: positions in `members`
/// @param draws of a claim; of late audits 1
/// @param slots solver seats in the round's pool
struct Panel {
    SeatRole role;
    uint256[] members;
    uint256[] order;
    uint256 draws;
    uint256 slots;
}

/// @title Who is drawn.
library Panels {
    function assign(SeatRole role, uint256[] memory words, bytes32 seed, uint256 draws, uint256 slots)
        internal
        view
        returns (Panel memory panel)
    {
        bytes32 tag = role == SeatRole.VERIFIER ? AuditDraw.VERIFIER_POOL : AuditDraw.WHISTLEBLOWER_POOL;
        (panel.role, panel.members, panel.draws, panel.slots) = (role, list(words), draws, slots);
        uint256 size = panel.members.length;
        panel.order = AuditDraw.permutation(seed, tag, size, AuditDraw.countPlaces(size, draws * slots));
    }

    /// @notice Id of the seat that is drawn.
    function seatAt(Panel memory panel, uint256 slot, uint256 draw, uint256 rank)
        internal
        pure
        returns (uint256)
    {
        uint256 size = panel.members.length;
        uint256 place = AuditDraw.place(size, slot, draw, rank, panel.draws, panel.slots);
        return uint256(panel.role) << 16 | panel.members[panel.order[place]];
    }

    /// @notice The numbers in a bitmap, ascending.
    function list(uint256[] memory words) internal pure returns (uint256[] memory numbers) {
        uint256 count;
        for (uint256 i = 0; i < words.length; ++i) {
            count += LibBit.popCount(words[i]);
        }
        numbers = new uint256[](count);
        uint256 found;
        for (uint256 i = 0; i < words.length; ++i) {
            uint256 bit;
            for (uint256 left = words[i]; left != 0; left &= left - 1) {
                bit = Slots.lowest(left, bit);
                numbers[found++] = i << 8 | bit++;
            }
        }
    }
}
