// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.28;

import {BoundaryProof, EXACT_FORMAT, LeafProof, StateHeader, TaskId} from "../Types.sol";
import {Hashing} from "../libraries/Hashing.sol";
import {OuterMath} from "../libraries/OuterMath.sol";
import {PositionalMerkle} from "../libraries/PositionalMerkle.sol";
import {Statements} from "../libraries/Statements.sol";
import {EPOCH_ROUNDS, GameTerms, Phase, Proof} from "./GameTypes.sol";
import {Module, Modules} from "./Module.sol";
import {StatementModule} from "./StatementModule.sol";
import {OuterOpening, SignedSealed, SignedVote, WorkProof} from "./StatementTypes.sol";
import {IEvidence} from "./interfaces/IEvidence.sol";
import {IRefusals} from "./interfaces/IRefusals.sol";
import {Slots} from "./libraries/Slots.sol";

/// @title Proofs in one transaction. Twin of `apply_commit_proof` and `apply_convict` in `protocol/spec/game/transaction_proofs.py`.
/// @dev A statement can be proven false for as long as it can be disputed. Nothing here knows a party: the proof alone decides.
contract Evidence is StatementModule, IEvidence {
    constructor(Modules memory modules) Module(modules) {}

    // Commitments (11.4)
    /// @inheritdoc IEvidence
    /// @dev Kept by sender: nobody can renew somebody else's commitment, and a copy of it is of no use.
    function commitProof(bytes32 digest) external {
        _committedBlocks[msg.sender][digest] = block.number;
        emit ProofCommitted(msg.sender, digest);
    }

    /// @dev The sender has committed this call in an earlier block, and not too long ago.
    modifier onlyCommitted() {
        _requireCommitted();
        _;
    }

    function _requireCommitted() private view {
        bytes32 digest = digestOf(msg.sender, msg.data);
        uint256 since = _committedBlocks[msg.sender][digest];
        bool isGood =
            since != 0 && since < block.number && block.number <= since + _bounds.proofCommitBlocks;
        if (!isGood) revert IRefusals.ProofNotCommitted(digest);
    }

    // Claims (11.4)
    /// @inheritdoc IEvidence
    function proveStart(TaskId task, ClaimAt calldata claim, StartProof calldata proof) external onlyCommitted {
        (Statement memory statement, GameTerms storage terms) = _accuse(task, claim);
        if (_isStartRight(task, terms, statement, proof)) revert IRefusals.ProofInvalid("start");
        _punish(task, statement, Proof.BOUNDARY_ZERO);
    }

    /// @inheritdoc IEvidence
    function proveDelta(TaskId task, ClaimAt calldata claim, uint256 leaf, DeltaProof calldata proof)
        external
        onlyCommitted
    {
        (Statement memory statement, GameTerms storage terms) = _accuse(task, claim);
        if (_isDeltaRight(task, terms, statement, leaf, proof)) revert IRefusals.ProofInvalid("delta");
        _punish(task, statement, Proof.DELTA_LEAF);
    }

    /// @inheritdoc IEvidence
    function proveScale(
        TaskId task,
        ClaimAt calldata claim,
        uint256 leaf,
        WorkProof calldata work,
        LeafProof calldata deltaLeaf
    ) external onlyCommitted {
        (Statement memory statement, GameTerms storage terms) = _accuse(task, claim);
        _openWork(statement.claim, work);
        _requireLeaf(work.deltaRoot, deltaLeaf, leaf, _leafCount(terms));
        if (OuterMath.hasScales(deltaLeaf.data)) revert IRefusals.ProofInvalid("scale");
        _punish(task, statement, Proof.DELTA_LEAF);
    }

    /// @inheritdoc IEvidence
    function proveCarried(
        TaskId task,
        ClaimAt calldata claim,
        WorkProof calldata work,
        BoundaryProof calldata last
    ) external onlyCommitted {
        (Statement memory statement,) = _accuse(task, claim);
        _openWork(statement.claim, work);
        _openBoundary(statement.claim, statement.claim.segments, last);
        if (work.carriedRoot == _carriedRoot(last.header)) revert IRefusals.ProofInvalid("carried");
        _punish(task, statement, Proof.CARRIED_ROOT);
    }

    // Votes (11.4)
    /// @inheritdoc IEvidence
    /// @dev A tree holds one leaf at each place, whoever made it.
    function proveVoteLeaf(
        TaskId task,
        SignedVote calldata signed,
        uint256 boundary,
        bytes32 leaf,
        bytes32[] calldata path
    ) external onlyCommitted {
        (Statement memory statement,) = _accuse(task, signed);
        bool isFault =
            _isInClaim(statement.claim, leaf, boundary, path) && Statements.misnames(signed.vote, boundary, leaf);
        if (!isFault) revert IRefusals.ProofInvalid("vote leaf");
        _punish(task, statement, Proof.VOTE_LEAF);
    }

    /// @inheritdoc IEvidence
    function proveTwoVotes(TaskId task, SignedVote calldata first, SignedVote calldata second)
        external
        onlyCommitted
    {
        (Statement memory statement,) = _accuse(task, first);
        _requireTwo(statement, _signerOf(second), Statements.differ(first.vote, second.vote));
        _punish(task, statement, Proof.TWO_STATEMENTS);
    }

    /// @inheritdoc IEvidence
    function proveTwoSeals(TaskId task, SignedSealed calldata first, SignedSealed calldata second)
        external
        onlyCommitted
    {
        Statement memory statement = _requireOpen(task, _readSealed(task, first));
        _requireTwo(statement, _signerOf(second), Statements.differ(first.said, second.said));
        _punish(task, statement, Proof.TWO_STATEMENTS);
    }

    /// @inheritdoc IEvidence
    function proveVoteAndSeal(TaskId task, SignedVote calldata signed, SignedSealed calldata sealed_)
        external
        onlyCommitted
    {
        (Statement memory statement,) = _accuse(task, signed);
        bool isFault = Statements.differ(Statements.sealedOf(signed.vote), sealed_.said);
        _requireTwo(statement, _signerOf(sealed_), isFault);
        _punish(task, statement, Proof.TWO_STATEMENTS);
    }

    /// @dev Both by one account.
    function _requireTwo(Statement memory statement, address signer, bool isDifferent) private pure {
        if (!isDifferent || signer != statement.account) revert IRefusals.ProofInvalid("two statements");
    }

    /// @inheritdoc IEvidence
    function proveNoLeaf(TaskId task, SignedVote calldata signed) external onlyCommitted {
        (Statement memory statement, GameTerms storage terms) = _accuse(task, signed);
        Statements.Word word = signed.vote.word;
        bool isNaming = word == Statements.Word.REJECT_STATE || word == Statements.Word.REJECT_DELTA;
        bool isFault = isNaming && signed.vote.namedLeaf >= _leafCount(terms);
        if (!isFault) revert IRefusals.ProofInvalid("named leaf");
        _punish(task, statement, Proof.FALSE_WORD);
    }

    /// @inheritdoc IEvidence
    function proveRightStart(TaskId task, SignedVote calldata signed, StartProof calldata proof)
        external
        onlyCommitted
    {
        (Statement memory statement, GameTerms storage terms) = _accuse(task, signed);
        _requireWord(signed, Statements.Word.REJECT_START);
        if (!_isStartRight(task, terms, statement, proof)) revert IRefusals.ProofInvalid("start");
        _punish(task, statement, Proof.FALSE_WORD);
    }

    /// @inheritdoc IEvidence
    function proveRightDelta(TaskId task, SignedVote calldata signed, DeltaProof calldata proof)
        external
        onlyCommitted
    {
        (Statement memory statement, GameTerms storage terms) = _accuse(task, signed);
        _requireWord(signed, Statements.Word.REJECT_DELTA);
        bool isRight = _isDeltaRight(task, terms, statement, signed.vote.namedLeaf, proof);
        if (!isRight || proof.work.carriedRoot != _carriedRoot(proof.last.header)) {
            revert IRefusals.ProofInvalid("delta");
        }
        _punish(task, statement, Proof.FALSE_WORD);
    }

    /// @inheritdoc IEvidence
    function proveEnds(TaskId task, SignedVote calldata signed, Statements.Opening calldata opening)
        external
        onlyCommitted
    {
        (Statement memory statement, GameTerms storage terms) = _accuse(task, signed);
        bool isFault = terms.format == EXACT_FORMAT
            && Statements.fits(signed.vote, opening, statement.claim.account, statement.account)
            && !Statements.fitsExactly(signed.vote.word, opening);
        if (!isFault) revert IRefusals.ProofInvalid("ends");
        _punish(task, statement, Proof.FALSE_WORD);
    }

    function _requireWord(SignedVote calldata signed, Statements.Word word) private pure {
        if (signed.vote.word != word) revert IRefusals.ProofInvalid("word");
    }

    // Accusing
    function _begin(TaskId task) private returns (GameTerms storage) {
        game.sync(task);
        return _tasks[task].terms;
    }

    function _accuse(TaskId task, ClaimAt calldata claim)
        private
        returns (Statement memory statement, GameTerms storage terms)
    {
        terms = _begin(task);
        statement = _requireOpen(task, _readClaim(task, claim.round, claim.slot));
    }

    function _accuse(TaskId task, SignedVote calldata signed)
        private
        returns (Statement memory statement, GameTerms storage terms)
    {
        terms = _begin(task);
        statement = _requireOpen(task, _readVote(task, signed));
    }

    function _requireOpen(TaskId task, Statement memory statement) private view returns (Statement memory) {
        _requireAccused(statement);
        _requireWindow(0, _statementUntil(task, statement));
        return statement;
    }

    function _punish(TaskId task, Statement memory statement, Proof proof) private {
        game.punish(task, statement.seat, msg.sender, proof, statement.ref);
    }

    // Boundary 0 (11.4)
    /// @dev Whether the claim starts from the weights of its base root, at the right step, with the moments that it must have. Refuses what the chain
    /// does not know.
    function _isStartRight(TaskId task, GameTerms storage terms, Statement memory statement, StartProof calldata proof)
        private
        view
        returns (bool)
    {
        _openBase(task, statement.claim, proof.base);
        _openBoundary(statement.claim, 0, proof.first);
        StateHeader calldata header = proof.first.header;
        if (header.weightsRoot != proof.base.weightsRoot) return false;
        if (header.globalStep != uint256(statement.claim.round) * terms.innerSteps) return false;
        return _carriedRoot(header) == _carriedInto(task, terms, statement, proof.work);
    }

    function _carriedRoot(StateHeader calldata header) private pure returns (bytes32) {
        return Hashing.carriedRoot(header.firstMomentRoot, header.secondMomentRoot, header.localStep);
    }

    /// @dev What the claim must start with beside its weights: zeros, or what the solver's last merged claim of the same epoch has handed on.
    function _carriedInto(TaskId task, GameTerms storage terms, Statement memory statement, WorkProof calldata work)
        private
        view
        returns (bytes32)
    {
        bytes32 nothing = Hashing.carriedRoot(terms.zeroRoot, terms.zeroRoot, 0);
        if (terms.carryMoments == 0) return nothing;
        // A root that fell since may be posted again over other claims: what was merged before is forgotten.
        if (_roundAt(task, statement.claim.round).phase == Phase.UNDONE) revert IRefusals.RoundUndone(statement.claim.round);
        (bool isFound, uint256 round, uint256 slot) = _lastMerged(task, statement.claim);
        if (!isFound) return nothing;
        // Of this round's claim: the one before has the same domain, seat and account.
        Claim memory before = statement.claim;
        (bytes32 root, uint256 segments) = _claimAt(_roundAt(task, round), slot);
        _openWork(
            Claim(
                before.domain,
                uint32(round),
                uint32(slot),
                before.seat,
                before.account,
                before.joined,
                root,
                segments
            ),
            work
        );
        return work.carriedRoot;
    }

    /// @dev The last round before the claim's in which its solver was merged, and its slot there. Looked for in the claim's own epoch: an older one may
    /// be freed while the claim can still be proven wrong, its own cannot.
    function _lastMerged(TaskId task, Claim memory claim)
        private
        view
        returns (bool isFound, uint256 round, uint256 slot)
    {
        uint256 number = claim.seat & type(uint16).max;
        uint256 first = _max(claim.joined, claim.round / EPOCH_ROUNDS * EPOCH_ROUNDS);
        for (round = claim.round; round > first;) {
            Round storage here = _roundAt(task, --round);
            (uint256 pool, uint256 merged) = (here.pool, here.merged);
            if (here.phase != Phase.POSTED || pool >> number & 1 == 0) continue;
            slot = Slots.slotOf(pool, number);
            if (merged >> slot & 1 == 1) return (true, round, slot);
        }
        return (false, 0, 0);
    }

    // Pseudo-gradient (5, 11.4)
    /// @dev Whether a leaf of the pseudo-gradient is the encoded difference. A final leaf that has no encoding (another size, not finite)
    /// is the solver's own fault; of a broken global leaf nothing follows.
    function _isDeltaRight(
        TaskId task,
        GameTerms storage terms,
        Statement memory statement,
        uint256 leaf,
        DeltaProof calldata proof
    ) private view returns (bool) {
        _openWork(statement.claim, proof.work);
        _openBase(task, statement.claim, proof.base);
        _openBoundary(statement.claim, statement.claim.segments, proof.last);
        uint256 count = _leafCount(terms);
        _requireLeaf(proof.base.weightsRoot, proof.globalLeaf, leaf, count);
        _requireLeaf(proof.last.header.weightsRoot, proof.finalLeaf, leaf, count);
        _requireLeaf(proof.work.deltaRoot, proof.deltaLeaf, leaf, count);
        bytes memory globalLeaf = proof.globalLeaf.data;
        (bool isSound,) = OuterMath.deltaLeaf(globalLeaf, globalLeaf);
        if (!isSound) revert IRefusals.ProofInvalid("global leaf");
        (bool isEncoded, bytes memory expected) = OuterMath.deltaLeaf(globalLeaf, proof.finalLeaf.data);
        return isEncoded && keccak256(expected) == keccak256(proof.deltaLeaf.data);
    }

    function _leafCount(GameTerms storage terms) private view returns (uint256) {
        return PositionalMerkle.tensorLeafCount(terms.parameterCount);
    }

    // Views
    /// @inheritdoc IEvidence
    function committedBlock(address account, bytes32 digest) external view returns (uint256) {
        return _committedBlocks[account][digest];
    }

    /// @inheritdoc IEvidence
    function digestOf(address sender, bytes calldata data) public pure returns (bytes32) {
        return keccak256(abi.encode(sender, keccak256(data)));
    }
}
