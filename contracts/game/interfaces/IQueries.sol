// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.28;

import {StateHeader, StateLeaves, TaskId} from "../../Types.sol";
import {Statements} from "../../libraries/Statements.sol";
import {SignedVote} from "../StatementTypes.sol";

/// @title QUERY: the signer of an ACCEPT, or of a REJECT of that leaf, has to show one state leaf of both ends.
/// @notice Anybody may answer, and what an answer leads to is the same whoever brings it. The contract compares within the task's limits. An ACCEPT
/// beyond them, a REJECT inside them, or no answer: the seat is convicted and the bond returns. Else the bond is lost: half to the signer, half burned.
interface IQueries {
    /// @notice How a query ended. MOOT: the seat was convicted of something else, the bond was returned.
    enum Ending {
        NONE,
        CLEARED,
        CONVICTED,
        MOOT
    }

    /// @notice What a query was opened with; who answers or ends it brings it again.
    /// @param vote the vote
    /// @param leaf index of the leaf in its tree
    /// @param seat of the signer
    /// @param asker who opened it
    struct Query {
        Statements.Vote vote;
        uint32 leaf;
        uint32 seat;
        address asker;
    }

    /// @notice What the signer saw. Where both ends are one state, `own`, `learningRateSum` and `schedulePath` are not looked at and may be empty.
    /// @param claimedEnd state at the claim's boundary after the segment
    /// @param ownEnd state that the signer's replay came to
    /// @param solver account that the vote's end leaf names
    /// @param boundarySalt of the vote's end leaf
    /// @param sealSalt of the vote's seal
    /// @param claimed the leaf in `claimedEnd`
    /// @param own the leaf in `ownEnd`
    /// @param learningRateSum of the segment
    /// @param schedulePath siblings of its leaf up to the task's schedule root
    struct Answer {
        StateHeader claimedEnd;
        StateHeader ownEnd;
        address solver;
        bytes32 boundarySalt;
        bytes32 sealSalt;
        StateLeaves claimed;
        StateLeaves own;
        uint256 learningRateSum;
        bytes32[] schedulePath;
    }

    /// @notice A query was opened. With it anybody can answer or end it: task, vote, leaf, seat and asker are the query.
    /// @param task the task
    /// @param seat id of the seat
    /// @param id its name
    /// @param vote the vote
    /// @param leaf index of the leaf in its tree
    /// @param asker who opened it
    /// @param bondWei the bond, in wei
    /// @param lastBlock the last block for the answer
    event QueryOpened(
        TaskId indexed task, uint256 indexed seat, bytes32 id, Statements.Vote vote, uint32 leaf, address asker, uint256 bondWei, uint256 lastBlock
    );
    /// @notice A query has ended.
    /// @param task the task
    /// @param seat id of the seat
    /// @param id its name
    /// @param ending how it ended
    event QueryEnded(TaskId indexed task, uint256 indexed seat, bytes32 id, Ending ending);

    /// @notice The sender has this query open already.
    /// @param id its name
    /// @custom:remedy Wait for the answer, or end the query once its clock has run out.
    error AlreadyQueried(bytes32 id);
    /// @notice Nobody can be asked about this leaf.
    /// @param leaf index of the leaf in its tree
    /// @custom:remedy Ask an ACCEPT about a leaf of the state, a REJECT about the leaf that it names.
    error LeafNotQueried(uint256 leaf);

    /// @notice Asks the signer of a vote for a leaf of both ends. The k-th open query on a seat costs k bonds, taken from the sender's credit.
    /// @param task the task
    /// @param signed the vote and its signature
    /// @param leaf index of the leaf in its tree
    /// @param bondLimitWei the most that the sender pays; taken from its credit are k times `queryBond`, where it is the k-th query that is open on the seat
    /// @return id its name
    function queryVote(TaskId task, SignedVote calldata signed, uint32 leaf, uint256 bondLimitWei) external returns (bytes32 id);

    /// @notice Answers. Anybody may.
    /// @param task the task
    /// @param query what the query was opened with
    /// @param shown both ends and their leaves
    function answerQuery(TaskId task, Query calldata query, Answer calldata shown) external;

    /// @notice Ends a query that was not answered in time, or whose seat was convicted meanwhile. Anybody may.
    /// @param task the task
    /// @param query what the query was opened with
    function endQuery(TaskId task, Query calldata query) external;

    /// @notice Name of a query.
    /// @param task the task
    /// @param query what the query was opened with
    /// @return its name
    function idOf(TaskId task, Query calldata query) external pure returns (bytes32);

    /// @notice The last block for an answer, 0 where nothing is open; the bond is that many times `queryBond`.
    /// @param id its name
    /// @return lastBlock the last block for an answer; 0: nothing is open
    /// @return bonds the bond, in units of queryBond
    function queryOf(bytes32 id) external view returns (uint256 lastBlock, uint256 bonds);
}
