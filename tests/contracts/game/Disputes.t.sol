// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.28;

import {LeafProof, StateHeader, StepFacts} from "../../../contracts/Types.sol";
import {IDisputes} from "../../../contracts/game/interfaces/IDisputes.sol";
import {IRefusals} from "../../../contracts/game/interfaces/IRefusals.sol";
import {IReferee} from "../../../contracts/interfaces/IReferee.sol";
import {IStepProofs} from "../../../contracts/interfaces/IStepProofs.sol";
import {Trees} from "../Trees.sol";
import {DisputeWorld} from "./DisputeWorld.sol";

/// @title Traces, leaves and proofs of one wrong number.
contract DisputesTest is DisputeWorld {
    // Moves ------------------------------------------------------------------------------------------------------
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

    // Steps and traces -------------------------------------------------------------------------------------------
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
        proof.head[0] ^= 0x01;
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

    // Proofs -----------------------------------------------------------------------------------------------------
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

    /// @dev An entry of the dataset outside of the vocabulary is token 0 for every node: who shows the entry itself shows another datum.
    function test_proveDatum_outsideTheVocabulary_isTokenZero() public {
        acceptAll(0);
        uint256 clean = vm.snapshotState();
        uint32[2] memory buffers = [TOKENS, LABELS];
        for (uint256 i = 0; i < buffers.length; ++i) {
            bytes32 id = _playToTrace();
            (uint32 position, uint32 entry) = _findOutside(buffers[i]);
            _expect(abi.encodeWithSelector(IDisputes.NoFault.selector, position));
            _proveDatum(id, buffers[i], position);
            vm.revertToState(clean);
            (lieBuffer, lieElement, lie) = (buffers[i], position, entry);
            id = _playToTrace();
            _proveDatum(id, buffers[i], position);
            _requireConvicted(id);
            vm.revertToState(clean);
        }
    }

    function _findOutside(uint32 buffer) private view returns (uint32 position, uint32 entry) {
        while (entry < VOCABULARY) {
            ++position;
            entry = tokenAt(rowStart(0) + position + (buffer == LABELS ? 1 : 0));
        }
    }

    /// @dev The learning rate goes by the global step, the corrections by the local one, which may be less.
    function test_proveDatum_scalarsOfBothClocks() public {
        shiftLocal = -1;
        _replay();
        _takeVote(ACCEPT);
        uint256 clean = vm.snapshotState();
        for (uint32 which = 0; which < 3; ++which) {
            (lieBuffer, lieElement, lie) = (SCALARS, which, 1);
            bytes32 id = _playToTrace();
            _proveDatum(id, SCALARS, which);
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
        // A buffer of the opener's own making is not the trace's.
        (opening, datum) = (openBuffer(SCALARS, 0), proveScalarLeaf(start.globalStep));
        opening.leaves[0] ^= 0x01;
        bytes[] memory forged = new bytes[](1);
        forged[0] = opening.leaves;
        opening.root = Trees.root(Trees.hashAll(forged));
        vm.expectPartialRevert(IReferee.BufferMismatch.selector);
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

    // Leaves -----------------------------------------------------------------------------------------------------
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
        // Leaves of another program, which the claimant does not have.
        facts.programRoot = "other";
        vm.expectPartialRevert(IStepProofs.FactsMismatch.selector);
        vm.prank(opener);
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
}
