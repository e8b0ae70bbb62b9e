// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.28;

import {BoundaryProof, LeafProof, StateHeader, StepFacts, TaskId} from "../../../contracts/Types.sol";
import {Referee} from "../../../contracts/Referee.sol";
import {
    GameTerms,
    NO_DRAW,
    Proof,
    RoundView,
    SeatRole,
    SeatStatus
} from "../../../contracts/game/GameTypes.sol";
import {Modules} from "../../../contracts/game/Module.sol";
import {SignedVote} from "../../../contracts/game/StatementTypes.sol";
import {IDisputes} from "../../../contracts/game/interfaces/IDisputes.sol";
import {IRefusals} from "../../../contracts/game/interfaces/IRefusals.sol";
import {ISettlement} from "../../../contracts/game/interfaces/ISettlement.sol";
import {IReferee} from "../../../contracts/interfaces/IReferee.sol";
import {IStepProofs} from "../../../contracts/interfaces/IStepProofs.sol";
import {Hashing} from "../../../contracts/libraries/Hashing.sol";
import {Statements} from "../../../contracts/libraries/Statements.sol";
import {Trees} from "../Trees.sol";
import {GameStep} from "./GameStep.sol";

/// @title Disputes with the real referee: every move, every clock with its side silent, every fault, and who pays.
contract DisputesTest is GameStep {
    bytes32 private constant SALT = "salt";
    uint256 private constant BOND = 30;
    uint256 private constant RESPOND = 10;
    uint256 private constant STEP = 1;

    IDisputes private game;
    address private opener;
    Referee private referee;
    bool private isVote;
    uint256 private ofAuditor;
    Statements.Vote private ofVote;
    bytes private refusal;

    function makeHelpers() internal override {
        referee = new Referee();
    }

    function makeDisputes(Modules memory m) internal override returns (address) {
        game = IDisputes(create("Disputes.sol:Disputes", abi.encode(m, referee)));
        return address(game);
    }

    function setUp() public override {
        super.setUp();
        opener = person("opener");
        begin(3, 6, 3);
        playToDraw(0);
        (ofSeat, ofSlot, ofSegment, ofStep) = (seatIn(0, 1), 1, 2, STEP);
        give(opener, 1000);
    }

    // Moves -------------------------------------------------------------------------------------------------------
    function _expect(bytes memory error_) private {
        refusal = error_;
    }

    /// @dev The next call is `account`'s; it fails as expected.
    function _as(address account) private {
        if (refusal.length != 0) vm.expectRevert(refusal);
        delete refusal;
        vm.prank(account);
    }

    function _claimant() private view returns (address) {
        return accountOf(isVote ? ofAuditor : ofSeat);
    }

    function _accused() private view returns (uint256) {
        return isVote ? ofAuditor : ofSeat;
    }

    function _openAs(address account, uint256 bondWei, bytes32 salt) private returns (bytes32) {
        if (isVote) {
            SignedVote memory signed = _sign(ofVote, accountOf(ofAuditor));
            _as(account);
            return game.disputeVote(task, signed, bondWei, salt);
        }
        _as(account);
        return game.disputeClaim(task, 0, ofSlot, ofSegment, bondWei, salt);
    }

    function _sign(Statements.Vote memory vote, address account) private view returns (SignedVote memory) {
        (bytes32 r, bytes32 vs) =
            abi.decode(signAs(account, digestOf(Statements.hash(vote))), (bytes32, bytes32));
        return SignedVote(vote, r, vs);
    }

    function _open() private returns (bytes32) {
        return _openAs(opener, BOND, SALT);
    }

    /// @dev What the primary of draw 0 says of the claim.
    function _takeVote(uint256 word) private {
        isVote = true;
        ofVote = voteOf(0, ofSlot, 0, 0, word);
        (ofAuditor, ofSegment) = (drawnSeat(0, ofSlot, 0, 0), ofVote.segment);
    }

    function _post(bytes32 id) private {
        _postRoots(id, _claimant(), _roots());
    }

    /// @dev An auditor's last state is what it sealed.
    function _roots() private view returns (bytes32[] memory roots) {
        roots = stepRoots();
        if (isVote) roots[5] = ownEndRoot(0, ofSlot, ofSegment, uint256(ofVote.word));
    }

    function _postRoots(bytes32 id, address account, bytes32[] memory roots) private {
        if (isVote) {
            _postAs(
                id,
                account,
                roots,
                accountOf(ofSeat),
                boundarySalt(0, ofSeat, ofSegment),
                sealSalt(0, ofSlot, 0, 0)
            );
            return;
        }
        (BoundaryProof memory start, BoundaryProof memory end) =
            (boundaryProof(ofSegment), boundaryProof(ofSegment + 1));
        _as(account);
        game.postClaimRoots(task, id, roots, start, end);
    }

    function _postAs(
        bytes32 id,
        address account,
        bytes32[] memory roots,
        address solver,
        bytes32 salt,
        bytes32 sealed_
    ) private {
        StateHeader memory start = stepState(0);
        _as(account);
        game.postVoteRoots(task, id, roots, solver, start, salt, sealed_);
    }

    function _name(bytes32 id, uint256 step) private {
        bytes32[] memory roots = _roots();
        ofStep = step;
        _as(opener);
        game.nameStep(task, id, step, roots);
    }

    function _trace(bytes32 id) private {
        _traceWith(id, stepFacts(), stepState(ofStep), stepState(ofStep + 1), proveTrace());
    }

    function _traceWith(
        bytes32 id,
        StepFacts memory facts,
        StateHeader memory start,
        StateHeader memory end,
        IStepProofs.TraceProof memory proof
    ) private {
        bytes32 root = Trees.root(traceRoots());
        address account = _claimant();
        _as(account);
        game.postTrace(task, id, facts, root, start, end, proof);
    }

    function _demand(bytes32 id, uint256 count) private {
        IDisputes.LeafDemand[] memory list = new IDisputes.LeafDemand[](count);
        for (uint256 i = 0; i < count; ++i) {
            // Of node 0: its output, then W.
            list[i] = IDisputes.LeafDemand(proveNode(0), uint32(i % 2), uint32(i % 2));
        }
        _demandList(id, list);
    }

    function _demandList(bytes32 id, IDisputes.LeafDemand[] memory list) private {
        StepFacts memory facts = stepFacts();
        _as(opener);
        game.demandLeaves(task, id, facts, list);
    }

    /// @dev Leaves from .. to - 1 of what `_demand` demanded.
    function _show(bytes32 id, uint256 from, uint256 to) private {
        IReferee.BufferOpening[] memory openings = new IReferee.BufferOpening[](to - from);
        for (uint256 i = from; i < to; ++i) {
            openings[i - from] = openBuffer(i % 2 == 0 ? TENSOR : 0, uint32(i % 2));
        }
        _showAs(id, _claimant(), openings);
    }

    function _showAs(bytes32 id, address account, IReferee.BufferOpening[] memory openings) private {
        StateHeader memory start = stepState(ofStep);
        _as(account);
        game.showLeaves(task, id, start, openings);
    }

    function _prove(bytes32 id, uint32 element) private {
        _proveAs(id, opener, element);
    }

    function _proveAs(bytes32 id, address account, uint32 element) private {
        (StepFacts memory facts, StateHeader memory start) = (stepFacts(), stepState(ofStep));
        (IReferee.NodeProof memory node, bytes memory openings) = (proveNode(0), openProduct(element));
        _as(account);
        game.proveOperation(task, id, facts, start, node, element, openings);
    }

    function _proveDatum(bytes32 id, uint32 buffer, uint256 position) private {
        (StepFacts memory facts, StateHeader memory start) = (stepFacts(), stepState(ofStep));
        IReferee.BufferOpening memory opening = openBuffer(buffer, uint32(position / 128));
        LeafProof memory datum;
        if (buffer == SCALARS) {
            datum = proveScalarLeaf(position == 0 ? start.globalStep : start.localStep);
        } else {
            datum = proveTokenLeaf(
                rowStart(position / ROW_TOKENS) + position % ROW_TOKENS + (buffer == LABELS ? 1 : 0)
            );
        }
        _as(opener);
        game.proveDatum(task, id, facts, start, buffer, position, opening, datum);
    }

    function _end(bytes32 id) private {
        _as(stranger);
        game.end(task, id);
    }

    /// @dev To the stage where proofs are brought.
    function _playToTrace() private returns (bytes32 id) {
        id = _open();
        _post(id);
        _name(id, STEP);
        _trace(id);
    }

    function _stageOf(bytes32 id) private view returns (IDisputes.Stage stage) {
        (stage,,,,,) = game.disputeOf(task, id);
    }

    function _clockOf(bytes32 id) private view returns (uint256 clockBlock) {
        (, clockBlock,,,,) = game.disputeOf(task, id);
    }

    // What an end means ---------------------------------------------------------------------------------------------
    function _requireStage(bytes32 id, IDisputes.Stage expected) private view {
        assertEq(uint256(_stageOf(id)), uint256(expected), "stage");
    }

    function _requireConvicted(bytes32 id) private view {
        _requireStage(id, IDisputes.Stage.CONVICTED);
        uint256 seat = _accused();
        assertEq(uint256(tasks.seatAt(task, seat).status), uint256(SeatStatus.CLOSED), "closed");
        assertEq(game.openOn(task, seat), 0, "nothing is open");
        assertEq(purse.creditOf(opener), 1000 + 120, "the bond and the finder's share");
        assertBooks();
    }

    function _requireCleared(bytes32 id) private view {
        _requireStage(id, IDisputes.Stage.CLEARED);
        assertEq(uint256(tasks.seatAt(task, _accused()).status), uint256(SeatStatus.OPEN), "unharmed");
        assertEq(game.openOn(task, _accused()), 0, "nothing is open");
        assertEq(purse.creditOf(opener), 1000 - BOND, "the bond is lost");
        assertEq(creditOf(_accused()), BOND / 2, "half of it is the claimant's");
        assertEq(purse.burnPending(), BOND / 2, "half is burned");
        assertBooks();
    }

    function _error(bytes4 selector, uint256 a, uint256 b) private pure returns (bytes memory) {
        return abi.encodeWithSelector(selector, a, b);
    }

    function _notBound(bytes32 what, bytes32 expected, bytes32 actual) private pure returns (bytes memory) {
        return abi.encodeWithSelector(IDisputes.NotBound.selector, what, uint256(expected), uint256(actual));
    }

    // Opening -----------------------------------------------------------------------------------------------------
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

    function _open2() private returns (bytes32) {
        return _openAs(opener, BOND, "other salt");
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

    /// @dev Somebody else opened one just before.
    function test_dispute_outrun_paysWhatIsDue() public {
        acceptAll(0);
        _open();
        uint256 before = purse.creditOf(opener);
        _openAs(opener, 5 * BOND, "second");
        assertEq(before - purse.creditOf(opener), 2 * BOND, "the second costs two");
        assertBooks();
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

    /// @dev The k-th open one costs k bonds; each that ends makes the next one cheaper.
    function test_dispute_manyAtOnce() public {
        acceptAll(0);
        bytes32[] memory ids = new bytes32[](5);
        for (uint256 i = 0; i < ids.length; ++i) {
            ids[i] = _openAs(opener, (i + 1) * BOND, bytes32(i));
        }
        assertEq(purse.creditOf(opener), 1000 - 15 * BOND, "one, two, three, four, five");
        _post(ids[2]);
        pass(RESPOND + 1);
        _end(ids[2]);
        assertEq(purse.creditOf(_claimant()), 3 * BOND / 2, "half of three bonds");
        _end(ids[4]);
        assertEq(uint256(tasks.seatAt(task, ofSeat).status), uint256(SeatStatus.CLOSED), "the fifth convicts");
        _end(ids[0]);
        _end(ids[1]);
        _end(ids[3]);
        assertEq(purse.creditOf(opener), 1000 - 3 * BOND + 120, "the others are returned");
        assertEq(purse.potOf(pots[2]), 0, "no bond is left");
        assertBooks();
    }

    function test_end_laterRound_namesItsStatement() public {
        acceptAll(0);
        postAll(0);
        playToDraw(1);
        acceptAll(1);
        (uint256 seat, uint256 slot) = (seatIn(1, 1), 1);
        _as(opener);
        bytes32 id = game.disputeClaim(task, 1, slot, 2, BOND, SALT);
        pass(RESPOND + 1);
        vm.expectEmit(true, true, true, true, address(settlement));
        emit ISettlement.StatementConvicted(task, seat, Proof.DISPUTED, claimRef(1, slot), opener);
        _end(id);
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

    // Roots -------------------------------------------------------------------------------------------------------
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

    function _error2(bytes4 selector, address a, address b) private pure returns (bytes memory) {
        return abi.encodeWithSelector(selector, a, b);
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

    uint32 private shiftSteps;

    function stateAt(uint256 round, uint256 seat, uint256 boundary)
        internal
        view
        override
        returns (StateHeader memory state)
    {
        state = super.stateAt(round, seat, boundary);
        state.globalStep += shiftSteps;
    }

    /// @dev Another world, with what was changed since.
    function _replay() private {
        delete pots;
        deploy();
        begin(3, 6, 3);
        playToDraw(0);
        acceptAll(0);
        ofSeat = seatIn(0, ofSlot);
        give(opener, 1000);
    }

    // Steps and traces --------------------------------------------------------------------------------------------
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

    function test_postTrace_refusals() public {
        acceptAll(0);
        bytes32 id = _open();
        _post(id);
        _name(id, STEP);
        (StepFacts memory facts, IStepProofs.TraceProof memory proof) = (stepFacts(), proveTrace());
        (StateHeader memory start, StateHeader memory end) = (stepState(1), stepState(2));
        facts.tokenBytes = 4;
        _expectTrace(id, IStepProofs.FactsMismatch.selector, facts, start, end, proof);
        facts.tokenBytes = 2;
        _expectTrace(id, IStepProofs.HeaderMismatch.selector, facts, end, end, proof);
        _expectTrace(id, IStepProofs.HeaderMismatch.selector, facts, start, start, proof);
        proof.head = "other";
        _expectTrace(id, IStepProofs.HeadMismatch.selector, facts, start, end, proof);
        proof = proveTrace();
        proof.weightsPath[0] = "other";
        _expectTrace(id, IStepProofs.OutputMismatch.selector, facts, start, end, proof);
        proof = proveTrace();
        proof.firstMomentPath[0] = "other";
        _expectTrace(id, IStepProofs.OutputMismatch.selector, facts, start, end, proof);
        proof = proveTrace();
        proof.secondMomentPath[0] = "other";
        _expectTrace(id, IStepProofs.OutputMismatch.selector, facts, start, end, proof);
        proof = proveTrace();
        _expect(_error2(IRefusals.NotHolder.selector, _claimant(), stranger));
        _as(stranger);
        game.postTrace(task, id, facts, 0, start, end, proof);
        _trace(id);
        _requireStage(id, IDisputes.Stage.PROVE);
    }

    function _expectTrace(
        bytes32 id,
        bytes4 selector,
        StepFacts memory facts,
        StateHeader memory start,
        StateHeader memory end,
        IStepProofs.TraceProof memory proof
    ) private {
        bytes32 root = Trees.root(traceRoots());
        address account = _claimant();
        vm.expectPartialRevert(selector);
        vm.prank(account);
        game.postTrace(task, id, facts, root, start, end, proof);
    }

    /// @dev A middle state with other step numbers cannot be shown: the opener names it, the claimant is silent.
    function test_postTrace_wrongSteps_convicts() public {
        acceptAll(0);
        jump = 3;
        bytes32 id = _open();
        _post(id);
        // As the state after the step, and as the one before it.
        for (uint256 named = 2; named < 4; ++named) {
            uint256 clean = vm.snapshotState();
            _name(id, named);
            vm.expectPartialRevert(IDisputes.WrongSteps.selector);
            this.traceAs(id);
            pass(RESPOND + 1);
            _end(id);
            _requireConvicted(id);
            vm.revertToState(clean);
        }
    }

    function traceAs(bytes32 id) external {
        bytes32 root = Trees.root(traceRoots());
        (StepFacts memory facts, IStepProofs.TraceProof memory proof) = (stepFacts(), proveTrace());
        (StateHeader memory start, StateHeader memory end) = (stepState(ofStep), stepState(ofStep + 1));
        vm.prank(_claimant());
        game.postTrace(task, id, facts, root, start, end, proof);
    }

    /// @dev The step whose local step is too great by one; 0: none.
    uint256 private jump;

    function stepState(uint256 step) internal view override returns (StateHeader memory header) {
        header = super.stepState(step);
        if (jump != 0 && step == jump) ++header.localStep;
    }

    // Proofs --------------------------------------------------------------------------------------------------------
    function test_proveOperation_lie_convicts() public {
        acceptAll(0);
        (lieBuffer, lieElement, lie) = (TENSOR, 130, 1);
        bytes32 id = _playToTrace();
        _expect(abi.encodeWithSelector(IDisputes.NoFault.selector, 129));
        _prove(id, 129);
        _prove(id, 130);
        _requireConvicted(id);
        assertEq(rounds.fatesOf(task, 0).accepted >> ofSlot & 1, 0, "the claim is void");
    }

    function test_proveOperation_lieOfAuditor_convicts() public {
        acceptAll(0);
        _takeVote(REJECT_STATE);
        (lieBuffer, lieElement, lie) = (TENSOR, 130, 1);
        bytes32 id = _playToTrace();
        _prove(id, 130);
        _requireConvicted(id);
        assertEq(rounds.fatesOf(task, 0).accepted >> ofSlot & 1, 1, "the claim is not touched");
    }

    /// @dev Nothing about an honest claim can be proven, whatever is tried in every place of the node.
    function test_proveOperation_honest_isCleared() public {
        acceptAll(0);
        bytes32 id = _playToTrace();
        uint32[4] memory elements = [uint32(0), 127, 128, 299];
        for (uint256 i = 0; i < elements.length; ++i) {
            _expect(abi.encodeWithSelector(IDisputes.NoFault.selector, elements[i]));
            _prove(id, elements[i]);
        }
        for (uint32 buffer = TOKENS; buffer <= SCALARS; ++buffer) {
            for (uint256 position = 0; position < 3; ++position) {
                uint256 at = buffer == SCALARS ? position : 79 * position;
                _expect(abi.encodeWithSelector(IDisputes.NoFault.selector, at));
                _proveDatum(id, buffer, at);
            }
        }
        pass(RESPOND + 1);
        _end(id);
        _requireCleared(id);
        _expect(abi.encodeWithSelector(IRefusals.NothingOpen.selector, id));
        _prove(id, 0);
        _expect(abi.encodeWithSelector(IRefusals.NothingOpen.selector, id));
        _end(id);
    }

    function test_proveDatum_lies_convict() public {
        acceptAll(0);
        uint256 clean = vm.snapshotState();
        uint32[4] memory buffers = [TOKENS, LABELS, SCALARS, SCALARS];
        uint32[4] memory elements = [uint32(140), 79, 0, 2];
        for (uint256 i = 0; i < buffers.length; ++i) {
            (lieBuffer, lieElement, lie) = (buffers[i], elements[i], 1);
            bytes32 id = _playToTrace();
            _proveDatum(id, buffers[i], elements[i]);
            _requireConvicted(id);
            vm.revertToState(clean);
        }
    }

    function test_prove_refusals() public {
        acceptAll(0);
        (lieBuffer, lieElement, lie) = (TENSOR, 130, 1);
        bytes32 id = _open();
        _post(id);
        _name(id, STEP);
        uint256 trace = uint256(IDisputes.Stage.TRACE);
        _expect(_error(IRefusals.WrongTurn.selector, trace, uint256(IDisputes.Stage.PROVE)));
        _prove(id, 130);
        _trace(id);
        _expect(_error2(IDisputes.NotOpener.selector, opener, stranger));
        _proveAs(id, stranger, 130);
        (StepFacts memory facts, StateHeader memory start) = (stepFacts(), stepState(ofStep));
        IReferee.BufferOpening memory opening;
        LeafProof memory datum;
        vm.expectPartialRevert(IDisputes.NotBelow.selector);
        vm.prank(opener);
        game.proveDatum(task, id, facts, start, 6, 0, opening, datum);
        vm.expectPartialRevert(IDisputes.NotBelow.selector);
        vm.prank(opener);
        game.proveDatum(task, id, facts, start, 2, 0, opening, datum);
        vm.expectPartialRevert(IStepProofs.LeafUnknown.selector);
        vm.prank(opener);
        game.proveDatum(task, id, facts, start, 5, 3, opening, datum);
        vm.expectPartialRevert(IReferee.WrongLeafBytes.selector);
        vm.prank(opener);
        game.proveDatum(task, id, facts, start, 5, 0, opening, datum);
        (opening, datum) = (openBuffer(SCALARS, 0), proveScalarLeaf(start.globalStep));
        opening.leaves[0] ^= 0x01;
        vm.expectPartialRevert(IStepProofs.LeafMismatch.selector);
        vm.prank(opener);
        game.proveDatum(task, id, facts, start, uint32(SCALARS), 0, opening, datum);
        // Tokens that the dataset does not have.
        (opening, datum) = (openBuffer(TOKENS, 0), proveTokenLeaf(rowStart(0)));
        datum.data[0] ^= 0x01;
        vm.expectPartialRevert(IStepProofs.LeafMismatch.selector);
        vm.prank(opener);
        game.proveDatum(task, id, facts, start, uint32(TOKENS), 0, opening, datum);
        // The scalars of another step are none of this one's, nor are invented ones.
        (opening, datum) = (openBuffer(SCALARS, 0), proveScalarLeaf(start.globalStep + 1));
        vm.expectPartialRevert(IStepProofs.LeafMismatch.selector);
        vm.prank(opener);
        game.proveDatum(task, id, facts, start, uint32(SCALARS), 0, opening, datum);
        datum = proveScalarLeaf(start.globalStep);
        datum.data[0] ^= 0x01;
        vm.expectPartialRevert(IStepProofs.LeafMismatch.selector);
        vm.prank(opener);
        game.proveDatum(task, id, facts, start, uint32(SCALARS), 0, opening, datum);
        start.localStep++;
        vm.expectPartialRevert(IStepProofs.HeaderMismatch.selector);
        vm.prank(opener);
        game.proveDatum(task, id, facts, start, 5, 0, opening, datum);
        facts.tokenBytes = 1;
        vm.expectPartialRevert(IStepProofs.FactsMismatch.selector);
        vm.prank(opener);
        game.proveDatum(task, id, facts, start, 5, 0, opening, datum);
        roll(_clockOf(id) + 1);
        _expect(abi.encodeWithSelector(IRefusals.OutsideWindow.selector, 0, now_() - 1, now_()));
        _prove(id, 130);
    }

    function test_prove_lastBlock_convicts() public {
        acceptAll(0);
        (lieBuffer, lieElement, lie) = (TENSOR, 130, 1);
        bytes32 id = _playToTrace();
        roll(_clockOf(id));
        _prove(id, 130);
        _requireConvicted(id);
    }

    // Leaves ----------------------------------------------------------------------------------------------------------
    function test_leaves_shownThenProven() public {
        acceptAll(0);
        (lieBuffer, lieElement, lie) = (TENSOR, 130, 1);
        bytes32 id = _playToTrace();
        _demand(id, 8);
        _show(id, 0, 3);
        _requireStage(id, IDisputes.Stage.LEAVES);
        roll(_clockOf(id));
        _show(id, 3, 8);
        _requireStage(id, IDisputes.Stage.LAST);
        roll(_clockOf(id));
        _prove(id, 130);
        _requireConvicted(id);
    }

    function test_leaves_provenBeforeTheyAreShown() public {
        acceptAll(0);
        (lieBuffer, lieElement, lie) = (TENSOR, 130, 1);
        bytes32 id = _playToTrace();
        _demand(id, 1);
        _prove(id, 130);
        _requireConvicted(id);
    }

    function test_leaves_withheld_convicts() public {
        acceptAll(0);
        bytes32 id = _playToTrace();
        _demand(id, 8);
        _show(id, 0, 7);
        roll(_clockOf(id));
        _expect(_error(IRefusals.NotLate.selector, now_(), now_()));
        _end(id);
        pass(1);
        _expect(abi.encodeWithSelector(IRefusals.OutsideWindow.selector, 0, now_() - 1, now_()));
        _show(id, 7, 8);
        _end(id);
        _requireConvicted(id);
    }

    /// @dev Known and open (docs/decisions/0031): who has a whole trace with one wrong element, serves it to nobody and shows the eight leaves that are
    /// demanded goes free, unless one of them is the leaf with the lie. The opener holds the proof of another's trace only if it knows its bytes.
    function test_hole_traceServedToNobody_isCleared() public {
        acceptAll(0);
        (lieBuffer, lieElement, lie) = (TENSOR, 130, 1);
        bytes32 id = _playToTrace();
        IDisputes.LeafDemand[] memory list = new IDisputes.LeafDemand[](8);
        IReferee.BufferOpening[] memory shown = new IReferee.BufferOpening[](8);
        // All leaves of node 0 but leaf 1 of its output, and some of node 1.
        uint32[8] memory places = [uint32(0), 0, 1, 1, 1, 1, 2, 2];
        uint32[8] memory leaves = [uint32(0), 2, 0, 1, 0, 1, 0, 1];
        for (uint256 i = 0; i < 8; ++i) {
            bool isTokens = places[i] == 2;
            list[i] = IDisputes.LeafDemand(proveNode(isTokens ? 1 : 0), isTokens ? 1 : places[i], leaves[i]);
            shown[i] = openBuffer(isTokens ? TOKENS : places[i] == 0 ? TENSOR : 0, leaves[i]);
        }
        _demandList(id, list);
        _showAs(id, _claimant(), shown);
        _requireStage(id, IDisputes.Stage.LAST);
        pass(RESPOND + 1);
        _end(id);
        _requireCleared(id);
    }

    function test_leaves_once() public {
        acceptAll(0);
        bytes32 id = _playToTrace();
        _demand(id, 2);
        uint256 leaves = uint256(IDisputes.Stage.LEAVES);
        _expect(_error(IRefusals.WrongTurn.selector, leaves, uint256(IDisputes.Stage.PROVE)));
        _demand(id, 1);
        _show(id, 0, 2);
        _expect(_error(IRefusals.WrongTurn.selector, leaves + 1, uint256(IDisputes.Stage.PROVE)));
        _demand(id, 1);
        pass(RESPOND + 1);
        _end(id);
        _requireCleared(id);
    }

    function test_demandLeaves_refusals() public {
        acceptAll(0);
        bytes32 id = _playToTrace();
        _expect(abi.encodeWithSelector(IDisputes.NothingDemanded.selector));
        _demand(id, 0);
        _expect(abi.encodeWithSelector(IDisputes.NotBelow.selector, bytes32("leaves"), 9, 9));
        _demand(id, 9);
        IDisputes.LeafDemand[] memory list = new IDisputes.LeafDemand[](1);
        list[0] = IDisputes.LeafDemand(proveNode(0), 2, 0);
        _expect(abi.encodeWithSelector(IStepProofs.ConstantDemanded.selector, 6));
        _demandList(id, list);
        list[0] = IDisputes.LeafDemand(proveNode(0), 3, 0);
        _expect(abi.encodeWithSelector(IStepProofs.PlaceUnknown.selector, 3, 2));
        _demandList(id, list);
        list[0] = IDisputes.LeafDemand(proveNode(0), 0, 3);
        _expect(_error(IStepProofs.LeafUnknown.selector, 3, 3));
        _demandList(id, list);
        list[0] = IDisputes.LeafDemand(proveNode(0), 0, 0);
        list[0].node.number = 1;
        vm.expectPartialRevert(IReferee.NodeMismatch.selector);
        this.demandAs(id, list);
        list[0] = IDisputes.LeafDemand(proveNode(0), 0, 0);
        StepFacts memory facts = stepFacts();
        _expect(_error2(IDisputes.NotOpener.selector, opener, stranger));
        _as(stranger);
        game.demandLeaves(task, id, facts, list);
    }

    function demandAs(bytes32 id, IDisputes.LeafDemand[] memory list) external {
        _demandList(id, list);
    }

    function test_showLeaves_refusals() public {
        acceptAll(0);
        bytes32 id = _playToTrace();
        _demand(id, 2);
        IReferee.BufferOpening[] memory openings = new IReferee.BufferOpening[](1);
        openings[0] = openBuffer(TENSOR, 0);
        _expect(_error2(IRefusals.NotHolder.selector, _claimant(), stranger));
        _showAs(id, stranger, openings);
        address account = _claimant();
        StateHeader memory start = stepState(ofStep);
        openings[0] = openBuffer(TENSOR, 1);
        _tryShow(id, account, start, openings, IStepProofs.LeafMismatch.selector);
        openings[0] = openBuffer(TOKENS, 0);
        _tryShow(id, account, start, openings, IReferee.BufferMismatch.selector);
        openings[0] = openBuffer(0, 1);
        _tryShow(id, account, start, openings, IReferee.WrongLeafBytes.selector);
        openings[0] = openBuffer(TENSOR, 0);
        _tryShow(id, account, stepState(3), openings, IStepProofs.HeaderMismatch.selector);
        _tryShow(id, account, start, new IReferee.BufferOpening[](3), IDisputes.NotBelow.selector);
        _show(id, 0, 2);
        _requireStage(id, IDisputes.Stage.LAST);
    }

    function _tryShow(
        bytes32 id,
        address account,
        StateHeader memory start,
        IReferee.BufferOpening[] memory openings,
        bytes4 selector
    ) private {
        vm.expectPartialRevert(selector);
        vm.prank(account);
        game.showLeaves(task, id, start, openings);
    }

    // Silence -----------------------------------------------------------------------------------------------------
    /// @dev Who is silent at its turn loses, one block after its clock and no sooner.
    function test_end_silenceAtEachTurn() public {
        acceptAll(0);
        for (uint256 asVote = 0; asVote < 2; ++asVote) {
            if (asVote == 1) _takeVote(REJECT_DELTA);
            for (uint256 turns = 0; turns < 6; ++turns) {
                uint256 clean = vm.snapshotState();
                bytes32 id = _playTurns(turns);
                roll(_clockOf(id));
                _expect(_error(IRefusals.NotLate.selector, now_(), now_()));
                _end(id);
                pass(1);
                _end(id);
                if (turns % 2 == 0) _requireConvicted(id);
                else _requireCleared(id);
                vm.revertToState(clean);
            }
        }
    }

    /// @dev Each move in the last block that takes it: no dispute lasts longer than six answers.
    function _playTurns(uint256 turns) private returns (bytes32 id) {
        id = _open();
        uint256 opened = now_();
        for (uint256 turn = 0; turn < turns; ++turn) {
            assertEq(_clockOf(id), opened + (turn + 1) * RESPOND, "a turn");
            roll(_clockOf(id));
            if (turn == 0) _post(id);
            if (turn == 1) _name(id, STEP);
            if (turn == 2) _trace(id);
            if (turn == 3) _demand(id, 8);
            if (turn == 4) _show(id, 0, 8);
        }
        assertTrue(_clockOf(id) <= opened + 6 * RESPOND, "six turns at most");
    }

    function test_moves_late_areRefused() public {
        acceptAll(0);
        for (uint256 turns = 0; turns < 5; ++turns) {
            uint256 clean = vm.snapshotState();
            bytes32 id = _playTurns(turns);
            roll(_clockOf(id) + 1);
            _expect(abi.encodeWithSelector(IRefusals.OutsideWindow.selector, 0, now_() - 1, now_()));
            if (turns == 0) _post(id);
            if (turns == 1) _name(id, STEP);
            if (turns == 2) _trace(id);
            if (turns == 3) _demand(id, 8);
            if (turns == 4) _show(id, 0, 8);
            vm.revertToState(clean);
        }
    }

    /// @dev The seat is convicted elsewhere: every move is refused, whoever opened gets its bond back at once.
    function test_end_seatClosed_isMoot() public {
        acceptAll(0);
        for (uint256 turns = 0; turns < 6; ++turns) {
            uint256 clean = vm.snapshotState();
            bytes32 id = _playTurns(turns);
            punish(ofSeat, Proof.DELTA_LEAF, claimRef(0, ofSlot));
            bytes memory closed = abi.encodeWithSelector(IRefusals.SeatClosed.selector, ofSeat);
            _expect(closed);
            if (turns == 0) _post(id);
            if (turns == 1) _name(id, STEP);
            if (turns == 2) _trace(id);
            if (turns == 3) _demand(id, 8);
            if (turns == 4) _show(id, 0, 8);
            if (turns == 5) _prove(id, 0);
            _expect(closed);
            _open2();
            _end(id);
            _requireStage(id, IDisputes.Stage.MOOT);
            assertEq(purse.creditOf(opener), 1000, "the bond is returned");
            assertEq(game.openOn(task, ofSeat), 0, "nothing is open");
            vm.revertToState(clean);
        }
    }

    /// @dev After all that, everybody is paid and nothing is left.
    function test_disputes_thenWindUp() public {
        acceptAll(0);
        bytes32 first = _playTurns(5);
        roll(_clockOf(first) + 1);
        _end(first);
        vm.prank(submitter);
        rounds.halt(task);
        rounds.stand(task, 0);
        _takeVote(ACCEPT);
        bytes32 second = _open2();
        pass(RESPOND + 1);
        _end(second);
        windUp();
    }

    // Restitution -------------------------------------------------------------------------------------------------
    /// @dev A false REJECT that voided a claim pays for it: the reference to the vote is the drawn one's.
    function test_dispute_falseReject_restoresPay() public {
        voteAll(0, ofSlot, 0, REJECT_STATE);
        voteAll(0, ofSlot, 1, REJECT_STATE);
        _takeVote(REJECT_STATE);
        bytes32 id = _open();
        pass(RESPOND + 1);
        _end(id);
        assertEq(purse.creditOf(accountOf(ofSeat)), terms.amounts.solverPay, "the claim's pay");
        assertEq(uint256(_stageOf(id)), uint256(IDisputes.Stage.CONVICTED), "convicted");
    }

    // Gas -----------------------------------------------------------------------------------------------------------
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
