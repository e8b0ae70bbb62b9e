// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.28;

import {TaskId} from "../../Types.sol";

/// @title CONTEST of a posted outer root: from level to level down to one leaf, which the contract computes.
/// @notice
/// ```
///            anybody           contester              anybody
/// contest -> answer ---------> nameChild -> ... ----> bringLeaf
///   ANSWER --------> CONTESTER ---------> ANSWER/LEAF
/// ```
/// Nobody brings a rival root. Whoever has the tree answers: first the two roots of which the posted one is the hash, then 16 nodes a turn, which hash to
/// their parent. The contester names the one that its own tree lacks. At the leaf anybody brings the inputs. Each turn has `respond` blocks. No answer, or
/// no right leaf: the root FALLS. A right leaf, or a silent contester: it HOLDS, half of the bond goes to who answered last, half is burned. Where the root
/// is not posted any more the contest is MOOT, its bond returned.
/// @dev Any number runs at once. Of a tree nothing is remembered but two hashes, so an answer costs the same on every level.
interface IContests {
    /// @notice Whose move a contest waits for. The last three are ends.
    enum Turn {
        NONE,
        ANSWER,
        CONTESTER,
        LEAF,
        HOLDS,
        FALLS,
        MOOT
    }

    /// @notice Somebody holds another root than the posted one.
    /// @param task the task
    /// @param id its name
    /// @param round index of the round in its task, from 0
    /// @param root the outer root
    /// @param contester who opened it
    /// @param bondWei the bond, in wei
    /// @param clockBlock the last block for the next move
    event Contested(TaskId indexed task, bytes32 indexed id, uint256 indexed round, bytes32 root, address contester, uint256 bondWei, uint256 clockBlock);
    /// @notice Somebody opened the contested node. At level 0 these are the weights and the momentum root.
    /// @param task the task
    /// @param id its name
    /// @param answerer who answered
    /// @param nodes nodes of one level, from left to right
    /// @param clockBlock the last block for the next move
    event NodesPosted(TaskId indexed task, bytes32 indexed id, address answerer, bytes32[] nodes, uint256 clockBlock);
    /// @notice The contester named a node: of tensor 0 (weights) or 1 (momentum), `level` levels below its root, the index-th of its level.
    /// @param task the task
    /// @param id its name
    /// @param tensor 0 weights, 1 momentum
    /// @param level levels below the root
    /// @param index which one
    /// @param clockBlock the last block for the next move
    event ChildNamed(TaskId indexed task, bytes32 indexed id, uint256 tensor, uint256 level, uint256 index, uint256 clockBlock);
    /// @notice A contest ended.
    /// @param task the task
    /// @param id its name
    /// @param outcome how it ended
    event ContestEnded(TaskId indexed task, bytes32 indexed id, Turn outcome);

    /// @notice There is, or was, this very contest.
    /// @param id its name
    /// @custom:remedy Choose another salt.
    error ContestExists(bytes32 id);

    /// @notice Contests the posted root of a round, until the round's `rootUntil`.
    /// @param task the task
    /// @param round index of the round in its task, from 0
    /// @param bondLimitWei the most that the sender pays; taken from its credit are k times `contestBond`, where it is the task's k-th contest that is open
    /// @param salt tells contests of one root and sender apart
    /// @return id keccak256(abi.encode(task, round, root, sender, salt))
    function contest(TaskId task, uint256 round, uint256 bondLimitWei, bytes32 salt) external returns (bytes32 id);

    /// @notice Opens the contested node.
    /// @param task the task
    /// @param id its name
    /// @param nodes at first the weights root and the momentum root; then the nodes 4 levels below, or those of the last level, left to right
    function answerContest(TaskId task, bytes32 id, bytes32[] calldata nodes) external;

    /// @notice The contester names a node, and brings the posted ones along.
    /// @param task the task
    /// @param id its name
    /// @param child which of the nodes
    /// @param nodes nodes of one level, from left to right
    function nameChild(TaskId task, bytes32 id, uint256 child, bytes32[] calldata nodes) external;

    /// @notice At a leaf: the contract computes it, and the contest HOLDS if it is the posted leaf; else the call reverts, and the root falls when the clock
    /// has run out. So no call computes a leaf and makes a root fall as well. A leaf after the last one is the zero word and needs no inputs.
    /// @param task the task
    /// @param id its name
    /// @param inputs one after the other, no lengths between them: the leaf (1,024 bytes) of the base root's weights and its siblings, that of its momentum
    /// and its siblings; then of each merged claim, in ascending order of shards, the leaf of its pseudo-gradient (260 bytes) and its siblings, the carried
    /// root, and the siblings of the work leaf in the claim's tree
    function bringLeaf(TaskId task, bytes32 id, bytes calldata inputs) external;

    /// @notice After a clock has run out: whoever was on turn loses; at once where the root is not posted any more. Anybody may call it.
    /// @param task the task
    /// @param id its name
    function endContest(TaskId task, bytes32 id) external;

    // Views
    /// @notice How many contests of a task are open. The bond of the next one is `contestBond` times this number + 1.
    /// @param task the task
    /// @return counts their number
    function openOf(TaskId task) external view returns (uint256 counts);

    /// @notice The block in which a contest of the task last ended in HOLDS, plus `respond`. Until then no solver is marked silent: an account that waited
    /// for the end can open a contest of its own. It prolongs no `rootUntil`.
    /// @param task the task
    /// @return blockNumber that block; 0: none has ended in HOLDS
    function contestedUntil(TaskId task) external view returns (uint256 blockNumber);

    /// @notice Where a contest stands.
    /// @param task the task
    /// @param id its name
    /// @return turn NONE: there is no such contest
    /// @return clockBlock the last block of the turn
    /// @return round whose root it is
    /// @return tensor 0 weights, 1 momentum
    /// @return level 0: the posted root itself is contested; else 1 + the node's depth in its tensor tree
    /// @return index of the node in its level
    /// @return node that is contested; 0 at level 0
    function contestOf(TaskId task, bytes32 id)
        external
        view
        returns (Turn turn, uint256 clockBlock, uint256 round, uint256 tensor, uint256 level, uint256 index, bytes32 node);
}
