// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.28;

import {EXACT_FORMAT} from "../../../contracts/Types.sol";
import {GameTerms, SeatRole} from "../../../contracts/game/GameTypes.sol";
import {SignedVote, WorkProof} from "../../../contracts/game/StatementTypes.sol";
import {IEvidence} from "../../../contracts/game/interfaces/IEvidence.sol";
import {IRefusals} from "../../../contracts/game/interfaces/IRefusals.sol";
import {Statements} from "../../../contracts/libraries/Statements.sol";
import {Trees} from "../Trees.sol";
import {EvidenceWorld} from "./EvidenceWorld.sol";

/// @dev Seals, windows, and who answers.
contract EvidenceSealTest is EvidenceWorld {
    function test_proof_unsealed_isRefused() public {
        play(Twist.START_WEIGHTS);
        bytes memory data = startOf(0, solverSeat(0));
        bringSealed(stranger, data, missingSeal(stranger, data));
        seal_(stranger, data);
        bringSealed(stranger, data, missingSeal(stranger, data));
        pass(1);
        address thief = person("thief");
        bringSealed(thief, data, missingSeal(thief, data));
        // The thief seals the finder's own digest: that is of no use to it, and does the finder no harm.
        bytes32 digest = court().digestOf(stranger, data);
        vm.prank(thief);
        court().sealProof(digest);
        pass(1);
        bringSealed(thief, data, missingSeal(thief, data));
        bringSealed(stranger, data, "");
        assertTrue(isConvicted(solverSeat(0)), "convicted");
    }

    function test_proof_sealedTooLongAgo_isRefused() public {
        play(Twist.START_WEIGHTS);
        bytes memory data = startOf(0, solverSeat(0));
        seal_(stranger, data);
        uint256 since = now_();
        assertEq(court().sealedBlock(stranger, court().digestOf(stranger, data)), since, "kept");
        roll(since + tasks.limits().proofSealBlocks + 1);
        bringSealed(stranger, data, missingSeal(stranger, data));
        vm.roll(since + tasks.limits().proofSealBlocks);
        bringSealed(stranger, data, "");
    }
}

