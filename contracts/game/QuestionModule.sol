// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.28;

import {TaskId} from "../Types.sol";
import {StatementModule} from "./StatementModule.sol";
import {IRefusals} from "./interfaces/IRefusals.sol";
import {OpenCounts} from "./libraries/OpenCounts.sol";
import {Pots} from "./libraries/Pots.sol";

/// @title What queries and disputes share: how many are open on a seat, and their bonds.
abstract contract QuestionModule is StatementModule {
    using OpenCounts for uint16[9];

    /// @dev The open questions of this part's kind on a seat: queries, or disputes.
    function _questionsOn(Record storage record) internal view virtual returns (uint16[9] storage);

    /// @dev The bond of the first open question on a seat.
    function _firstBondWei(TaskId task) internal view virtual returns (uint256);

    /// @dev Counts one more on a seat and takes its bond from the sender's credit: the k-th open one costs k.
    /// @param bondLimitWei the most that the sender pays: others may open some before it
    /// @return number k: the bond is given back by it
    /// @return bondWei what was taken
    function _openQuestion(TaskId task, uint256 seat, uint256 round, uint256 bondLimitWei)
        internal
        returns (uint256 number, uint256 bondWei)
    {
        uint16[9] storage open = _questionsOn(_tasks[task].seatAt[seat]);
        open.add(round);
        Round storage about = _roundAt(task, round);
        if (about.questions == type(uint16).max) revert OpenCounts.TooManyOpen(round);
        ++about.questions;
        number = open.total();
        bondWei = number * _firstBondWei(task);
        if (bondWei > bondLimitWei) revert IRefusals.WrongBond(bondWei, bondLimitWei);
        vault.take(msg.sender, Pots.bonds(task), bondWei);
    }

    /// @dev One less; the whole bond goes back.
    /// @param number what `_openQuestion` returned
    function _returnBond(TaskId task, uint256 seat, uint256 round, uint256 number, address account) internal {
        _endQuestion(task, seat, round);
        vault.give(Pots.bonds(task), account, number * _firstBondWei(task));
    }

    /// @dev One less; half of the bond to whoever was put to the trouble, the rest is burned.
    function _forfeitBond(TaskId task, uint256 seat, uint256 round, uint256 number, address account) internal {
        _endQuestion(task, seat, round);
        uint256 bondWei = number * _firstBondWei(task);
        vault.give(Pots.bonds(task), account, bondWei / 2);
        vault.discard(Pots.bonds(task), bondWei - bondWei / 2);
    }

    function _endQuestion(TaskId task, uint256 seat, uint256 round) private {
        _questionsOn(_tasks[task].seatAt[seat]).remove(round);
        --_roundAt(task, round).questions;
    }
}
