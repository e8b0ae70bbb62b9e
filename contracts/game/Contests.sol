// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.28;

import {TaskId} from "../Types.sol";
import {Draw} from "../libraries/Draw.sol";
import {Float32} from "../libraries/Float32.sol";
import {Hashing} from "../libraries/Hashing.sol";
import {OuterMath} from "../libraries/OuterMath.sol";
import {PositionalMerkle} from "../libraries/PositionalMerkle.sol";
import {GameStorage} from "./GameStorage.sol";
import {GameTerms, Phase, RoundView} from "./GameTypes.sol";
import {Module, Modules} from "./Module.sol";
import {IContests} from "./interfaces/IContests.sol";
import {IRefusals} from "./interfaces/IRefusals.sol";
import {OpenCounts} from "./libraries/OpenCounts.sol";
import {Pots} from "./libraries/Pots.sol";
import {RoundViews} from "./libraries/RoundViews.sol";
import {Slots} from "./libraries/Slots.sol";
import {LibBit} from "solady/utils/LibBit.sol";

/// @title CONTEST. Twin of `protocol/spec/game/contests.py`.
/// @notice The contract computes; it never votes. An honest root needs somebody who has its tree, an honest contester only follows the difference down.
/// @dev While a contest runs no seat settles its round, so the round's claims and their solvers' records stay what they are.
contract Contests is GameStorage, Module, IContests {
    using OpenCounts for uint256;

    /// @notice Levels of a tree that one answer opens.
    uint256 public constant FANOUT_LEVELS = 4;
    uint256 private constant WEIGHTS = 0;
    uint256 private constant ROOTS = 2;

    constructor(Modules memory modules) Module(modules) {}

    // Turns -----------------------------------------------------------------------------------------------------------
    /// @inheritdoc IContests
    /// @dev The k-th open one costs k: so many that they cannot all be answered in time would fell a right root. `openOf` counts to 9 * 2,047: k fits 16 bits.
    function contest(TaskId task, uint256 round, uint256 bondLimitWei, bytes32 salt)
        external
        returns (bytes32 id)
    {
        RoundView memory view_ = RoundViews.load(rounds, task, round);
        if (view_.phase != Phase.POSTED) revert IRefusals.NothingOpen(bytes32(round));
        _requireWindow(view_.opened, view_.rootUntil);
        GameTerms storage terms = _terms(task);
        uint256 bonds = 1 + _contestsOpen[task].total();
        uint256 bondWei = bonds * terms.amounts.contestBond;
        if (bondWei > bondLimitWei) revert IRefusals.WrongBond(bondWei, bondLimitWei);
        id = keccak256(abi.encode(task, round, view_.root, msg.sender, salt));
        Contest storage c = _contests[task][id];
        if (c.turn != Turn.NONE) revert ContestExists(id);
        (c.round, c.bonds, c.contester) = (uint16(round), uint16(bonds), msg.sender);
        c.posting = _postingOf(view_);
        uint256 clock = _turnTo(c, Turn.ANSWER, terms);
        _contestsOpen[task] = _contestsOpen[task].add(round);
        emit Contested(task, id, round, view_.root, msg.sender, bondWei, clock);
        purse.take(msg.sender, Pots.bonds(task), bondWei);
    }

    /// @inheritdoc IContests
    function answer(TaskId task, bytes32 id, bytes32[] calldata nodes) external {
        (Contest storage c, RoundView memory view_) = _onTurn(task, id, Turn.ANSWER);
        GameTerms storage terms = _terms(task);
        bool isFirst = c.level == 0;
        bool isWhole = nodes.length == (isFirst ? ROOTS : 1 << _levelsDown(c, terms));
        if (!isWhole || _parentOf(nodes, isFirst) != (isFirst ? view_.root : c.node)) {
            revert IRefusals.ProofInvalid("nodes");
        }
        (c.node, c.answerer) = (_hashOf(nodes), msg.sender);
        emit NodesPosted(task, id, msg.sender, nodes, _turnTo(c, Turn.CONTESTER, terms));
    }

    function _parentOf(bytes32[] calldata nodes, bool isFirst) private pure returns (bytes32) {
        return isFirst ? Hashing.outerRoot(nodes[0], nodes[1]) : PositionalMerkle.rootOf(nodes);
    }

    /// @inheritdoc IContests
    function nameChild(TaskId task, bytes32 id, uint256 child, bytes32[] calldata nodes) external {
        (Contest storage c,) = _onTurn(task, id, Turn.CONTESTER);
        if (msg.sender != c.contester) revert IRefusals.NotContester(c.contester, msg.sender);
        if (_hashOf(nodes) != c.node) revert IRefusals.ProofInvalid("nodes");
        if (child >= nodes.length) revert IRefusals.ProofInvalid("child");
        GameTerms storage terms = _terms(task);
        if (c.level == 0) {
            (c.tensor, c.level) = (uint8(child), 1);
        } else {
            uint256 down = _levelsDown(c, terms);
            (c.level, c.index) = (c.level + uint8(down), uint32(uint256(c.index) << down | child));
        }
        c.node = nodes[child];
        bool isLeaf = c.level == 1 + _depthOf(terms);
        uint256 clock = _turnTo(c, isLeaf ? Turn.LEAF : Turn.ANSWER, terms);
        emit ChildNamed(task, id, c.tensor, c.level - 1, c.index, clock);
    }

    /// @inheritdoc IContests
    function bringLeaf(TaskId task, bytes32 id, bytes calldata inputs) external {
        (Contest storage c, RoundView memory view_) = _onTurn(task, id, Turn.LEAF);
        GameTerms storage terms = _terms(task);
        if (_leafOf(task, c, view_, terms, inputs) != c.node) revert IRefusals.ProofInvalid("leaf");
        _stand(task, id, c, terms, msg.sender);
    }

    // Ends ------------------------------------------------------------------------------------------------------------
    /// @inheritdoc IContests
    function endContest(TaskId task, bytes32 id) external {
        Contest storage c = _running(task, id);
        GameTerms storage terms = _terms(task);
        if (!_isPosted(c, RoundViews.load(rounds, task, c.round))) {
            return _returnBond(task, id, c, terms, Turn.MOOT);
        }
        if (block.number <= c.clockBlock) revert IRefusals.NotLate(c.clockBlock, block.number);
        if (c.turn == Turn.CONTESTER) _stand(task, id, c, terms, c.answerer);
        else _fall(task, id, c, terms);
    }

    function _stand(TaskId task, bytes32 id, Contest storage c, GameTerms storage terms, address answerer)
        private
    {
        _close(task, id, c, Turn.STANDS);
        _contestedUntil[task] = block.number + terms.windows.respond;
        uint256 bondWei = _bondOf(c, terms);
        purse.give(Pots.bonds(task), answerer, bondWei / 2);
        purse.discard(Pots.bonds(task), bondWei - bondWei / 2);
    }

    function _fall(TaskId task, bytes32 id, Contest storage c, GameTerms storage terms) private {
        _returnBond(task, id, c, terms, Turn.FALLS);
        settlement.fall(task, c.round, c.contester);
    }

    function _returnBond(TaskId task, bytes32 id, Contest storage c, GameTerms storage terms, Turn outcome)
        private
    {
        _close(task, id, c, outcome);
        purse.give(Pots.bonds(task), c.contester, _bondOf(c, terms));
    }

    function _bondOf(Contest storage c, GameTerms storage terms) private view returns (uint256) {
        return uint256(c.bonds) * terms.amounts.contestBond;
    }

    function _close(TaskId task, bytes32 id, Contest storage c, Turn outcome) private {
        c.turn = outcome;
        _contestsOpen[task] = _contestsOpen[task].remove(c.round);
        emit ContestEnded(task, id, outcome);
    }

    // The leaf --------------------------------------------------------------------------------------------------------
    /// @dev The hash that the contested leaf must have.
    function _leafOf(
        TaskId task,
        Contest storage c,
        RoundView memory view_,
        GameTerms storage terms,
        bytes calldata inputs
    ) private view returns (bytes32) {
        uint256 index = c.index;
        if (index >= PositionalMerkle.tensorLeafCount(terms.parameterCount)) return 0;
        uint256 depth = _depthOf(terms);
        (bytes memory weights, bytes memory momentum, bytes calldata rest) =
            _readBase(view_.base, inputs, index, depth);
        bytes[] memory deltas = _readClaims(task, c.round, view_, rest, index, depth);
        OuterMath.Rates memory rates = OuterMath.Rates(terms.outerLearningRate, terms.outerMomentum);
        (weights, momentum) = OuterMath.outerLeaf(weights, momentum, deltas, rates);
        bytes memory leaf = c.tensor == WEIGHTS ? weights : momentum;
        _clearBehind(leaf, terms.parameterCount - index * PositionalMerkle.LEAF_ELEMENTS);
        return PositionalMerkle.leafHash(leaf);
    }

    /// @dev Behind the last element a tensor's leaf is zero, whatever claims have there.
    function _clearBehind(bytes memory leaf, uint256 elements) private pure {
        for (uint256 at = elements; at < PositionalMerkle.LEAF_ELEMENTS; ++at) {
            Float32.store(leaf, at, 0);
        }
    }

    /// @dev The leaves of the base root's tensors, and the inputs behind them.
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
        RoundView memory view_,
        bytes calldata rest,
        uint256 index,
        uint256 depth
    ) private view returns (bytes[] memory deltas) {
        (bytes32[] memory roots, uint256[] memory segments) = rounds.claimsOf(task, round);
        address[] memory solvers = seatBook.voterAccounts(task, Slots.idsOf(view_.pool));
        uint256 offset = Draw.uniform(rounds.beaconOf(task, round), 0, roots.length);
        bytes32 domain = _domain(task);
        deltas = new bytes[](LibBit.popCount(view_.merged));
        uint256 found;
        for (uint256 shard = 0; shard < roots.length; ++shard) {
            uint256 slot = (shard + roots.length - offset) % roots.length;
            if (view_.merged >> slot & 1 == 0) continue;
            bytes32 deltaRoot;
            (deltas[found++], deltaRoot, rest) = _readLeaf(rest, OuterMath.DELTA_LEAF_BYTES, index, depth);
            bytes32 carriedRoot = bytes32(_cut(rest, 32));
            bytes32 leaf = Hashing.workLeaf(
                domain, uint32(round), solvers[slot], segments[slot], deltaRoot, carriedRoot
            );
            bytes32 root;
            (root, rest) = _readPath(rest[32:], leaf, segments[slot] + 1, segments[slot] + 2);
            if (Hashing.claimRoot(root, segments[slot]) != roots[slot]) revert IRefusals.ProofInvalid("claim");
        }
        if (rest.length != 0) revert IRefusals.ProofInvalid("inputs");
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
        bytes calldata siblings = _cut(inputs, 32 * levels);
        bytes32[] calldata path;
        assembly ("memory-safe") {
            path.offset := siblings.offset
            path.length := levels
        }
        return (PositionalMerkle.fold(leaf, index, path), inputs[32 * levels:]);
    }

    function _cut(bytes calldata inputs, uint256 length) private pure returns (bytes calldata) {
        if (inputs.length < length) revert IRefusals.ProofInvalid("inputs");
        return inputs[:length];
    }

    // Helpers ---------------------------------------------------------------------------------------------------------
    function _running(TaskId task, bytes32 id) private view returns (Contest storage c) {
        c = _contests[task][id];
        if (c.turn == Turn.NONE || c.turn > Turn.LEAF) revert IRefusals.NothingOpen(id);
    }

    function _onTurn(TaskId task, bytes32 id, Turn expected)
        private
        view
        returns (Contest storage c, RoundView memory view_)
    {
        c = _running(task, id);
        view_ = RoundViews.load(rounds, task, c.round);
        if (!_isPosted(c, view_)) revert IRefusals.NothingOpen(id);
        if (c.turn != expected) revert IRefusals.WrongTurn(uint256(c.turn), uint256(expected));
        _requireWindow(0, c.clockBlock);
    }

    function _turnTo(Contest storage c, Turn turn, GameTerms storage terms) private returns (uint256 clock) {
        clock = block.number + terms.windows.respond;
        (c.turn, c.clockBlock) = (turn, uint40(clock));
    }

    /// @dev A root that is posted again after a fall may be contested for longer.
    function _postingOf(RoundView memory view_) private pure returns (bytes32) {
        return keccak256(abi.encode(view_.root, view_.rootUntil));
    }

    function _isPosted(Contest storage c, RoundView memory view_) private view returns (bool) {
        return view_.phase == Phase.POSTED && _postingOf(view_) == c.posting;
    }

    function _hashOf(bytes32[] calldata nodes) private pure returns (bytes32) {
        return keccak256(abi.encodePacked(nodes));
    }

    function _depthOf(GameTerms storage terms) private view returns (uint256) {
        return PositionalMerkle.depth(PositionalMerkle.tensorLeafCount(terms.parameterCount));
    }

    /// @dev From the contested node of a tensor tree to those of the next answer.
    function _levelsDown(Contest storage c, GameTerms storage terms) private view returns (uint256) {
        return _min(_depthOf(terms) + 1 - c.level, FANOUT_LEVELS);
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
        Contest storage c = _contests[task][id];
        return (c.turn, c.clockBlock, c.round, c.tensor, c.level, c.index, c.node);
    }

    /// @inheritdoc IContests
    function openOf(TaskId task) external view returns (uint256) {
        return _contestsOpen[task];
    }

    /// @inheritdoc IContests
    function contestedUntil(TaskId task) external view returns (uint256) {
        return _contestedUntil[task];
    }
}
