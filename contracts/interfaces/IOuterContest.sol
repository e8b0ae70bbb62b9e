// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.28;

import {LeafProof, TaskId} from "../Types.sol";

/// @title A wrong outer root, or a wrong pseudo-gradient, is settled by computing one leaf of it.
/// @notice Outer root: whoever holds a different root contests within the merge window, with mergeBond. Each rival plays its own contest, so that nobody
/// can hold the place of another and then fall silent. One descent: the poster opens the tree below the contested node, `FANOUT_LEVELS` levels at a time,
/// within `respond`; the rival names the child that differs from its own tree, within `respond`. At a leaf anybody hands in the inputs (old W and M leaf,
/// the delta leaf of each included claim, all proven) within `respond` and the contract computes the leaf: the poster's is wrong: its bond is slashed, the
/// rival's root takes its place and the merge window starts again; right: half of the rival's bond goes to the poster, the rest is burned. Silence loses. A contest
/// against a root that another rival has replaced ends without loss (`timeout`).
interface IOuterContest {
    enum Turn {
        NONE,
        POSTER,
        RIVAL,
        LEAF
    }

    event Contested(TaskId indexed task, uint32 indexed round, address indexed rival, bytes32 weightsRoot, bytes32 momentumRoot, uint8 tensor, uint256 clockBlock);
    event NodesPosted(TaskId indexed task, uint32 indexed round, address indexed rival, uint32 level, uint32 index, bytes32[] nodes, uint256 clockBlock);
    event ChildNamed(TaskId indexed task, uint32 indexed round, address indexed rival, uint32 level, uint32 index, uint256 clockBlock);
    /// @notice loser 0: the contested root had been replaced.
    event ContestEnded(TaskId indexed task, uint32 indexed round, address indexed rival, address loser, bytes32 reason);
    event PseudoGradientConvicted(TaskId indexed task, uint32 indexed round, uint32 indexed slot, uint32 leafIndex);

    error SameRoot();
    error OwnRoot(address poster);
    error NothingToContest();
    error ContestRunning(address rival);
    error NoContest(address rival);
    error RootReplaced(address rival);
    error NotPoster(address expected, address actual);
    error NotYourTurn(Turn expected, Turn actual);
    error WrongTensor(uint8 tensor);
    error ClockRunning(uint256 clockBlock, uint256 blockNumber);
    error ClockOver(uint256 clockBlock, uint256 blockNumber);
    error NodesMismatch(bytes32 expected, bytes32 actual);
    error WrongNodeCount(uint256 expected, uint256 actual);
    error WrongChild(uint32 child);
    error LeafMismatch(bytes32 root, uint256 index);
    error WrongInputCount(uint256 expected, uint256 actual);
    error LastStateUnknown(uint32 slot, uint32 draw);
    error NoFault();

    /// @notice `tensor` 0: the weights tree differs, 1: the momentum tree.
    function contest(TaskId task, uint32 round, bytes32 weightsRoot, bytes32 momentumRoot, uint8 tensor) external;
    /// @notice The poster's turn: the 2^min(FANOUT_LEVELS, levels left) nodes below the contested node, left to right.
    function postNodes(TaskId task, uint32 round, address rival, bytes32[] calldata nodes) external;
    /// @notice The rival's (the caller's) turn: which of the posted nodes differs from its own.
    function nameChild(TaskId task, uint32 round, uint32 child) external;
    /// @notice At a leaf: computes it from proven inputs; `deltas` in ascending order of shard. Beyond the last leaf no input is needed: the node must be zero. Anybody.
    function computeLeaf(
        TaskId task,
        uint32 round,
        address rival,
        LeafProof calldata weights,
        LeafProof calldata momentum,
        LeafProof[] calldata deltas
    ) external;
    /// @notice Whoever's turn it is let its clock run out (at a leaf: the rival); or the contested root was replaced. Anybody.
    function timeout(TaskId task, uint32 round, address rival) external;

    /// @notice Proves that leaf `leafIndex` of a claim's pseudo-gradient is not (global W - last W) quantised; convicts the solver. Anybody, until settlement; needs
    /// the claim's last state opened in draw `draw`.
    function provePseudoGradient(
        TaskId task,
        uint32 round,
        uint32 slot,
        uint32 draw,
        uint32 leafIndex,
        LeafProof calldata globalWeights,
        LeafProof calldata lastWeights,
        LeafProof calldata delta
    ) external;

    /// @notice Where a contest stands: whose turn, until which block, and at which node of which tensor tree (`level` from the root).
    function contestOf(TaskId task, uint32 round, address rival)
        external
        view
        returns (Turn turn, uint256 clockBlock, uint8 tensor, uint32 level, uint32 index, bytes32 node);
}