/// @dev Claims: an honest one withstands every proof, a false one the right one.
contract EvidenceClaimsTest is EvidenceWorld {
    function _assertStart(Twist twist) private {
        play(twist);
        bringInvalid(startOf(0, solverSeat(1)), "start");
        assertConvicts(solverSeat(0), startOf(0, solverSeat(0)));
    }

    function test_start_otherWeights_isConvicted() public {
        _assertStart(Twist.START_WEIGHTS);
    }

    function test_start_otherStep_isConvicted() public {
        _assertStart(Twist.START_STEP);
    }

    function test_start_otherLocalStep_isConvicted() public {
        _assertStart(Twist.START_LOCAL);
    }

    function test_start_otherMoment_isConvicted() public {
        _assertStart(Twist.START_MOMENT);
    }

    /// @dev Another boundary is none of boundary 0, and another base is not the round's.
    function test_start_otherOpenings_areRefused() public {
        play(Twist.NONE);
        (uint256 seat, IEvidence.ClaimAt memory at) = (solverSeat(0), claim(0, solverSeat(0)));
        IEvidence.StartProof memory proof = startProof(0, seat);
        proof.first = boundaryProof(0, seat, 1);
        bringInvalid(abi.encodeCall(IEvidence.proveStart, (task, at, proof)), "boundary");
        proof = startProof(0, seat);
        proof.first.header.weightsRoot = "other";
        bringInvalid(abi.encodeCall(IEvidence.proveStart, (task, at, proof)), "boundary");
        proof = startProof(0, seat);
        proof.base.momentumRoot = "other";
        bringInvalid(abi.encodeCall(IEvidence.proveStart, (task, at, proof)), "base");
        proof = startProof(0, solverSeat(1));
        bringInvalid(abi.encodeCall(IEvidence.proveStart, (task, at, proof)), "boundary");
    }

    function test_delta_otherQuantum_isConvicted() public {
        play(Twist.DELTA);
        bringInvalid(deltaAt(solverSeat(1), 1), "delta");
        bringInvalid(deltaAt(solverSeat(0), 0), "delta");
        assertConvicts(solverSeat(0), deltaAt(solverSeat(0), 1));
    }

    function test_delta_otherLength_isConvicted() public {
        play(Twist.DELTA_SIZE);
        assertConvicts(solverSeat(0), deltaAt(solverSeat(0), 1));
    }

    /// @dev A final leaf without an encoding is the solver's own fault.
    function test_delta_finalNotFinite_isConvicted() public {
        play(Twist.FINAL_INFINITE);
        assertConvicts(solverSeat(0), deltaAt(solverSeat(0), 1));
    }

    /// @dev A program may lead the weights to any finite number: the honest solver has a pseudo-gradient of it.
    function test_delta_finalFarOff_isRight() public {
        play(Twist.FINAL_FAR);
        assertEq(uint256(uint8(deltaOf(solverSeat(0), 1)[0])), 220, "the last scale");
        bringInvalid(deltaAt(solverSeat(0), 1), "delta");
    }

    function test_delta_finalOfOtherLength_isConvicted() public {
        play(Twist.BROKEN_LEAF);
        assertConvicts(solverSeat(0), deltaAt(solverSeat(0), 1));
    }

    function test_delta_otherOpenings_areRefused() public {
        play(Twist.NONE);
        (uint256 seat, IEvidence.ClaimAt memory at) = (solverSeat(0), claim(0, solverSeat(0)));
        IEvidence.DeltaProof memory proof = deltaProofOf(seat, 1);
        proof.last = boundaryProof(0, seat, 3);
        bringInvalid(abi.encodeCall(IEvidence.proveDelta, (task, at, 1, proof)), "boundary");
        proof = deltaProofOf(seat, 1);
        bringInvalid(abi.encodeCall(IEvidence.proveDelta, (task, at, 2, proof)), "leaf");
        bringInvalid(abi.encodeCall(IEvidence.proveDelta, (task, at, 1 + (1 << 40), proof)), "leaf");
        proof.work.deltaRoot = "other";
        bringInvalid(abi.encodeCall(IEvidence.proveDelta, (task, at, 1, proof)), "work");
        proof = deltaProofOf(seat, 1);
        proof.base.weightsRoot = "other";
        bringInvalid(abi.encodeCall(IEvidence.proveDelta, (task, at, 1, proof)), "base");
        proof = deltaProofOf(seat, 1);
        proof.finalLeaf = leafProof(solverSeat(1), 4, WEIGHTS, 1);
        bringInvalid(abi.encodeCall(IEvidence.proveDelta, (task, at, 1, proof)), "leaf");
        proof = deltaProofOf(seat, 1);
        proof.deltaLeaf.data[0] = ~proof.deltaLeaf.data[0];
        bringInvalid(abi.encodeCall(IEvidence.proveDelta, (task, at, 1, proof)), "leaf");
        proof = deltaProofOf(seat, 1);
        proof.globalLeaf.data[0] = ~proof.globalLeaf.data[0];
        bringInvalid(abi.encodeCall(IEvidence.proveDelta, (task, at, 1, proof)), "leaf");
    }

    /// @dev Of a global leaf that is no number nothing follows for any claim.
    function test_delta_globalNotFinite_convictsNobody() public {
        GameTerms memory t = soundTerms();
        globalBits = 0x7f800000;
        t.initialWeightsRoot = Trees.root(_tensor(0, 0, 0, WEIGHTS));
        play(t, Twist.NONE);
        bringInvalid(deltaAt(solverSeat(0), 1), "global leaf");
    }

    function test_scale_above_isConvicted() public {
        play(Twist.SCALE);
        bringInvalid(scaleAt(solverSeat(1), 1), "scale");
        bringInvalid(scaleAt(solverSeat(0), 0), "scale");
        // The scales of another's work say nothing of this claim.
        (IEvidence.ClaimAt memory at, WorkProof memory work) =
            (claim(0, solverSeat(1)), workProof(0, solverSeat(0)));
        bringInvalid(
            abi.encodeCall(IEvidence.proveScale, (task, at, 1, work, deltaProof(solverSeat(0), 1))), "work"
        );
        // Nor does a leaf that this claim's pseudo-gradient does not hold.
        work = workProof(0, solverSeat(1));
        bringInvalid(
            abi.encodeCall(IEvidence.proveScale, (task, at, 1, work, deltaProof(solverSeat(0), 1))), "leaf"
        );
        assertConvicts(solverSeat(0), scaleAt(solverSeat(0), 1));
    }

    function test_scale_isNoEncoding() public {
        play(Twist.SCALE);
        assertConvicts(solverSeat(0), deltaAt(solverSeat(0), 1));
    }

    function test_carried_other_isConvicted() public {
        play(Twist.CARRIED);
        bringInvalid(carriedOf(0, solverSeat(1)), "carried");
        // The work leaf of another's claim says nothing of this one.
        (uint256 seat, uint256 last) = (solverSeat(1), segmentsOf(0, solverSeat(1)));
        bytes memory borrowed = abi.encodeCall(
            IEvidence.proveCarried,
            (task, claim(0, seat), workProof(0, solverSeat(0)), boundaryProof(0, seat, last))
        );
        bringInvalid(borrowed, "work");
        assertConvicts(solverSeat(0), carriedOf(0, solverSeat(0)));
    }

    function test_carried_ofAnotherBoundary_isRefused() public {
        play(Twist.NONE);
        uint256 seat = solverSeat(0);
        bytes memory data = abi.encodeCall(
            IEvidence.proveCarried, (task, claim(0, seat), workProof(0, seat), boundaryProof(0, seat, 3))
        );
        bringInvalid(data, "boundary");
    }

    /// @dev A claim of two segments of four: its last boundary is 2, its work leaf 3.
    function test_shortClaim_isProvenByItsOwnBoundaries() public {
        GameTerms memory wanted = soundTerms();
        wanted.draws = 1;
        begin(wanted, 3, 6, 3);
        twists[solverSeat(0)] = Twist.DELTA;
        commitShort(0, solverSeat(0), 2);
        commitShort(0, solverSeat(1), 2);
        commit(0, solverSeat(2));
        sealAudits(0);
        bringInvalid(deltaAt(solverSeat(1), 1), "delta");
        bringInvalid(carriedOf(0, solverSeat(1)), "carried");
        assertConvicts(solverSeat(0), deltaAt(solverSeat(0), 1));
    }
}

