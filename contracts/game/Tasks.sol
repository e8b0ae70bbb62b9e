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
import {OpenCounts} from "./libraries/OpenCounts.sol";
import {Pots} from "./libraries/Pots.sol";
import {LibBit} from "solady/utils/LibBit.sol";
import {SSTORE2} from "solady/utils/SSTORE2.sol";

/// @title Tasks and their members. Twin of `protocol/spec/game/seats.py` and `pools.py`.
/// @dev Whatever changes a pool first closes a round whose closing block is past (`rounds.sync`), so that nothing later gets into a frozen pool.
contract Tasks is Module, ITasks {
    /// @notice Finder and submitter get at most one part in so many of a slash, each.
    uint256 public constant SHARE_DIVISOR = 4;
    uint256 private constant NUMBER = type(uint16).max;
    uint256 private constant CONVICTED = 1 << 32;

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

    DeploymentLimits private _limits;
    mapping(TaskId => Task) private _tasks;
    mapping(address => Peer) private _peers;

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
        if (role == SeatRole.SOLVER) _requirePlace(entry, stakeWei);
        seat = _takeNumber(entry.members[uint256(role)], role);
        uint16 next = uint16(rounds.nextRound(task));
        entry.seatAt[seat] = Record(msg.sender, uint96(stakeWei), SeatStatus.OPEN, next, next, 0, 0);
        entry.seatOf[msg.sender] = seat;
        unchecked {
            ++entry.seats;
        }
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
        uint256 word;
        uint256 taken = members.taken[0];
        unchecked {
            while (taken == type(uint256).max) taken = members.taken[++word];
            uint256 number = word << 8 | LibBit.ffs(~taken);
            if (number >= most) revert IRefusals.SeatsTaken(0);
            members.taken[word] = taken | 1 << (number % 256);
            if (word >= members.span) members.span = uint16(word + 1);
            seat = uint256(role) << 16 | number;
        }
    }

    /// @dev Where all places are taken a solver needs a larger stake than the smallest. Nobody is pushed out before a freeze: who joins and leaves
    /// before it would do it for nothing.
    function _requirePlace(Task storage entry, uint256 stakeWei) private view {
        uint256 open = entry.openSolvers;
        if (LibBit.popCount(open) < entry.solverSeats) return;
        (, uint256 heldWei) = _largest(entry, open);
        if (stakeWei <= heldWei) revert IRefusals.SeatsTaken(heldWei + 1);
    }

    /// @dev As many solver seats as there are places: those with the largest stakes, of equal ones the lower number first.
    /// @return chosen numbers
    /// @return leastWei the smallest stake among them
    function _largest(Task storage entry, uint256 numbers)
        private
        view
        returns (uint256 chosen, uint256 leastWei)
    {
        (uint256 excess, uint256 places) = (LibBit.popCount(numbers), entry.solverSeats);
        chosen = numbers;
        unchecked {
            // One is taken out a turn, until as many are left as there are places: of equal ones the highest number, whoever came later.
            for (;; --excess) {
                uint256 smallest;
                leastWei = type(uint256).max;
                for (uint256 left = chosen; left != 0; left &= left - 1) {
                    uint256 number = LibBit.ffs(left);
                    uint256 wei_ = entry.seatAt[uint256(SeatRole.SOLVER) << 16 | number].stakeWei;
                    if (wei_ <= leastWei) (smallest, leastWei) = (number, wei_);
                }
                if (excess <= places) return (chosen, leastWei);
                chosen &= ~(1 << smallest);
            }
        }
    }

    /// @inheritdoc ITasks
    function topUp(TaskId task, uint256 seat, uint256 wei_) external {
        Task storage entry = _open(task);
        rounds.sync(task);
        Record storage record = _ownOpen(entry, seat);
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

    function _ownOpen(Task storage entry, uint256 seat) private view returns (Record storage record) {
        record = _taken(entry, seat);
        if (record.account != msg.sender) revert IRefusals.NotHolder(record.account, msg.sender);
        if (record.status != SeatStatus.OPEN) revert IRefusals.SeatClosed(seat);
    }

    /// @inheritdoc ITasks
    function payOut(TaskId task, uint256 seat) external {
        Task storage entry = _open(task);
        rounds.sync(task);
        Record storage record = _taken(entry, seat);
        if (record.status == SeatStatus.OPEN && !rounds.isOver(task) && !_isCrowdedOut(entry, seat)) {
            revert IRefusals.TaskRuns(TaskId.unwrap(task));
        }
        bool isAsked = record.asks | record.disputes != 0;
        if (isAsked || _isHeld(task, seat, record.settled)) revert IRefusals.SeatBusy(seat);
        if (record.status == SeatStatus.OPEN) _retire(task, entry, seat);
        _free(task, entry, seat, record);
    }

    /// @dev Whether an open seat waits where no number is left for a larger stake.
    function _isCrowdedOut(Task storage entry, uint256 seat) private view returns (bool) {
        uint256 numbers = (1 << GameTermsCheck.SOLVER_SEATS_MAX) - 1;
        bool isSolver = seat >> 16 == uint256(SeatRole.SOLVER);
        if (!isSolver || entry.members[uint256(SeatRole.SOLVER)].taken[0] != numbers) return false;
        (uint256 chosen,) = _largest(entry, entry.openSolvers);
        return chosen >> (seat & NUMBER) & 1 == 0;
    }

    function _isHeld(TaskId task, uint256 seat, uint256 fromRound) private view returns (bool) {
        uint256 until = rounds.heldTo(task);
        return fromRound < until && heldRounds(task, seat, fromRound, until - 1) != 0;
    }

    /// @dev The record stays until the number is taken again: a claim of it may still be owed something. Of a convicted seat nothing is.
    function _free(TaskId task, Task storage entry, uint256 seat, Record storage record) private {
        Members storage members = entry.members[seat >> 16];
        (uint256 word, uint256 bit) = ((seat & NUMBER) / 256, 1 << ((seat & NUMBER) % 256));
        members.taken[word] &= ~bit;
        if (record.status == SeatStatus.CLOSED) {
            members.closed[word] &= ~bit;
            unchecked {
                --entry.closedSeats;
            }
            record.joined = type(uint16).max;
        }
        uint256 stakeWei = record.stakeWei;
        (record.status, record.stakeWei) = (SeatStatus.NONE, 0);
        delete entry.seatOf[record.account];
        unchecked {
            --entry.seats;
        }
        emit SeatFreed(task, seat, stakeWei);
        purse.give(Pots.stakes(task), record.account, stakeWei);
    }

    // Pools -----------------------------------------------------------------------------------------------------------
    /// @inheritdoc ITasks
    function freezePools(TaskId task)
        external
        only(address(rounds))
        returns (uint64 solvers, uint24 verifiers, uint24 whistleblowers, bool isEnough_)
    {
        Task storage entry = _tasks[task];
        if (!entry.isFresh) _refresh(entry);
        return (entry.solvers, entry.verifiers, entry.whistleblowers, entry.isEnough);
    }

    function _refresh(Task storage entry) private {
        uint64 solvers = _freezeSolvers(entry, entry.members[uint256(SeatRole.SOLVER)]);
        (uint24 verifiers, uint256 count) = _freeze(entry.members[uint256(SeatRole.VERIFIER)]);
        (uint24 whistleblowers, uint256 lateCount) = _freeze(entry.members[uint256(SeatRole.WHISTLEBLOWER)]);
        (entry.solvers, entry.verifiers, entry.whistleblowers) = (solvers, verifiers, whistleblowers);
        entry.isEnough = _hasLeast(entry, LibBit.popCount(solvers), count, lateCount);
        entry.isFresh = true;
    }

    /// @dev The largest stakes sit; the others stay members and wait.
    function _freezeSolvers(Task storage entry, Members storage members) private returns (uint64 sitting) {
        if (!members.isDirty) return entry.solvers;
        uint256 live = members.live[0];
        bool isFull = LibBit.popCount(live) > entry.solverSeats;
        if (isFull) (live,) = _largest(entry, live);
        (sitting, members.isDirty) = (uint64(live), false);
    }

    /// @dev A copy, where anything has changed since the last one.
    function _freeze(Members storage members) private returns (uint24 version, uint256 count) {
        (version, count) = (members.version, members.count);
        if (!members.isDirty) return (version, count);
        unchecked {
            (version, count) = (version + 1, 0);
            uint256 span = members.span;
            for (uint256 i = 0; i < span; ++i) {
                uint256 word = members.live[i];
                members.frozen[uint256(version) << 8 | i] = word;
                count += LibBit.popCount(word);
            }
        }
        (members.version, members.isDirty, members.count) = (version, false, uint16(count));
    }

    /// @dev Whether an open seat sits in pools frozen from now on: with its stake whole.
    function _seatOrNot(Task storage entry, GameTerms memory terms, uint256 seat) private {
        Record storage record = entry.seatAt[seat];
        bool isWhole = record.stakeWei >= _required(terms, SeatRole(seat >> 16));
        _sit(entry, seat, isWhole && record.status == SeatStatus.OPEN);
    }

    function _sit(Task storage entry, uint256 seat, bool sits) private {
        Members storage members = entry.members[seat >> 16];
        (uint256 word, uint256 bit) = ((seat & NUMBER) / 256, 1 << ((seat & NUMBER) % 256));
        uint256 live = members.live[word];
        // Who of the solvers sits depends on all of their stakes.
        bool isChanging = (live & bit != 0) != sits;
        if (isChanging) members.live[word] = live ^ bit;
        if (isChanging || seat >> 16 == uint256(SeatRole.SOLVER)) (members.isDirty, entry.isFresh) = (true, false);
    }

    function _required(GameTerms memory terms, SeatRole role) private pure returns (uint256) {
        if (role == SeatRole.NONE) revert IRefusals.SeatUnknown(0);
        return role == SeatRole.SOLVER ? terms.amounts.solverStake : terms.amounts.auditorStake;
    }

    // Questions' calls -------------------------------------------------------------------------------------------------
    /// @inheritdoc ITasks
    function countQuestion(TaskId task, uint256 seat, uint256 round, bool isOpening)
        external
        returns (uint256 number, uint256 oneWei)
    {
        bool isAsk = msg.sender == address(asks);
        if (!isAsk && msg.sender != address(disputes)) revert IRefusals.NotModule(msg.sender);
        Task storage entry = _tasks[task];
        Record storage record = entry.seatAt[seat];
        uint256 counts = isAsk ? record.asks : record.disputes;
        counts = isOpening ? OpenCounts.add(counts, round) : OpenCounts.remove(counts, round);
        if (isAsk) record.asks = uint104(counts);
        else record.disputes = uint104(counts);
        (number, oneWei) = (OpenCounts.total(counts), isAsk ? entry.askBond : entry.disputeBond);
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
        _sit(entry, seat, false);
    }

    /// @inheritdoc ITasks
    function bookSettlement(
        TaskId task,
        uint256 seat,
        uint256 untilRound,
        uint256 paidWei,
        uint256 burnedWei,
        uint256 feeWei
    ) external only(address(settlement)) {
        Task storage entry = _tasks[task];
        Record storage record = entry.seatAt[seat];
        record.settled = uint16(untilRound + 1);
        feeWei = _min(feeWei, record.stakeWei);
        emit SeatSettled(task, seat, untilRound, paidWei, burnedWei, feeWei);
        purse.give(Pots.escrow(task), record.account, paidWei);
        if (burnedWei != 0) purse.discard(Pots.escrow(task), burnedWei);
        if (feeWei == 0) return;
        unchecked {
            record.stakeWei -= uint96(feeWei);
        }
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
        GameTerms memory terms = _termsOf(entry);
        uint256 finderWei;
        uint256 refundWei;
        unchecked {
            for (uint256 i = 0; i < seats.length; ++i) {
                restWei += _close(task, entry, seats[i], finder, proof);
            }
            finderWei = _min(restWei / SHARE_DIVISOR, terms.amounts.finderCap);
            refundWei = _min(restWei / SHARE_DIVISOR, purse.potOf(Pots.escrow(task)));
            restWei -= finderWei + refundWei;
        }
        purse.give(Pots.stakes(task), finder, finderWei);
        purse.give(Pots.stakes(task), terms.submitter, refundWei);
    }

    function _close(TaskId task, Task storage entry, uint256 seat, address finder, Proof proof)
        private
        returns (uint256 stakeWei)
    {
        Record storage record = entry.seatAt[seat];
        if (record.status == SeatStatus.CLOSED) return 0;
        stakeWei = record.stakeWei;
        (record.status, record.stakeWei) = (SeatStatus.CLOSED, 0);
        Members storage members = entry.members[seat >> 16];
        members.closed[(seat & NUMBER) / 256] |= 1 << ((seat & NUMBER) % 256);
        unchecked {
            ++entry.closedSeats;
        }
        entry.seatOf[record.account] = seat | CONVICTED;
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

    function _taken(Task storage entry, uint256 seat) private view returns (Record storage record) {
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
    function seatAt(TaskId task, uint256 seat) external view returns (Seat memory) {
        Record storage record = _tasks[task].seatAt[seat];
        return Seat(record.account, record.stakeWei, record.status, record.settled, record.joined);
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

    /// @inheritdoc ITasks
    function closedSolvers(TaskId task) external view returns (uint64 solvers) {
        (solvers,) = closures(task);
    }

    /// @inheritdoc ITasks
    function closures(TaskId task) public view returns (uint64 solvers, bool isAny) {
        Task storage entry = _tasks[task];
        if (entry.closedSeats == 0) return (0, false);
        return (uint64(entry.members[uint256(SeatRole.SOLVER)].closed[0]), true);
    }

    /// @inheritdoc ITasks
    function poolOf(TaskId task, SeatRole role, uint256 version)
        external
        view
        returns (uint256[] memory words)
    {
        Members storage members = _tasks[task].members[uint256(role)];
        bool isFrozen = version != 0 && version <= members.version;
        words = new uint256[](isFrozen ? members.span : 0);
        unchecked {
            for (uint256 i = 0; i < words.length; ++i) {
                words[i] = members.frozen[version << 8 | i];
            }
        }
    }

    /// @inheritdoc ITasks
    function heldRounds(TaskId task, uint256 seat, uint256 first, uint256 last)
        public
        view
        returns (uint256 bitmap)
    {
        (uint256 role, uint256 number) = (seat >> 16, seat & NUMBER);
        for (uint256 round = first; round <= last; ++round) {
            (uint256 word, uint256 verifiers, uint256 whistleblowers) = rounds.poolsOf(task, round);
            if (role != uint256(SeatRole.SOLVER)) {
                bool isVerifier = role == uint256(SeatRole.VERIFIER);
                uint256 version = isVerifier ? verifiers : whistleblowers;
                word = _tasks[task].members[role].frozen[version << 8 | number / 256];
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
        (uint64 closed,) = closures(task);
        Members storage members = entry.members[uint256(SeatRole.VERIFIER)];
        uint256 count = _count(members, members.frozen, uint256(verifiers) << 8);
        members = entry.members[uint256(SeatRole.WHISTLEBLOWER)];
        uint256 lateCount = _count(members, members.frozen, uint256(whistleblowers) << 8);
        return _hasLeast(entry, LibBit.popCount(solvers & ~closed), count, lateCount);
    }

    /// @inheritdoc ITasks
    function isFunded(TaskId task) external view returns (bool) {
        Task storage entry = _tasks[task];
        uint256[4] memory counts;
        for (uint256 role = 1; role <= RANKS; ++role) {
            Members storage members = entry.members[role];
            counts[role] = _count(members, members.live, 0);
        }
        return _hasLeast(entry, counts[1], counts[2], counts[3]);
    }

    /// @dev Seats of a pool that are not closed.
    /// @param from where its words begin
    function _count(Members storage members, mapping(uint256 => uint256) storage words, uint256 from)
        private
        view
        returns (uint256 count)
    {
        unchecked {
            uint256 span = members.span;
            for (uint256 i = 0; i < span; ++i) {
                count += LibBit.popCount(words[from | i] & ~members.closed[i]);
            }
        }
    }

    function _hasLeast(Task storage entry, uint256 solvers, uint256 verifiers, uint256 whistleblowers)
        private
        view
        returns (bool)
    {
        return solvers >= entry.leastSolvers && verifiers >= entry.leastVerifiers
            && whistleblowers >= entry.leastWhistleblowers;
    }

    /// @inheritdoc ITasks
    function settledBy(TaskId task) external view returns (uint256 round) {
        Task storage entry = _tasks[task];
        round = type(uint32).max;
        unchecked {
            for (uint256 role = 1; role <= RANKS; ++role) {
                Members storage members = entry.members[role];
                for (uint256 i = 0; i < members.span; ++i) {
                    for (uint256 left = members.taken[i]; left != 0; left &= left - 1) {
                        uint256 seat = role << 16 | i << 8 | LibBit.ffs(left);
                        round = _min(round, entry.seatAt[seat].settled);
                    }
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
