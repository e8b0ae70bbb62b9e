// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.28;

import {TaskId} from "../Types.sol";
import {DeploymentLimits, GameTerms, SeatStatus} from "./GameTypes.sol";
import {Module, Modules} from "./Module.sol";
import {IRefusals} from "./interfaces/IRefusals.sol";
import {ITasks} from "./interfaces/ITasks.sol";
import {GameTermsCode} from "./libraries/GameTermsCode.sol";
import {SSTORE2} from "solady/utils/SSTORE2.sol";

/// @title Keeps tasks, their seats and the members of their pools.
abstract contract TaskStorage is Module, ITasks {
    uint256 internal constant NUMBER = type(uint16).max;
    uint256 internal constant CONVICTED = 1 << 32;

    /// @dev As `Seat`, and what is open on it (`OpenCounts`). Rounds are at most 65,535: a seat that nobody is owed anything for has joined then.
    struct Record {
        address account;
        uint96 stakeWei;
        SeatStatus status;
        uint16 settled;
        uint16 joined;
        uint104 asks;
        uint104 disputes;
    }

    struct Peer {
        string url;
        bytes32 certificateSha256;
    }

    /// @dev Pools of one role. `live`: seats that sit, were a pool frozen now; `taken`: numbers in use; `closed`: convicted ones; `frozen`: words of frozen
    /// pools by version << 8 | word; `count`: seats of the last one.
    struct Members {
        uint16 span;
        uint24 version;
        bool isDirty;
        uint16 count;
        mapping(uint256 => uint256) live;
        mapping(uint256 => uint256) taken;
        mapping(uint256 => uint256) closed;
        mapping(uint256 => uint256) frozen;
    }

    /// @dev seatOf: of a closed seat its id | CONVICTED. closedSeats: how many hold a number. solvers, verifiers, whistleblowers, isEnough: what the last
    /// freeze gave, in one word; isFresh: a freeze now would give the same.
    struct Task {
        address terms;
        bool isClosed;
        uint64 openSolvers;
        uint16 seats;
        uint16 leastSolvers;
        uint16 leastVerifiers;
        uint16 leastWhistleblowers;
        uint16 solverSeats;
        uint16 closedSeats;
        uint64 solvers;
        uint24 verifiers;
        uint24 whistleblowers;
        bool isEnough;
        bool isFresh;
        uint128 askBond;
        uint128 disputeBond;
        mapping(uint256 => Members) members;
        mapping(uint256 => Record) seatAt;
        mapping(address => uint256) seatOf;
    }

    DeploymentLimits internal _limits;
    mapping(TaskId => Task) internal _tasks;
    mapping(address => Peer) internal _peers;

    constructor(Modules memory modules, DeploymentLimits memory limits_) Module(modules) {
        // A round counts its blocks from its opening in 24 bits: a window until its beacon, and another one until it closes.
        if (limits_.windowMax > type(uint24).max / 2) {
            revert IRefusals.WindowTooLong("windowMax", type(uint24).max / 2, limits_.windowMax);
        }
        // A stake is kept in so many bits.
        if (limits_.amountMax > type(uint96).max) {
            revert IRefusals.AmountTooLarge("amountMax", type(uint96).max, limits_.amountMax);
        }
        _limits = limits_;
    }

    // Reading ---------------------------------------------------------------------------------------------------------
    function _open(TaskId task) internal view returns (Task storage entry) {
        entry = _known(task);
        if (entry.isClosed) revert IRefusals.GameOver(TaskId.unwrap(task));
    }

    function _known(TaskId task) internal view returns (Task storage entry) {
        entry = _tasks[task];
        if (entry.terms == address(0)) revert IRefusals.TaskUnknown(TaskId.unwrap(task));
    }

    function _taken(Task storage entry, uint256 seat) internal view returns (Record storage record) {
        record = entry.seatAt[seat];
        if (record.status == SeatStatus.NONE) revert IRefusals.SeatUnknown(seat);
    }

    function _termsOf(Task storage entry) internal view returns (GameTerms memory) {
        return GameTermsCode.decode(SSTORE2.read(entry.terms));
    }
}
