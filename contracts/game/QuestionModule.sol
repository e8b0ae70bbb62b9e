// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.28;

import {TaskId} from "../Types.sol";
import {Modules} from "./Module.sol";
import {StatementModule} from "./StatementModule.sol";
import {IQuestions} from "./interfaces/IQuestions.sol";
import {IRefusals} from "./interfaces/IRefusals.sol";
import {OpenCounts} from "./libraries/OpenCounts.sol";
import {Pots} from "./libraries/Pots.sol";

/// @title What asks and disputes share: how many are open on a seat, and their bonds.
abstract contract QuestionModule is StatementModule, IQuestions {
    mapping(TaskId => mapping(uint256 => uint256)) private _open;

    constructor(Modules memory modules) StatementModule(modules) {}

    /// @inheritdoc IQuestions
    function openOn(TaskId task, uint256 seat) external view returns (uint256 counts) {
        return _open[task][seat];
    }

    /// @dev Counts one more on a seat and takes its bond from the sender's credit: the k-th open one costs k.
    /// @param bondWei what the sender expects
    /// @return number k: `_endQuestion` gives the bond back by it
    function _openQuestion(TaskId task, uint256 seat, uint256 round, uint256 oneWei, uint256 bondWei)
        internal
        returns (uint256 number)
    {
        uint256 counts = _open[task][seat];
        number = 1 + OpenCounts.total(counts);
        if (bondWei != number * oneWei) revert IRefusals.WrongBond(number * oneWei, bondWei);
        _open[task][seat] = OpenCounts.add(counts, round);
        purse.take(msg.sender, Pots.bonds(task), bondWei);
    }

    /// @dev One less; the whole bond goes back.
    function _returnBond(TaskId task, uint256 seat, uint256 round, uint256 bondWei, address account)
        internal
    {
        _open[task][seat] = OpenCounts.remove(_open[task][seat], round);
        purse.give(Pots.bonds(task), account, bondWei);
    }

    /// @dev One less; half of the bond to whoever was put to the trouble, the rest is burned.
    function _forfeitBond(TaskId task, uint256 seat, uint256 round, uint256 bondWei, address account)
        internal
    {
        _open[task][seat] = OpenCounts.remove(_open[task][seat], round);
        purse.give(Pots.bonds(task), account, bondWei / 2);
        purse.discard(Pots.bonds(task), bondWei - bondWei / 2);
    }
}
