// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.28;

import {TaskId} from "../Types.sol";
import {Draw} from "../libraries/Draw.sol";
import {Float32} from "../libraries/Float32.sol";
import {Hashing} from "../libraries/Hashing.sol";
import {OuterMath} from "../libraries/OuterMath.sol";
import {PositionalMerkle} from "../libraries/PositionalMerkle.sol";
import {FANOUT_LEVELS, GameTerms, Phase, SeatRole} from "./GameTypes.sol";
import {Module, Modules} from "./Module.sol";
import {RoundReading} from "./RoundReading.sol";
import {SeatReading} from "./SeatReading.sol";
import {IContests} from "./interfaces/IContests.sol";
import {IRefusals} from "./interfaces/IRefusals.sol";
import {OpenCounts} from "./libraries/OpenCounts.sol";
import {Pots} from "./libraries/Pots.sol";
import {Slots} from "./libraries/Slots.sol";
import {LibBit} from "solady/utils/LibBit.sol";

/// @title CONTEST. Twin of `protocol/spec/game/contests.py`.
/// @notice The contract computes; it never votes. An honest root needs somebody who has its tree, an honest contester only follows the difference down.
/// @dev While a contest runs no seat settles its round, so the round's claims and their solvers' records stay what they are.
contract Contests is SeatReading, RoundReading, IContests {
    using OpenCounts for uint16[9];

    uint256 private constant WEIGHTS = 0;
    uint256 private constant ROOTS = 2;

    constructor(Modules memory modules) Module(modules) {}

    // Turns (7.10)
    /// @inheritdoc IContests
    /// @dev The k-th open one costs k: so many that they cannot all be answered in time would fell a right root. `openOf` counts to 9 * 2,047: k fits 16 bits.
    function contest(TaskId task, uint256 round, uint256 bondLimitWei, bytes32 salt)
        external
        returns (bytes32 id)
    {
        Round storage here = _roundOf(task, round);
        if (here.phase != Phase.POSTED) revert IRefusals.NothingOpen(bytes32(round));
        // The window has no beginning: `opened` is past.
        _requireWindow(here.opened, here.rootUntil);
        bytes32 root = _rootOf(task, round);
        GameTerms storage terms = _tasks[task].terms;
        uint256 bonds = 1 + _contestsOpen[task].total();
        uint256 bondWei = bonds * terms.amounts.contestBond;
        if (bondWei > bondLimitWei) revert IRefusals.WrongBond(bondWei, bondLimitWei);
        id = keccak256(abi.encode(task, round, root, msg.sender, salt));
        Contest storage contest_ = _contests[task][id];
        if (contest_.turn != Turn.NONE) revert ContestExists(id);
        (contest_.round, contest_.bonds, contest_.contester) = (uint16(round), uint16(bonds), msg.sender);
        contest_.posting = _postingOf(task, round);
        uint256 clock = _turnTo(contest_, Turn.ANSWER, terms);
        _contestsOpen[task].add(round);
        emit Contested(task, id, round, root, msg.sender, bondWei, clock);
        vault.take(msg.sender, Pots.bonds(task), bondWei);
    }

    /// @inheritdoc IContests
    function answerContest(TaskId task, bytes32 id, bytes32[] calldata nodes) external {
        Contest storage contest_ = _onTurn(task, id, Turn.ANSWER);
        GameTerms storage terms = _tasks[task].terms;
        bool isFirst = contest_.level == 0;
        bool isWhole = nodes.length == (isFirst ? ROOTS : 1 << _levelsDown(contest_, terms));
        if (!isWhole || _parentOf(nodes, isFirst) != (isFirst ? _rootOf(task, contest_.round) : contest_.node)) {
            revert IRefusals.ProofInvalid("nodes");
        }
        (contest_.nodesHash, contest_.answerer) = (_hashOf(nodes), msg.sender);
        emit NodesPosted(task, id, msg.sender, nodes, _turnTo(contest_, Turn.CONTESTER, terms));
    }

    function _parentOf(bytes32[] calldata nodes, bool isFirst) private pure returns (bytes32) {
        return isFirst ? Hashing.outerRoot(nodes[0], nodes[1]) : PositionalMerkle.rootOf(nodes);
    }

    /// @inheritdoc IContests
    function nameChild(TaskId task, bytes32 id, uint256 child, bytes32[] calldata nodes) external {
        Contest storage contest_ = _onTurn(task, id, Turn.CONTESTER);
        if (msg.sender != contest_.contester) revert IRefusals.NotContester(contest_.contester, msg.sender);
        if (_hashOf(nodes) != contest_.nodesHash) revert IRefusals.ProofInvalid("nodes");
        if (child >= nodes.length) revert IRefusals.ProofInvalid("child");
        GameTerms storage terms = _tasks[task].terms;
        if (contest_.level == 0) {
            (contest_.tensor, contest_.level) = (uint8(child), 1);
        } else {
            uint256 down = _levelsDown(contest_, terms);
            (contest_.level, contest_.index) = (contest_.level + uint8(down), uint32(uint256(contest_.index) << down | child));
        }
        contest_.node = nodes[child];
        bool isLeaf = contest_.level == 1 + _depthOf(terms);
        uint256 clock = _turnTo(contest_, isLeaf ? Turn.LEAF : Turn.ANSWER, terms);
        emit ChildNamed(task, id, contest_.tensor, contest_.level - 1, contest_.index, clock);
    }

    /// @inheritdoc IContests
    function bringLeaf(TaskId task, bytes32 id, bytes calldata inputs) external {
        Contest storage contest_ = _onTurn(task, id, Turn.LEAF);
        GameTerms storage terms = _tasks[task].terms;
        if (_leafOf(task, contest_, terms, inputs) != contest_.node) revert IRefusals.ProofInvalid("leaf");
        _hold(task, id, contest_, terms, msg.sender);
    }

    // Ends (7.10)
    /// @inheritdoc IContests
    function endContest(TaskId task, bytes32 id) external {
        Contest storage contest_ = _running(task, id);
        GameTerms storage terms = _tasks[task].terms;
        if (!_isPosted(task, contest_)) {
            return _returnBond(task, id, contest_, terms, Turn.MOOT);
        }
        if (block.number <= contest_.clockBlock) revert IRefusals.NotLate(contest_.clockBlock, block.number);
        if (contest_.turn == Turn.CONTESTER) _hold(task, id, contest_, terms, contest_.answerer);
        else _fall(task, id, contest_, terms);
    }

    function _hold(TaskId task, bytes32 id, Contest storage contest_, GameTerms storage terms, address answerer)
        private
    {
        _close(task, id, contest_, Turn.HOLDS);
        _contestedUntil[task] = block.number + terms.windows.respond;
        uint256 bondWei = _bondOf(contest_, terms);
        vault.give(Pots.bonds(task), answerer, bondWei / 2);
        vault.discard(Pots.bonds(task), bondWei - bondWei / 2);
    }

    function _fall(TaskId task, bytes32 id, Contest storage contest_, GameTerms storage terms) private {
        _returnBond(task, id, contest_, terms, Turn.FALLS);
        game.fall(task, contest_.round, contest_.contester);
    }

    function _returnBond(TaskId task, bytes32 id, Contest storage contest_, GameTerms storage terms, Turn outcome)
        private
    {
        _close(task, id, contest_, outcome);
        vault.give(Pots.bonds(task), contest_.contester, _bondOf(contest_, terms));
    }

    function _bondOf(Contest storage contest_, GameTerms storage terms) private view returns (uint256) {
        return uint256(contest_.bonds) * terms.amounts.contestBond;
    }

    function _close(TaskId task, bytes32 id, Contest storage contest_, Turn outcome) private {
        contest_.turn = outcome;
        _contestsOpen[task].remove(contest_.round);
        emit ContestEnded(task, id, outcome);
    }

    // The leaf (5, 7.10)
    /// @dev The hash that the contested leaf must have.
    function _leafOf(
        TaskId task,
        Contest storage contest_,
        GameTerms storage terms,
        bytes calldata inputs
    ) private view returns (bytes32) {
        uint256 index = contest_.index;
        if (index >= PositionalMerkle.tensorLeafCount(terms.parameterCount)) return 0;
        uint256 depth = _depthOf(terms);
        (bytes memory weights, bytes memory momentum, bytes calldata rest) =
            _readBase(_roundAt(task, contest_.round).base, inputs, index, depth);
        bytes[] memory deltas = _readClaims(task, contest_.round, rest, index, depth);
        OuterMath.Rates memory rates = OuterMath.Rates(terms.outerLearningRate, terms.outerMomentum);
        (weights, momentum) = OuterMath.outerLeaf(weights, momentum, deltas, rates);
        bytes memory leaf = contest_.tensor == WEIGHTS ? weights : momentum;
        _clearBehind(leaf, terms.parameterCount - index * PositionalMerkle.LEAF_ELEMENTS);
        return PositionalMerkle.leafHash(leaf);
    }

    /// @dev After the last element a tensor's leaf is zero, whatever claims have there.
    function _clearBehind(bytes memory leaf, uint256 elements) private pure {
        for (uint256 at = elements; at < PositionalMerkle.LEAF_ELEMENTS; ++at) {
            Float32.store(leaf, at, 0);
        }
    }

    /// @dev The leaves of the base root's tensors, and the inputs that follow them.
    function _readBase(bytes32 base, bytes calldata inputs, uint256 index, uint256 depth)
        private
        pure
        returns (bytes memory weights, bytes memory momentum, bytes calldata rest)
    {
        (bytes32 weightsRoot, bytes32 momentumRoot) = (bytes32(0), bytes32(0));
        (weights, weightsRoot, rest) = _readLeaf(inputs, PositionalMerkle.LEAF_BYTES, index, depth);
        (momentum, momentumRoot, rest) = _readLeaf(rest, PositionalMerkle.LEAF_BYTES, index, depth);
        if (Hashing.outerRoot(weightsRoot, momentumRoot) != base) revert IRefusals.ProofInvalid("base");
    }

    /// @dev The leaf of each merged claim's pseudo-gradient, in ascending order of shards, which is that of the sum.
    function _readClaims(
        TaskId task,
        uint256 round,
        bytes calldata rest,
        uint256 index,
        uint256 depth
    ) private view returns (bytes[] memory deltas) {
        Round storage here = _roundOf(task, round);
        (uint256 slots, uint256 merged) = (LibBit.popCount(here.pool), here.merged);
        uint256 offset = Draw.uniform(here.beacon, 0, slots);
        deltas = new bytes[](LibBit.popCount(merged));
        uint256 found;
        for (uint256 shard = 0; shard < slots; ++shard) {
            uint256 slot = (shard + slots - offset) % slots;
            if (merged >> slot & 1 == 0) continue;
            bytes32 deltaRoot;
            (deltas[found++], deltaRoot, rest) = _readLeaf(rest, OuterMath.DELTA_LEAF_BYTES, index, depth);
            rest = _readWork(task, round, slot, deltaRoot, rest);
        }
        if (rest.length != 0) revert IRefusals.ProofInvalid("inputs");
    }

    /// @dev The work leaf of a claim, under the claim's root.
    function _readWork(TaskId task, uint256 round, uint256 slot, bytes32 deltaRoot, bytes calldata inputs)
        private
        view
        returns (bytes calldata rest)
    {
        Round storage here = _roundAt(task, round);
        (bytes32 root, uint256 segments) = _claimAt(here, slot);
        uint256 seat = _seatId(SeatRole.SOLVER, Slots.numberAt(here.pool, slot));
        address solver = _tasks[task].seatAt[seat].account;
        bytes32 carriedRoot = bytes32(_cut(inputs, 32));
        bytes32 leaf = Hashing.workLeaf(_domain(task), uint32(round), solver, segments, deltaRoot, carriedRoot);
        bytes32 treeRoot;
        (treeRoot, rest) = _readPath(inputs[32:], leaf, segments + 1, segments + 2);
        if (Hashing.claimRoot(treeRoot, segments) != root) revert IRefusals.ProofInvalid("claim");
    }

    /// @return leaf its bytes
    /// @return root that leaf and siblings lead to
    /// @return rest of the inputs
    function _readLeaf(bytes calldata inputs, uint256 leafBytes, uint256 index, uint256 depth)
        private
        pure
        returns (bytes memory leaf, bytes32 root, bytes calldata rest)
    {
        leaf = _cut(inputs, leafBytes);
        (root, rest) = _readPath(inputs[leafBytes:], PositionalMerkle.leafHash(leaf), index, 1 << depth);
    }

    /// @param count of the tree's leaves: it tells how many siblings there are
    function _readPath(bytes calldata inputs, bytes32 leaf, uint256 index, uint256 count)
        private
        pure
        returns (bytes32 root, bytes calldata rest)
    {
        uint256 levels = PositionalMerkle.depth(count);
        return (PositionalMerkle.foldBytes(leaf, index, _cut(inputs, 32 * levels)), inputs[32 * levels:]);
    }

    function _cut(bytes calldata inputs, uint256 length) private pure returns (bytes calldata) {
        if (inputs.length < length) revert IRefusals.ProofInvalid("inputs");
        return inputs[:length];
    }

    // Helpers
    function _running(TaskId task, bytes32 id) private view returns (Contest storage contest_) {
        contest_ = _contests[task][id];
        if (contest_.turn == Turn.NONE || contest_.turn > Turn.LEAF) revert IRefusals.NothingOpen(id);
    }

    function _onTurn(TaskId task, bytes32 id, Turn expected)
        private
        view
        returns (Contest storage contest_)
    {
        contest_ = _running(task, id);
        if (!_isPosted(task, contest_)) revert IRefusals.NothingOpen(id);
        if (contest_.turn != expected) revert IRefusals.WrongTurn(uint256(contest_.turn), uint256(expected));
        _requireWindow(0, contest_.clockBlock);
    }

    function _turnTo(Contest storage contest_, Turn turn, GameTerms storage terms) private returns (uint256 clock) {
        clock = block.number + terms.windows.respond;
        (contest_.turn, contest_.clockBlock) = (turn, uint40(clock));
    }

    /// @dev Names one posting of a round's root. The same root that is posted again after a fall has another `rootUntil`, so another name.
    function _postingOf(TaskId task, uint256 round) private view returns (bytes32) {
        return keccak256(abi.encode(_rootOf(task, round), uint256(_roundAt(task, round).rootUntil)));
    }

    function _isPosted(TaskId task, Contest storage contest_) private view returns (bool) {
        return _roundOf(task, contest_.round).phase == Phase.POSTED && _postingOf(task, contest_.round) == contest_.posting;
    }

    function _hashOf(bytes32[] calldata nodes) private pure returns (bytes32) {
        return keccak256(abi.encodePacked(nodes));
    }

    function _depthOf(GameTerms storage terms) private view returns (uint256) {
        return PositionalMerkle.depth(PositionalMerkle.tensorLeafCount(terms.parameterCount));
    }

    /// @dev From the contested node of a tensor tree to those of the next answer.
    function _levelsDown(Contest storage contest_, GameTerms storage terms) private view returns (uint256) {
        return _min(_depthOf(terms) + 1 - contest_.level, FANOUT_LEVELS);
    }

    /// @inheritdoc IContests
    function contestOf(TaskId task, bytes32 id)
        external
        view
        returns (
            Turn turn,
            uint256 clockBlock,
            uint256 round,
            uint256 tensor,
            uint256 level,
            uint256 index,
            bytes32 node
        )
    {
        Contest storage contest_ = _contests[task][id];
        return (contest_.turn, contest_.clockBlock, contest_.round, contest_.tensor, contest_.level, contest_.index, contest_.node);
    }

    /// @inheritdoc IContests
    function openOf(TaskId task) external view returns (uint256) {
        return _contestsOpen[task].total();
    }

    /// @inheritdoc IContests
    function contestedUntil(TaskId task) external view returns (uint256) {
        return _contestedUntil[task];
    }
}
