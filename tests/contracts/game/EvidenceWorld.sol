// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.28;

import {SignedVote} from "../../../contracts/game/StatementTypes.sol";
import {IEvidence} from "../../../contracts/game/interfaces/IEvidence.sol";
import {StatementWorld} from "./StatementWorld.sol";

/// @title Proofs of every kind, sealed and brought: what tests of evidence share.
abstract contract EvidenceWorld is StatementWorld {
    function court() internal view returns (IEvidence) {
        return IEvidence(game);
    }

    function seal_(address finder, bytes memory data) internal {
        bytes32 digest = court().digestOf(finder, data);
        vm.prank(finder);
        court().commitProof(digest);
    }

    function claim(uint256 round, uint256 seat) internal view returns (IEvidence.ClaimAt memory) {
        return IEvidence.ClaimAt(uint32(round), uint32(slotOf(round, seat)));
    }

    // Proofs on claims
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

    // Proofs on votes
    function twoVotes(SignedVote memory a, SignedVote memory b) internal view returns (bytes memory) {
        return abi.encodeCall(IEvidence.proveTwoVotes, (task, a, b));
    }
}
