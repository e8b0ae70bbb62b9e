// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.28;

import {SignedSealed, SignedVote} from "../../../contracts/game/StatementTypes.sol";
import {IEvidence} from "../../../contracts/game/interfaces/IEvidence.sol";
import {IRefusals} from "../../../contracts/game/interfaces/IRefusals.sol";
import {Statements} from "../../../contracts/libraries/Statements.sol";
import {EvidenceWorld} from "./EvidenceWorld.sol";

/// @title Who answers for a statement, about which chain, and until when.
contract StatementModuleTest is EvidenceWorld {
    function test_proof_ownStatement_isRefused() public {
        play(Twist.START_WEIGHTS);
        address own = accountOf(solverSeat(0));
        bytes memory data = startOf(0, solverSeat(0));
        seal_(own, data);
        pass(1);
        bringSealed(own, data, abi.encodeWithSelector(IRefusals.OwnStatement.selector, own));
    }

    /// @dev While a round runs its claims are open to proof; then until the end of `dispute`.
    function test_proof_window_endsWithDispute() public {
        begin(3, 6, 3);
        twists[solverSeat(0)] = Twist.START_WEIGHTS;
        commit(0, solverSeat(0));
        uint256 open = vm.snapshotState();
        assertConvicts(solverSeat(0), startOf(0, solverSeat(0)));
        vm.revertToState(open);
        commit(0, solverSeat(1));
        commit(0, solverSeat(2));
        bytes memory data = startOf(0, solverSeat(0));
        uint256 until = close(0) + terms.windows.dispute;
        roll(until);
        seal_(stranger, data);
        roll(until + 1);
        bringSealed(
            stranger, data, abi.encodeWithSelector(IRefusals.OutsideWindow.selector, 0, until, until + 1)
        );
        vm.roll(until - 1);
        seal_(stranger, data);
        vm.roll(until);
        bringSealed(stranger, data, "");
        assertTrue(isConvicted(solverSeat(0)), "in the last block");
    }

    /// @dev Nobody has called since the closing block: the window counts from it all the same.
    function test_proof_roundNotSynced_isSyncedFirst() public {
        begin(3, 6, 3);
        twists[solverSeat(0)] = Twist.START_WEIGHTS;
        commit(0, solverSeat(0));
        uint256 closing = roundOf(0).opened + terms.windows.trainMax;
        bytes memory data = startOf(0, solverSeat(0));
        roll(closing + terms.windows.dispute);
        seal_(stranger, data);
        pass(1);
        bringSealed(
            stranger,
            data,
            abi.encodeWithSelector(
                IRefusals.OutsideWindow.selector, 0, closing + terms.windows.dispute, now_()
            )
        );
    }

    function test_proof_noClaim_isUnknown() public {
        begin(3, 6, 3);
        twists[solverSeat(0)] = Twist.START_WEIGHTS;
        bytes memory data = startOf(0, solverSeat(0));
        bringVainly(data, unknown(0, 0));
        IEvidence.ClaimAt memory at = IEvidence.ClaimAt(1, 0);
        data = abi.encodeCall(IEvidence.proveStart, (task, at, startProof(0, solverSeat(0))));
        bringVainly(data, abi.encodeWithSelector(IRefusals.RoundUnknown.selector, 1));
        at = IEvidence.ClaimAt(0, type(uint32).max);
        data = abi.encodeCall(IEvidence.proveStart, (task, at, startProof(0, solverSeat(0))));
        bringVainly(data, unknown(0, type(uint32).max));
    }

    /// @dev The digest of a seal is none of a vote: each is signed by its own type.
    function test_seal_signedAsVote_isUnknown() public {
        play(Twist.NONE);
        SignedVote memory accept = voteWith(0, ACCEPT, 0);
        SignedSealed memory copied;
        (copied.said, copied.r, copied.vs) = (sealOfVote(accept.vote), accept.r, accept.vs);
        copied.said.seal = "other";
        bringInvalid(voteAndSeal(accept, copied), "two statements");
    }

    /// @dev A vote's window is that of the round; a seat that signed for nothing it was drawn for answers all the same.
    function test_vote_notDrawn_answers() public {
        play(Twist.NONE);
        uint256 other = drawnSeat(0, 1, 0, 0);
        assertTrue(other != auditorOf(0), "another seat");
        Statements.Vote memory vote = voteOf(0, 0, 0, 0, ACCEPT);
        vote.endLeaf = "other";
        assertConvicts(other, voteLeafOf(sign(vote, accountOf(other)), vote.segment + 1));
    }

    function test_vote_window_endsWithDispute() public {
        play(Twist.NONE);
        bytes memory data = twoVotes(voteWith(0, ACCEPT, 0), said(voteOf(0, 0, 0, 0, REJECT_DELTA)));
        uint256 until = roundOf(0).closed + terms.windows.dispute;
        roll(until);
        seal_(stranger, data);
        roll(until + 1);
        bringSealed(
            stranger, data, abi.encodeWithSelector(IRefusals.OutsideWindow.selector, 0, until, until + 1)
        );
    }
}