/// @dev Moments that carry over from the last merged claim.
contract EvidenceCarryTest is EvidenceWorld {
    function _play() private {
        GameTerms memory t = soundTerms();
        t.carryMoments = 1;
        begin(t, 3, 6, 3);
    }

    function _withWork(uint256 round, uint256 seat, uint256 from) private view returns (bytes memory) {
        IEvidence.StartProof memory proof = startProof(round, seat);
        proof.work = workProof(from, seat);
        return abi.encodeCall(IEvidence.proveStart, (task, claim(round, seat), proof));
    }

    function test_start_carried_isRight() public {
        _play();
        playRound(0);
        for (uint256 i = 0; i < 3; ++i) {
            carriedFrom[1][solverSeat(i)] = 1;
        }
        playToDraw(1);
        bringInvalid(_withWork(1, solverSeat(0), 0), "start");
        bringInvalid(startOf(0, solverSeat(0)), "start");
        // Without the work leaf of the merged claim nothing is proven.
        bringInvalid(startOf(1, solverSeat(0)), "work");
    }

    function test_start_zerosInsteadOfCarried_isConvicted() public {
        _play();
        playRound(0);
        playToDraw(1);
        assertConvicts(solverSeat(0), _withWork(1, solverSeat(0), 0));
    }

    /// @dev Where the task carries no moments, what the merged claim ended with says nothing of the next start.
    function test_start_nothingIsCarried_isZero() public {
        GameTerms memory t = soundTerms();
        begin(t, 3, 6, 3);
        playRound(0);
        playToDraw(1);
        bringInvalid(startOf(1, solverSeat(0)), "start");
        bringInvalid(_withWork(1, solverSeat(0), 0), "start");
    }

    /// @dev The claim of round 0 was not merged: the next one starts with zeros.
    function test_start_nothingMerged_isZero() public {
        _play();
        playToDraw(0);
        acceptAll(0);
        post(0, 6, rootAfter(0), 7);
        carriedFrom[1][solverSeat(1)] = 1;
        carriedFrom[1][solverSeat(2)] = 1;
        playToDraw(1);
        bringInvalid(startOf(1, solverSeat(0)), "start");
        bringInvalid(_withWork(1, solverSeat(1), 0), "start");
    }

    /// @dev Round 1 did not merge it: round 0 is still the last one that did.
    function test_start_lastMerged_isSought() public {
        _play();
        playRound(0);
        for (uint256 i = 0; i < 3; ++i) {
            carriedFrom[1][solverSeat(i)] = 1;
        }
        playToDraw(1);
        acceptAll(1);
        post(1, 6, rootAfter(1), 7);
        carriedFrom[2][solverSeat(0)] = 1;
        carriedFrom[2][solverSeat(1)] = 2;
        playToDraw(2);
        bringInvalid(_withWork(2, solverSeat(0), 0), "start");
        bringInvalid(_withWork(2, solverSeat(1), 1), "start");
        bringInvalid(_withWork(2, solverSeat(1), 0), "work");
        assertConvicts(solverSeat(2), _withWork(2, solverSeat(2), 1));
    }

    /// @dev Seat 2 waits in round 2, where its slot is another's: round 1 is the last one that merged it.
    function test_start_roundWithoutTheSeat_isPassedOver() public {
        GameTerms memory t = soundTerms();
        (t.carryMoments, t.solverSeats, t.rounds) = (1, 3, 5);
        begin(t, 3, 6, 3);
        join(SeatRole.SOLVER, "larger", 1500);
        playRound(0);
        asSeat(solverSeat(3));
        tasks.leave(task, solverSeat(3));
        for (uint256 round = 1; round < 4; ++round) {
            for (uint256 i = 0; i < 2; ++i) {
                carriedFrom[round][solverSeat(i)] = round;
            }
        }
        carriedFrom[1][solverSeat(2)] = 1;
        playRound(1);
        assertEq(uint256(roundOf(2).pool), 11, "waits");
        playRound(2);
        assertEq(uint256(roundOf(3).pool), 7, "is back");
        playToDraw(3);
        assertConvicts(solverSeat(2), _withWork(3, solverSeat(2), 1));
    }

    /// @dev Moments start anew with an epoch: its rounds are the only ones that are kept for as long as a claim of it can be proven wrong. Seat 0 was
    /// merged in round 0, which is freed.
    function test_start_newEpoch_isZero() public {
        GameTerms memory t = soundTerms();
        (t.carryMoments, t.rounds) = (1, 20);
        begin(t, 3, 6, 3);
        for (uint256 round = 0; round < 16; ++round) {
            playToDraw(round);
            acceptAll(round);
            post(round, round == 0 ? 7 : 6, rootAfter(round), 7);
        }
        playToDraw(16);
        bringInvalid(startOf(16, solverSeat(0)), "start");
        passDuties16();
        rounds.stand(task, 16);
        settleAll(15);
        rounds.freeEpoch(task);
        twists[solverSeat(1)] = Twist.START_MOMENT;
        playToDraw(17);
        bringInvalid(startOf(17, solverSeat(0)), "start");
        assertConvicts(solverSeat(1), startOf(17, solverSeat(1)));
    }

    /// @dev Round 16 waits meanwhile.
    function passDuties16() private {
        roll(roundOf(15).closed + 2 * 30 + 720 + 1);
    }

    /// @dev Round 1 is undone; the seat of slot 0 has signed nothing that fell.
    function _playUndone(Twist twist) private {
        _play();
        playToDraw(0);
        acceptAll(0);
        post(0, 7, rootAfter(0), 6);
        twists[solverSeat(0)] = twist;
        playToDraw(1);
        fall(0);
    }

    /// @dev What was merged before a root fell is forgotten: moments of an undone round prove nothing.
    function test_start_undoneRound_provesNoMoments() public {
        _playUndone(Twist.NONE);
        bringVainly(_withWork(1, solverSeat(0), 0), abi.encodeWithSelector(IRefusals.RoundUndone.selector, 1));
    }

    /// @dev Its weights are those of its base root, which stays.
    function test_start_undoneRound_provesWeights() public {
        _playUndone(Twist.START_WEIGHTS);
        assertConvicts(solverSeat(0), startOf(1, solverSeat(0)));
    }
}

