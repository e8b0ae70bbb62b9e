// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.28;

import {EXACT_FORMAT, LeafProof, StateHeader, StateLeaves, TaskId} from "../Types.sol";
import {Hashing} from "../libraries/Hashing.sol";
import {PositionalMerkle} from "../libraries/PositionalMerkle.sol";
import {Statements} from "../libraries/Statements.sol";
import {Tolerance} from "../libraries/Tolerance.sol";
import {GameTerms, Proof, SeatStatus, StatementRef} from "./GameTypes.sol";
import {Module, Modules} from "./Module.sol";
import {QuestionModule} from "./QuestionModule.sol";
import {SignedVote} from "./StatementTypes.sol";
import {IQueries} from "./interfaces/IQueries.sol";
import {IRefusals} from "./interfaces/IRefusals.sol";

/// @title QUERY. Twin of `protocol/spec/game/queries.py`.
/// @dev A query is one word; what it is about is in its id. An honest signer can always answer: the leaf exists, it has both states, and what it needs of
/// others (the schedule) is under a root that every node checks before it joins.
contract Queries is QuestionModule, IQueries {
    constructor(Modules memory modules) Module(modules) {}

    // Opening (11.2)
    /// @inheritdoc IQueries
    function queryVote(TaskId task, SignedVote calldata signed, uint32 leaf, uint256 bondLimitWei)
        external
        returns (bytes32 id)
    {
        GameTerms storage terms = _tasks[task].terms;
        _requireQueryable(terms, signed.vote.word, signed.vote.namedLeaf, leaf);
        (Statement memory statement, bytes32 hash) = _readBareVote(task, signed);
        _requireAccused(statement);
        uint256 votesUntil = statement.from + 2 * uint256(terms.windows.auditMax);
        _requireWindow(0, votesUntil + terms.windows.query);
        id = _idOf(task, hash, leaf, statement.seat, msg.sender);
        if (_queries[id].lastBlock != 0) revert AlreadyQueried(id);
        (uint256 bonds, uint256 bondWei) = _openQuestion(task, statement.seat, statement.ref.round, bondLimitWei);
        // The answer shows both end roots: nobody has to give it while a reserve could copy them into a vote.
        uint256 lastBlock = _max(block.number, votesUntil) + terms.windows.respond;
        _queries[id] = OpenQuery(uint64(lastBlock), uint64(bonds));
        emit QueryOpened(task, statement.seat, id, signed.vote, leaf, msg.sender, bondWei, lastBlock);
    }

    /// @dev A REJECT is asked about the leaf that it names: one that names none that exists is proven false (`Evidence`).
    function _requireQueryable(GameTerms storage terms, Statements.Word word, uint32 named, uint32 leaf)
        private
        view
    {
        bool isReject = word == Statements.Word.REJECT_STATE;
        bool isQueried = isReject || word == Statements.Word.ACCEPT;
        if (!isQueried || terms.format == EXACT_FORMAT) revert IRefusals.WordNotQueried(uint256(word));
        bool isLeaf = leaf < PositionalMerkle.tensorLeafCount(terms.parameterCount);
        if (!isLeaf || isReject && leaf != named) revert LeafNotQueried(leaf);
    }

    /// @param vote its hash
    function _idOf(TaskId task, bytes32 vote, uint256 leaf, uint256 seat, address asker) private pure returns (bytes32) {
        return keccak256(abi.encode(task, vote, leaf, seat, asker));
    }

    // Answering (11.2)
    /// @inheritdoc IQueries
    function answerQuery(TaskId task, Query calldata query, Answer calldata shown) external {
        (bytes32 id, OpenQuery memory open, Record storage record) = _openedOf(task, query);
        if (record.status == SeatStatus.CONVICTED) revert IRefusals.SeatIsConvicted(query.seat);
        _requireWindow(0, open.lastBlock);
        GameTerms storage terms = _tasks[task].terms;
        bool exceedsLimits = _exceedsLimits(terms, query, shown, record.account);
        bool isAccept = query.vote.word == Statements.Word.ACCEPT;
        // False is an ACCEPT beyond the limits, or a REJECT_STATE inside them.
        _end(task, query, id, open.bonds, exceedsLimits == isAccept ? Ending.CONVICTED : Ending.CLEARED);
    }

    /// @inheritdoc IQueries
    function endQuery(TaskId task, Query calldata query) external {
        (bytes32 id, OpenQuery memory open, Record storage record) = _openedOf(task, query);
        bool isConvicted = record.status == SeatStatus.CONVICTED;
        if (!isConvicted && block.number <= open.lastBlock) {
            revert IRefusals.NotLate(open.lastBlock, block.number);
        }
        _end(task, query, id, open.bonds, isConvicted ? Ending.MOOT : Ending.CONVICTED);
    }

    /// @dev While a query is open its seat cannot be paid out, so the record is the signer's.
    function _openedOf(TaskId task, Query calldata query)
        private
        view
        returns (bytes32 id, OpenQuery memory open, Record storage record)
    {
        id = idOf(task, query);
        open = _queries[id];
        if (open.lastBlock == 0) revert IRefusals.NothingOpen(id);
        record = _tasks[task].seatAt[query.seat];
    }

    function _end(TaskId task, Query calldata query, bytes32 id, uint256 bonds, Ending ending) private {
        delete _queries[id];
        (uint256 seat, Statements.Vote memory vote) = (query.seat, query.vote);
        emit QueryEnded(task, seat, id, ending);
        if (ending == Ending.CLEARED) {
            _forfeitBond(task, seat, vote.round, bonds, _tasks[task].seatAt[seat].account);
            return;
        }
        _returnBond(task, seat, vote.round, bonds, query.asker);
        if (ending == Ending.MOOT) return;
        StatementRef memory ref = StatementRef(vote.round, vote.slot, vote.draw, vote.rank);
        game.punish(task, seat, query.asker, Proof.QUERIED, ref);
    }

    // Comparing (6, 11.2)
    /// @dev Whether the claim's leaf lies beyond the limits from the signer's own. Two ends that are one state lie nowhere beyond, whatever is in them;
    /// an end of the claim with step numbers of another place lies beyond.
    function _exceedsLimits(
        GameTerms storage terms,
        Query calldata query,
        Answer calldata shown,
        address account
    ) private view returns (bool) {
        Statements.Opening memory ends = Statements.Opening(
            Hashing.stateRoot(shown.claimedEnd),
            shown.boundarySalt,
            Hashing.stateRoot(shown.ownEnd),
            shown.sealSalt
        );
        // The end leaf has one preimage. Whether it is the claim's is another proof's matter (`Evidence.proveVoteLeaf`).
        if (!Statements.fits(query.vote, ends, shown.solver, account)) {
            revert IRefusals.ProofInvalid("ends");
        }
        // Where moments carry over its own local step is free.
        if (!_isInPlace(terms, query.vote, shown.ownEnd, shown.ownEnd)) {
            revert IRefusals.ProofInvalid("steps");
        }
        uint256 count = PositionalMerkle.tensorLeafCount(terms.parameterCount);
        _requireLeaves(shown.claimedEnd, shown.claimed, query.leaf, count);
        if (ends.claimEndRoot == ends.ownEndRoot) return false;
        _requireLeaves(shown.ownEnd, shown.own, query.leaf, count);
        _requireSchedule(terms, query.vote, shown.learningRateSum, shown.schedulePath);
        return !_isInPlace(terms, query.vote, shown.claimedEnd, shown.ownEnd)
            || Tolerance.doesLeafExceed(
            _leafOf(shown.claimed), _leafOf(shown.own), terms.limits, shown.learningRateSum
        );
    }

    /// @dev The step numbers after the segment. With moments that carry over local steps count from the solver's last merged claims: both ends then count
    /// alike.
    function _isInPlace(
        GameTerms storage terms,
        Statements.Vote calldata vote,
        StateHeader calldata end,
        StateHeader calldata ownEnd
    ) private view returns (bool) {
        uint256 steps = (uint256(vote.segment) + 1) * terms.segmentSteps;
        uint256 local = terms.carryMoments == 1 ? ownEnd.localStep : steps;
        return end.globalStep == uint256(vote.round) * terms.innerSteps + steps && end.localStep == local;
    }

    /// @dev Leaves have one length: others cannot be brought, so nobody has to repeat more bytes of somebody else than fit a transaction.
    function _requireLeaves(
        StateHeader calldata header,
        StateLeaves calldata leaves,
        uint256 index,
        uint256 count
    ) private pure {
        _requireWhole(header.weightsRoot, leaves.weights, index, count);
        _requireWhole(header.firstMomentRoot, leaves.firstMoment, index, count);
        _requireWhole(header.secondMomentRoot, leaves.secondMoment, index, count);
    }

    function _requireWhole(bytes32 root, LeafProof calldata leaf, uint256 index, uint256 count) private pure {
        if (leaf.data.length != PositionalMerkle.LEAF_BYTES) revert IRefusals.ProofInvalid("leaf");
        _requireLeaf(root, leaf, index, count);
    }

    function _requireSchedule(
        GameTerms storage terms,
        Statements.Vote calldata vote,
        uint256 learningRateSum,
        bytes32[] calldata path
    ) private view {
        uint256 segments = terms.innerSteps / terms.segmentSteps;
        uint256 index = uint256(vote.round) * segments + vote.segment;
        bytes32 leaf = Hashing.scheduleLeaf(index, learningRateSum);
        if (!PositionalMerkle.verify(terms.scheduleRoot, leaf, index, terms.rounds * segments, path)) {
            revert IRefusals.ProofInvalid("schedule");
        }
    }

    function _leafOf(StateLeaves calldata leaves) private pure returns (Tolerance.Leaf memory) {
        return Tolerance.Leaf(leaves.weights.data, leaves.firstMoment.data, leaves.secondMoment.data);
    }

    // Views
    /// @inheritdoc IQueries
    function idOf(TaskId task, Query calldata query) public pure returns (bytes32) {
        return _idOf(task, Statements.hash(query.vote), query.leaf, query.seat, query.asker);
    }

    /// @inheritdoc IQueries
    function queryOf(bytes32 id) external view returns (uint256 lastBlock, uint256 bonds) {
        OpenQuery memory open = _queries[id];
        return (open.lastBlock, open.bonds);
    }

    function _questionsOn(Record storage record) internal view override returns (uint16[9] storage) {
        return record.queries;
    }

    function _firstBondWei(TaskId task) internal view override returns (uint256) {
        return _tasks[task].terms.amounts.queryBond;
    }
}
