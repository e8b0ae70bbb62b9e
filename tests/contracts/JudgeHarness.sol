// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.28;

import {EXACT_FORMAT} from "../../contracts/Types.sol";
import {ExactElement} from "../../contracts/libraries/ExactElement.sol";
import {Judge, Run} from "../../contracts/libraries/Judge.sol";

/// @title The verdicts of `Judge` and `ExactElement` from outside, many in one call. For tests: nothing deploys it.
contract JudgeHarness {
    /// @dev bits, integerBytes: of exact programs, as `ExactElement.compute` takes them.
    struct Case {
        uint8 operation;
        uint32 numericFormat;
        uint32 claimed;
        uint256 terms;
        uint256 bits;
        uint256 integerBytes;
        Run[] operands;
    }

    /// @notice Whether each case's claim is a fault.
    function judge(Case[] memory cases) external pure returns (bool[] memory faults) {
        faults = new bool[](cases.length);
        for (uint256 i = 0; i < cases.length; ++i) {
            faults[i] = _isFault(cases[i]);
        }
    }

    function _isFault(Case memory c) private pure returns (bool) {
        if (c.numericFormat != EXACT_FORMAT) {
            return Judge.isFault(c.operation, c.operands, c.terms, c.claimed);
        }
        return c.claimed != ExactElement.compute(c.operation, c.operands, c.terms, c.bits, c.integerBytes);
    }
}
