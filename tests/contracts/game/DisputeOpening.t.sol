// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.28;

import {BoundaryProof, EXACT_FORMAT} from "../../../contracts/Types.sol";
import {GameTerms} from "../../../contracts/game/GameTypes.sol";
import {SignedVote} from "../../../contracts/game/StatementTypes.sol";
import {IDisputes} from "../../../contracts/game/interfaces/IDisputes.sol";
import {IRefusals} from "../../../contracts/game/interfaces/IRefusals.sol";
import {Hashing} from "../../../contracts/libraries/Hashing.sol";
import {Statements} from "../../../contracts/libraries/Statements.sol";
import {DisputeWorld} from "./DisputeWorld.sol";

/// @title Disputes are opened and narrowed down to one step.
contract DisputeOpeningTest is DisputeWorld {
    // What an end means ------------------------------------------------------------------------------------------
    function _notBound(bytes32 what, bytes32 expected, bytes32 actual) private pure returns (bytes memory) {
        return abi.encodeWithSelector(IDisputes.NotBound.selector, what, uint256(expected), uint256(actual));
    }

    // Opening ----------------------------------------------------------------------------------------------------
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
        address account = _claimant();
        roots = stepRoots();
        (BoundaryProof memory start, BoundaryProof memory end) = (boundaryProof(ofSegment), boundaryProof(0));
        _expect(_error(IRefusals.StatementUnknown.selector, 0, ofSlot));
        _postAs(id, account, roots, account, start, 0);
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
        (address auditor, address solver, bytes32 seal) =
            (_claimant(), accountOf(ofSeat), sealSalt(0, ofSlot, 0, 0));
        (BoundaryProof memory start, bytes32[] memory roots) = (boundaryProof(ofSegment), stepRoots());
        for (uint256 i = 0; i < 3; ++i) {
            BoundaryProof memory given = i == 0 ? start : boundaryProof(ofSegment);
            if (i == 1) given.salt = "other";
            if (i == 2) given = boundaryProof(ofSegment + 1);
            _expect(abi.encodeWithSelector(IRefusals.ProofInvalid.selector, bytes32("boundary")));
            _postAs(id, auditor, roots, i == 0 ? stranger : solver, given, seal);
        }
        for (uint256 i = 0; i < 2; ++i) {
            if (i == 1) roots[5] = "other end";
            vm.expectPartialRevert(IDisputes.NotBound.selector);
            vm.prank(auditor);
            game.postVoteRoots(task, id, roots, solver, start, start, i == 0 ? bytes32("other") : seal);
        }
        bytes32 right = roots[0];
        roots[0] = "elsewhere";
        _expect(_notBound("start", right, "elsewhere"));
        _postAs(id, auditor, roots, solver, start, seal);
        BoundaryProof memory end = boundaryProof(ofSegment + 1);
        _expect(_error(IRefusals.StatementUnknown.selector, 0, ofSlot));
        _as(auditor);
        game.postClaimRoots(task, id, roots, start, end);
        _post(id);
        _requireStage(id, IDisputes.Stage.NAME);
    }

    /// @dev An auditor that has replayed nothing signs for a start of its own making, from which no step moves. All of that would be true.
    function test_postVoteRoots_startNotInClaim_convicts() public {
        acceptAll(0);
        _takeVote(ACCEPT);
        BoundaryProof memory start = boundaryProof(ofSegment);
        (start.header.weightsRoot, start.header.firstMomentRoot) = (terms.zeroRoot, terms.zeroRoot);
        start.header.secondMomentRoot = terms.zeroRoot;
        bytes32[] memory roots = stepRoots();
        roots[0] = Hashing.stateRoot(start.header);
        (address auditor, address solver, bytes32 seal) =
            (_claimant(), accountOf(ofSeat), sealSalt(0, ofSlot, 0, 0));
        ofVote.startLeaf =
            Hashing.boundaryLeaf(ofVote.domain, 0, solver, uint32(ofSegment), start.salt, roots[0]);
        ofVote.seal = Statements.sealOf(ofVote, auditor, roots[5], seal);
        bytes32 id = _open();
        _expect(abi.encodeWithSelector(IRefusals.ProofInvalid.selector, bytes32("boundary")));
        _postAs(id, auditor, roots, solver, start, seal);
        // Nor can it bring the start that the claim has.
        (start, roots[0]) = (boundaryProof(ofSegment), stepRoots()[0]);
        vm.expectPartialRevert(IDisputes.NotBound.selector);
        vm.prank(auditor);
        game.postVoteRoots(task, id, roots, solver, start, start, seal);
        pass(RESPOND + 1);
        _end(id);
        _requireConvicted(id);
    }

    /// @dev Where a dispute is opened in the last block of its window, the solver of the claim is free while the auditor has its turn.
    function test_postVoteRoots_solverHasSettled_isTaken() public {
        GameTerms memory wanted = soundTerms();
        // Nothing else keeps the solver.
        wanted.windows.dispute = 2 * wanted.windows.auditMax + wanted.windows.ask;
        _replay(wanted);
        haltTask();
        postAll(0);
        _takeVote(ACCEPT);
        roll(roundOf(0).closed + terms.windows.dispute);
        bytes32 id = _open();
        pass(1);
        settleOne(ofSeat, 0);
        _post(id);
        _requireStage(id, IDisputes.Stage.NAME);
    }

    /// @dev In an exact task all steps of a replay may be right and the word about the claim false: no ask shows it. An ACCEPT of another end than the own
    /// one, a REJECT_STATE of the own one, and votes that name the right ends.
    function test_postVoteRoots_exactWordThatTheEndsDoNotBearOut_convicts() public {
        for (uint256 i = 0; i < 2; ++i) {
            _requireBorneOut(ACCEPT, i == 0);
            _requireBorneOut(REJECT_STATE, i == 0);
        }
    }

    function _requireBorneOut(uint256 word, bool isSame) private {
        bool isRight = isSame == (word == ACCEPT);
        GameTerms memory wanted = soundTerms();
        wanted.format = EXACT_FORMAT;
        _replay(wanted);
        _takeVote(word);
        (address auditor, address solver, bytes32 seal) =
            (_claimant(), accountOf(ofSeat), sealSalt(0, ofSlot, 0, 0));
        bytes32[] memory roots = stepRoots();
        if (!isSame) roots[5] = "other end";
        ofVote.seal = Statements.sealOf(ofVote, auditor, roots[5], seal);
        bytes32 id = _open();
        if (!isRight) vm.expectPartialRevert(IDisputes.NotBound.selector);
        this.postVoteAs(id, auditor, roots, solver, seal);
        if (isRight) return _requireStage(id, IDisputes.Stage.NAME);
        pass(RESPOND + 1);
        _end(id);
        _requireConvicted(id);
    }

    function postVoteAs(bytes32 id, address auditor, bytes32[] memory roots, address solver, bytes32 seal)
        external
    {
        _postAs(id, auditor, roots, solver, boundaryProof(ofSegment), seal);
    }

    /// @dev Other words say nothing of the ends: none is opened for them, in no format. So an auditor that said REJECT_START, and compared none, can answer.
    function test_postVoteRoots_wordWithoutEnd_needsNone() public {
        for (uint256 i = 0; i < 2; ++i) {
            GameTerms memory wanted = soundTerms();
            if (i == 1) wanted.format = EXACT_FORMAT;
            _replay(wanted);
            _takeVote(REJECT_START);
            bytes32 seal = sealSalt(0, ofSlot, 0, 0);
            (bytes32[] memory roots, BoundaryProof memory start) = (stepRoots(), boundaryProof(ofSegment));
            ofVote.seal = Statements.sealOf(ofVote, _claimant(), roots[5], seal);
            bytes32 id = _open();
            address solver = accountOf(ofSeat);
            _as(_claimant());
            game.postVoteRoots(task, id, roots, solver, start, start, seal);
            _requireStage(id, IDisputes.Stage.NAME);
        }
    }

    // The place of a start ---------------------------------------------------------------------------------------
    /// @dev Its own start has a step number that the chain does not give: the solver can post nothing, and is convicted as silent.
    function test_postClaimRoots_wrongGlobalStep_convicts() public {
        shiftSteps = 1;
        _replay();
        _requireUnpostable();
    }

    function test_postClaimRoots_moreLocalSteps_convicts() public {
        shiftLocal = 1;
        _replay();
        _requireUnpostable();
    }

    /// @dev No honest auditor seals such a start. A cheat that was given it by another cheat could not be proven wrong.
    function test_postVoteRoots_wrongGlobalStep_convicts() public {
        shiftSteps = 1;
        _replay();
        _takeVote(ACCEPT);
        _requireUnpostable();
    }

    function test_postVoteRoots_moreLocalSteps_convicts() public {
        shiftLocal = 1;
        _replay();
        // The first boundary is as it was: a slot is needed of which another segment was drawn.
        for (ofSlot = 0;; ++ofSlot) {
            ofSeat = seatIn(0, ofSlot);
            _takeVote(ACCEPT);
            if (ofSegment != 0) break;
        }
        _requireUnpostable();
    }

    function _requireUnpostable() private {
        bytes32 id = _open();
        vm.expectPartialRevert(IDisputes.WrongSteps.selector);
        this.postAs(id);
        pass(RESPOND + 1);
        _end(id);
        _requireConvicted(id);
    }

    function postAs(bytes32 id) external {
        _post(id);
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
