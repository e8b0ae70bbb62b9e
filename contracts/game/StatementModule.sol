// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.28;

import {BoundaryProof, LeafProof, TaskId} from "../Types.sol";
import {Hashing} from "../libraries/Hashing.sol";
import {PositionalMerkle} from "../libraries/PositionalMerkle.sol";
import {Statements} from "../libraries/Statements.sol";
import {NO_DRAW, RANKS, SeatRole, SeatStatus, StatementRef} from "./GameTypes.sol";
import {RoundReading} from "./RoundReading.sol";
import {SeatReading} from "./SeatReading.sol";
import {OuterOpening, SignedSealed, SignedVote, WorkProof} from "./StatementTypes.sol";
import {IRefusals} from "./interfaces/IRefusals.sol";
import {Slots} from "./libraries/Slots.sol";

/// @title What a statement needs to be held against its seat: that it is about this chain, and that a seat still answers for it.
/// @notice A statement is a claim, or what an auditor signed: a vote or a seal. Whether its auditor was drawn does not matter: an honest one signs for
/// its own draws only. Else a seat could sign false votes on draws of others without a risk.
/// @dev `_readClaim` and `_readVote` refuse StatementUnknown; `_requireAccused` then refuses SeatIsConvicted and OwnStatement. No window ends after the
/// round's `IRounds.Facts.dutyUntil`. So in it no seat that the round's pools hold has settled the round, and the record is still that of its holder.
abstract contract StatementModule is SeatReading, RoundReading {
    /// @param account of its solver: boundary and work leaves name it
    /// @param joined the next round when the solver joined
    struct Claim {
        bytes32 domain;
        uint32 round;
        uint32 slot;
        uint256 seat;
        address account;
        uint256 joined;
        bytes32 root;
        uint256 segments;
    }

    /// @param seat that answers for the statement
    /// @param account of this seat
    /// @param claim that the statement is, or is about
    /// @param from the close from which its windows count; 0 while the round runs
    struct Statement {
        StatementRef ref;
        uint256 seat;
        address account;
        SeatStatus status;
        Claim claim;
        uint256 from;
    }

    // Claims (7.5)
    /// @dev A claim for which its seat still answers. Call `rounds.sync` before: a round whose closing block is past may not look closed.
    function _readClaim(TaskId task, uint256 round, uint256 slot) internal view returns (Statement memory statement) {
        statement.claim = _claimOf(task, round, slot);
        (statement.seat, statement.account) = (statement.claim.seat, statement.claim.account);
        statement.status = _tasks[task].seatAt[statement.seat].status;
        statement.from = _closedAt(_roundAt(task, round));
        statement.ref = StatementRef(statement.claim.round, statement.claim.slot, NO_DRAW, 0);
    }

    /// @dev A claim whose solver has not settled its round.
    function _claimOf(TaskId task, uint256 round, uint256 slot) internal view returns (Claim memory claim) {
        claim = _bareClaimOf(task, round, slot);
        _requireAnswering(task, claim);
    }

    /// @dev The same without account and `joined`, also where its solver has settled the round. One that does not exist has no segments.
    function _bareClaimOf(TaskId task, uint256 round, uint256 slot) internal view returns (Claim memory claim) {
        Round storage here = _roundOf(task, round);
        (claim.domain, claim.round, claim.slot) = (_domain(task), uint32(round), uint32(slot));
        (claim.root, claim.segments) = _claimAt(here, slot);
        if (claim.segments != 0) claim.seat = _seatId(SeatRole.SOLVER, Slots.numberAt(here.pool, slot));
    }

    /// @dev Fills in whose a claim is: its solver must not have settled the round.
    function _requireAnswering(TaskId task, Claim memory claim) private view {
        Record storage record = _tasks[task].seatAt[claim.seat];
        bool isAnswerable = record.status != SeatStatus.NONE && record.settled <= claim.round;
        if (claim.seat == 0 || !isAnswerable) revert IRefusals.StatementUnknown(claim.round, claim.slot);
        (claim.account, claim.joined) = (record.account, record.joined);
    }

    // What auditors signed (7.5)
    /// @dev A vote of this chain that says all that its word needs, signed by a seat that still answers for it; of a claim whose solver does.
    function _readVote(TaskId task, SignedVote calldata signed) internal view returns (Statement memory statement) {
        (statement,) = _readBareVote(task, signed);
        _requireAnswering(task, statement.claim);
    }

    /// @dev The same whether the claim's solver answers or not, without the claim's account and `joined`; and the vote's hash.
    function _readBareVote(TaskId task, SignedVote calldata signed)
        internal
        view
        returns (Statement memory statement, bytes32 hash)
    {
        Statements.Vote memory vote = signed.vote;
        hash = Statements.hash(vote);
        statement = _readSaid(task, Statements.sealedOf(vote), Statements.signer(_digest(hash), signed.r, signed.vs));
        if (!Statements.isWhole(vote)) revert IRefusals.StatementUnknown(vote.round, vote.slot);
    }

    /// @dev A seal, as a vote.
    function _readSealed(TaskId task, SignedSealed calldata signed) internal view returns (Statement memory statement) {
        statement = _readSaid(task, signed.said, _signerOf(signed));
        _requireAnswering(task, statement.claim);
    }

    function _signerOf(SignedVote calldata signed) internal view returns (address) {
        return Statements.signer(_digest(Statements.hash(signed.vote)), signed.r, signed.vs);
    }

    function _signerOf(SignedSealed calldata signed) internal view returns (address) {
        return Statements.signer(_digest(Statements.hash(signed.said)), signed.r, signed.vs);
    }

    function _readSaid(TaskId task, Statements.Sealed memory said, address account)
        private
        view
        returns (Statement memory statement)
    {
        Round storage round = _roundOf(task, said.round);
        bool isLate = said.draw == _tasks[task].terms.draws;
        statement.claim = _bareClaimOf(task, said.round, said.slot);
        statement.from = isLate ? round.lateFrom : round.isDrawn ? round.closing : 0;
        statement.seat = _seatOf(task, account);
        Record storage record = _tasks[task].seatAt[statement.seat];
        statement.status = record.status;
        SeatRole role = isLate ? SeatRole.WHISTLEBLOWER : SeatRole.VERIFIER;
        bool isSigned = account != address(0) && statement.seat >> 16 == uint256(role);
        bool isAnswerable = statement.status != SeatStatus.NONE && record.settled <= said.round;
        if (!isSigned || !isAnswerable || !_isOfChain(task, statement, said, isLate)) {
            revert IRefusals.StatementUnknown(said.round, said.slot);
        }
        statement.account = account;
        statement.ref = StatementRef(said.round, said.slot, said.draw, said.rank);
    }

    /// @dev After a reorganisation a statement may be about a round that is not on the chain: then it makes nobody a liar.
    function _isOfChain(TaskId task, Statement memory statement, Statements.Sealed memory said, bool isLate)
        private
        view
        returns (bool)
    {
        Round storage round = _roundAt(task, said.round);
        if (statement.from == 0 || said.draw > _tasks[task].terms.draws || said.rank >= RANKS) return false;
        if (said.segment >= statement.claim.segments) return false;
        if (said.seed != (isLate ? _lateSeed(task, round) : round.seed)) return false;
        return said.domain == statement.claim.domain && said.baseRoot == round.base && said.claimRoot == statement.claim.root;
    }

    // Whether it can be held against its seat (11.1)
    function _requireAccused(Statement memory statement) internal view {
        if (statement.status == SeatStatus.CONVICTED) revert IRefusals.SeatIsConvicted(statement.seat);
        if (statement.account == msg.sender) revert IRefusals.OwnStatement(statement.account);
    }

    /// @dev The last block in which a statement can be disputed or convicted; no end while its round runs.
    function _statementUntil(TaskId task, Statement memory statement) internal view returns (uint256) {
        return statement.from == 0 ? type(uint256).max : statement.from + _tasks[task].terms.windows.dispute;
    }

    // Openings of claims (7.5)
    // Trees have segments + 2 leaves: the boundaries 0 .. segments, then the work leaf.
    /// @dev The state root of a boundary. Its step numbers are not looked at.
    function _openBoundary(Claim memory claim, uint256 boundary, BoundaryProof calldata proof)
        internal
        pure
        returns (bytes32 stateRoot)
    {
        stateRoot = Hashing.stateRoot(proof.header);
        bytes32 leaf = Hashing.boundaryLeaf(
            claim.domain, claim.round, claim.account, uint32(boundary), proof.salt, stateRoot
        );
        bool isBoundary = boundary <= claim.segments;
        if (!isBoundary || !_isInClaim(claim, leaf, boundary, proof.path)) {
            revert IRefusals.ProofInvalid("boundary");
        }
    }

    function _openWork(Claim memory claim, WorkProof calldata work) internal pure {
        bytes32 leaf = Hashing.workLeaf(
            claim.domain, claim.round, claim.account, claim.segments, work.deltaRoot, work.carriedRoot
        );
        if (!_isInClaim(claim, leaf, claim.segments + 1, work.path)) revert IRefusals.ProofInvalid("work");
    }

    function _isInClaim(Claim memory claim, bytes32 leaf, uint256 index, bytes32[] calldata path)
        internal
        pure
        returns (bool)
    {
        bytes32 treeRoot = PositionalMerkle.rootOver(leaf, index, claim.segments + 2, path);
        return treeRoot != 0 && Hashing.claimRoot(treeRoot, claim.segments) == claim.root;
    }

    function _openBase(TaskId task, Claim memory claim, OuterOpening calldata base) internal view {
        bytes32 root = Hashing.outerRoot(base.weightsRoot, base.momentumRoot);
        if (root != _roundAt(task, claim.round).base) revert IRefusals.ProofInvalid("base");
    }

    /// @dev Leaves of tensors and of pseudo-gradients: both trees have the same number.
    function _requireLeaf(bytes32 root, LeafProof calldata leaf, uint256 index, uint256 count) internal pure {
        if (!PositionalMerkle.verifyData(root, leaf.data, index, count, leaf.path)) {
            revert IRefusals.ProofInvalid("leaf");
        }
    }
}
