// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.28;

import {AuditRef, BoundaryProof, LeafProof, Role, StateHeader, TaskTerms} from "../../../contracts/Types.sol";
import {TaskId} from "../../../contracts/Types.sol";
import {Clock, Deadlines, LateDeadlines} from "../../../contracts/libraries/Clock.sol";
import {OuterMath} from "../../../contracts/libraries/OuterMath.sol";
import {Float32} from "../../../contracts/libraries/Float32.sol";
import {PositionalMerkle} from "../../../contracts/libraries/PositionalMerkle.sol";
import {StepWorld} from "../StepWorld.sol";
import {Trees} from "../Trees.sol";
import {Ghost} from "./Ghost.sol";

/// @title The world with several rounds at once, and who is who in it: the one place that knows how the contracts are called.
/// @dev A lap is one round of one task, in the order in which they start. `_enter` makes it the world's round. Who is honest is fixed by account; what
/// a cheat does in a lap follows from the lap, the slot and the run's seed, so that nothing of it is stored.
abstract contract Play is StepWorld, Ghost {
    uint32 internal constant RANKS = 3;
    uint32 internal constant LATE_DRAW = 1;
    uint8 internal constant PRIMARY = 0;
    uint8 internal constant RESERVES = 1;
    uint8 internal constant LATE = 2;
    uint8 internal constant NEVER = 255;
    uint256 internal constant REFILL_WEI = 20_000;

    /// @notice How a solver plays one round. `quitAt`: the first stage in which it is silent.
    struct Solver {
        bool honest;
        bool serves;
        bool deltaLie;
        uint8 quitAt;
        uint8 flavour;
        uint32 lieSegment;
        uint32 lieShift;
    }

    /// @notice How an auditor plays one audit. word 0: commits, 1: unserved, 2: abstains, 3: silent.
    struct Auditor {
        bool honest;
        bool copies;
        uint8 word;
        uint8 quitAt;
        uint8 flavour;
        uint32 shift;
    }

    /// @notice One round. Bits of the global model at its start; `solvers` enrolled.
    struct Lap {
        TaskId task;
        uint32 round;
        uint32 solvers;
        uint32 verifiers;
        uint32 weight;
        uint32 momentum;
        uint64 startBlock;
        uint64 mergedBlock;
        bool isLast;
        bool ended;
        bool advanced;
    }

    /// @notice The windows of one phase of audits.
    struct Phase {
        uint256 opens;
        uint256 startEnd;
        uint256 replayEnd;
        uint256 showEnd;
        uint256 leavesBlock;
        uint256 leavesEnd;
        uint256 openEnd;
        uint256 compareEnd;
    }

    struct Seat {
        bool known;
        uint32 segment;
        address auditor;
    }

    Lap[] internal _laps;
    uint256 internal _lap;
    uint256 internal _firstLive;
    uint256 internal _seed;
    address internal hunter = actor("hunter");
    address internal merger = actor("merger");
    address internal bully = actor("bully");
    address internal forger = actor("forger");
    address[] internal everybody;
    mapping(address => bool) internal isHonest;
    mapping(address => uint256) internal paidInWei;
    mapping(address => uint256) internal paidOutWei;
    /// @dev What the rules take of the honest: fees that they name.
    mapping(address => uint256) internal allowedWei;
    mapping(uint256 => mapping(uint256 => Seat)) private _seats;
    mapping(bytes32 => bool) internal _done;
    /// @dev The end of a run: nobody makes a move of his own any more, and silence costs the honest too.
    bool internal _silent;

    modifier self() {
        assertEq(msg.sender, address(this), "a move is the handler's own");
        _;
    }

    function setUp() public virtual override {
        super.setUp();
        solvers.push(actor("solver2"));
        whistleblowers.push(actor("whistleblower1"));
        _join(solvers, 1);
        _join(verifiers, 3);
        _join(whistleblowers, 1);
        (isHonest[hunter], isHonest[merger], isHonest[submitter]) = (true, true, true);
        everybody.push(hunter);
        everybody.push(merger);
        everybody.push(bully);
        everybody.push(forger);
        everybody.push(stranger);
        everybody.push(submitter);
        _fund(solvers[2]);
        _fund(whistleblowers[1]);
        for (uint256 i = everybody.length - 6; i < everybody.length - 2; ++i) {
            _fund(everybody[i]);
        }
        for (uint256 i = 0; i < everybody.length; ++i) {
            if (everybody[i] != submitter) paidInWei[everybody[i]] = WEALTH_WEI;
        }
        _startLap();
    }

    function _join(address[] storage group, uint256 honest) private {
        for (uint256 i = 0; i < group.length; ++i) {
            everybody.push(group[i]);
            isHonest[group[i]] = i < honest;
        }
    }

    /// @dev Stake for whoever has lost his; everything that was ever paid in is counted.
    function _refill(address account) internal {
        token.mint(account, REFILL_WEI);
        vm.startPrank(account);
        token.approve(address(vault), REFILL_WEI);
        vault.deposit(REFILL_WEI);
        vm.stopPrank();
        paidInWei[account] += REFILL_WEI;
    }

    // Laps --------------------------------------------------------------------------------------------------------
    function _startLap() internal {
        Lap storage lap = _laps.push();
        (lap.task, lap.round, lap.isLast) = (task, round, round + 1 == terms.rounds);
        (bytes32 weightsRoot, bytes32 momentumRoot) = ledger.globalOf(task, round);
        (lap.weight, lap.momentum) = _bitsOf(weightsRoot, momentumRoot);
        lap.startBlock = uint64(vm.getBlockNumber());
        _count("rounds");
    }

    mapping(bytes32 => uint32) internal _bits;
    mapping(bytes32 => bool) private _isKnown;

    /// @dev Every root that anybody posts is that of a tensor with the same bits everywhere.
    function _bitsOf(bytes32 weightsRoot, bytes32 momentumRoot) private returns (uint32, uint32) {
        _remember(FIRST_WEIGHT);
        _remember(0);
        _require(_isKnown[weightsRoot] && _isKnown[momentumRoot], "only posted roots stand", 1, 0);
        return (_bits[weightsRoot], _bits[momentumRoot]);
    }

    function _remember(uint32 bits) internal returns (bytes32 root) {
        root = tensorRoot(bits);
        (_bits[root], _isKnown[root]) = (bits, true);
    }

    function _newTask() internal {
        TaskTerms memory wanted = terms;
        wanted.salt = bytes32(_laps.length);
        uint256 escrowWei = registry.escrowFor(wanted);
        token.mint(submitter, escrowWei);
        vm.prank(submitter);
        token.approve(address(vault), escrowWei);
        _createTask(wanted);
        _count("tasks");
        _startLap();
    }

    function _enter(uint256 i) internal {
        Lap storage lap = _laps[i];
        (_lap, task, round) = (i, lap.task, lap.round);
        for (uint32 slot = 0; slot < solvers.length; ++slot) {
            starts[slot] = State(lap.weight, 0, 0, 0, lap.round * terms.innerSteps);
        }
    }

    /// @dev Makes a random number of the run, of the lap in play and of what it is for.
    function _dice(string memory what, uint256 a, uint256 b) internal view returns (uint256) {
        return uint256(keccak256(abi.encode(_seed, _lap, what, a, b)));
    }

    function _awake(string memory role, uint256 oneInAsleep) internal view returns (bool) {
        return _dice(role, 0, 0) % oneInAsleep != 0;
    }

    function _isDone(string memory move, uint256 a, uint256 b) internal view returns (bool) {
        return _done[keccak256(abi.encode(_lap, move, a, b))];
    }

    function _setDone(string memory move, uint256 a, uint256 b) internal {
        _done[keccak256(abi.encode(_lap, move, a, b))] = true;
    }

    // Who does what -----------------------------------------------------------------------------------------------
    function _solverCount() internal view returns (uint32) {
        uint256 dice = _dice("solvers", 0, 0) % 24;
        return dice == 0 ? 0 : uint32(1 + dice % 3);
    }

    function _verifierCount() internal view returns (uint32) {
        return _dice("verifiers", 0, 0) % 24 == 0 ? 2 : 5;
    }

    function _solver(uint32 slot) internal view returns (Solver memory p) {
        (p.honest, p.serves, p.quitAt, p.lieSegment) = (true, true, NEVER, type(uint32).max);
        if (isHonest[solvers[slot]]) return p;
        uint256 dice = _dice("solver", slot, 0);
        p.honest = false;
        p.serves = dice % 8 != 0;
        uint256 quit = (dice >> 8) % 24;
        if (quit < 8) p.quitAt = uint8(quit);
        uint256 lie = (dice >> 16) % 8;
        // A state far off or near, a pseudo-gradient, or nothing.
        if (lie < 4) (p.lieSegment, p.lieShift) = (uint32((dice >> 24) % 2), lie % 2 == 0 ? FAR : NEAR);
        p.deltaLie = lie == 4 || lie == 5;
        p.flavour = uint8((dice >> 32) % 4);
    }

    function _auditor(AuditRef memory ref, address account) internal view returns (Auditor memory p) {
        (p.honest, p.quitAt) = (true, NEVER);
        if (isHonest[account]) {
            p.word = _solver(ref.slot).serves ? 0 : 1;
            return p;
        }
        uint256 dice = _dice("auditor", (uint256(ref.slot) << 64) | (uint256(ref.draw) << 32) | ref.rank, 0);
        p.honest = false;
        p.word = uint8(dice % 8);
        if (p.word > 3) p.word = 0;
        uint256 quit = (dice >> 8) % 10;
        if (quit < 6) p.quitAt = uint8(quit);
        uint256 lie = (dice >> 16) % 5;
        p.shift = lie == 1 ? NEAR : lie == 2 ? GREY : lie == 3 ? FAR : 0;
        p.copies = lie == 4;
        p.flavour = uint8((dice >> 24) % 4);
    }

    // Claims ------------------------------------------------------------------------------------------------------
    function boundaryState(uint32 slot, uint32 boundary) internal view override returns (State memory) {
        Solver memory p = _solver(slot);
        State memory s = stateAt(slot, boundary * terms.segmentSteps);
        return p.lieShift > 0 && boundary > p.lieSegment ? moved(s, p.lieShift) : s;
    }

    /// @dev What an honest replay from the claimed start of a segment gives.
    function _replayOf(uint32 slot, uint32 segment) internal view returns (State memory s) {
        Solver memory p = _solver(slot);
        s = stateAt(slot, (segment + 1) * terms.segmentSteps);
        if (p.lieShift > 0 && segment > p.lieSegment) s = moved(s, p.lieShift);
    }

    function _resultOf(AuditRef memory ref, uint32 segment, address account)
        internal
        view
        returns (State memory)
    {
        Auditor memory p = _auditor(ref, account);
        if (p.copies) return boundaryState(ref.slot, segment + 1);
        return moved(_replayOf(ref.slot, segment), p.shift);
    }

    function _seat(uint32 slot, uint32 draw, uint32 rank) internal returns (Seat memory seat) {
        uint256 key = (uint256(slot) << 16) | (draw << 8) | rank;
        seat = _seats[_lap][key];
        if (seat.known) return seat;
        (bytes32 drawSeed, bytes32 lateSeed) = ledger.drawSeedOf(task, round);
        if ((draw == LATE_DRAW ? lateSeed : drawSeed) == 0) return seat;
        (seat.segment, seat.auditor) = ledger.drawnOf(refOf(slot, draw, rank));
        seat.known = true;
        _seats[_lap][key] = seat;
        _require(seat.auditor != solvers[slot], "solver and auditor differ", 0, slot);
    }

    /// @dev Seats that are cached stay as they are.
    function _checkSeat(uint32 slot, uint32 draw, uint32 rank) internal view {
        Seat memory seat = _seats[_lap][(uint256(slot) << 16) | (draw << 8) | rank];
        if (!seat.known) return;
        (uint32 segment, address auditor) = ledger.drawnOf(refOf(slot, draw, rank));
        _requireEqual(segment, seat.segment, "a draw is drawn once");
        _requireEqual(uint160(auditor), uint160(seat.auditor), "a draw is drawn once");
    }

    // The outer step ----------------------------------------------------------------------------------------------
    /// @dev The delta leaf of a slot: a cheat's may be that of another end.
    function _deltaOf(uint32 slot) internal view returns (bytes memory) {
        uint32 last = boundaryState(slot, segmentCount()).weight;
        if (_solver(slot).deltaLie) last += 64;
        return _uniformDelta(_laps[_lap].weight, last);
    }

    /// @dev OuterMath.deltaLeaf where all elements are alike.
    function _uniformDelta(uint32 globalBits, uint32 lastBits) private pure returns (bytes memory delta) {
        uint32 difference = Float32.sub(globalBits, lastBits);
        uint256 scale = OuterMath.scaleOf(difference & ~Float32.SIGN_BIT);
        bytes memory piece = new bytes(OuterMath.BLOCK_BYTES);
        bytes1 quantum = bytes1(uint8(OuterMath.quantise(difference, scale)));
        piece[0] = bytes1(uint8(scale));
        for (uint256 i = 1; i < piece.length; ++i) {
            piece[i] = quantum;
        }
        return bytes.concat(piece, piece, piece, piece);
    }

    function _deltaProof(uint32 slot) internal view returns (LeafProof memory proof) {
        proof.data = _deltaOf(slot);
        proof.path = new bytes32[](1);
        proof.path[0] = PositionalMerkle.leafHash(proof.data);
    }

    function _deltaRoot(uint32 slot) internal view returns (bytes32) {
        bytes32 leaf = PositionalMerkle.leafHash(_deltaOf(slot));
        return PositionalMerkle.nodeHash(leaf, leaf);
    }

    /// @dev The right outer state after the lap in play.
    function _outerBits() internal view returns (uint32 weight, uint32 momentum) {
        uint32[] memory slots = ledger.includedOf(task, round);
        uint32[] memory values = new uint32[](slots.length);
        for (uint256 i = 0; i < slots.length; ++i) {
            values[i] = OuterMath.valueAt(_deltaOf(slots[i]), 0);
        }
        (, uint32 d) = OuterMath.mean(values);
        OuterMath.Rates memory rates = OuterMath.Rates(terms.outerLearningRate, terms.outerMomentum);
        return OuterMath.outerElement(_laps[_lap].weight, _laps[_lap].momentum, d, rates);
    }

    // Time --------------------------------------------------------------------------------------------------------
    /// @dev Makes the randomness of a block known to the chain.
    function _draw(uint256 drawnBlock) internal {
        vm.setBlockhash(drawnBlock, keccak256(abi.encode("hash", drawnBlock, _seed)));
    }

    function _phase(uint8 which) internal returns (Phase memory p) {
        if (which == LATE) {
            uint256 merged = _mergedBlock();
            if (merged == 0) return p;
            LateDeadlines memory l = Clock.computeLate(merged, terms.windows);
            (p.opens, p.startEnd, p.replayEnd, p.showEnd) = (l.lateBlock, l.startEnd, l.replayEnd, l.showEnd);
            (p.leavesBlock, p.leavesEnd, p.openEnd) = (l.leavesBlock, l.leavesEnd, l.openEnd);
            p.compareEnd = l.compareEnd;
            return p;
        }
        Deadlines memory d = Clock.compute(_laps[_lap].startBlock, terms.windows);
        if (which == PRIMARY) {
            (p.opens, p.startEnd, p.replayEnd, p.showEnd) = (d.drawBlock, d.startEnd, d.replayEnd, d.showEnd);
            (p.leavesBlock, p.leavesEnd, p.openEnd) = (d.leavesBlock, d.leavesEnd, d.openEnd);
            p.compareEnd = d.compareEnd;
        } else {
            (p.opens, p.startEnd, p.replayEnd) = (d.compareEnd, d.startEnd, d.reserveReplayEnd);
            (p.showEnd, p.leavesBlock) = (d.reserveShowEnd, d.reserveLeavesBlock);
            (p.leavesEnd, p.openEnd, p.compareEnd) =
            (d.reserveLeavesEnd, d.reserveOpenEnd, d.reserveCompareEnd);
        }
    }

    /// @dev Once it is known it stays.
    function _mergedBlock() internal returns (uint256) {
        Lap storage lap = _laps[_lap];
        if (lap.mergedBlock == 0) {
            if (vm.getBlockNumber() < lap.startBlock + terms.windows.enrol) return 0;
            lap.mergedBlock = uint64(ledger.mergedBlockOf(task, round));
        }
        return lap.mergedBlock;
    }

    function _within(uint256 opens, uint256 closes) internal view returns (bool) {
        return vm.getBlockNumber() >= opens && vm.getBlockNumber() < closes;
    }

    // Moves -------------------------------------------------------------------------------------------------------
    /// @dev A move of the handler itself, tried: what reverts leaves no trace.
    function _try(bytes memory call) internal returns (bool ok) {
        (ok, _lastError) = address(this).call(call);
    }

    bytes internal _lastError;

    function doEnrol(address account, Role role) external self {
        enrol(account, role);
    }

    function doCommit(uint32 slot) external self {
        (bytes32 root, bytes32 delta) = (Trees.root(claimLeaves(slot)), _deltaRoot(slot));
        BoundaryProof memory start = boundaryProof(slot, 0);
        vm.prank(solvers[slot]);
        ledger.commit(task, round, root, delta, start);
    }

    function doOpenStart(AuditRef calldata ref) external self {
        openStart(ref);
    }

    function doWord(AuditRef calldata ref, uint8 word, State calldata end) external self {
        if (word == 0) commitReplay(ref, end);
        else if (word == 1) sayUnserved(ref);
        else abstain(ref);
    }

    function doOpenEnd(AuditRef calldata ref) external self {
        openEnd(ref);
    }

    function doReveal(AuditRef calldata ref, State calldata end) external self {
        reveal(ref, end);
    }

    function doOpenLeaves(AuditRef calldata ref, uint32 phase) external self {
        openLeaves(ref, phase);
    }

    function doCompare(AuditRef calldata ref, State calldata end) external self {
        compareLeaves(ref, end);
    }

    /// @dev Whatever a call needs no caller for.
    function doCall(address sender, address target, bytes calldata data) external self {
        vm.prank(sender);
        (bool ok, bytes memory reason) = target.call(data);
        if (ok) return;
        assembly ("memory-safe") {
            revert(add(reason, 32), mload(reason))
        }
    }

    function _send(address sender, address target, bytes memory data) internal returns (bool) {
        return _try(abi.encodeCall(this.doCall, (sender, target, data)));
    }

    /// @dev What a bot finds due. To refuse it to somebody honest is a way to hinder the honest.
    function _due(address account, bytes memory call, string memory move) internal returns (bool ok) {
        ok = _try(call);
        _count(string.concat(ok ? "done " : "refused ", move));
        if (!ok && isHonest[account]) revert Hindered(move, _lastError);
    }

    function _attempt(address sender, address target, bytes memory data, string memory move)
        internal
        returns (bool)
    {
        return _due(sender, abi.encodeCall(this.doCall, (sender, target, data)), move);
    }

    /// @dev A permissionless call that is due goes through, whoever is silent.
    function _must(address target, bytes memory data, string memory move) internal returns (bool ok) {
        ok = _attempt(stranger, target, data, move);
        if (!ok) revert Hindered(move, _lastError);
    }
}
