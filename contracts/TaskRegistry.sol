// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.28;

import {Role, RoundStatus, TaskId, TaskTerms} from "./Types.sol";
import {IRandomness} from "./interfaces/IRandomness.sol";
import {IRoundLedger} from "./interfaces/IRoundLedger.sol";
import {IStakeVault} from "./interfaces/IStakeVault.sol";
import {ITaskRegistry} from "./interfaces/ITaskRegistry.sol";
import {Clock, Deadlines} from "./libraries/Clock.sol";
import {Draw} from "./libraries/Draw.sol";
import {Hashing} from "./libraries/Hashing.sol";
import {Terms} from "./libraries/Terms.sol";
import {TermsCheck} from "./libraries/TermsCheck.sol";
import {SSTORE2} from "solady/utils/SSTORE2.sol";

/// @title Tasks, peers, enrolment and the beacon of each round (docs/spec.md, sections 3 and 7).
/// @notice The terms of a task are stored once, as code: every module reads them often and nobody can change them.
contract TaskRegistry is ITaskRegistry {
    /// @dev Twice what its rounds can take, so that rounds that nobody starts in time do not eat the last ones.
    uint256 private constant EXPIRY_FACTOR = 2;

    /// @param solvers enrolled in all rounds before the current one: as many claims are to be settled
    struct Task {
        address terms;
        uint32 round;
        uint32 rounds;
        bool closed;
        uint64 solvers;
        uint192 expiryBlock;
    }

    struct Seat {
        Role role;
        uint32 index;
    }

    /// @dev One word, the beacon and the seats. The counts have room for more than any task may have (TermsCheck).
    struct Round {
        RoundStatus status;
        uint64 startBlock;
        uint64 enrolEnd;
        uint64 beaconEnd;
        uint16 solvers;
        uint16 verifiers;
        uint16 whistleblowers;
        bytes32 beacon;
        mapping(Role => mapping(uint32 => address)) enrolled;
        mapping(address => Seat) seats;
    }

    struct Peer {
        string url;
        bytes32 certificateSha256;
    }

    /// @notice Where all money lies.
    IStakeVault public immutable vault;
    /// @notice Claims, verdicts and settlement.
    IRoundLedger public immutable ledger;
    /// @notice Where the seeds of draws come from.
    IRandomness public immutable randomness;

    mapping(TaskId => Task) private _tasks;
    mapping(TaskId => mapping(uint32 => Round)) private _rounds;
    mapping(address => Peer) private _peers;

    constructor(IStakeVault vault_, IRoundLedger ledger_, IRandomness randomness_) {
        (vault, ledger, randomness) = (vault_, ledger_, randomness_);
    }

    // Peers and tasks ---------------------------------------------------------------------------------------------
    /// @inheritdoc ITaskRegistry
    function announce(string calldata url, bytes32 certificateSha256) external {
        _peers[msg.sender] = Peer(url, certificateSha256);
        emit Announced(msg.sender, url, certificateSha256);
    }

    /// @inheritdoc ITaskRegistry
    function createTask(TaskTerms calldata terms, bytes calldata training) external returns (TaskId task) {
        if (msg.sender != terms.submitter) revert NotSubmitter(terms.submitter, msg.sender);
        TermsCheck.check(terms, vault.unbondingBlocks());
        task = Hashing.taskId(terms, training);
        if (_tasks[task].terms != address(0)) revert TaskExists(task);
        _tasks[task] = Task(SSTORE2.write(abi.encode(terms)), 0, terms.rounds, false, 0, _expiryOf(terms));
        emit TaskCreated(task, msg.sender, terms, training);
        _startRound(task, 0, terms, terms.initialWeightsRoot, terms.zeroRoot);
        vault.fundEscrow(task, msg.sender, escrowFor(terms));
    }

    /// @dev Long enough for all rounds at their slowest, and then for everybody to settle.
    function _expiryOf(TaskTerms memory terms) private view returns (uint192) {
        uint256 played = EXPIRY_FACTOR * terms.rounds * Clock.worstSpan(terms.windows);
        return uint192(block.number + played + vault.unbondingBlocks());
    }

    /// @inheritdoc ITaskRegistry
    function closeTask(TaskId task) external {
        Task storage entry = _openTask(task);
        uint256 readyBlock = _closableBlock(task, entry);
        if (block.number < readyBlock) revert NotYet(readyBlock, block.number);
        entry.closed = true;
        emit TaskClosed(task, vault.closeEscrow(task, _termsOf(task).submitter));
    }

    /// @dev Nothing is paid any more once all is settled; until then whoever earned something has the unbonding time after the last round.
    function _closableBlock(TaskId task, Task storage entry) private returns (uint256) {
        (bool over, uint256 overBlock) = _finish(task, entry.round);
        if (!over || entry.round + 1 != entry.rounds) return entry.expiryBlock;
        (uint256 settledClaims, uint256 openMerges) = ledger.progressOf(task);
        uint256 solvers = entry.solvers + _rounds[task][entry.round].solvers;
        if (settledClaims == solvers && openMerges == 0) return block.number;
        uint256 settledBlock = overBlock + vault.unbondingBlocks();
        return settledBlock < entry.expiryBlock ? settledBlock : entry.expiryBlock;
    }

    // Rounds ------------------------------------------------------------------------------------------------------
    /// @inheritdoc ITaskRegistry
    function enrol(TaskId task, uint32 round, Role role) external {
        if (_openTask(task).round != round) revert WrongRound(_tasks[task].round, round);
        Round storage current = _rounds[task][round];
        if (block.number >= current.enrolEnd) {
            revert OutsideWindow(current.startBlock, current.enrolEnd, block.number);
        }
        if (current.seats[msg.sender].role != Role.NONE) revert AlreadyEnrolled(msg.sender);
        TaskTerms memory terms = _termsOf(task);
        uint32 capacity = _capacity(terms, role);
        uint32 index = _countOf(current, role);
        if (index >= capacity) revert RoundFull(role, capacity);
        current.enrolled[role][index] = msg.sender;
        current.seats[msg.sender] = Seat(role, index);
        if (role == Role.SOLVER) ++current.solvers;
        else if (role == Role.VERIFIER) ++current.verifiers;
        else ++current.whistleblowers;
        emit Enrolled(task, round, role, msg.sender, index);
        uint256 stakeWei = role == Role.SOLVER ? terms.amounts.solverStake : terms.amounts.enrolStake;
        vault.expose(Hashing.enrolmentExposure(task, round, msg.sender), msg.sender, stakeWei);
    }

    function _capacity(TaskTerms memory terms, Role role) private pure returns (uint32) {
        if (role == Role.SOLVER) return terms.maxSolvers;
        if (role == Role.VERIFIER) return terms.maxVerifiers;
        return role == Role.WHISTLEBLOWER ? terms.maxWhistleblowers : 0;
    }

    function _countOf(Round storage current, Role role) private view returns (uint32) {
        if (role == Role.SOLVER) return current.solvers;
        return role == Role.VERIFIER ? current.verifiers : current.whistleblowers;
    }

    /// @inheritdoc ITaskRegistry
    function sealBeacon(TaskId task, uint32 round, bytes calldata proof) external {
        Round storage current = _knownRound(task, round);
        if (current.status != RoundStatus.ENROLLING) {
            revert WrongStatus(uint8(RoundStatus.ENROLLING), uint8(current.status));
        }
        uint256 beaconBlock = Clock.compute(current.startBlock, _termsOf(task).windows).beaconBlock;
        if (block.number <= beaconBlock || block.number >= current.beaconEnd) {
            revert OutsideWindow(beaconBlock + 1, current.beaconEnd, block.number);
        }
        if (
            current.solvers == 0 || current.verifiers < Draw.MIN_VERIFIERS
        ) {
            _setEmpty(task, round, current);
        } else {
            _deal(task, round, current, randomness.read(beaconBlock, proof));
        }
    }

    function _deal(TaskId task, uint32 round, Round storage current, bytes32 value) private {
        current.status = RoundStatus.TRAINING;
        current.beacon = Hashing.beacon(domainOf(task), round, value);
        emit BeaconSealed(task, round, current.beacon);
    }

    /// @inheritdoc ITaskRegistry
    function advance(TaskId task) external {
        Task storage entry = _openTask(task);
        uint32 next = entry.round + 1;
        // A round that starts later could not be settled before the escrow may be closed.
        uint256 lastStart = entry.expiryBlock - vault.unbondingBlocks();
        if (next >= entry.rounds || block.number > lastStart) revert TaskFinished(task);
        (bool over, uint256 overBlock) = _finish(task, entry.round);
        if (!over) revert NotYet(overBlock, block.number);
        (entry.round, entry.solvers) = (next, entry.solvers + _rounds[task][entry.round].solvers);
        (bytes32 weightsRoot, bytes32 momentumRoot) = ledger.globalOf(task, next);
        _startRound(task, next, _termsOf(task), weightsRoot, momentumRoot);
    }

    function _startRound(
        TaskId task,
        uint32 round,
        TaskTerms memory terms,
        bytes32 weightsRoot,
        bytes32 momentumRoot
    ) private {
        Deadlines memory deadlines = Clock.compute(block.number, terms.windows);
        Round storage current = _rounds[task][round];
        current.status = RoundStatus.ENROLLING;
        current.startBlock = uint64(block.number);
        current.enrolEnd = uint64(deadlines.enrolEnd);
        current.beaconEnd = uint64(deadlines.beaconEnd);
        emit RoundStarted(task, round, block.number, weightsRoot, momentumRoot);
    }

    /// @dev Moves a round on to its end as far as it has one: EMPTY where the beacon is overdue, MERGED where the outer root stands.
    /// @return over whether the round has ended
    /// @return overBlock where it did, or from where on it can; 0 while that is not known
    function _finish(TaskId task, uint32 round) private returns (bool over, uint256 overBlock) {
        Round storage current = _rounds[task][round];
        RoundStatus status = _statusOf(current);
        if (status == RoundStatus.EMPTY && current.status != RoundStatus.EMPTY) {
            _setEmpty(task, round, current);
        }
        if (status == RoundStatus.EMPTY) return (true, current.beaconEnd);
        if (status == RoundStatus.ENROLLING) return (false, current.beaconEnd);
        (,,, uint256 postedBlock,) = ledger.outerOf(task, round);
        overBlock = postedBlock == 0 ? 0 : postedBlock + _termsOf(task).windows.merge;
        over = ledger.isMerged(task, round);
        if (over) current.status = RoundStatus.MERGED;
    }

    function _setEmpty(TaskId task, uint32 round, Round storage current) private {
        current.status = RoundStatus.EMPTY;
        emit RoundEmpty(task, round);
    }

    /// @dev A round whose beacon was not sealed in time is EMPTY before anybody says so.
    function _statusOf(Round storage current) private view returns (RoundStatus) {
        bool overdue = current.status == RoundStatus.ENROLLING && block.number >= current.beaconEnd;
        return overdue ? RoundStatus.EMPTY : current.status;
    }

    function _knownTask(TaskId task) private view returns (Task storage entry) {
        entry = _tasks[task];
        if (entry.terms == address(0)) revert TaskUnknown(task);
    }

    function _openTask(TaskId task) private view returns (Task storage entry) {
        entry = _knownTask(task);
        if (entry.closed) revert TaskFinished(task);
    }

    function _knownRound(TaskId task, uint32 round) private view returns (Round storage current) {
        uint32 latest = _knownTask(task).round;
        if (round > latest) revert WrongRound(latest, round);
        current = _rounds[task][round];
    }

    // Views -------------------------------------------------------------------------------------------------------
    /// @inheritdoc ITaskRegistry
    function domainOf(TaskId task) public view returns (bytes32) {
        return Hashing.domain(block.chainid, address(this), task);
    }

    /// @inheritdoc ITaskRegistry
    /// @dev What is stored is the encoding of the answer: to decode it first would cost whoever asks more than all the rest.
    function termsOf(TaskId task) external view returns (TaskTerms memory) {
        bytes memory encoded = SSTORE2.read(_knownTask(task).terms);
        assembly ("memory-safe") {
            return(add(encoded, 32), mload(encoded))
        }
    }

    function _termsOf(TaskId task) private view returns (TaskTerms memory) {
        return Terms.decode(SSTORE2.read(_knownTask(task).terms));
    }

    /// @inheritdoc ITaskRegistry
    function expiryBlock(TaskId task) external view returns (uint256) {
        return _knownTask(task).expiryBlock;
    }

    /// @inheritdoc ITaskRegistry
    /// @dev Every solver accepted in every round, every auditor of every draw called and revealing, one late audit a claim.
    function escrowFor(TaskTerms calldata terms) public pure returns (uint256) {
        uint256 audits = uint256(terms.segmentDraws) * Draw.AUDITORS_PER_DRAW;
        uint256 claimWei = terms.amounts.solverPay + audits * terms.amounts.auditPay + terms.amounts.latePay;
        return terms.rounds * (terms.maxSolvers * claimWei + terms.amounts.mergePay);
    }

    /// @inheritdoc ITaskRegistry
    function currentRound(TaskId task) external view returns (uint32) {
        return _knownTask(task).round;
    }

    /// @inheritdoc ITaskRegistry
    function roundOf(TaskId task, uint32 round)
        external
        view
        returns (
            RoundStatus status,
            uint256 startBlock,
            bytes32 beacon,
            uint32 solvers,
            uint32 verifiers,
            uint32 whistleblowers
        )
    {
        Round storage current = _rounds[task][round];
        (status, startBlock, beacon) = (_statusOf(current), current.startBlock, current.beacon);
        (solvers, verifiers, whistleblowers) = (current.solvers, current.verifiers, current.whistleblowers);
    }

    /// @inheritdoc ITaskRegistry
    function enrolledAt(TaskId task, uint32 round, Role role, uint32 index) external view returns (address) {
        return _rounds[task][round].enrolled[role][index];
    }

    /// @inheritdoc ITaskRegistry
    function indexOf(TaskId task, uint32 round, Role role, address account) external view returns (uint32) {
        Seat memory seat = _rounds[task][round].seats[account];
        return seat.role == role && role != Role.NONE ? seat.index + 1 : 0;
    }

    /// @inheritdoc ITaskRegistry
    function shardOf(TaskId task, uint32 round, uint32 slot) external view returns (uint32) {
        Round storage current = _rounds[task][round];
        if (current.beacon == 0) revert WrongStatus(uint8(RoundStatus.TRAINING), uint8(_statusOf(current)));
        return uint32(Draw.shard(current.beacon, slot, current.solvers));
    }

    /// @inheritdoc ITaskRegistry
    function peerOf(address account) external view returns (string memory url, bytes32 certificateSha256) {
        Peer storage peer = _peers[account];
        return (peer.url, peer.certificateSha256);
    }
}
