// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.28;

import {TaskId} from "../../Types.sol";
import {Audit, AUDIT_WORDS} from "../GameTypes.sol";
import {IRounds} from "../interfaces/IRounds.sol";

/// @title Reads `IRounds.auditOf` without decoding it word by word.
/// @dev `Rounds` encodes it and is trusted, so there is nothing to check. A static struct lies in memory as it is encoded.
library Audits {
    /// @notice A round, and the claims of those slots. isWhole: with auditors' pools and late audits.
    function load(IRounds rounds, TaskId task, uint256 round, uint256 slots, bool isWhole)
        internal
        view
        returns (Audit memory)
    {
        uint256 place = _load(rounds, task, round, slots, isWhole);
        function(uint256) pure returns (uint256) same = _same;
        function(uint256) pure returns (Audit memory) cast;
        assembly ("memory-safe") {
            cast := same
        }
        return cast(place);
    }

    function _same(uint256 place) private pure returns (uint256) {
        return place;
    }

    /// @return place where in memory the words lie
    function _load(IRounds rounds, TaskId task, uint256 round, uint256 slots, bool isWhole)
        private
        view
        returns (uint256 place)
    {
        bytes4 selector = IRounds.auditOf.selector;
        assembly ("memory-safe") {
            place := mload(0x40)
            mstore(place, selector)
            mstore(add(place, 4), task)
            mstore(add(place, 36), round)
            mstore(add(place, 68), slots)
            mstore(add(place, 100), isWhole)
            let found := staticcall(gas(), rounds, place, 132, 0, 0)
            let size := returndatasize()
            returndatacopy(place, 0, size)
            if iszero(found) { revert(place, size) }
            mstore(0x40, add(place, size))
            place := add(place, 64)
        }
    }

    /// @notice The claim of a slot; zeros where there is none, the pool has no such slot, or it was not asked for.
    function claimAt(Audit memory audit, uint256 slot) internal pure returns (bytes32 root, uint256 segments) {
        assembly ("memory-safe") {
            // The word before the struct counts all words, two of them for each slot. A slot is below 2^255.
            let word := add(shl(1, slot), AUDIT_WORDS)
            if lt(word, mload(sub(audit, 32))) {
                let place := add(audit, shl(5, word))
                root := mload(place)
                segments := mload(add(place, 32))
            }
        }
    }
}
