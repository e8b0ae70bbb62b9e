// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.28;

import {ExposureId, LeafProof, StateHeader, TaskId, TaskTerms} from "../../contracts/Types.sol";
import {OuterContest} from "../../contracts/OuterContest.sol";
import {IAuditBook} from "../../contracts/interfaces/IAuditBook.sol";
import {IOuterContest} from "../../contracts/interfaces/IOuterContest.sol";
import {IRoundLedger} from "../../contracts/interfaces/IRoundLedger.sol";
import {Float32} from "../../contracts/libraries/Float32.sol";
import {Hashing} from "../../contracts/libraries/Hashing.sol";
import {OuterMath} from "../../contracts/libraries/OuterMath.sol";
import {PositionalMerkle} from "../../contracts/libraries/PositionalMerkle.sol";
import {Fixture} from "./Fixture.sol";
import {Trees} from "./Trees.sol";

/// @dev A model of 20 leaves (depth 5: two moves), two claims, and whatever roots the parties post.
contract OuterContestTest is Fixture {
    uint256 private constant LEAVES = 20;
    uint256 private constant BOND = 300;

    OuterContest private game;
    TaskId private task;
    TaskTerms private terms;
    address private poster = actor("poster");
    address private rival = actor("rival");
    address private other = actor("other rival");

    bytes[] private weights;
    bytes[] private momentum;
    bytes[][2] private deltas;
    bytes32[] private newWeights;
    bytes32[] private newMomentum;

    function setUp() public {
        deployCore(1);
        game = new OuterContest(vault, registry, IRoundLedger(address(ledger)), IAuditBook(address(ledger)));
        terms = soundTerms();
        terms.parameterCount = uint32(LEAVES * 256 - 100);
        task = createTask(terms);
        for (uint256 i = 0; i < LEAVES; ++i) {
            _makeLeaf(i);
        }
        ledger.setGlobal(Trees.root(Trees.hashAll(weights)), Trees.root(Trees.hashAll(momentum)));
        ledger.addClaim(Trees.root(Trees.hashAll(deltas[0])));
        ledger.addClaim(Trees.root(Trees.hashAll(deltas[1])));
        stake(poster, 1000);
        stake(rival, 1000);
        stake(other, 1000);
    }

    // The model ---------------------------------------------------------------------------------------------------
    function _makeLeaf(uint256 index) private {
        weights.push(_noise(3 * index));
        momentum.push(_noise(3 * index + 1));
        deltas[0].push(_delta(weights[index], 5 * index + 2));
        deltas[1].push(_delta(weights[index], 5 * index + 3));
        // Shards are the reverse of slots in the mock.
        bytes[] memory inOrder = new bytes[](2);
        (inOrder[0], inOrder[1]) = (deltas[1][index], deltas[0][index]);
        OuterMath.Rates memory rates = OuterMath.Rates(terms.outerLearningRate, terms.outerMomentum);
        (bytes memory w, bytes memory m) =
            OuterMath.outerLeaf(weights[index], momentum[index], inOrder, rates);
        newWeights.push(PositionalMerkle.leafHash(w));
        newMomentum.push(PositionalMerkle.leafHash(m));
    }

    function _delta(bytes memory leaf, uint256 seed) private pure returns (bytes memory delta) {
        bool ok;
        (ok, delta) = OuterMath.deltaLeaf(leaf, _noise(seed));
        assertTrue(ok, "in range");
    }

    function _noise(uint256 seed) private pure returns (bytes memory leaf) {
        leaf = new bytes(1024);
        for (uint256 i = 0; i < 256; ++i) {
            uint256 word = uint256(keccak256(abi.encode(seed, i)));
            Float32.store(
                leaf,
                i,
                uint32(((115 + word % 10) << 23) | ((word >> 32) & 0x7fffff) | (((word >> 64) & 1) << 31))
            );
        }
    }

    function _proof(bytes[] memory data, uint256 index) private pure returns (LeafProof memory) {
        return LeafProof(data[index], Trees.path(Trees.hashAll(data), index));
    }

    // The parties' moves ------------------------------------------------------------------------------------------
    function _post(bytes32[] memory w, bytes32[] memory m) private {
        ledger.setOuter(poster, Trees.root(w), Trees.root(m));
        vm.roll(vm.getBlockNumber() + 1);
        ExposureId bond = Hashing.outerExposure(task, 0, poster, Trees.root(w), Trees.root(m));
        // The ledger exposes the poster's bond; here the registry, a module like it.
        vm.prank(address(registry));
        vault.expose(bond, poster, BOND);
    }

    function _contest(address account, bytes32[] memory w, bytes32[] memory m, uint8 tensor) private {
        _contestOr("", account, w, m, tensor);
    }

    /// @dev Hashes are calls of a precompile, which would take the prank and the expectation for themselves: they come first.
    function _contestOr(
        bytes memory refusal,
        address account,
        bytes32[] memory w,
        bytes32[] memory m,
        uint8 tensor
    ) private {
        (bytes32 weightsRoot, bytes32 momentumRoot) = (Trees.root(w), Trees.root(m));
        vm.prank(account);
        if (refusal.length > 0) vm.expectRevert(refusal);
        game.contest(task, 0, weightsRoot, momentumRoot, tensor);
    }

    function _copy(bytes32[] memory leaves) private pure returns (bytes32[] memory copied) {
        copied = new bytes32[](leaves.length);
        for (uint256 i = 0; i < leaves.length; ++i) {
            copied[i] = leaves[i];
        }
    }

    function _wrongAt(bytes32[] memory leaves, uint256 index) private pure returns (bytes32[] memory wrong) {
        wrong = _copy(leaves);
        wrong[index] = sha256(abi.encode(leaves[index]));
    }

    /// @dev The poster opens what lies below the contested node of its own tree.
    function _open(address against, bytes32[] memory leaves) private {
        (,,, uint32 level, uint32 index,) = game.contestOf(task, 0, against);
        uint256 down = 5 - level < 4 ? 5 - level : 4;
        bytes32[] memory below = Trees.level(leaves, 5 - level - down);
        bytes32[] memory nodes = new bytes32[](1 << down);
        for (uint256 i = 0; i < nodes.length; ++i) {
            nodes[i] = below[(uint256(index) << down) + i];
        }
        vm.prank(poster);
        game.postNodes(task, 0, against, nodes);
    }

    function _name(address account, uint32 child) private {
        vm.prank(account);
        game.nameChild(task, 0, child);
    }

    function _descend(address account, bytes32[] memory leaves, uint256 index) private {
        _open(account, leaves);
        _name(account, uint32(index >> 1));
        _open(account, leaves);
        _name(account, uint32(index & 1));
    }

    function _compute(address account, uint256 index) private {
        LeafProof[] memory given = new LeafProof[](2);
        (given[0], given[1]) = (_proof(deltas[1], index), _proof(deltas[0], index));
        game.computeLeaf(task, 0, account, _proof(weights, index), _proof(momentum, index), given);
    }

    function _requireStanding(address account, bytes32[] memory w, bytes32[] memory m) private view {
        (address stands, bytes32 weightsRoot, bytes32 momentumRoot,, bool contested) = ledger.outerOf(task, 0);
        assertEq(stands, account, "who stands");
        assertEq(weightsRoot, Trees.root(w), "weights");
        assertEq(momentumRoot, Trees.root(m), "momentum");
        assertEq(contested, false, "free to advance");
    }

    // A wrong leaf ------------------------------------------------------------------------------------------------
    /// forge-config: default.fuzz.runs = 16
    function testFuzz_computeLeaf_wrongLeaf_convictsPoster(uint256 index, bool isMomentum) public {
        index = bound(index, 0, LEAVES - 1);
        bytes32[] memory w = isMomentum ? newWeights : _wrongAt(newWeights, index);
        bytes32[] memory m = isMomentum ? _wrongAt(newMomentum, index) : newMomentum;
        _post(w, m);
        _contest(rival, newWeights, newMomentum, isMomentum ? 1 : 0);
        _descend(rival, isMomentum ? m : w, index);
        _compute(rival, index);
        _requireStanding(rival, newWeights, newMomentum);
        assertEq(vault.stakeOf(poster), 1000 - BOND, "slashed");
        assertEq(vault.creditOf(rival), 60, "finder: the cap");
        assertEq(vault.creditOf(submitter), 7, "submitter: the unpaid reward");
        assertEq(vault.burnPending(), BOND - 67, "the rest is burned");
        assertEq(vault.lockedOf(rival), BOND, "the rival's bond backs the root that stands");
    }

    function test_computeLeaf_wrongPadding_convictsPoster() public {
        bytes32[] memory w = Trees.pad(newWeights);
        w[LEAVES] = "not zero";
        _post(w, newMomentum);
        _contest(rival, newWeights, newMomentum, 0);
        _descend(rival, w, LEAVES);
        LeafProof memory none = LeafProof("", new bytes32[](0));
        game.computeLeaf(task, 0, rival, none, none, new LeafProof[](0));
        _requireStanding(rival, newWeights, newMomentum);
    }

    // An honest poster --------------------------------------------------------------------------------------------
    /// @dev Wherever a rival leads the descent: the poster's own leaf is right, and the rival pays for the trouble.
    /// forge-config: default.fuzz.runs = 16
    function testFuzz_computeLeaf_rightLeaf_costsTheRival(uint256 index, bool isMomentum) public {
        index = bound(index, 0, 31);
        _post(newWeights, newMomentum);
        uint8 tensor = isMomentum ? 1 : 0;
        _contest(rival, _wrongAt(newWeights, 3), _wrongAt(newMomentum, 3), tensor);
        _descend(rival, isMomentum ? newMomentum : newWeights, index);
        if (index < LEAVES) {
            _compute(rival, index);
        } else {
            game.computeLeaf(
                task,
                0,
                rival,
                LeafProof("", new bytes32[](0)),
                LeafProof("", new bytes32[](0)),
                new LeafProof[](0)
            );
        }
        _requireStanding(poster, newWeights, newMomentum);
        assertEq(vault.stakeOf(poster), 1000, "the poster lost nothing");
        assertEq(vault.creditOf(poster), BOND / 2, "and got half of the bond");
        assertEq(vault.burnPending(), BOND / 2, "half is burned");
        assertEq(vault.stakeOf(rival), 1000 - BOND, "the rival paid");
    }

    function test_computeLeaf_otherInputs_areRefused() public {
        bytes32[] memory w = _wrongAt(newWeights, 6);
        _post(w, newMomentum);
        _contest(rival, newWeights, newMomentum, 0);
        _descend(rival, w, 6);
        LeafProof[] memory given = new LeafProof[](2);
        (LeafProof memory leaf, LeafProof memory moment) = (_proof(weights, 6), _proof(momentum, 6));
        (given[0], given[1]) = (_proof(deltas[0], 6), _proof(deltas[1], 6));
        bytes32 root = Trees.root(Trees.hashAll(deltas[1]));
        vm.expectRevert(abi.encodeWithSelector(IOuterContest.LeafMismatch.selector, root, 6));
        game.computeLeaf(task, 0, rival, leaf, moment, given);
        vm.expectRevert(abi.encodeWithSelector(IOuterContest.WrongInputCount.selector, 2, 1));
        game.computeLeaf(task, 0, rival, leaf, moment, new LeafProof[](1));
        (bytes32 globalWeights, bytes32 globalMomentum) = ledger.globalOf(task, 0);
        vm.expectRevert(abi.encodeWithSelector(IOuterContest.LeafMismatch.selector, globalWeights, 6));
        game.computeLeaf(task, 0, rival, moment, leaf, given);
        vm.expectRevert(abi.encodeWithSelector(IOuterContest.LeafMismatch.selector, globalMomentum, 6));
        game.computeLeaf(task, 0, rival, leaf, leaf, given);
    }

    // Silence -----------------------------------------------------------------------------------------------------
    function test_timeout_silentPoster_loses() public {
        _post(newWeights, newMomentum);
        bytes32[] memory theirs = _wrongAt(newWeights, 3);
        _contest(rival, theirs, newMomentum, 0);
        (, uint256 clockBlock,,,,) = game.contestOf(task, 0, rival);
        vm.expectRevert(
            abi.encodeWithSelector(IOuterContest.ClockRunning.selector, clockBlock, vm.getBlockNumber())
        );
        game.timeout(task, 0, rival);
        vm.roll(clockBlock);
        vm.prank(poster);
        vm.expectRevert(abi.encodeWithSelector(IOuterContest.ClockOver.selector, clockBlock, clockBlock));
        game.postNodes(task, 0, rival, new bytes32[](16));
        game.timeout(task, 0, rival);
        _requireStanding(rival, theirs, newMomentum);
    }

    /// forge-config: default.fuzz.runs = 16
    function testFuzz_timeout_silentRival_loses(uint256 moves) public {
        bytes32[] memory w = _wrongAt(newWeights, 6);
        _post(w, newMomentum);
        _contest(rival, newWeights, newMomentum, 0);
        moves = bound(moves, 0, 2);
        _open(rival, w);
        if (moves > 0) _name(rival, 3);
        if (moves > 0) _open(rival, w);
        if (moves > 1) _name(rival, 0);
        (, uint256 clockBlock,,,,) = game.contestOf(task, 0, rival);
        vm.roll(clockBlock);
        game.timeout(task, 0, rival);
        _requireStanding(poster, w, newMomentum);
        assertEq(vault.creditOf(poster), BOND / 2, "half of the bond");
        vm.expectRevert(abi.encodeWithSelector(IOuterContest.NoContest.selector, rival));
        game.timeout(task, 0, rival);
    }

    // Several rivals ----------------------------------------------------------------------------------------------
    /// @dev A friend of a cheating poster contests first and falls silent; an honest rival is not kept out.
    function test_contest_secondRival_isNotBlocked() public {
        bytes32[] memory w = _wrongAt(newWeights, 6);
        _post(w, newMomentum);
        _contest(other, _wrongAt(newWeights, 1), newMomentum, 0);
        _contest(rival, newWeights, newMomentum, 0);
        _descend(rival, w, 6);
        _compute(rival, 6);
        _requireStanding(rival, newWeights, newMomentum);
        vm.prank(poster);
        vm.expectRevert(abi.encodeWithSelector(IOuterContest.RootReplaced.selector, other));
        game.postNodes(task, 0, other, new bytes32[](16));
        game.timeout(task, 0, other);
        assertEq(vault.freeOf(other), 1000, "no loss: the root it contested is gone");
        _contest(other, newWeights, _wrongAt(newMomentum, 2), 1);
    }

    function test_timeout_firstOfTwo_keepsTheRoundContested() public {
        bytes32[] memory w = _wrongAt(newWeights, 6);
        _post(w, newMomentum);
        _contest(other, newWeights, newMomentum, 0);
        _open(other, w);
        vm.roll(vm.getBlockNumber() + 1);
        _contest(rival, newWeights, newMomentum, 0);
        (, uint256 clockBlock,,,,) = game.contestOf(task, 0, other);
        _open(rival, w);
        vm.roll(clockBlock);
        game.timeout(task, 0, other);
        (,,,, bool contested) = ledger.outerOf(task, 0);
        assertTrue(contested, "the other contest goes on");
    }

    // Refusals ----------------------------------------------------------------------------------------------------
    function test_contest_refusals() public {
        bytes32[] memory wrong = _wrongAt(newWeights, 1);
        bytes memory nothing = abi.encodeWithSelector(IOuterContest.NothingToContest.selector, address(0));
        _contestOr(nothing, rival, newWeights, newMomentum, 0);
        _post(newWeights, newMomentum);
        bytes memory same = abi.encodeWithSelector(IOuterContest.SameRoot.selector, Trees.root(newWeights));
        _contestOr(same, rival, newWeights, _wrongAt(newMomentum, 1), 0);
        _contestOr(
            abi.encodeWithSelector(IOuterContest.WrongTensor.selector, 2), rival, wrong, newMomentum, 2
        );
        _contestOr(
            abi.encodeWithSelector(IOuterContest.OwnRoot.selector, poster), poster, wrong, newMomentum, 0
        );
        _contest(rival, wrong, newMomentum, 0);
        bytes memory running = abi.encodeWithSelector(IOuterContest.ContestRunning.selector, rival);
        _contestOr(running, rival, _wrongAt(newWeights, 2), newMomentum, 0);
        (,,, uint256 postedBlock,) = ledger.outerOf(task, 0);
        vm.roll(postedBlock + 6);
        bytes memory over =
            abi.encodeWithSelector(IOuterContest.ClockOver.selector, postedBlock + 6, postedBlock + 6);
        _contestOr(over, other, wrong, newMomentum, 0);
    }

    function test_moves_outOfTurn_revert() public {
        _post(newWeights, newMomentum);
        _contest(rival, _wrongAt(newWeights, 1), newMomentum, 0);
        vm.expectRevert(abi.encodeWithSelector(IOuterContest.NotPoster.selector, poster, address(this)));
        game.postNodes(task, 0, rival, new bytes32[](16));
        vm.startPrank(poster);
        vm.expectRevert(abi.encodeWithSelector(IOuterContest.WrongNodeCount.selector, 16, 8));
        game.postNodes(task, 0, rival, new bytes32[](8));
        bytes32 zeros = PositionalMerkle.rootOf(new bytes32[](16));
        bytes memory mismatch =
            abi.encodeWithSelector(IOuterContest.NodesMismatch.selector, Trees.root(newWeights), zeros);
        vm.expectRevert(mismatch);
        game.postNodes(task, 0, rival, new bytes32[](16));
        vm.stopPrank();
        vm.expectRevert(
            abi.encodeWithSelector(
                IOuterContest.NotYourTurn.selector, IOuterContest.Turn.RIVAL, IOuterContest.Turn.POSTER
            )
        );
        _name(rival, 0);
        _open(rival, newWeights);
        vm.expectRevert(abi.encodeWithSelector(IOuterContest.WrongChild.selector, 16, 16));
        _name(rival, 16);
        LeafProof memory none = LeafProof("", new bytes32[](0));
        vm.expectRevert(
            abi.encodeWithSelector(
                IOuterContest.NotYourTurn.selector, IOuterContest.Turn.LEAF, IOuterContest.Turn.RIVAL
            )
        );
        game.computeLeaf(task, 0, rival, none, none, new LeafProof[](0));
    }

    // Pseudo-gradient ---------------------------------------------------------------------------------------------
    /// @dev Slot 0's claim: its last weights are noise of the seeds that made its pseudo-gradient.
    function _lastWeights() private pure returns (bytes[] memory last) {
        last = new bytes[](LEAVES);
        for (uint256 i = 0; i < LEAVES; ++i) {
            last[i] = _noise(5 * i + 2);
        }
    }

    function _prove(bytes[] memory last, bytes[] memory claimed, uint32 index) private {
        game.provePseudoGradient(
            task, 0, 0, 1, index, _proof(weights, index), _proof(last, index), _proof(claimed, index)
        );
    }

    /// forge-config: default.fuzz.runs = 16
    function testFuzz_provePseudoGradient_rightOne_isNoFault(uint32 index) public {
        index = uint32(bound(index, 0, LEAVES - 1));
        bytes[] memory last = _lastWeights();
        ledger.setLast(StateHeader(Trees.root(Trees.hashAll(last)), 0, 0, 0, 0));
        (bytes[] memory claimed) = deltas[0];
        LeafProof[3] memory given = [_proof(weights, index), _proof(last, index), _proof(claimed, index)];
        vm.expectRevert(abi.encodeWithSelector(IOuterContest.NoFault.selector, index));
        game.provePseudoGradient(task, 0, 0, 1, index, given[0], given[1], given[2]);
    }

    /// forge-config: default.fuzz.runs = 16
    function testFuzz_provePseudoGradient_oneByteOff_convicts(uint32 index, uint256 place) public {
        index = uint32(bound(index, 0, LEAVES - 1));
        bytes[] memory last = _lastWeights();
        ledger.setLast(StateHeader(Trees.root(Trees.hashAll(last)), 0, 0, 0, 0));
        bytes[] memory claimed = deltas[0];
        claimed[index] = bytes.concat(claimed[index]);
        claimed[index][bound(place, 0, 259)] ^= 0x01;
        ledger.addClaim(Trees.root(Trees.hashAll(claimed)));
        LeafProof[3] memory given = [_proof(weights, index), _proof(last, index), _proof(claimed, index)];
        vm.prank(rival);
        game.provePseudoGradient(task, 0, 2, 1, index, given[0], given[1], given[2]);
        assertEq(ledger.finder(), rival, "finder");
        assertEq(ledger.convictedSlot(), 2, "slot");
        assertEq(ledger.reason(), "pseudo-gradient", "reason");
    }

    function test_provePseudoGradient_lastLeafWithoutEncoding_convicts() public {
        bytes[] memory last = _lastWeights();
        last[4] = new bytes(1023);
        ledger.setLast(StateHeader(Trees.root(Trees.hashAll(last)), 0, 0, 0, 0));
        _prove(last, deltas[0], 4);
        assertEq(ledger.reason(), "pseudo-gradient", "convicted");
    }

    /// @dev From weights that are not finite nobody can say how far he came: that was the fault of those who merged.
    function test_provePseudoGradient_globalLeafNotFinite_isNoFault() public {
        bytes memory broken = bytes.concat(weights[4]);
        Float32.store(broken, 0, Float32.INFINITY);
        weights[4] = broken;
        ledger.setGlobal(Trees.root(Trees.hashAll(weights)), Trees.root(Trees.hashAll(momentum)));
        bytes[] memory last = _lastWeights();
        ledger.setLast(StateHeader(Trees.root(Trees.hashAll(last)), 0, 0, 0, 0));
        LeafProof[3] memory given = [_proof(weights, 4), _proof(last, 4), _proof(deltas[0], 4)];
        vm.expectRevert(abi.encodeWithSelector(IOuterContest.NoFault.selector, 4));
        game.provePseudoGradient(task, 0, 0, 1, 4, given[0], given[1], given[2]);
    }

    /// @dev Every leaf is proven: a wrong pseudo-gradient of honest work needs a forged one of them.
    function test_provePseudoGradient_forgedLeaf_reverts() public {
        bytes[] memory last = _lastWeights();
        bytes32 lastRoot = Trees.root(Trees.hashAll(last));
        ledger.setLast(StateHeader(lastRoot, 0, 0, 0, 0));
        (,,,, bytes32 deltaRoot) = ledger.claimOf(task, 0, 0);
        (bytes32 weightsRoot,) = ledger.globalOf(task, 0);
        bytes32[3] memory roots = [weightsRoot, lastRoot, deltaRoot];
        for (uint256 forged = 0; forged < 3; ++forged) {
            LeafProof[3] memory given = [_proof(weights, 4), _proof(last, 4), _proof(deltas[0], 4)];
            given[forged].data = bytes.concat(given[forged].data);
            given[forged].data[7] ^= 0x01;
            vm.expectRevert(abi.encodeWithSelector(IOuterContest.LeafMismatch.selector, roots[forged], 4));
            game.provePseudoGradient(task, 0, 0, 1, 4, given[0], given[1], given[2]);
        }
    }

    function test_provePseudoGradient_notOpened_reverts() public {
        bytes[] memory last = _lastWeights();
        LeafProof[3] memory given = [_proof(weights, 0), _proof(last, 0), _proof(deltas[0], 0)];
        vm.expectRevert(abi.encodeWithSelector(IOuterContest.LastStateUnknown.selector, 0, 1));
        game.provePseudoGradient(task, 0, 0, 1, 0, given[0], given[1], given[2]);
    }
}
