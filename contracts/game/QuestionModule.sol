// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.28;

import {TaskId} from "../Types.sol";
import {StatementModule} from "./StatementModule.sol";
import {IRefusals} from "./interfaces/IRefusals.sol";
import {Pots} from "./libraries/Pots.sol";

/// @title What asks and disputes share: how many are open on a seat, and their bonds.
abstract contract QuestionModule is StatementModule {
    /// @dev Whether this part opens asks, and not disputes.
    function _isAsking() internal pure virtual returns (bool);

    /// @dev Counts one more on a seat and takes its bond from the sender's credit: the k-th open one costs k.
    /// @param bondLimitWei the most that the sender pays: others may open some before it
    /// @return number k: the bond is given back by it
    /// @return bondWei what was taken
    function _openQuestion(TaskId task, uint256 seat, uint256 round, uint256 bondLimitWei)
        internal
        returns (uint256 number, uint256 bondWei)
    {
        uint256 oneWei;
        (number, oneWei) = seatBook.countQuestion(task, seat, round, _isAsking(), true);
        bondWei = number * oneWei;
        if (bondWei > bondLimitWei) revert IRefusals.WrongBond(bondWei, bondLimitWei);
        purse.take(msg.sender, Pots.bonds(task), bondWei);
    }

    /// @dev One less; the whole bond goes back.
    /// @param number what `_openQuestion` returned
    function _returnBond(TaskId task, uint256 seat, uint256 round, uint256 number, address account) internal {
        uint256 bondWei = number * _endQuestion(task, seat, round);
        purse.give(Pots.bonds(task), account, bondWei);
    }

    /// @dev One less; half of the bond to whoever was put to the trouble, the rest is burned.
    function _forfeitBond(TaskId task, uint256 seat, uint256 round, uint256 number, address account)
        internal
    {
        uint256 bondWei = number * _endQuestion(task, seat, round);
        purse.give(Pots.bonds(task), account, bondWei / 2);
        purse.discard(Pots.bonds(task), bondWei - bondWei / 2);
    }

    function _endQuestion(TaskId task, uint256 seat, uint256 round) private returns (uint256 oneWei) {
        (, oneWei) = seatBook.countQuestion(task, seat, round, _isAsking(), false);
    }
}