/// @dev Votes: an honest signer withstands every proof, a false one the right one.
contract EvidenceVotesTest is EvidenceWorld {
    function test_voteLeaf_other_isConvicted() public {
        play(Twist.NONE);
        SignedVote memory honest = voteWith(0, ACCEPT, 0);
        for (uint256 boundary = 0; boundary <= 5; ++boundary) {
            bringInvalid(voteLeafOf(honest, boundary), "vote leaf");
        }
        uint256 state = vm.snapshotState();
        Statements.Vote memory vote = voteOf(0, 0, 0, 0, ACCEPT);
        vote.endLeaf = "other";
        assertConvicts(auditorOf(0), voteLeafOf(said(vote), vote.segment + 1));
        vm.revertToState(state);
        vote = voteOf(0, 0, 0, 0, ACCEPT);
        vote.startLeaf = "other";
        assertConvicts(auditorOf(0), voteLeafOf(said(vote), vote.segment));
    }

    function test_voteLeaf_otherPath_isRefused() public {
        play(Twist.NONE);
        Statements.Vote memory vote = voteOf(0, 0, 0, 0, ACCEPT);
        vote.endLeaf = "other";
        SignedVote memory signed = said(vote);
        uint256 boundary = vote.segment + 1;
        bytes32[] memory leaves = claimLeaves(0, solverSeat(0));
        bytes32[] memory path = Trees.path(leaves, boundary);
        bringInvalid(
            abi.encodeCall(IEvidence.proveVoteLeaf, (task, signed, boundary, bytes32("third"), path)),
            "vote leaf"
        );
        bringInvalid(
            abi.encodeCall(
                IEvidence.proveVoteLeaf, (task, signed, boundary + (1 << 32), leaves[boundary], path)
            ),
            "vote leaf"
        );
        // What an UNSERVED leaves out contradicts nothing.
        signed = said(voteOf(0, 0, 0, 0, UNSERVED));
        for (uint256 i = 0; i <= 5; ++i) {
            bringInvalid(voteLeafOf(signed, i), "vote leaf");
        }
    }

    /// @dev After a reorganisation the solver commits the root of its whole claim again, with two segments: nodes of the tree would be its leaves. What an
    /// honest auditor has said of the whole claim must not be false of it.
    function test_voteLeaf_sameRootOfOtherLength_isRefused() public {
        GameTerms memory t = soundTerms();
        (t.draws, t.leastVerifiers) = (1, 3);
        begin(t, 3, 6, 3);
        commit(0, solverSeat(1));
        commit(0, solverSeat(2));
        (bytes32 root, bytes32 base) = (claimRoot(0, solverSeat(0)), roundOf(0).base);
        bytes32 beacon = rounds.beaconOf(task, 0);
        asSeat(solverSeat(0));
        rounds.commit(task, 0, base, beacon, root, 2);
        sealAudits(0);
        Statements.Vote memory vote = voteOf(0, 0, 0, 0, ACCEPT);
        bytes32[] memory nodes = Trees.level(claimLeaves(0, solverSeat(0)), 1);
        bytes32[] memory path = Trees.path(nodes, vote.segment);
        SignedVote memory signed = said(vote);
        bringInvalid(
            abi.encodeCall(
                IEvidence.proveVoteLeaf, (task, signed, vote.segment, nodes[vote.segment], path)
            ),
            "vote leaf"
        );
    }

    function test_twoVotes_thatDiffer_areConvicted() public {
        play(Twist.NONE);
        SignedVote memory accept = voteWith(0, ACCEPT, 0);
        bringInvalid(twoVotes(accept, accept), "two statements");
        bringInvalid(twoVotes(accept, voteWith(1, ACCEPT, 0)), "two statements");
        SignedVote memory other = sign(voteOf(0, 0, 0, 1, ACCEPT), accountOf(auditorOf(0)));
        bringInvalid(twoVotes(accept, other), "two statements");
        other = sign(voteOf(0, 0, 0, 0, REJECT_DELTA), accountOf(drawnSeat(0, 0, 0, 1)));
        bringInvalid(twoVotes(accept, other), "two statements");
        other = said(voteOf(0, 0, 0, 0, REJECT_DELTA));
        other.vs ^= bytes32(uint256(1));
        bringInvalid(twoVotes(accept, other), "two statements");
        other = said(voteOf(0, 0, 0, 0, REJECT_DELTA));
        assertConvicts(auditorOf(0), twoVotes(accept, other));
    }

    /// @dev A round that was dealt anew by a reorganisation: both votes were honest.
    function test_twoVotes_ofTwoChains_areRefused() public {
        play(Twist.NONE);
        SignedVote memory here = voteWith(0, ACCEPT, 0);
        for (uint256 i = 0; i < 4; ++i) {
            Statements.Vote memory vote = voteOf(0, 0, 0, 0, REJECT_DELTA);
            if (i == 0) vote.seed = "other";
            if (i == 1) vote.baseRoot = "other";
            if (i == 2) vote.claimRoot = "other";
            if (i == 3) vote.domain = "other";
            bringInvalid(twoVotes(here, said(vote)), "two statements");
            bringVainly(twoVotes(said(vote), here), unknown(0, 0));
        }
    }

    function test_twoSeals_thatDiffer_areConvicted() public {
        play(Twist.NONE);
        address auditor = accountOf(auditorOf(0));
        Statements.Sealed memory one = Statements.sealedOf(voteOf(0, 0, 0, 0, ACCEPT));
        Statements.Sealed memory two = Statements.sealedOf(voteOf(0, 0, 0, 0, ACCEPT));
        bringInvalid(twoSeals(sign(one, auditor), sign(two, auditor)), "two statements");
        two.seal = 0;
        bringInvalid(twoSeals(sign(one, auditor), sign(two, auditor)), "two statements");
        two.seal = "other";
        bringInvalid(twoSeals(sign(one, auditor), sign(two, stranger)), "two statements");
        bringVainly(twoSeals(sign(one, stranger), sign(two, auditor)), unknown(0, 0));
        assertConvicts(auditorOf(0), twoSeals(sign(one, auditor), sign(two, auditor)));
    }

    /// @dev A copy: `Statements.sealedOf` gives the vote's own memory.
    function test_voteAndSeal_thatDiffer_areConvicted() public {
        play(Twist.NONE);
        address auditor = accountOf(auditorOf(0));
        SignedVote memory accept = voteWith(0, ACCEPT, 0);
        Statements.Sealed memory sealed_ = sealOfVote(accept.vote);
        bringInvalid(voteAndSeal(accept, sign(sealed_, auditor)), "two statements");
        sealed_.rank = 1;
        bringInvalid(voteAndSeal(accept, sign(sealed_, auditor)), "two statements");
        (sealed_.rank, sealed_.seal) = (0, "other");
        bringInvalid(voteAndSeal(accept, sign(sealed_, accountOf(drawnSeat(0, 0, 0, 1)))), "two statements");
        SignedVote memory unserved = voteWith(0, UNSERVED, 0);
        bringInvalid(voteAndSeal(unserved, sign(sealed_, auditor)), "two statements");
        assertConvicts(auditorOf(0), voteAndSeal(accept, sign(sealed_, auditor)));
    }

    function test_noLeaf_isConvicted() public {
        play(Twist.NONE);
        for (uint256 word = REJECT_STATE; word <= REJECT_DELTA; ++word) {
            SignedVote memory right = voteWith(0, word, 3);
            bringInvalid(abi.encodeCall(IEvidence.proveNoLeaf, (task, right)), "named leaf");
            uint256 state = vm.snapshotState();
            assertConvicts(auditorOf(0), abi.encodeCall(IEvidence.proveNoLeaf, (task, voteWith(0, word, 4))));
            vm.revertToState(state);
        }
        bytes memory data = abi.encodeCall(IEvidence.proveNoLeaf, (task, voteWith(0, ACCEPT, 0)));
        bringInvalid(data, "named leaf");
        // A word that names no leaf beside a number is no vote.
        data = abi.encodeCall(IEvidence.proveNoLeaf, (task, voteWith(0, ACCEPT, 4)));
        bringVainly(data, unknown(0, 0));
    }

    function test_rejectStart_ofARightOne_isConvicted() public {
        play(Twist.START_MOMENT);
        bytes memory data = abi.encodeCall(
            IEvidence.proveRightStart, (task, voteWith(0, REJECT_START, 0), startProof(0, solverSeat(0)))
        );
        bringInvalid(data, "start");
        data = abi.encodeCall(
            IEvidence.proveRightStart, (task, voteWith(1, ACCEPT, 0), startProof(0, solverSeat(1)))
        );
        bringInvalid(data, "word");
        data = abi.encodeCall(
            IEvidence.proveRightStart, (task, voteWith(1, REJECT_START, 0), startProof(0, solverSeat(1)))
        );
        assertConvicts(auditorOf(1), data);
    }

    function _rightDelta(uint256 slot, uint256 word, uint32 named, uint256 shown)
        private
        view
        returns (bytes memory)
    {
        IEvidence.DeltaProof memory proof = deltaProofOf(solverSeat(slot), shown);
        return abi.encodeCall(IEvidence.proveRightDelta, (task, voteWith(slot, word, named), proof));
    }

    function test_rejectDelta_ofARightLeaf_isConvicted() public {
        play(Twist.DELTA);
        bringInvalid(_rightDelta(0, REJECT_DELTA, 1, 1), "delta");
        bringInvalid(_rightDelta(0, REJECT_DELTA, 1, 0), "leaf");
        bringInvalid(_rightDelta(1, ACCEPT, 0, 0), "word");
        assertConvicts(auditorOf(1), _rightDelta(1, REJECT_DELTA, 1, 1));
    }

    /// @dev Who rejected the work for what it hands on has not lied, whatever leaf it named.
    function test_rejectDelta_ofAnotherCarriedRoot_isNoLie() public {
        play(Twist.CARRIED);
        bringInvalid(_rightDelta(0, REJECT_DELTA, 1, 1), "delta");
    }

    // Exact tasks -----------------------------------------------------------------------------------------------------
    function _exact() private view returns (GameTerms memory t) {
        t = soundTerms();
        t.format = EXACT_FORMAT;
    }

    function _ends(SignedVote memory vote) private view returns (bytes memory) {
        uint256 solver = seatIn(0, vote.vote.slot);
        uint256 end = vote.vote.segment + 1;
        Statements.Opening memory opening = Statements.Opening(
            stateRootAt(0, solver, end),
            boundarySalt(0, solver, end),
            ownEndRoot(0, vote.vote.slot, vote.vote.segment, 0),
            sealSalt(0, vote.vote.slot, 0, 0)
        );
        return abi.encodeCall(IEvidence.proveEnds, (task, vote, opening));
    }

    function test_ends_exactAcceptOfOthers_isConvicted() public {
        apart = INSIDE;
        play(_exact(), Twist.NONE);
        bringInvalid(_ends(voteWith(0, REJECT_STATE, 0)), "ends");
        bringInvalid(_ends(voteWith(0, REJECT_DELTA, 0)), "ends");
        assertConvicts(auditorOf(0), _ends(voteWith(0, ACCEPT, 0)));
    }

    function test_ends_exactRejectOfEqual_isConvicted() public {
        play(_exact(), Twist.NONE);
        bringInvalid(_ends(voteWith(0, ACCEPT, 0)), "ends");
        bringInvalid(_ends(voteWith(0, REJECT_START, 0)), "ends");
        SignedVote memory vote = voteWith(0, REJECT_STATE, 0);
        bytes memory data = _ends(vote);
        apart = INSIDE;
        bringInvalid(_ends(vote), "ends");
        apart = 0;
        assertConvicts(auditorOf(0), data);
    }

    /// @dev Elsewhere two ends may differ: that is what limits and asks are for.
    function test_ends_inexactTask_isRefused() public {
        apart = INSIDE;
        play(Twist.NONE);
        bringInvalid(_ends(voteWith(0, ACCEPT, 0)), "ends");
    }
}
