// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.28;

import {StateHeader, TaskId} from "../../../contracts/Types.sol";
import {GameTerms, GameWindows, SeatRole, SeatStatus} from "../../../contracts/game/GameTypes.sol";
import {IQueries} from "../../../contracts/game/interfaces/IQueries.sol";
import {IContests} from "../../../contracts/game/interfaces/IContests.sol";
import {IDisputes} from "../../../contracts/game/interfaces/IDisputes.sol";
import {Pots} from "../../../contracts/game/libraries/Pots.sol";
import {Slots} from "../../../contracts/game/libraries/Slots.sol";
import {Draw} from "../../../contracts/libraries/Draw.sol";
import {Hashing} from "../../../contracts/libraries/Hashing.sol";
import {OuterMath} from "../../../contracts/libraries/OuterMath.sol";
import {PositionalMerkle} from "../../../contracts/libraries/PositionalMerkle.sol";
import {EvidenceWorld} from "../game/EvidenceWorld.sol";
import {GameStep} from "../game/GameStep.sol";
import {GameWorld} from "../game/GameWorld.sol";
import {StatementWorld} from "../game/StatementWorld.sol";
import {Trees} from "../Trees.sol";
import {Ghost} from "./Ghost.sol";

/// @title All contracts with the real referee, and one task after the other (a lap each), whose members are honest or not by the dice of the lap.
/// @dev Claims of round 0 can be opened down to their leaves and disputed; later rounds have states by name alone, so nobody quarrels about them.
/// What is hashed often is hashed once: states and pseudo-gradients are the same in every lap.
abstract contract Arena is GameStep, EvidenceWorld, Ghost {
    uint256 internal constant SOLVERS = 4;
    uint256 internal constant VERIFIERS = 7;
    uint256 internal constant LATE = 4;
    uint256 internal constant ROUNDS = 3;
    uint256 internal constant SEGMENTS = 4;
    /// @dev The leaf that `deltaOf` makes false.
    uint256 private constant TWISTED = 1;

    uint256 private _state;
    bytes32 private _domain;
    mapping(uint256 => address) private _accounts;
    /// @dev A bit a seat, 64 of them a role.
    uint256 private _honest;
    /// @dev By lap and round.
    mapping(uint256 => mapping(uint256 => uint256)) private _pools;
    uint256 internal lap;
    bytes32 internal lapSeed;
    bool internal isTight;
    /// @dev By seat: the states of its claims are right by their trees, but one step of each is computed wrongly.
    mapping(uint256 => bool) internal isLying;
    mapping(uint256 => bytes32[3]) private _tensorRoots;
    mapping(uint256 => bytes32) private _apartRoots;
    mapping(uint256 => bytes[]) private _deltas;
    mapping(uint256 => bytes32) private _deltaRoots;
    uint256[2] private _rowStarts;
    /// @dev Leaves of a root of round 0: weights, then momentum.
    mapping(bytes32 => bytes32[]) internal leavesOf;
    /// @dev What is merged by these slots, right.
    mapping(uint256 => bytes32) private _rightRoots;
    /// @dev Leaves of the weights and of the momentum by whose pseudo-gradients of which kind are merged.
    mapping(uint256 => bytes32[2]) private _mergedLeaves;

    function setUp() public virtual override(GameWorld, GameStep) {
        super.setUp();
        for (uint256 number = 0; number < SOLVERS; ++number) {
            _makeStates(number);
        }
        _makeDeltas();
        lapSeed = "first";
        beginLap();
        _mergeHonest();
    }

    // Modules
    /// @dev With FUZZ_CODE set, the file "Name.json" of that folder: ./dev fuzz compiles no contract.
    function codePath(string memory artifact) internal view override returns (string memory) {
        string memory folder = vm.envOr("FUZZ_CODE", string(""));
        if (bytes(folder).length == 0) return artifact;
        // "Name.sol:Name" is twice the name and five bytes.
        bytes memory name = new bytes((bytes(artifact).length - 5) / 2);
        for (uint256 i = 0; i < name.length; ++i) {
            name[i] = bytes(artifact)[i];
        }
        return string.concat(folder, "/", string(name), ".json");
    }

    function querying() internal view returns (IQueries) {
        return IQueries(game);
    }

    function disputing() internal view returns (IDisputes) {
        return IDisputes(game);
    }

    function contesting() internal view returns (IContests) {
        return IContests(game);
    }

    // Dice
    function shake(uint256 seed) internal {
        _state = uint256(keccak256(abi.encode(_state, seed, now_())));
    }

    function dice(uint256 sides) internal returns (uint256) {
        _state = uint256(keccak256(abi.encode(_state)));
        return _state % sides;
    }

    /// @dev Every seed is in it, and when it came.
    function runName() internal view returns (uint256) {
        return _state;
    }

    /// @dev A number that is the same for the whole lap.
    function fixedDice(uint256 what, uint256 sides) internal view returns (uint256) {
        return uint256(keccak256(abi.encode(lapSeed, what))) % sides;
    }

    // Laps
    function beginLap() internal {
        ++lap;
        lapSeed = keccak256(abi.encode(lapSeed, _state, lap));
        isTight = fixedDice(1, 3) == 0;
        delete pots;
        for (uint256 role = 1; role <= 3; ++role) {
            delete seatsOf[SeatRole(role)];
        }
        postTask(soundTerms());
        _domain = tasks.domainOf(task);
        joinAll(SOLVERS, VERIFIERS, LATE);
        _recall();
        for (uint256 i = 0; i < SOLVERS; ++i) {
            _corrupt(solverSeat(i));
        }
    }

    // What stays as it is for a lap, asked once
    function _recall() private {
        _honest = 0;
        for (uint256 role = 1; role <= 3; ++role) {
            uint256[] storage seats = seatsOf[SeatRole(role)];
            for (uint256 i = 0; i < seats.length; ++i) {
                _accounts[seats[i]] = seatBook.seatAt(task, seats[i]).account;
                if (_isBornHonest(seats[i])) _honest |= 1 << (role << 6 | seats[i] & 0x3f);
            }
        }
    }

    function accountOf(uint256 seat) internal view override returns (address) {
        return _accounts[seat];
    }

    function domain_() internal view override returns (bytes32) {
        return _domain;
    }

    /// @dev The pool of solvers of a round that is open stays.
    function seatIn(uint256 round, uint256 slot) internal view override returns (uint256) {
        uint256 pool = _pools[lap][round];
        return pool == 0 ? super.seatIn(round, slot) : solverSeat(Slots.numberAt(pool, slot));
    }

    function recallPool(uint256 round, uint64 pool) internal {
        if (_pools[lap][round] == 0) _pools[lap][round] = pool;
    }

    /// @dev Three in five are honest, in some laps one in four.
    function isHonest(uint256 seat) internal view returns (bool) {
        return _honest >> (seat >> 16 << 6 | seat & 0x3f) & 1 == 1;
    }

    function _isBornHonest(uint256 seat) private view returns (bool) {
        return fixedDice(2, 4) == 0 ? fixedDice(seat, 4) == 0 : fixedDice(seat, 5) < 3;
    }

    function _corrupt(uint256 seat) private {
        (twists[seat], isLying[seat]) = (Twist.NONE, false);
        if (isHonest(seat)) return;
        uint256 kind = fixedDice(seat << 1, 8);
        Twist[6] memory kinds = [
            Twist.START_WEIGHTS, Twist.START_MOMENT, Twist.DELTA, Twist.SCALE, Twist.CARRIED, Twist.START_STEP
        ];
        if (kind < kinds.length) twists[seat] = kinds[kind];
        else isLying[seat] = true;
    }

    /// @dev A solver that never commits.
    function isMute(uint256 seat) internal view returns (bool) {
        return !isHonest(seat) && fixedDice(seat << 2, 4) == 0;
    }

    /// @dev Windows and bonds as usual, or as small as they can be.
    function soundTerms() internal view override(GameStep, StatementWorld) returns (GameTerms memory t) {
        t = super.soundTerms();
        (t.rounds, t.salt, t.solverSeats) = (uint32(ROUNDS), bytes32(lap), uint32(SOLVERS));
        t.scheduleRoot = Trees.root(scheduleLeaves(ROUNDS * SEGMENTS));
        t.zeroRoot = Trees.root(_zeroLeaves());
        t.lateChance = uint32([uint256(0), 65_536, 40_000][fixedDice(3, 3)]);
        if (isTight) t.windows = GameWindows(1, 1, 16, 16, 12, 2, 4, 76, 180);
        // No bond may be larger than the smallest stake.
        bool isPoor = fixedDice(6, 6) == 0;
        if (isPoor || fixedDice(4, 4) == 0) {
            (t.amounts.queryBond, t.amounts.disputeBond, t.amounts.contestBond) = (1, 1, 1);
        }
        if (fixedDice(5, 4) == 0) t.amounts.finderCap = 0;
        if (isPoor) (t.amounts.solverStake, t.amounts.auditorStake) = (1, 1);
    }

    // States, hashed once
    function _makeStates(uint256 number) private {
        uint256 seat = solverSeat(number);
        for (uint256 boundary = 1; boundary <= SEGMENTS; ++boundary) {
            uint256 place = number << 8 | boundary;
            for (uint256 tensor = 0; tensor < 3; ++tensor) {
                _tensorRoots[place][tensor] = Trees.root(_tensor(0, seat, boundary, tensor));
            }
            apart = BEYOND;
            _apartRoots[place] = Trees.root(ownWeights(seat, boundary));
            apart = 0;
        }
    }

    function _makeDeltas() private {
        Twist[3] memory kinds = [Twist.NONE, Twist.DELTA, Twist.SCALE];
        for (uint256 number = 0; number < SOLVERS; ++number) {
            for (uint256 kind = 0; kind < kinds.length; ++kind) {
                uint256 seat = solverSeat(number);
                twists[seat] = kinds[kind];
                // As terms are before there is a task.
                (terms.innerSteps, terms.segmentSteps) = (20, 5);
                bytes32[] memory hashes = new bytes32[](LEAVES);
                for (uint256 i = 0; i < LEAVES; ++i) {
                    bytes memory delta = deltaOf(seat, i);
                    _deltas[_deltaKey(seat)].push(delta);
                    hashes[i] = PositionalMerkle.leafHash(delta);
                }
                _deltaRoots[_deltaKey(seat)] = Trees.root(hashes);
            }
            twists[solverSeat(number)] = Twist.NONE;
        }
    }

    function _deltaKey(uint256 seat) private view returns (uint256) {
        Twist twist = twists[seat];
        return (seat & 0xffff) << 8 | (twist == Twist.DELTA ? 1 : twist == Twist.SCALE ? 2 : 0);
    }

    function stateAt(uint256 round, uint256 seat, uint256 boundary)
        internal
        view
        override(GameWorld, StatementWorld)
        returns (StateHeader memory state)
    {
        if (round != 0 || boundary == 0) return super.stateAt(round, seat, boundary);
        bytes32[3] storage roots = _tensorRoots[(seat & 0xffff) << 8 | boundary];
        (state.weightsRoot, state.firstMomentRoot, state.secondMomentRoot) = (roots[0], roots[1], roots[2]);
        (state.localStep, state.globalStep) = (uint32(boundary * 5), uint32(boundary * 5));
    }

    /// @dev What the auditor at hand has computed: the claim's state, or one that lies apart from it.
    function ownState(uint256 seat, uint256 boundary) internal view returns (StateHeader memory state) {
        state = stateAt(0, seat, boundary);
        if (apart != 0) state.weightsRoot = _apartRoots[(seat & 0xffff) << 8 | boundary];
    }

    function ownEndRoot(uint256 round, uint256 slot, uint256 segment, uint256)
        internal
        view
        override(GameWorld, StatementWorld)
        returns (bytes32)
    {
        uint256 solver = seatIn(round, slot);
        if (round != 0) return stateRootAt(round, solver, segment + 1);
        return Hashing.stateRoot(ownState(solver, segment + 1));
    }

    function stepState(uint256 step) internal view override returns (StateHeader memory) {
        if (step == 5 && apart != 0) return ownState(ofSeat, ofSegment + 1);
        return super.stepState(step);
    }

    function deltaRoot(uint256 round, uint256 seat)
        internal
        view
        override(GameWorld, StatementWorld)
        returns (bytes32)
    {
        if (round != 0) return super.deltaRoot(round, seat);
        return _deltaRoots[_deltaKey(seat)];
    }

    function carriedRoot(uint256 round, uint256 seat)
        internal
        view
        override(GameWorld, StatementWorld)
        returns (bytes32)
    {
        return super.carriedRoot(round, seat);
    }

    // Samples of the step at hand, read once
    function rowStart(uint256 row) internal view override returns (uint256) {
        return _rowStarts[row];
    }

    function readRows() internal {
        (_rowStarts[0], _rowStarts[1]) = (super.rowStart(0), super.rowStart(1));
    }

    // The merge of round 0
    function _zeroLeaves() private pure returns (bytes32[] memory leaves) {
        leaves = new bytes32[](LEAVES);
        for (uint256 i = 0; i < LEAVES; ++i) {
            leaves[i] = PositionalMerkle.leafHash(new bytes(1024));
        }
    }

    /// @dev Seats of these slots in the order of their shards.
    function orderedSeats(uint64 merged) internal view returns (uint256[] memory seats) {
        (bytes32[] memory claims,) = rounds.claimsOf(task, 0);
        bytes32 beacon = rounds.beaconOf(task, 0);
        seats = new uint256[](claims.length);
        uint256 found = 0;
        for (uint256 shard = 0; shard < claims.length; ++shard) {
            for (uint256 slot = 0; slot < claims.length; ++slot) {
                if (merged >> slot & 1 == 0 || Draw.shard(beacon, slot, claims.length) != shard) continue;
                seats[found++] = seatIn(0, slot);
            }
        }
        assembly ("memory-safe") {
            mstore(seats, found)
        }
    }

    /// @dev The root of round 0 over these claims, right or with one wrong leaf of the weights.
    function rootOver(uint64 merged, bool isRight) internal returns (bytes32 root) {
        uint256 key = uint256(keccak256(abi.encode(lap, merged, isRight)));
        if (_rightRoots[key] != 0) return _rightRoots[key];
        uint256[] memory seats = orderedSeats(merged);
        (bytes32[] memory w, bytes32[] memory m) = (new bytes32[](LEAVES), new bytes32[](LEAVES));
        for (uint256 i = 0; i < seats.length; ++i) {
            seats[i] = _deltaKey(seats[i]);
        }
        for (uint256 i = 0; i < LEAVES; ++i) {
            (w[i], m[i]) = _mergedLeaf(seats, i);
        }
        if (!isRight) w[2] = keccak256(abi.encode(w[2]));
        root = Hashing.outerRoot(Trees.root(w), Trees.root(m));
        (behind[root], _rightRoots[key]) = ([Trees.root(w), Trees.root(m)], root);
        delete leavesOf[root];
        for (uint256 i = 0; i < 2 * LEAVES; ++i) {
            leavesOf[root].push(i < LEAVES ? w[i] : m[i - LEAVES]);
        }
    }

    /// @dev Computed once for the same pseudo-gradients, whatever their order: sums are exact, and a contest computes them in the right one.
    function _mergedLeaf(uint256[] memory keys, uint256 index) private returns (bytes32, bytes32) {
        uint256 which = index;
        for (uint256 j = 0; j < keys.length; ++j) {
            // Twists are in one leaf. A solver has four bits.
            which |= (8 | (index == TWISTED ? keys[j] & 3 : 0)) << (8 + 4 * (keys[j] >> 8));
        }
        bytes32[2] storage known = _mergedLeaves[which];
        if (known[0] == 0) (known[0], known[1]) = _merge(keys, index);
        return (known[0], known[1]);
    }

    function _merge(uint256[] memory keys, uint256 index) private view returns (bytes32, bytes32) {
        bytes[] memory all = new bytes[](keys.length);
        for (uint256 j = 0; j < keys.length; ++j) {
            all[j] = _deltas[keys[j]][index];
        }
        OuterMath.Rates memory rates = OuterMath.Rates(terms.outerLearningRate, terms.outerMomentum);
        (bytes memory w, bytes memory m) =
            OuterMath.outerLeaf(leafOf(0, 0, WEIGHTS, index), new bytes(1024), all, rates);
        // Behind the last element every node has zeros, whatever claims have there.
        for (uint256 at = 4 * (terms.parameterCount - index * 256); at < 1024; ++at) {
            (w[at], m[at]) = (0, 0);
        }
        return (PositionalMerkle.leafHash(w), PositionalMerkle.leafHash(m));
    }

    /// @dev What most laps need: any honest solvers.
    function _mergeHonest() private {
        for (uint256 solvers = 1; solvers < 1 << SOLVERS; ++solvers) {
            uint256[] memory keys = Slots.idsOf(solvers);
            for (uint256 i = 0; i < keys.length; ++i) {
                keys[i] = (keys[i] & 0xffff) << 8;
            }
            for (uint256 index = 0; index < LEAVES; ++index) {
                _mergedLeaf(keys, index);
            }
        }
    }

    /// @dev All that a leaf of round 0's root is computed from.
    function leafInputs(uint64 merged, uint256 index) internal view returns (bytes memory inputs) {
        inputs = bytes.concat(
            leafOf(0, 0, WEIGHTS, index),
            abi.encodePacked(Trees.path(_tensor(0, 0, 0, WEIGHTS), index)),
            new bytes(1024),
            abi.encodePacked(Trees.path(_zeroLeaves(), index))
        );
        uint256[] memory seats = orderedSeats(merged);
        for (uint256 i = 0; i < seats.length; ++i) {
            bytes[] memory deltas = _deltas[_deltaKey(seats[i])];
            inputs = bytes.concat(
                inputs,
                deltas[index],
                abi.encodePacked(Trees.path(Trees.hashAll(deltas), index)),
                carriedRoot(0, seats[i]),
                abi.encodePacked(Trees.path(claimLeaves(0, seats[i]), SEGMENTS + 1))
            );
        }
    }

    // Calls
    /// @dev A call that may be refused.
    function attempt(address from, address to, bytes memory data) internal returns (bool isDone) {
        vm.prank(from);
        (isDone,) = to.call(data);
    }

    /// @dev A call that is due: nothing may hinder it.
    function must(string memory move, address from, address to, bytes memory data) internal {
        vm.prank(from);
        (bool isDone, bytes memory reason) = to.call(data);
        if (!isDone) revert Hindered(move, reason);
    }
}
