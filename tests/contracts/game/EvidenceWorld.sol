// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.28;

import {GameTerms, SeatStatus} from "../../../contracts/game/GameTypes.sol";
import {Modules} from "../../../contracts/game/Module.sol";
import {SignedSealed, SignedVote} from "../../../contracts/game/StatementTypes.sol";
import {IEvidence} from "../../../contracts/game/interfaces/IEvidence.sol";
import {IRefusals} from "../../../contracts/game/interfaces/IRefusals.sol";
import {Statements} from "../../../contracts/libraries/Statements.sol";
import {Trees} from "../Trees.sol";
import {StatementWorld} from "./StatementWorld.sol";

/// @title Proofs of every kind, sealed and brought: what tests of evidence share.
abstract contract EvidenceWorld is StatementWorld {
    function makeEvidence(Modules memory m) internal virtual override returns (address) {
        return create("Evidence.sol:Evidence", abi.encode(m));
    }

    function court() internal view returns (IEvidence) {
        return IEvidence(evidence);
    }

    /// @dev Members join, then one claim becomes false, all commit, the audits are drawn.
    function play(GameTerms memory t, Twist twist) internal {
        begin(t, 3, 6, 3);
        twists[solverSeat(0)] = twist;
        playToDraw(0);
    }

    function play(Twist twist) internal {
        play(soundTerms(), twist);
    }

    function seal_(address finder, bytes memory data) internal {
        bytes32 digest = court().digestOf(finder, data);
        vm.prank(finder);
        court().sealProof(digest);
    }

    /// @dev Sealed by a stranger, brought one block later.
    function bring(bytes memory data) internal {
        seal_(stranger, data);
        pass(1);
        bringSealed(stranger, data, "");
    }

    /// @dev The same, refused with these bytes.
    function bringVainly(bytes memory data, bytes memory refusal) internal {
        seal_(stranger, data);
        pass(1);
        bringSealed(stranger, data, refusal);
    }

    function bringInvalid(bytes memory data, bytes32 what) internal {
        bringVainly(data, abi.encodeWithSelector(IRefusals.ProofInvalid.selector, what));
    }

    function bringSealed(address finder, bytes memory data, bytes memory refusal) internal {
        vm.prank(finder);
        (bool isDone, bytes memory answer) = evidence.call(data);
        assertEq(isDone ? bytes("") : answer, refusal, "what the court says");
    }

    function isConvicted(uint256 seat) internal view returns (bool) {
        return tasks.seatAt(task, seat).status == SeatStatus.CLOSED;
    }

    /// @dev What the court says to whom brings these bytes unsealed.
    function missingSeal(address finder, bytes memory data) internal view returns (bytes memory) {
        return abi.encodeWithSelector(IRefusals.SealMissing.selector, court().digestOf(finder, data));
    }

    /// @dev Brings it, refused as long as it is not sealed, and the seat is closed.
    function assertConvicts(uint256 seat, bytes memory data) internal {
        assertTrue(!isConvicted(seat), "open before");
        bringSealed(stranger, data, missingSeal(stranger, data));
        bring(data);
        assertTrue(isConvicted(seat), "convicted");
        assertTrue(purse.creditOf(stranger) != 0, "the finder's share");
        bringVainly(data, abi.encodeWithSelector(IRefusals.SeatClosed.selector, seat));
        assertBooks();
    }

    function claim(uint256 round, uint256 seat) internal view returns (IEvidence.ClaimAt memory) {
        return IEvidence.ClaimAt(uint32(round), uint32(slotOf(round, seat)));
    }

    // Proofs on claims ----------------------------------------------------------------------------------------------
    function startProof(uint256 round, uint256 seat)
        internal
        view
        returns (IEvidence.StartProof memory proof)
    {
        (proof.first, proof.base) = (boundaryProof(round, seat, 0), outerOpening(round));
    }

    function startOf(uint256 round, uint256 seat) internal view returns (bytes memory) {
        return abi.encodeCall(IEvidence.proveStart, (task, claim(round, seat), startProof(round, seat)));
    }

    function deltaProofOf(uint256 seat, uint256 leaf)
        internal
        view
        returns (IEvidence.DeltaProof memory proof)
    {
        (proof.work, proof.base) = (workProof(0, seat), outerOpening(0));
        proof.last = boundaryProof(0, seat, segmentsOf(0, seat));
        proof.globalLeaf = leafProof(0, 0, WEIGHTS, leaf);
        proof.finalLeaf = leafProof(seat, segmentsOf(0, seat), WEIGHTS, leaf);
        proof.deltaLeaf = deltaProof(seat, leaf);
    }

    function deltaAt(uint256 seat, uint256 leaf) internal view returns (bytes memory) {
        return abi.encodeCall(IEvidence.proveDelta, (task, claim(0, seat), leaf, deltaProofOf(seat, leaf)));
    }

    function scaleAt(uint256 seat, uint256 leaf) internal view returns (bytes memory) {
        return abi.encodeCall(
            IEvidence.proveScale, (task, claim(0, seat), leaf, workProof(0, seat), deltaProof(seat, leaf))
        );
    }

    function carriedOf(uint256 round, uint256 seat) internal view returns (bytes memory) {
        return abi.encodeCall(
            IEvidence.proveCarried,
            (
                task,
                claim(round, seat),
                workProof(round, seat),
                boundaryProof(round, seat, segmentsOf(round, seat))
            )
        );
    }

    // Proofs on votes -----------------------------------------------------------------------------------------------
    function auditorOf(uint256 slot) internal view returns (uint256) {
        return drawnSeat(0, slot, 0, 0);
    }

    function said(Statements.Vote memory vote) internal view returns (SignedVote memory) {
        return sign(vote, accountOf(drawnSeat(vote.round, vote.slot, 0, 0)));
    }

    function voteWith(uint256 slot, uint256 word, uint32 named) internal view returns (SignedVote memory) {
        Statements.Vote memory vote = voteOf(0, slot, 0, 0, word);
        vote.namedLeaf = named;
        return said(vote);
    }

    function voteLeafOf(SignedVote memory vote, uint256 boundary) internal view returns (bytes memory) {
        bytes32[] memory leaves = claimLeaves(0, seatIn(0, vote.vote.slot));
        return abi.encodeCall(
            IEvidence.proveVoteLeaf, (task, vote, boundary, leaves[boundary], Trees.path(leaves, boundary))
        );
    }

    function twoVotes(SignedVote memory a, SignedVote memory b) internal view returns (bytes memory) {
        return abi.encodeCall(IEvidence.proveTwoVotes, (task, a, b));
    }

    function twoSeals(SignedSealed memory a, SignedSealed memory b) internal view returns (bytes memory) {
        return abi.encodeCall(IEvidence.proveTwoSeals, (task, a, b));
    }

    function voteAndSeal(SignedVote memory a, SignedSealed memory b) internal view returns (bytes memory) {
        return abi.encodeCall(IEvidence.proveVoteAndSeal, (task, a, b));
    }

    function sealOfVote(Statements.Vote memory vote) internal pure returns (Statements.Sealed memory) {
        return abi.decode(abi.encode(Statements.sealedOf(vote)), (Statements.Sealed));
    }

    function unknown(uint256 round, uint256 slot) internal pure returns (bytes memory) {
        return abi.encodeWithSelector(IRefusals.StatementUnknown.selector, round, slot);
    }
}
