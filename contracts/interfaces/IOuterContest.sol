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
    /// @notice Whose move a contest waits for; NONE: there is none.
    enum Turn {
        NONE,
        POSTER,
        RIVAL,
        LEAF
    }

    /// @notice Somebody holds another outer root.
    /// @param task the task
    /// @param round index of the round in its task, from 0
    /// @param rival who contests: names the contest
    /// @param weightsRoot the rival's
    /// @param momentumRoot the rival's
    /// @param tensor 0 weights, 1 momentum
    /// @param clockBlock from this block on the move is too late
    event Contested(TaskId indexed task, uint32 indexed round, address indexed rival, bytes32 weightsRoot, bytes32 momentumRoot, uint8 tensor, uint256 clockBlock);
    /// @notice The poster opened its tree below the contested node.
    /// @param task the task
    /// @param round index of the round in its task, from 0
    /// @param rival who contests: names the contest
    /// @param level depth of the node below the root
    /// @param index index of that node in its level
    /// @param nodes left to right
    /// @param clockBlock from this block on the move is too late
    event NodesPosted(TaskId indexed task, uint32 indexed round, address indexed rival, uint32 level, uint32 index, bytes32[] nodes, uint256 clockBlock);
    /// @notice The rival named the node that differs from its own.
    /// @param task the task
    /// @param round index of the round in its task, from 0
    /// @param rival who contests: names the contest
    /// @param level depth of the node below the root
    /// @param index index of that node in its level
    /// @param clockBlock from this block on the move is too late
    event ChildNamed(TaskId indexed task, uint32 indexed round, address indexed rival, uint32 level, uint32 index, uint256 clockBlock);
    /// @notice loser 0: the contested root had been replaced.
    /// @param task the task
    /// @param round index of the round in its task, from 0
    /// @param rival who contests: names the contest
    /// @param loser who loses its bond
    /// @param reason why, as right-padded ASCII
    event ContestEnded(TaskId indexed task, uint32 indexed round, address indexed rival, address loser, bytes32 reason);
    /// @notice A leaf of a claim's pseudo-gradient is wrong.
    /// @param task the task
    /// @param round index of the round in its task, from 0
    /// @param slot the claim: index of its solver among the enrolled
    /// @param leafIndex index of the leaf in its tensor tree
    event PseudoGradientConvicted(TaskId indexed task, uint32 indexed round, uint32 indexed slot, uint32 leafIndex);

    /// @notice Both roots of that tensor are equal.
    /// @param root the root
    error SameRoot(bytes32 root);
    /// @notice Nobody contests his own root.
    /// @param poster who posted the root; 0 where nobody did
    error OwnRoot(address poster);
    /// @notice No root was posted over accepted claims.
    /// @param poster who posted the root; 0 where nobody did
    error NothingToContest(address poster);
    /// @notice One contest an account a round.
    /// @param rival who contests: names the contest
    error ContestRunning(address rival);
    /// @notice There is no such contest.
    /// @param rival who contests: names the contest
    error NoContest(address rival);
    /// @notice Another root has taken the place of the contested one.
    /// @param rival who contests: names the contest
    error RootReplaced(address rival);
    /// @notice The poster is on turn.
    /// @param expected the poster
    /// @param actual who called
    error NotPoster(address expected, address actual);
    /// @notice Another move is due.
    /// @param expected whose turn the move needs
    /// @param actual whose turn it is
    error NotYourTurn(Turn expected, Turn actual);
    /// @notice There are two tensors.
    /// @param tensor what was given; 0 weights, 1 momentum
    error WrongTensor(uint8 tensor);
    /// @notice Whoever is on turn has time left.
    /// @param clockBlock first block in which it has none
    /// @param blockNumber the block of the call
    error ClockRunning(uint256 clockBlock, uint256 blockNumber);
    /// @notice The move comes too late.
    /// @param clockBlock from this block on the move is too late
    /// @param blockNumber the block of the call
    error ClockOver(uint256 clockBlock, uint256 blockNumber);
    /// @notice The nodes do not make up the contested one.
    /// @param expected the contested node
    /// @param actual what the given ones make
    error NodesMismatch(bytes32 expected, bytes32 actual);
    /// @notice Another number of nodes than the level has.
    /// @param expected what is due
    /// @param actual what was given
    error WrongNodeCount(uint256 expected, uint256 actual);
    /// @notice No such node was posted.
    /// @param child index among the posted nodes
    /// @param count how many were posted
    error WrongChild(uint32 child, uint256 count);
    /// @notice A leaf is not under its root.
    /// @param root the tree's root
    /// @param index index of the leaf
    error LeafMismatch(bytes32 root, uint256 index);
    /// @notice Another number of pseudo-gradients than claims are included.
    /// @param expected what is due
    /// @param actual what was given
    error WrongInputCount(uint256 expected, uint256 actual);
    /// @notice The solver did not open its last state in this draw.
    /// @param slot the claim: index of its solver among the enrolled
    /// @param draw index of the draw; segmentDraws is the late audit
    error LastStateUnknown(uint32 slot, uint32 draw);
    /// @notice What was to be proven wrong is right.
    /// @param index index of the leaf
    error NoFault(uint256 index);

    /// @notice `tensor` 0: the weights tree differs, 1: the momentum tree.
    /// @param task the task
    /// @param round index of the round in its task, from 0
    /// @param weightsRoot the caller's
    /// @param momentumRoot the caller's
    /// @param tensor the one to descend: 0 weights, 1 momentum
    function contest(TaskId task, uint32 round, bytes32 weightsRoot, bytes32 momentumRoot, uint8 tensor) external;
    /// @notice The poster's turn: the 2^min(FANOUT_LEVELS, levels left) nodes below the contested node, left to right.
    /// @param task the task
    /// @param round index of the round in its task, from 0
    /// @param rival who contests: names the contest
    /// @param nodes left to right
    function postNodes(TaskId task, uint32 round, address rival, bytes32[] calldata nodes) external;
    /// @notice The rival's (the caller's) turn: which of the posted nodes differs from its own.
    /// @param task the task
    /// @param round index of the round in its task, from 0
    /// @param child index among the posted nodes
    function nameChild(TaskId task, uint32 round, uint32 child) external;
    /// @notice At a leaf: computes it from proven inputs; `deltas` in ascending order of shard. Beyond the last leaf no input is needed: the node must be zero. Anybody.
    /// @param task the task
    /// @param round index of the round in its task, from 0
    /// @param rival who contests: names the contest
    /// @param weights the leaf of the old outer weights
    /// @param momentum the leaf of the old outer momentum
    /// @param deltas the leaf of each included pseudo-gradient
    function computeLeaf(
        TaskId task,
        uint32 round,
        address rival,
        LeafProof calldata weights,
        LeafProof calldata momentum,
        LeafProof[] calldata deltas
    ) external;
    /// @notice Whoever's turn it is let its clock run out (at a leaf: the rival); or the contested root was replaced. Anybody.
    /// @param task the task
    /// @param round index of the round in its task, from 0
    /// @param rival who contests: names the contest
    function timeout(TaskId task, uint32 round, address rival) external;

    /// @notice Proves that leaf `leafIndex` of a claim's pseudo-gradient is not (global W - last W) quantised; convicts the solver. Anybody, until settlement; needs
    /// the claim's last state opened in draw `draw`.
    /// @param task the task
    /// @param round index of the round in its task, from 0
    /// @param slot the claim: index of its solver among the enrolled
    /// @param draw a draw in which the solver opened its last state
    /// @param leafIndex index of the leaf in its tensor tree
    /// @param globalWeights the leaf of the weights that the round starts from
    /// @param lastWeights the leaf of the claim's last weights
    /// @param delta the leaf of its pseudo-gradient
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
    /// @param task the task
    /// @param round index of the round in its task, from 0
    /// @param rival who contests: names the contest
    /// @return turn NONE: there is no such contest
    /// @return clockBlock first block in which the move is too late
    /// @return tensor 0 weights, 1 momentum
    /// @return level depth of the node below the root
    /// @return index index of the node in its level
    /// @return node the poster's node there
    function contestOf(TaskId task, uint32 round, address rival)
        external
        view
        returns (Turn turn, uint256 clockBlock, uint8 tensor, uint32 level, uint32 index, bytes32 node);
}
