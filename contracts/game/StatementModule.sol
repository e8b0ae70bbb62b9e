// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.28;

import {BoundaryProof, LeafProof, TaskId} from "../Types.sol";
import {Hashing} from "../libraries/Hashing.sol";
import {PositionalMerkle} from "../libraries/PositionalMerkle.sol";
import {Statements} from "../libraries/Statements.sol";
import {GameStorage} from "./GameStorage.sol";
import {
    Audit,
    NO_DRAW,
    RANKS,
    Seat,
    SeatRole,
    SeatStatus,
    StatementRef
} from "./GameTypes.sol";
import {Module} from "./Module.sol";
import {OuterOpening, SignedSealed, SignedVote, WorkProof} from "./StatementTypes.sol";
import {IRefusals} from "./interfaces/IRefusals.sol";
import {Audits} from "./libraries/Audits.sol";
import {Slots} from "./libraries/Slots.sol";

/// @title What a statement needs to be held against its seat: that it is about this chain, and that a seat still answers for it.
/// @notice A statement is a claim, or what an auditor signed: a vote or a seal. Whether its auditor was drawn does not matter: an honest one signs for
/// its own draws only, and a liar shall not choose where its word weighs nothing.
/// @dev `_readClaim` and `_readVote` refuse StatementUnknown; `_requireAccused` then refuses SeatClosed and OwnStatement. Every window ends before the
/// round's horizon (`IRounds.Facts.dutyUntil`), so in it neither the auditor nor the solver has settled the round, and their records are theirs.
abstract contract StatementModule is GameStorage, Module {
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
        Audit audit;
        uint256 from;
    }

    // Statements ------------------------------------------------------------------------------------------------------
    /// @dev A claim for which its seat still answers. Call `rounds.sync` before: a round whose closing block is past may not look closed.
    function _readClaim(TaskId task, uint256 round, uint256 slot) internal view returns (Statement memory s) {
        s.audit = _auditOf(task, round, slot);
        _findClaim(task, s, round, slot);
        (s.account, s.status) = _answering(task, s.claim);
        (s.seat, s.from) = (s.claim.seat, s.audit.closed);
        s.ref = StatementRef(s.claim.round, s.claim.slot, NO_DRAW, 0);
    }

    function _auditOf(TaskId task, uint256 round, uint256 slot) internal view returns (Audit memory) {
        return Audits.load(rounds, task, round, 1 << slot, false);
    }

    /// @dev What a statement of a draw is held against: where it is late, the late audits too.
    function _auditOf(TaskId task, uint256 round, uint256 slot, uint256 draw)
        internal
        view
        returns (Audit memory audit)
    {
        audit = _auditOf(task, round, slot);
        if (draw == audit.draws) audit = Audits.load(rounds, task, round, 1 << slot, true);
    }

    function _auditOf(TaskId task, SignedVote calldata signed) internal view returns (Audit memory) {
        return _auditOf(task, signed.vote.round, signed.vote.slot, signed.vote.draw);
    }

    /// @dev What the round knows of a claim. One that does not exist, or whose slot the pool does not have, has no segments.
    function _findClaim(TaskId task, Statement memory s, uint256 round, uint256 slot) private view {
        (s.claim.domain, s.claim.round, s.claim.slot) = (_domain(task), uint32(round), uint32(slot));
        (s.claim.root, s.claim.segments) = Audits.claimAt(s.audit, slot);
        if (s.claim.segments == 0) return;
        s.claim.seat = uint256(SeatRole.SOLVER) << 16 | Slots.numberAt(s.audit.pool, slot);
    }

    /// @dev A vote of this chain that says all that its word needs, signed by a seat that still answers for it.
    function _readVote(TaskId task, SignedVote calldata signed) internal view returns (Statement memory s) {
        (s,) = _readBareVote(task, signed, _auditOf(task, signed));
        _answering(task, s.claim);
    }

    /// @dev The same without account and `joined` of the claim, and the vote's hash.
    function _readBareVote(TaskId task, SignedVote calldata signed, Audit memory audit)
        internal
        view
        returns (Statement memory s, bytes32 hash)
    {
        Statements.Vote memory vote = signed.vote;
        hash = Statements.hash(vote);
        address account = Statements.signer(_digest(hash), signed.r, signed.vs);
        _readSaid(task, s, audit, Statements.sealedOf(vote), account);
        if (!Statements.isWhole(vote)) revert IRefusals.StatementUnknown(vote.round, vote.slot);
    }

    /// @dev The same of a seal.
    function _readSealed(TaskId task, SignedSealed calldata signed) internal view returns (Statement memory s) {
        Audit memory audit = _auditOf(task, signed.said.round, signed.said.slot, signed.said.draw);
        _readSaid(task, s, audit, signed.said, _signerOf(signed));
        _answering(task, s.claim);
    }

    function _signerOf(SignedVote calldata signed) internal view returns (address) {
        return Statements.signer(_digest(Statements.hash(signed.vote)), signed.r, signed.vs);
    }

    function _signerOf(SignedSealed calldata signed) internal view returns (address) {
        return Statements.signer(_digest(Statements.hash(signed.said)), signed.r, signed.vs);
    }

    /// @param s is filled: to return it would make it once more
    function _readSaid(
        TaskId task,
        Statement memory s,
        Audit memory audit,
        Statements.Sealed memory said,
        address account
    ) private view {
        s.audit = audit;
        _findClaim(task, s, said.round, said.slot);
        bool isLate = said.draw == audit.draws;
        s.from = isLate ? audit.lateFrom : audit.isSealed ? audit.closed : 0;
        uint256 settled;
        (s.seat, s.status, settled) = seatBook.signerOf(task, account);
        SeatRole role = isLate ? SeatRole.WHISTLEBLOWER : SeatRole.VERIFIER;
        bool isSigned = account != address(0) && s.seat >> 16 == uint256(role);
        bool isAnswerable = s.status != SeatStatus.NONE && settled <= said.round;
        if (!isSigned || !isAnswerable || !_isOfChain(s, said, isLate)) {
            revert IRefusals.StatementUnknown(said.round, said.slot);
        }
        s.account = account;
        s.ref = StatementRef(said.round, said.slot, said.draw, said.rank);
    }

    /// @dev After a reorganisation a statement may be about a round that is not on the chain: then it makes nobody a liar.
    function _isOfChain(Statement memory s, Statements.Sealed memory said, bool isLate)
        private
        pure
        returns (bool)
    {
        if (s.from == 0 || said.draw > s.audit.draws || said.rank >= RANKS) return false;
        if (said.segment >= s.claim.segments || said.seed != (isLate ? s.audit.lateSeed : s.audit.seed)) {
            return false;
        }
        return
            said.domain == s.claim.domain && said.baseRoot == s.audit.base && said.claimRoot == s.claim.root;
    }

    /// @dev A claim whose solver has not settled its round.
    function _claimOf(TaskId task, uint256 round, uint256 slot) internal view returns (Claim memory claim) {
        claim = _bareClaimOf(task, round, slot);
        _answering(task, claim);
    }

    /// @dev The same without account and `joined`, also where its solver has settled the round.
    function _bareClaimOf(TaskId task, uint256 round, uint256 slot) internal view returns (Claim memory) {
        Statement memory s;
        s.audit = _auditOf(task, round, slot);
        _findClaim(task, s, round, slot);
        return s.claim;
    }

    /// @dev Whose a claim is: its solver must not have settled the round.
    function _answering(TaskId task, Claim memory claim)
        private
        view
        returns (address account, SeatStatus status)
    {
        Seat memory record = _seatAt(task, claim.seat);
        bool isAnswerable = record.status != SeatStatus.NONE && record.settled <= claim.round;
        if (claim.seat == 0 || !isAnswerable) revert IRefusals.StatementUnknown(claim.round, claim.slot);
        (claim.account, claim.joined) = (record.account, record.joined);
        (account, status) = (record.account, record.status);
    }

    /// @dev One place for the call and its decoder.
    function _seatAt(TaskId task, uint256 seat) internal view returns (Seat memory) {
        return seatBook.seatAt(task, seat);
    }

    function _requireAccused(Statement memory s) internal view {
        if (s.status == SeatStatus.CLOSED) revert IRefusals.SeatClosed(s.seat);
        if (s.account == msg.sender) revert IRefusals.OwnStatement(s.account);
    }

    /// @dev The last block in which a statement can be disputed or convicted; no end while its round runs.
    function _statementUntil(Statement memory s) internal pure returns (uint256) {
        return s.from == 0 ? type(uint256).max : s.from + s.audit.dispute;
    }

    // Openings of claims ------------------------------------------------------------------------------------------
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

    function _openBase(Statement memory s, OuterOpening calldata base) internal pure {
        bytes32 root = Hashing.outerRoot(base.weightsRoot, base.momentumRoot);
        if (root != s.audit.base) revert IRefusals.ProofInvalid("base");
    }

    /// @dev Leaves of tensors and of pseudo-gradients: both trees have the same number.
    function _requireLeaf(bytes32 root, LeafProof calldata leaf, uint256 index, uint256 count) internal pure {
        if (!PositionalMerkle.verifyData(root, leaf.data, index, count, leaf.path)) {
            revert IRefusals.ProofInvalid("leaf");
        }
    }
}
