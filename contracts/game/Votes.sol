// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.28;

import {TaskId} from "../Types.sol";
import {RANKS} from "./GameTypes.sol";
import {Module, Modules} from "./Module.sol";
import {VoteJudging} from "./VoteJudging.sol";
import {IVotes} from "./interfaces/IVotes.sol";
import {Ballots} from "./libraries/Ballots.sol";

/// @title Votes on claims, and what others read of them.
contract Votes is VoteJudging {
    constructor(Modules memory modules) Module(modules) {}

    /// @inheritdoc IVotes
    function resultOf(TaskId task, uint256 round)
        external
        view
        returns (uint64 accepted, uint64 refused, uint64 convicted)
    {
        Round storage here = _roundOf(task, round);
        return (here.accepted, here.refused, here.convicted);
    }

    /// @inheritdoc IVotes
    function votesOf(TaskId task, uint256 round, uint256 slot, uint256 draw)
        external
        view
        returns (uint256[3] memory codes)
    {
        if (!_isKept(task, round)) return codes;
        uint256 votes_ = _votesOf(task, round, slot, draw);
        for (uint256 rank = 0; rank < RANKS; ++rank) {
            codes[rank] = Ballots.codeAt(votes_, rank);
        }
    }

    /// @inheritdoc IVotes
    function drawnOf(TaskId task, uint256 round, uint256 slot, uint256 draw, uint256 rank)
        external
        view
        returns (uint256 seat, uint256 segment)
    {
        if (!_roundOf(task, round).isDrawn) return (0, 0);
        DrawnRank memory drawn = _find(_drawnRound(task, round), slot, draw, rank);
        return (drawn.seat, drawn.segment);
    }

    /// @inheritdoc IVotes
    function isDrawOver(TaskId task, uint256 round, uint256 slot, uint256 draw) external view returns (bool) {
        if (!_roundOf(task, round).isDrawn) return false;
        DrawnRound memory all = _drawnRound(task, round);
        DrawnRank memory drawn = _find(all, slot, draw, 0);
        return drawn.seat != 0 && _isPayable(all, drawn, _votesOf(task, round, slot, draw));
    }
}
