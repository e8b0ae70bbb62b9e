// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.28;

import {AuditDraw} from "../../../contracts/libraries/AuditDraw.sol";
import {GameWorld} from "./GameWorld.sol";

/// @title Where the line of rounds is, and the beacon of a round: for tests of all their phases.
abstract contract RoundWorld is GameWorld {
    function _line() internal view returns (uint256 next, uint256 live, uint256 frozenTo, uint256 startBlock) {
        (next, live, frozenTo,, startBlock,,) = lineNow();
    }

    function _beacon(uint256 round, uint256 block_) internal view returns (bytes32) {
        return AuditDraw.roundBeacon(tasks.domainOf(task), uint32(round), randomness.valueAt(block_));
    }
}
