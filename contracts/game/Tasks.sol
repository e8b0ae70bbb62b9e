// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.28;

import {TaskId} from "../Types.sol";
import {DeploymentLimits, GameTerms, Proof, RANKS, Seat, SeatRole, SeatStatus} from "./GameTypes.sol";
import {Module, Modules} from "./Module.sol";
import {IRefusals} from "./interfaces/IRefusals.sol";
import {ITasks} from "./interfaces/ITasks.sol";
import {GameTermsCheck} from "./libraries/GameTermsCheck.sol";
import {Hashing} from "../libraries/Hashing.sol";
import {GameTermsCode} from "./libraries/GameTermsCode.sol";
import {Roster} from "./libraries/Frames.sol";
import {Pots} from "./libraries/Pots.sol";
import {LibBit} from "solady/utils/LibBit.sol";
import {SSTORE2} from "solady/utils/SSTORE2.sol";

/// @title Tasks and their members. Twin of `protocol/spec/game/seats.py` and `pools.py`.
/// @dev Whatever changes a pool first closes a round whose closing block is past (`rounds.sync`), so that nothing later gets into a frozen pool.
contract Tasks is Module, ITasks {
    /// @notice Finder and submitter get at most one part in so many of a slash, each.
    uint256 public constant SHARE_DIVISOR = 4;
    uint256 private constant NUMBER = type(uint16).max;

    struct Peer {
        string url;
        bytes32 certificateSha256;
    }

    /// @dev Pools of one role. `live`: seats that sit, were a pool frozen now; `taken`: numbers in use; `closed`: convicted ones.
    struct Members {
        uint16 span;
        uint16 closedCount;
        uint24 version;
        bool isDirty;
        mapping(uint256 => uint256) live;
        mapping(uint256 => uint256) taken;
        mapping(uint256 => uint256) closed;
        mapping(uint256 => Pool) frozen;
    }

    struct Pool {
        uint256 count;
        uint256[] words;
    }

    struct Task {
        address terms;
        bool isClosed;
        uint64 openSolvers;
        uint16 seats;
        uint16 leastSolvers;
        uint16 leastVerifiers;
        uint16 leastWhistleblowers;
        mapping(uint256 => Members) members;
        mapping(uint256 => Seat) seatAt;
        mapping(address => uint256) seatOf;
    }

    DeploymentLimits private _limits;
    mapping(TaskId => Task) private _tasks;
    mapping(address => Peer) private _peers;

    constructor(Modules memory modules, DeploymentLimits memory limits_) Module(modules) {
        if (limits_.windowMax > type(uint24).max) {
            revert IRefusals.WindowTooLong("windowMax", type(uint24).max, limits_.windowMax);
        }
        _limits = limits_;
    }

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
        uint256 escrowWei = escrowFor(terms);
        emit TaskPosted(task, msg.sender, terms, training, escrowWei);
        rounds.begin(task, Hashing.outerRoot(terms.initialWeightsRoot, terms.zeroRoot));
        purse.take(msg.sender, Pots.escrow(task), escrowWei);
    }

    /// @inheritdoc ITasks
    /// @dev Every solver seat accepted in every round, three counted votes in every draw and in every late audit.
    function escrowFor(GameTerms calldata terms) public pure returns (uint256) {
        uint256 claimWei = terms.amounts.solverPay + RANKS * terms.draws * uint256(terms.amounts.auditPay);
        if (terms.lateChance != 0) claimWei += RANKS * uint256(terms.amounts.latePay);
        return uint256(terms.rounds) * terms.solverSeats * claimWei;
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

    // Joining and leaving ------------------------------------------------------------------------------------------
    /// @inheritdoc ITasks
    function join(TaskId task, SeatRole role, uint256 stakeWei) external returns (uint256 seat) {
        Task storage entry = _open(task);
        GameTerms memory terms = _termsOf(entry);
        rounds.sync(task);
        rounds.requireJoinable(task);
        if (entry.seatOf[msg.sender] != 0) revert IRefusals.AlreadySeated(msg.sender);
        (uint256 least, uint256 most) = (_required(terms, role), _limits.amountMax);
        if (stakeWei < least || stakeWei > most) revert IRefusals.StakeWrong(least, most, stakeWei);
        if (role == SeatRole.SOLVER) _displaceSmallest(task, entry, terms.solverSeats, stakeWei);
        seat = _takeNumber(entry.members[uint256(role)], role);
        uint32 next = uint32(rounds.nextRound(task));
        entry.seatAt[seat] = Seat(msg.sender, uint96(stakeWei), SeatStatus.OPEN, next, next);
        entry.seatOf[msg.sender] = seat;
        ++entry.seats;
        if (role == SeatRole.SOLVER) entry.openSolvers |= uint64(1 << (seat & NUMBER));
        emit SeatJoined(task, seat, msg.sender, stakeWei);
        _seatOrNot(entry, terms, seat);
        purse.take(msg.sender, Pots.stakes(task), stakeWei);
    }

    /// @dev The lowest free number of a role.
    function _takeNumber(Members storage members, SeatRole role) private returns (uint256 seat) {
        uint256 most = role == SeatRole.SOLVER
            ? GameTermsCheck.SOLVER_SEATS_MAX
            : GameTermsCheck.AUDITOR_SEATS_MAX;
        uint256 word = 0;
        while (members.taken[word] == type(uint256).max) ++word;
        uint256 number = 256 * word + LibBit.ffs(~members.taken[word]);
        if (number >= most) revert IRefusals.SeatsTaken(0);
        members.taken[word] |= 1 << (number % 256);
        if (word >= members.span) members.span = uint16(word + 1);
        return uint256(role) << 16 | number;
    }

    /// @dev Where all seats are open the smallest stake goes; of equal ones the highest number.
    function _displaceSmallest(TaskId task, Task storage entry, uint256 seats, uint256 stakeWei) private {
        uint256 open = entry.openSolvers;
        if (LibBit.popCount(open) < seats) return;
        (uint256 smallest, uint256 heldWei) = (0, type(uint256).max);
        for (; open != 0; open &= open - 1) {
            uint256 seat = uint256(SeatRole.SOLVER) << 16 | LibBit.ffs(open);
            uint256 wei_ = entry.seatAt[seat].stakeWei;
            if (wei_ <= heldWei) (smallest, heldWei) = (seat, wei_);
        }
        if (stakeWei <= heldWei) revert IRefusals.SeatsTaken(heldWei + 1);
        _retire(task, entry, smallest);
    }

    /// @inheritdoc ITasks
    function topUp(TaskId task, uint256 seat, uint256 wei_) external {
        Task storage entry = _open(task);
        rounds.sync(task);
        Seat storage record = _ownOpen(entry, seat);
        uint256 most = _limits.amountMax - record.stakeWei;
        if (wei_ == 0 || wei_ > most) revert IRefusals.StakeWrong(1, most, wei_);
        record.stakeWei += uint96(wei_);
        emit SeatToppedUp(task, seat, wei_);
        _seatOrNot(entry, _termsOf(entry), seat);
        purse.take(msg.sender, Pots.stakes(task), wei_);
    }

    /// @inheritdoc ITasks
    function leave(TaskId task, uint256 seat) external {
        Task storage entry = _open(task);
        rounds.sync(task);
        _ownOpen(entry, seat);
        _retire(task, entry, seat);
    }

    function _ownOpen(Task storage entry, uint256 seat) private view returns (Seat storage record) {
        record = _taken(entry, seat);
        if (record.account != msg.sender) revert IRefusals.NotHolder(record.account, msg.sender);
        if (record.status != SeatStatus.OPEN) revert IRefusals.SeatClosed(seat);
    }

    /// @inheritdoc ITasks
    function payOut(TaskId task, uint256 seat) external {
        Task storage entry = _open(task);
        rounds.sync(task);
        Seat storage record = _taken(entry, seat);
        if (record.status == SeatStatus.OPEN && !rounds.isOver(task)) {
            revert IRefusals.TaskRuns(TaskId.unwrap(task));
        }
        bool isAsked = asks.openOn(task, seat) != 0 || disputes.openOn(task, seat) != 0;
        if (isAsked || _isHeld(task, seat, record.settled)) revert IRefusals.SeatBusy(seat);
        if (record.status == SeatStatus.OPEN) _retire(task, entry, seat);
        _free(task, entry, seat, record);
    }

    function _isHeld(TaskId task, uint256 seat, uint256 fromRound) private view returns (bool) {
        uint256 until = rounds.heldTo(task);
        return fromRound < until && heldRounds(task, seat, fromRound, until - 1) != 0;
    }

    /// @dev The record stays until the number is taken again: a claim of it may still be owed something. Of a convicted seat nothing is.
    function _free(TaskId task, Task storage entry, uint256 seat, Seat storage record) private {
        Members storage members = entry.members[seat >> 16];
        (uint256 word, uint256 bit) = ((seat & NUMBER) / 256, 1 << ((seat & NUMBER) % 256));
        members.taken[word] &= ~bit;
        if (record.status == SeatStatus.CLOSED) {
            members.closed[word] &= ~bit;
            --members.closedCount;
            record.joined = type(uint32).max;
        }
        uint256 stakeWei = record.stakeWei;
        (record.status, record.stakeWei) = (SeatStatus.NONE, 0);
        delete entry.seatOf[record.account];
        --entry.seats;
        emit SeatFreed(task, seat, stakeWei);
        purse.give(Pots.stakes(task), record.account, stakeWei);
    }

    // Pools -----------------------------------------------------------------------------------------------------------
    /// @inheritdoc ITasks
    function freezePools(TaskId task)
        external
        only(address(rounds))
        returns (uint64 solvers, uint24 verifiers, uint24 whistleblowers)
    {
        Task storage entry = _tasks[task];
        solvers = uint64(entry.members[uint256(SeatRole.SOLVER)].live[0]);
        verifiers = _freeze(entry.members[uint256(SeatRole.VERIFIER)]);
        whistleblowers = _freeze(entry.members[uint256(SeatRole.WHISTLEBLOWER)]);
    }

    /// @dev A copy, where anything has changed since the last one.
    function _freeze(Members storage members) private returns (uint24 version) {
        if (!members.isDirty) return members.version;
        version = members.version + 1;
        (members.version, members.isDirty) = (version, false);
        Pool storage pool = members.frozen[version];
        for (uint256 i = 0; i < members.span; ++i) {
            uint256 word = members.live[i];
            pool.words.push(word);
            pool.count += LibBit.popCount(word);
        }
    }

    /// @dev Whether a seat sits in pools frozen from now on: open, with its stake whole.
    function _seatOrNot(Task storage entry, GameTerms memory terms, uint256 seat) private {
        Seat storage record = entry.seatAt[seat];
        bool sits =
            record.status == SeatStatus.OPEN && record.stakeWei >= _required(terms, SeatRole(seat >> 16));
        Members storage members = entry.members[seat >> 16];
        (uint256 word, uint256 bit) = ((seat & NUMBER) / 256, 1 << ((seat & NUMBER) % 256));
        uint256 live = members.live[word];
        if ((live & bit != 0) == sits) return;
        members.live[word] = live ^ bit;
        if (!members.isDirty) members.isDirty = true;
    }

    function _required(GameTerms memory terms, SeatRole role) private pure returns (uint256) {
        if (role == SeatRole.NONE) revert IRefusals.SeatUnknown(0);
        return role == SeatRole.SOLVER ? terms.amounts.solverStake : terms.amounts.auditorStake;
    }

    // Settlement's calls -------------------------------------------------------------------------------------------
    /// @inheritdoc ITasks
    function retire(TaskId task, uint256 seat) external only(address(settlement)) {
        _retire(task, _tasks[task], seat);
    }

    function _retire(TaskId task, Task storage entry, uint256 seat) private {
        entry.seatAt[seat].status = SeatStatus.LEAVING;
        _unseat(entry, seat);
        emit SeatLeft(task, seat);
    }

    function _unseat(Task storage entry, uint256 seat) private {
        if (seat >> 16 == uint256(SeatRole.SOLVER)) entry.openSolvers &= ~uint64(1 << (seat & NUMBER));
        _seatOrNot(entry, _termsOf(entry), seat);
    }

    /// @inheritdoc ITasks
    function bookSettled(
        TaskId task,
        uint256 seat,
        uint256 untilRound,
        uint256 paidWei,
        uint256 burnedWei,
        uint256 feeWei
    ) external only(address(settlement)) {
        Task storage entry = _tasks[task];
        Seat storage record = entry.seatAt[seat];
        record.settled = uint32(untilRound + 1);
        feeWei = _min(feeWei, record.stakeWei);
        emit SeatSettled(task, seat, untilRound, paidWei, burnedWei, feeWei);
        purse.give(Pots.escrow(task), record.account, paidWei);
        purse.discard(Pots.escrow(task), burnedWei);
        if (feeWei == 0) return;
        record.stakeWei -= uint96(feeWei);
        _seatOrNot(entry, _termsOf(entry), seat);
        purse.discard(Pots.stakes(task), feeWei);
    }

    /// @inheritdoc ITasks
    function convict(TaskId task, uint256[] calldata seats, address finder, Proof proof)
        external
        only(address(settlement))
        returns (uint256 restWei)
    {
        Task storage entry = _tasks[task];
        for (uint256 i = 0; i < seats.length; ++i) {
            restWei += _close(task, entry, seats[i], finder, proof);
        }
        GameTerms memory terms = _termsOf(entry);
        uint256 finderWei = _min(restWei / SHARE_DIVISOR, terms.amounts.finderCap);
        uint256 refundWei = _min(restWei / SHARE_DIVISOR, purse.potOf(Pots.escrow(task)));
        restWei -= finderWei + refundWei;
        purse.give(Pots.stakes(task), finder, finderWei);
        purse.give(Pots.stakes(task), terms.submitter, refundWei);
    }

    function _close(TaskId task, Task storage entry, uint256 seat, address finder, Proof proof)
        private
        returns (uint256 stakeWei)
    {
        Seat storage record = entry.seatAt[seat];
        if (record.status == SeatStatus.CLOSED) return 0;
        stakeWei = record.stakeWei;
        (record.status, record.stakeWei) = (SeatStatus.CLOSED, 0);
        Members storage members = entry.members[seat >> 16];
        members.closed[(seat & NUMBER) / 256] |= 1 << ((seat & NUMBER) % 256);
        ++members.closedCount;
        _unseat(entry, seat);
        emit SeatConvicted(task, seat, proof, finder, stakeWei);
    }

    // Views -----------------------------------------------------------------------------------------------------------
    function _open(TaskId task) private view returns (Task storage entry) {
        entry = _known(task);
        if (entry.isClosed) revert IRefusals.GameOver(TaskId.unwrap(task));
    }

    function _known(TaskId task) private view returns (Task storage entry) {
        entry = _tasks[task];
        if (entry.terms == address(0)) revert IRefusals.TaskUnknown(TaskId.unwrap(task));
    }

    function _taken(Task storage entry, uint256 seat) private view returns (Seat storage record) {
        record = entry.seatAt[seat];
        if (record.status == SeatStatus.NONE) revert IRefusals.SeatUnknown(seat);
    }

    function _termsOf(Task storage entry) private view returns (GameTerms memory) {
        return GameTermsCode.decode(SSTORE2.read(entry.terms));
    }

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
        return sha256(abi.encode(bytes32("touchstone.domain"), block.chainid, address(this), task));
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
    function seatAt(TaskId task, uint256 seat) external view returns (Seat memory) {
        return _tasks[task].seatAt[seat];
    }

    /// @inheritdoc ITasks
    function seatOf(TaskId task, address account) external view returns (uint256) {
        return _tasks[task].seatOf[account];
    }

    /// @inheritdoc ITasks
    function accountsOf(TaskId task, uint256[] calldata seats)
        external
        view
        returns (address[] memory accounts)
    {
        Task storage entry = _tasks[task];
        accounts = new address[](seats.length);
        for (uint256 i = 0; i < seats.length; ++i) {
            accounts[i] = entry.seatAt[seats[i]].account;
        }
    }

    /// @inheritdoc ITasks
    function votersOf(TaskId task, uint256[] calldata seats)
        external
        view
        returns (address[] memory accounts)
    {
        Task storage entry = _tasks[task];
        accounts = new address[](seats.length);
        (uint256 role, bool isAnyClosed) = (0, false);
        for (uint256 i = 0; i < seats.length; ++i) {
            uint256 seat = seats[i];
            if (seat >> 16 != role) (role, isAnyClosed) = (seat >> 16, entry.members[seat >> 16].closedCount != 0);
            if (!isAnyClosed || !_isConvicted(entry, seat)) accounts[i] = entry.seatAt[seat].account;
        }
    }

    function _isConvicted(Task storage entry, uint256 seat) private view returns (bool) {
        return entry.members[seat >> 16].closed[(seat & NUMBER) / 256] >> ((seat & NUMBER) % 256) & 1 == 1;
    }

    /// @inheritdoc ITasks
    function solverOf(TaskId task, address account) external view returns (uint256 seat, bool isConvicted) {
        Task storage entry = _tasks[task];
        seat = entry.seatOf[account];
        if (seat >> 16 != uint256(SeatRole.SOLVER)) return (0, false);
        Members storage members = entry.members[uint256(SeatRole.SOLVER)];
        isConvicted = members.closedCount != 0 && _isConvicted(entry, seat);
    }

    /// @inheritdoc ITasks
    function closedSolvers(TaskId task) external view returns (uint64) {
        Members storage members = _tasks[task].members[uint256(SeatRole.SOLVER)];
        return members.closedCount == 0 ? 0 : uint64(members.closed[0]);
    }

    /// @inheritdoc ITasks
    function poolOf(TaskId task, SeatRole role, uint256 version) external view returns (uint256[] memory) {
        return _tasks[task].members[uint256(role)].frozen[version].words;
    }

    /// @inheritdoc ITasks
    function heldRounds(TaskId task, uint256 seat, uint256 first, uint256 last)
        public
        view
        returns (uint256 bitmap)
    {
        (uint256 role, uint256 number) = (seat >> 16, seat & NUMBER);
        for (uint256 round = first; round <= last; ++round) {
            Roster memory roster = rounds.rosterOf(task, round);
            uint256 word = roster.pool;
            if (role != uint256(SeatRole.SOLVER)) {
                bool isVerifier = role == uint256(SeatRole.VERIFIER);
                uint256[] storage words = _tasks[task].members[role].frozen[
                    isVerifier ? roster.verifiers : roster.whistleblowers
                ].words;
                word = number / 256 < words.length ? words[number / 256] : 0;
            }
            if (word >> (number % 256) & 1 == 1) bitmap |= 1 << (round - first);
        }
    }

    /// @inheritdoc ITasks
    function isEnough(TaskId task, uint64 solvers, uint24 verifiers, uint24 whistleblowers)
        external
        view
        returns (bool)
    {
        Task storage entry = _tasks[task];
        Members storage members = entry.members[uint256(SeatRole.SOLVER)];
        uint256 closed = members.closedCount == 0 ? 0 : members.closed[0];
        if (LibBit.popCount(solvers & ~closed) < entry.leastSolvers) return false;
        if (_countIn(entry.members[uint256(SeatRole.VERIFIER)], verifiers) < entry.leastVerifiers) return false;
        return _countIn(entry.members[uint256(SeatRole.WHISTLEBLOWER)], whistleblowers)
            >= entry.leastWhistleblowers;
    }

    function _countIn(Members storage members, uint24 version) private view returns (uint256 count) {
        Pool storage pool = members.frozen[version];
        count = pool.count;
        if (members.closedCount == 0) return count;
        for (uint256 i = 0; i < pool.words.length; ++i) {
            count -= LibBit.popCount(pool.words[i] & members.closed[i]);
        }
    }

    /// @inheritdoc ITasks
    /// @dev Closed seats do not sit.
    function isFunded(TaskId task) external view returns (bool) {
        Task storage entry = _tasks[task];
        return _countLive(entry, SeatRole.SOLVER) >= entry.leastSolvers
            && _countLive(entry, SeatRole.VERIFIER) >= entry.leastVerifiers
            && _countLive(entry, SeatRole.WHISTLEBLOWER) >= entry.leastWhistleblowers;
    }

    function _countLive(Task storage entry, SeatRole role) private view returns (uint256 count) {
        Members storage members = entry.members[uint256(role)];
        for (uint256 i = 0; i < members.span; ++i) {
            count += LibBit.popCount(members.live[i]);
        }
    }

    /// @inheritdoc ITasks
    function settledBy(TaskId task) external view returns (uint256 round) {
        Task storage entry = _tasks[task];
        round = type(uint32).max;
        for (uint256 role = 1; role <= RANKS; ++role) {
            Members storage members = entry.members[role];
            for (uint256 i = 0; i < members.span; ++i) {
                for (uint256 left = members.taken[i]; left != 0; left &= left - 1) {
                    uint256 seat = role << 16 | 256 * i + LibBit.ffs(left);
                    round = _min(round, entry.seatAt[seat].settled);
                }
            }
        }
    }

    /// @inheritdoc ITasks
    function peerOf(address account) external view returns (string memory url, bytes32 certificateSha256) {
        Peer storage peer = _peers[account];
        return (peer.url, peer.certificateSha256);
    }
}
