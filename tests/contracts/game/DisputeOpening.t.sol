// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.28;

import {BoundaryProof, StateHeader} from "../../../contracts/Types.sol";
import {SeatStatus} from "../../../contracts/game/GameTypes.sol";
import {SignedVote} from "../../../contracts/game/StatementTypes.sol";
import {IDisputes} from "../../../contracts/game/interfaces/IDisputes.sol";
import {IRefusals} from "../../../contracts/game/interfaces/IRefusals.sol";
import {Statements} from "../../../contracts/libraries/Statements.sol";
import {DisputeWorld} from "./DisputeWorld.sol";

/// @title Disputes are opened and narrowed down to one step.
contract DisputeOpeningTest is DisputeWorld {
    // What an end means ------------------------------------------------------------------------------------------
    function _notBound(bytes32 what, bytes32 expected, bytes32 actual) private pure returns (bytes memory) {
        return abi.encodeWithSelector(IDisputes.NotBound.selector, what, uint256(expected), uint256(actual));
    }

    // Opening ----------------------------------------------------------------------------------------------------
    function test_disputeClaim_undecided_reverts() public {
        _expect(_error(IRefusals.ClaimUndecided.selector, 0, ofSlot));
        _open();
    }

    function test_disputeVote_undecided_reverts() public {
        _takeVote(ACCEPT);
        _expect(_error(IRefusals.ClaimUndecided.selector, 0, ofSlot));
        _open();
    }

    function test_dispute_acceptedOrVoid_opens() public {
        acceptAll(0);
        _requireStage(_open(), IDisputes.Stage.ROOTS);
        (ofSlot, ofSeat) = (2, seatIn(0, 2));
        _requireStage(_open2(), IDisputes.Stage.ROOTS);
    }

    function test_disputeClaim_voidByTime_opens() public {
        _expect(_error(IRefusals.ClaimUndecided.selector, 0, ofSlot));
        roll(roundOf(0).closed + 60);
        _open();
        roll(roundOf(0).closed + 61);
        _requireStage(_open(), IDisputes.Stage.ROOTS);
    }

    function test_disputeClaim_window_ends() public {
        acceptAll(0);
        roll(roundOf(0).closed + terms.windows.dispute);
        _open();
        pass(1);
        _expect(
            abi.encodeWithSelector(
                IRefusals.OutsideWindow.selector, 0, roundOf(0).closed + terms.windows.dispute, now_()
            )
        );
        _open2();
    }

    function test_disputeClaim_refusals() public {
        acceptAll(0);
        _expect(_error(IRefusals.StatementUnknown.selector, 0, ofSlot));
        ofSegment = 4;
        _open();
        (ofSegment, ofSlot) = (0, 3);
        _expect(_error(IRefusals.StatementUnknown.selector, 0, 3));
        _open();
        ofSlot = 1;
        _expect(abi.encodeWithSelector(IRefusals.OwnStatement.selector, _claimant()));
        _openAs(_claimant(), BOND, SALT);
        _expect(_error(IRefusals.WrongBond.selector, BOND, BOND - 1));
        _openAs(opener, BOND - 1, SALT);
        _expect(abi.encodeWithSelector(IRefusals.CreditTooSmall.selector, stranger, BOND, 0));
        _openAs(stranger, BOND, SALT);
        bytes32 id = _open();
        _expect(abi.encodeWithSelector(IDisputes.DisputeExists.selector, id));
        _openAs(opener, 2 * BOND, SALT);
        _expect(abi.encodeWithSelector(IRefusals.RoundUnknown.selector, 1));
        _as(opener);
        game.disputeClaim(task, 1, 0, 0, BOND, SALT);
    }

    function test_disputeVote_words() public {
        acceptAll(0);
        _takeVote(UNSERVED);
        _expect(_error(IRefusals.StatementUnknown.selector, 0, ofSlot));
        _open();
        _takeVote(ABSTAIN);
        _expect(_error(IRefusals.StatementUnknown.selector, 0, ofSlot));
        _open();
        // It has sealed something, and yet says that it was not served.
        _takeVote(ACCEPT);
        ofVote.word = Statements.Word.UNSERVED;
        _expect(_error(IRefusals.StatementUnknown.selector, 0, ofSlot));
        _open();
        _takeVote(ACCEPT);
        ofVote.seal = 0;
        _expect(_error(IRefusals.StatementUnknown.selector, 0, ofSlot));
        _open();
        uint256[4] memory words = [ACCEPT, REJECT_STATE, REJECT_DELTA, REJECT_START];
        for (uint256 i = 0; i < words.length; ++i) {
            _takeVote(words[i]);
            _openAs(opener, (i + 1) * BOND, bytes32(i));
        }
    }

    function test_disputeVote_otherChain_reverts() public {
        acceptAll(0);
        _takeVote(ACCEPT);
        Statements.Vote memory right = ofVote;
        for (uint256 i = 0; i < 5; ++i) {
            ofVote = right;
            if (i == 0) ofVote.domain = "other";
            if (i == 1) ofVote.baseRoot = "other";
            if (i == 2) ofVote.claimRoot = "other";
            if (i == 3) ofVote.seed = "other";
            if (i == 4) ofVote.segment = 4;
            _expect(_error(IRefusals.StatementUnknown.selector, 0, ofSlot));
            _open();
        }
        ofVote = right;
        // Signed by a seat of another role.
        SignedVote memory signed = _sign(ofVote, accountOf(whistleblowerSeat(0)));
        _expect(_error(IRefusals.StatementUnknown.selector, 0, ofSlot));
        _as(opener);
        game.disputeVote(task, signed, BOND, SALT);
        _expect(abi.encodeWithSelector(IRefusals.OwnStatement.selector, _claimant()));
        _openAs(_claimant(), BOND, SALT);
    }

    function test_dispute_settled_isUnknown() public {
        acceptAll(0);
        vm.prank(submitter);
        rounds.halt(task);
        postAll(0);
        bytes32 id = _open();
        passDuties();
        _expect(_error(IRefusals.NotSettleable.selector, ofSeat, 0));
        this.settleSeat(ofSeat, 0);
        _end(id);
        assertEq(uint256(tasks.seatAt(task, ofSeat).status), uint256(SeatStatus.CLOSED), "silent");
        (ofSlot, ofSeat) = (0, seatIn(0, 0));
        settleOne(ofSeat, 0);
        _expect(_error(IRefusals.StatementUnknown.selector, 0, 0));
        _open2();
    }

    function settleSeat(uint256 seat, uint256 until) external {
        if (refusal.length != 0) vm.expectRevert(refusal);
        delete refusal;
        settleOne(seat, until);
    }

    // Roots ------------------------------------------------------------------------------------------------------
    function test_postRoots_refusals() public {
        acceptAll(0);
        bytes32 id = _open();
        _expect(_error2(IRefusals.NotHolder.selector, _claimant(), stranger));
        _postRoots(id, stranger, stepRoots());
        _expect(_notBound("count", bytes32(uint256(6)), bytes32(uint256(5))));
        _postRoots(id, _claimant(), new bytes32[](5));
        bytes32[] memory roots = stepRoots();
        bytes32 right = roots[0];
        roots[0] = "elsewhere";
        _expect(_notBound("start", right, "elsewhere"));
        _postRoots(id, _claimant(), roots);
        (roots[0], right, roots[5]) = (right, roots[5], "elsewhere");
        _expect(_notBound("end", right, "elsewhere"));
        _postRoots(id, _claimant(), roots);
        StateHeader memory header = stepState(0);
        address account = _claimant();
        roots = stepRoots();
        _expect(_error(IRefusals.StatementUnknown.selector, 0, ofSlot));
        _as(account);
        game.postVoteRoots(task, id, roots, account, header, 0, 0);
        (BoundaryProof memory start, BoundaryProof memory end) = (boundaryProof(ofSegment), boundaryProof(0));
        _expect(abi.encodeWithSelector(IRefusals.ProofInvalid.selector, bytes32("boundary")));
        _as(account);
        game.postClaimRoots(task, id, roots, start, end);
        _post(id);
        _expect(
            _error(
                IRefusals.WrongTurn.selector, uint256(IDisputes.Stage.NAME), uint256(IDisputes.Stage.ROOTS)
            )
        );
        _post(id);
        _requireStage(id, IDisputes.Stage.NAME);
    }

    function test_postVoteRoots_refusals() public {
        acceptAll(0);
        _takeVote(ACCEPT);
        bytes32 id = _open();
        (bytes32[] memory roots, bytes32 salt) = (stepRoots(), boundarySalt(0, ofSeat, ofSegment));
        (address auditor, address solver, bytes32 seal) =
            (_claimant(), accountOf(ofSeat), sealSalt(0, ofSlot, 0, 0));
        for (uint256 i = 0; i < 4; ++i) {
            bytes32[] memory given = stepRoots();
            if (i == 3) given[5] = "other end";
            StateHeader memory start = stepState(0);
            vm.expectPartialRevert(IDisputes.NotBound.selector);
            vm.prank(auditor);
            game.postVoteRoots(
                task,
                id,
                given,
                i == 0 ? stranger : solver,
                start,
                i == 1 ? bytes32("other") : salt,
                i == 2 ? bytes32("other") : seal
            );
        }
        roots[0] = "elsewhere";
        bytes32 right = stepRoots()[0];
        _expect(_notBound("start", right, "elsewhere"));
        _postAs(id, auditor, roots, solver, salt, seal);
        (BoundaryProof memory a, BoundaryProof memory b) =
            (boundaryProof(ofSegment), boundaryProof(ofSegment + 1));
        _expect(_error(IRefusals.StatementUnknown.selector, 0, ofSlot));
        _as(auditor);
        game.postClaimRoots(task, id, roots, a, b);
        _post(id);
        _requireStage(id, IDisputes.Stage.NAME);
    }

    /// @dev Its own start has a step number that the chain does not give: the solver can post nothing, and is convicted as silent.
    function test_postClaimRoots_wrongGlobalStep_convicts() public {
        shiftSteps = 1;
        _replay();
        bytes32 id = _open();
        vm.expectPartialRevert(IDisputes.WrongSteps.selector);
        this.postAs(id);
        pass(RESPOND + 1);
        _end(id);
        _requireConvicted(id);
    }

    /// @dev An auditor that was given such a start shows it and everything that it computed from it.
    function test_postVoteRoots_wrongGlobalStep_isNoFaultOfTheAuditor() public {
        shiftSteps = 1;
        _replay();
        _takeVote(ACCEPT);
        bytes32 id = _playToTrace();
        pass(RESPOND + 1);
        _end(id);
        _requireCleared(id);
    }

    function postAs(bytes32 id) external {
        bytes32[] memory roots = stepRoots();
        (BoundaryProof memory start, BoundaryProof memory end) =
            (boundaryProof(ofSegment), boundaryProof(ofSegment + 1));
        vm.prank(accountOf(ofSeat));
        game.postClaimRoots(task, id, roots, start, end);
    }

    // Steps and traces -------------------------------------------------------------------------------------------
    function test_nameStep_refusals() public {
        acceptAll(0);
        bytes32 id = _open();
        _post(id);
        bytes32[] memory roots = stepRoots();
        _expect(_error2(IDisputes.NotOpener.selector, opener, stranger));
        _as(stranger);
        game.nameStep(task, id, 0, roots);
        _expect(abi.encodeWithSelector(IDisputes.NotBelow.selector, bytes32("step"), 5, 5));
        _name(id, 5);
        roots[3] = "other";
        vm.expectPartialRevert(IDisputes.NotBound.selector);
        vm.prank(opener);
        game.nameStep(task, id, 0, roots);
        _name(id, 4);
        _requireStage(id, IDisputes.Stage.TRACE);
    }

    // Gas --------------------------------------------------------------------------------------------------------
    /// @dev The first bond of a task, in the dearest window; later ones find written pots.
    function test_gas_opening() public {
        acceptAll(0);
        bytes memory call_ = abi.encodeCall(IDisputes.disputeClaim, (task, 0, ofSlot, ofSegment, BOND, SALT));
        uint256 clean = vm.snapshotState();
        _requireGas("claim", call_, 200_000);
        vm.revertToState(clean);
        _takeVote(ACCEPT);
        SignedVote memory signed = _sign(ofVote, accountOf(ofAuditor));
        bytes memory ofVote_ = abi.encodeCall(IDisputes.disputeVote, (task, signed, BOND, "2"));
        _requireGas("vote", ofVote_, 245_000);
        vm.revertToState(clean);
        isVote = false;
        pass(2 * terms.windows.auditMax);
        _requireGas("claim, decided by time", call_, 180_000);
        _requireGas("vote, decided by time, second bond of the task", ofVote_, 210_000);
    }

    event Gas(string what, uint256 gas);

    /// @dev As a transaction of its own: 21,000, the bytes, and cold accounts.
    function _requireGas(string memory what, bytes memory call_, uint256 most) private {
        uint256 sum = 21_000;
        for (uint256 i = 0; i < call_.length; ++i) {
            sum += call_[i] == 0 ? 4 : 16;
        }
        _cool();
        vm.prank(opener);
        (bool isDone, bytes memory answer) = address(game).call(call_);
        sum += vm.lastCallGas().gasTotalUsed;
        if (!isDone) {
            assembly ("memory-safe") {
                revert(add(answer, 32), mload(answer))
            }
        }
        emit Gas(what, sum);
        assertTrue(sum <= most, what);
    }

    function _cool() private {
        address[6] memory all = [
            address(game),
            address(tasks),
            address(rounds),
            address(votes),
            address(purse),
            address(settlement)
        ];
        for (uint256 i = 0; i < all.length; ++i) {
            vm.cool(all[i]);
        }
    }
}
