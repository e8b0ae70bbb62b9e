// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.28;

import {TaskId} from "../Types.sol";
import {Hashing} from "../libraries/Hashing.sol";
import {DeploymentLimits, GameTerms, RANKS, Seat, SeatRole, SeatStatus} from "./GameTypes.sol";
import {Module, Modules} from "./Module.sol";
import {SeatLedger} from "./SeatLedger.sol";
import {TaskStorage} from "./TaskStorage.sol";
import {IRefusals} from "./interfaces/IRefusals.sol";
import {ITasks} from "./interfaces/ITasks.sol";
import {GameTermsCheck} from "./libraries/GameTermsCheck.sol";
import {Pots} from "./libraries/Pots.sol";
import {SSTORE2} from "solady/utils/SSTORE2.sol";

/// @title Posts and closes tasks, and says what other contracts and nodes need of a task and its members.
contract Tasks is SeatLedger {
    constructor(Modules memory modules) Module(modules) {}

    // Tasks -----------------------------------------------------------------------------------------------------------
    /// @inheritdoc ITasks
    function announce(string calldata url, bytes32 certificateSha256) external {
        _peers[msg.sender] = Peer(url, certificateSha256);
        emit Announced(msg.sender, url, certificateSha256);
    }

    /// @inheritdoc ITasks
    function postTask(GameTerms calldata terms, bytes calldata training) external returns (TaskId task) {
        if (msg.sender != terms.submitter) revert IRefusals.NotSubmitter(terms.submitter, msg.sender);
        GameTermsCheck.check(terms, _limits);
        bytes memory encoded = abi.encode(terms);
        task = TaskId.wrap(sha256(bytes.concat(encoded, training)));
        if (_tasks[task].terms != address(0)) revert TaskExists(task);
        Task storage entry = _tasks[task];
        entry.terms = SSTORE2.write(encoded);
        (entry.leastSolvers, entry.leastVerifiers, entry.leastWhistleblowers) = (
            uint16(terms.leastSolvers), uint16(terms.leastVerifiers), uint16(terms.leastWhistleblowers)
        );
        entry.solverSeats = uint16(terms.solverSeats);
        (entry.askBond, entry.disputeBond) = (terms.amounts.askBond, terms.amounts.disputeBond);
        uint256 escrowWei = escrowFor(terms);
        emit TaskPosted(task, msg.sender, terms, training, escrowWei);
        shares.create(task);
        rounds.begin(task, Hashing.outerRoot(terms.initialWeightsRoot, terms.zeroRoot));
        purse.take(msg.sender, Pots.escrow(task), escrowWei);
    }

    /// @inheritdoc ITasks
    /// @dev Every solver seat accepted in every round, three counted votes in every draw and in every late audit.
    function escrowFor(GameTerms calldata terms) public pure returns (uint256) {
        unchecked {
            // No amounts of 128 bits and numbers of 32 bits reach 2^256.
            uint256 claimWei = terms.amounts.solverPay + RANKS * terms.draws * uint256(terms.amounts.auditPay);
            if (terms.lateChance != 0) claimWei += RANKS * uint256(terms.amounts.latePay);
            return uint256(terms.rounds) * terms.solverSeats * claimWei;
        }
    }

    /// @inheritdoc ITasks
    function closeTask(TaskId task) external {
        Task storage entry = _open(task);
        if (entry.seats != 0 || contests.openOf(task) != 0 || !rounds.isOver(task)) {
            revert IRefusals.TaskRuns(TaskId.unwrap(task));
        }
        entry.isClosed = true;
        uint256 refundWei = purse.potOf(Pots.escrow(task));
        emit GameClosed(task, refundWei);
        purse.give(Pots.escrow(task), _termsOf(entry).submitter, refundWei);
        settlement.burnRest(task);
    }

    // What a task is --------------------------------------------------------------------------------------------------
    /// @inheritdoc ITasks
    /// @dev What is stored is the encoding of the answer.
    function termsOf(TaskId task) external view returns (GameTerms memory) {
        bytes memory encoded = SSTORE2.read(_known(task).terms);
        assembly ("memory-safe") {
            return(add(encoded, 32), mload(encoded))
        }
    }

    /// @inheritdoc ITasks
    function domainOf(TaskId task) external view returns (bytes32) {
        return Hashing.domain(block.chainid, address(this), task);
    }

    /// @inheritdoc ITasks
    function limits() external view returns (DeploymentLimits memory) {
        return _limits;
    }

    /// @inheritdoc ITasks
    function isClosed(TaskId task) external view returns (bool) {
        return _known(task).isClosed;
    }

    /// @inheritdoc ITasks
    function peerOf(address account) external view returns (string memory url, bytes32 certificateSha256) {
        Peer storage peer = _peers[account];
        return (peer.url, peer.certificateSha256);
    }

    // Its members -----------------------------------------------------------------------------------------------------
    /// @inheritdoc ITasks
    function seatAt(TaskId task, uint256 seat) external view returns (Seat memory) {
        Record storage record = _tasks[task].seatAt[seat];
        return Seat(record.account, record.stakeWei, record.status, record.settled, record.joined);
    }

    /// @inheritdoc ITasks
    function openOn(TaskId task, uint256 seat) external view returns (uint256, uint256) {
        Record storage record = _tasks[task].seatAt[seat];
        return (record.asks, record.disputes);
    }

    /// @inheritdoc ITasks
    function membersOf(TaskId task, uint256[] calldata seats) external view returns (uint256[] memory words) {
        words = new uint256[](2 * seats.length);
        unchecked {
            for (uint256 i = 0; i < seats.length; ++i) {
                Record storage record = _tasks[task].seatAt[seats[i]];
                assembly ("memory-safe") {
                    let place := add(add(words, 32), shl(6, i))
                    mstore(place, sload(record.slot))
                    mstore(add(place, 32), sload(add(record.slot, 1)))
                }
            }
        }
    }

    /// @inheritdoc ITasks
    /// @dev An account's seat is its own until it is freed.
    function signerOf(TaskId task, address account)
        external
        view
        returns (uint256 seat, SeatStatus status, uint256 settled)
    {
        Task storage entry = _tasks[task];
        seat = entry.seatOf[account] & ~CONVICTED;
        Record storage record = entry.seatAt[seat];
        if (seat != 0) (status, settled) = (record.status, record.settled);
    }

    /// @inheritdoc ITasks
    function seatOf(TaskId task, address account) external view returns (uint256) {
        return _tasks[task].seatOf[account] & ~CONVICTED;
    }

    /// @inheritdoc ITasks
    /// @dev An address is a word, so they are returned as they lie in memory.
    function voterAccounts(TaskId task, uint256[] calldata seats) external view returns (address[] memory) {
        Task storage entry = _tasks[task];
        bool isSilencing = entry.closedSeats != 0;
        uint256 encoded;
        assembly ("memory-safe") {
            encoded := mload(0x40)
            mstore(encoded, 32)
            mstore(add(encoded, 32), seats.length)
            mstore(0x40, add(encoded, add(64, shl(5, seats.length))))
        }
        unchecked {
            for (uint256 i = 0; i < seats.length; ++i) {
                uint256 seat = seats[i];
                address account;
                bool isSilenced =
                    isSilencing && seat >> 16 != uint256(SeatRole.SOLVER) && _isConvicted(entry, seat);
                if (seat != 0 && !isSilenced) account = entry.seatAt[seat].account;
                assembly ("memory-safe") {
                    mstore(add(add(encoded, 64), shl(5, i)), account)
                }
            }
        }
        assembly ("memory-safe") {
            return(encoded, add(64, shl(5, seats.length)))
        }
    }

    function _isConvicted(Task storage entry, uint256 seat) private view returns (bool) {
        return entry.members[seat >> 16].closed[(seat & NUMBER) / 256] >> ((seat & NUMBER) % 256) & 1 == 1;
    }

    /// @inheritdoc ITasks
    function seatOfSolver(TaskId task, address account) external view returns (uint256 seat, bool isConvicted) {
        seat = _tasks[task].seatOf[account];
        (seat, isConvicted) = (seat & ~CONVICTED, seat & CONVICTED != 0);
        if (seat >> 16 != uint256(SeatRole.SOLVER)) return (0, false);
    }
}
