// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.28;

import {Referee} from "../../../contracts/Referee.sol";
import {BoundaryProof, StateHeader, StepFacts} from "../../../contracts/Types.sol";
import {GameTerms, SeatStatus} from "../../../contracts/game/GameTypes.sol";
import {Modules} from "../../../contracts/game/Module.sol";
import {SignedVote} from "../../../contracts/game/StatementTypes.sol";
import {IDisputes} from "../../../contracts/game/interfaces/IDisputes.sol";
import {IReferee} from "../../../contracts/interfaces/IReferee.sol";
import {IStepProofs} from "../../../contracts/interfaces/IStepProofs.sol";
import {Statements} from "../../../contracts/libraries/Statements.sol";
import {Trees} from "../Trees.sol";
import {GameStep} from "./GameStep.sol";

/// @title The moves of a dispute, and what tests of them share.
abstract contract DisputeWorld is GameStep {
    bytes32 internal constant SALT = "salt";
    uint256 internal constant BOND = 30;
    uint256 internal constant RESPOND = 10;
    uint256 internal constant STEP = 1;
    IDisputes internal game;
    address internal opener;
    Referee internal referee;
    bool internal isVote;
    uint256 internal ofAuditor;
    Statements.Vote internal ofVote;
    bytes internal refusal;

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

    // Moves ------------------------------------------------------------------------------------------------------
    function _expect(bytes memory error_) internal {
        refusal = error_;
    }

    /// @dev The next call is `account`'s; it fails as expected.
    function _as(address account) internal {
        if (refusal.length != 0) vm.expectRevert(refusal);
        delete refusal;
        vm.prank(account);
    }

    function _claimant() internal view returns (address) {
        return accountOf(isVote ? ofAuditor : ofSeat);
    }

    function _accused() internal view returns (uint256) {
        return isVote ? ofAuditor : ofSeat;
    }

    function _openAs(address account, uint256 bondWei, bytes32 salt) internal returns (bytes32) {
        if (isVote) {
            SignedVote memory signed = _sign(ofVote, accountOf(ofAuditor));
            _as(account);
            return game.disputeVote(task, signed, bondWei, salt);
        }
        _as(account);
        return game.disputeClaim(task, 0, ofSlot, ofSegment, bondWei, salt);
    }

    function _sign(Statements.Vote memory vote, address account) internal view returns (SignedVote memory) {
        (bytes32 r, bytes32 vs) =
            abi.decode(signAs(account, digestOf(Statements.hash(vote))), (bytes32, bytes32));
        return SignedVote(vote, r, vs);
    }

    function _open() internal returns (bytes32) {
        return _openAs(opener, BOND, SALT);
    }

    /// @dev What the primary of draw 0 says of the claim.
    function _takeVote(uint256 word) internal {
        isVote = true;
        ofVote = voteOf(0, ofSlot, 0, 0, word);
        (ofAuditor, ofSegment) = (drawnSeat(0, ofSlot, 0, 0), ofVote.segment);
    }

    /// @dev Another world, with what was changed since.
    function _replay() internal {
        _replay(soundTerms());
    }

    function _replay(GameTerms memory wanted) internal {
        delete pots;
        deploy();
        begin(wanted, 3, 6, 3);
        playToDraw(0);
        acceptAll(0);
        ofSeat = seatIn(0, ofSlot);
        give(opener, 1000);
    }

    function _post(bytes32 id) internal {
        _postRoots(id, _claimant(), _roots());
    }

    /// @dev An auditor's last state is what it sealed.
    function _roots() internal view returns (bytes32[] memory roots) {
        roots = stepRoots();
        if (isVote) roots[5] = ownEndRoot(0, ofSlot, ofSegment, uint256(ofVote.word));
    }

    function _postRoots(bytes32 id, address account, bytes32[] memory roots) internal {
        if (isVote) {
            BoundaryProof memory opened = boundaryProof(ofSegment);
            _postAs(id, account, roots, accountOf(ofSeat), opened, sealSalt(0, ofSlot, 0, 0));
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
        BoundaryProof memory start,
        bytes32 sealed_
    ) internal {
        BoundaryProof memory end = boundaryProof(ofSegment + 1);
        _as(account);
        game.postVoteRoots(task, id, roots, solver, start, end, sealed_);
    }

    function _name(bytes32 id, uint256 step) internal {
        bytes32[] memory roots = _roots();
        ofStep = step;
        _as(opener);
        game.nameStep(task, id, step, roots);
    }

    function _trace(bytes32 id) internal {
        _traceWith(id, stepFacts(), stepState(ofStep), stepState(ofStep + 1), proveTrace());
    }

    function _traceWith(
        bytes32 id,
        StepFacts memory facts,
        StateHeader memory start,
        StateHeader memory end,
        IStepProofs.TraceProof memory proof
    ) internal {
        bytes32 root = Trees.root(traceRoots());
        address account = _claimant();
        _as(account);
        game.postTrace(task, id, facts, root, start, end, proof);
    }

    function _demand(bytes32 id, uint256 count) internal {
        IDisputes.LeafDemand[] memory list = new IDisputes.LeafDemand[](count);
        for (uint256 i = 0; i < count; ++i) {
            // Of node 0: its output, then W.
            list[i] = IDisputes.LeafDemand(proveNode(0), uint32(i % 2), uint32(i % 2));
        }
        _demandList(id, list);
    }

    function _demandList(bytes32 id, IDisputes.LeafDemand[] memory list) internal {
        StepFacts memory facts = stepFacts();
        _as(opener);
        game.demandLeaves(task, id, facts, list);
    }

    /// @dev Leaves from .. to - 1 of what `_demand` demanded.
    function _show(bytes32 id, uint256 from, uint256 to) internal {
        IReferee.BufferOpening[] memory openings = new IReferee.BufferOpening[](to - from);
        for (uint256 i = from; i < to; ++i) {
            openings[i - from] = openBuffer(i % 2 == 0 ? TENSOR : 0, uint32(i % 2));
        }
        _showAs(id, _claimant(), openings);
    }

    function _showAs(bytes32 id, address account, IReferee.BufferOpening[] memory openings) internal {
        StateHeader memory start = stepState(ofStep);
        _as(account);
        game.showLeaves(task, id, start, openings);
    }

    function _prove(bytes32 id, uint32 element) internal {
        _proveAs(id, opener, element);
    }

    function _proveAs(bytes32 id, address account, uint32 element) internal {
        (StepFacts memory facts, StateHeader memory start) = (stepFacts(), stepState(ofStep));
        (IReferee.NodeProof memory node, bytes memory openings) = (proveNode(0), openProduct(element));
        _as(account);
        game.proveOperation(task, id, facts, start, node, element, openings);
    }

    function _end(bytes32 id) internal {
        _as(stranger);
        game.end(task, id);
    }

    /// @dev To the stage where proofs are brought.
    function _playToTrace() internal returns (bytes32 id) {
        id = _open();
        _post(id);
        _name(id, STEP);
        _trace(id);
    }

    function _stageOf(bytes32 id) internal view returns (IDisputes.Stage stage) {
        (stage,,,,,) = game.disputeOf(task, id);
    }

    function _clockOf(bytes32 id) internal view returns (uint256 clockBlock) {
        (, clockBlock,,,,) = game.disputeOf(task, id);
    }

    // What an end means ------------------------------------------------------------------------------------------
    function _requireStage(bytes32 id, IDisputes.Stage expected) internal view {
        assertEq(uint256(_stageOf(id)), uint256(expected), "stage");
    }

    function _requireConvicted(bytes32 id) internal view {
        _requireStage(id, IDisputes.Stage.CONVICTED);
        uint256 seat = _accused();
        assertEq(uint256(tasks.seatAt(task, seat).status), uint256(SeatStatus.CLOSED), "closed");
        assertEq(game.openOn(task, seat), 0, "nothing is open");
        assertEq(purse.creditOf(opener), 1000 + 120, "the bond and the finder's share");
        assertBooks();
    }

    function _requireCleared(bytes32 id) internal view {
        _requireStage(id, IDisputes.Stage.CLEARED);
        assertEq(uint256(tasks.seatAt(task, _accused()).status), uint256(SeatStatus.OPEN), "unharmed");
        assertEq(game.openOn(task, _accused()), 0, "nothing is open");
        assertEq(purse.creditOf(opener), 1000 - BOND, "the bond is lost");
        assertEq(creditOf(_accused()), BOND / 2, "half of it is the claimant's");
        assertEq(purse.burnPending(), BOND / 2, "half is burned");
        assertBooks();
    }

    function _error(bytes4 selector, uint256 a, uint256 b) internal pure returns (bytes memory) {
        return abi.encodeWithSelector(selector, a, b);
    }

    // Opening ----------------------------------------------------------------------------------------------------
    function _open2() internal returns (bytes32) {
        return _openAs(opener, BOND, "other salt");
    }

    // Roots ------------------------------------------------------------------------------------------------------
    function _error2(bytes4 selector, address a, address b) internal pure returns (bytes memory) {
        return abi.encodeWithSelector(selector, a, b);
    }

    /// @dev So many steps too many have boundaries of all claims; the first one has no local step too few.
    uint32 internal shiftSteps;
    int256 internal shiftLocal;

    function stateAt(uint256 round, uint256 seat, uint256 boundary)
        internal
        view
        override
        returns (StateHeader memory state)
    {
        state = super.stateAt(round, seat, boundary);
        state.globalStep += shiftSteps;
        if (boundary != 0) state.localStep = uint32(uint256(int256(uint256(state.localStep)) + shiftLocal));
    }

    /// @dev The step whose local step is too great by one; 0: none.
    uint256 internal jump;

    // Steps and traces -------------------------------------------------------------------------------------------
    function stepState(uint256 step) internal view override returns (StateHeader memory header) {
        header = super.stepState(step);
        if (jump != 0 && step == jump) ++header.localStep;
    }
}
