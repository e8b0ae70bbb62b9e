// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.28;

import {Judge, Run} from "../../contracts/libraries/Judge.sol";

/// @title The verdicts of `Judge` from outside, many in one call. For tests: nothing deploys it.
contract JudgeHarness {
    struct Case {
        uint8 operation;
        uint32 numericFormat;
        uint32 claimed;
        uint256 terms;
        Run[] operands;
    }

    /// @notice Whether each case's claim is a fault.
    function judge(Case[] memory cases) external pure returns (bool[] memory faults) {
        faults = new bool[](cases.length);
        for (uint256 i = 0; i < cases.length; ++i) {
            Case memory c = cases[i];
            faults[i] = Judge.isFault(c.operation, c.operands, c.terms, c.claimed, c.numericFormat);
        }
    }
}
