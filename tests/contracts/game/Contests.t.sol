// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.28;

import {GameTerms, Phase, SeatStatus} from "../../../contracts/game/GameTypes.sol";
import {Modules} from "../../../contracts/game/Module.sol";
import {IContests} from "../../../contracts/game/interfaces/IContests.sol";
import {IRefusals} from "../../../contracts/game/interfaces/IRefusals.sol";
import {OpenCounts} from "../../../contracts/game/libraries/OpenCounts.sol";
import {Draw} from "../../../contracts/libraries/Draw.sol";
import {Float32} from "../../../contracts/libraries/Float32.sol";
import {Hashing} from "../../../contracts/libraries/Hashing.sol";
import {OuterMath} from "../../../contracts/libraries/OuterMath.sol";
import {PositionalMerkle} from "../../../contracts/libraries/PositionalMerkle.sol";
import {Trees} from "../Trees.sol";
import {GameWorld} from "./GameWorld.sol";

/// @title Contests of a root over three claims, of a model of 20 leaves: five levels, two answers below each tensor's root.
contract ContestsTest is GameWorld {
    uint256 private constant LEAVES = 20;
    uint256 private constant LEVELS = 5;
    uint256 private constant BOND = 50;
    uint256 private constant RESPOND = 10;
    uint256 private constant CLAIMS = 3;

    IContests private game;
    address private contester;
    address private helper;
    bytes[] private weights;
    bytes[] private momentum;
    mapping(uint256 => bytes[]) private deltas;
    mapping(uint256 => bytes32) private deltaRoots;
    bytes32 private weightsRoot;
    bytes32 private zeroRoot;
    /// @dev Right leaves of the next root, and those that are posted.
    bytes32[] private newWeights;
    bytes32[] private newMomentum;
    bytes32[] private postedWeights;
    bytes32[] private postedMomentum;
    bytes private refusal;
    uint32 private parameters = uint32(LEAVES * 256 - 100);
    /// @dev Slots of the claims that the root merges.
    uint64 private mergedSlots = bitsOf(CLAIMS);

    function makeContests(Modules memory m) internal override returns (address) {
        game = IContests(create("Contests.sol:Contests", abi.encode(m)));
        return address(game);
    }

    function setUp() public override {
        super.setUp();
        (contester, helper) = (person("contester"), person("helper"));
        _makeModel();
        begin(CLAIMS, 6, 3);
        give(contester, 1000);
        _merge();
        playToDraw(0);
        acceptAll(0);
    }

    function soundTerms() internal view override returns (GameTerms memory wanted) {
        wanted = super.soundTerms();
        (wanted.initialWeightsRoot, wanted.zeroRoot) = (weightsRoot, zeroRoot);
        wanted.parameterCount = parameters;
    }

    // The model ---------------------------------------------------------------------------------------------------
    function _makeModel() private {
        uint256 count = (uint256(parameters) + 255) / 256;
        for (uint256 i = 0; i < count; ++i) {
            weights.push(_cut(_noise(i), i));
            momentum.push(new bytes(1024));
            for (uint256 seat = 0; seat < CLAIMS; ++seat) {
                deltas[solverSeat(seat)].push(_delta(100 * seat + i));
            }
        }
        (weightsRoot, zeroRoot) = (Trees.root(Trees.hashAll(weights)), Trees.root(Trees.hashAll(momentum)));
        for (uint256 seat = 0; seat < CLAIMS; ++seat) {
            deltaRoots[solverSeat(seat)] = Trees.root(Trees.hashAll(deltas[solverSeat(seat)]));
        }
    }

    function deltaRoot(uint256, uint256 seat) internal view override returns (bytes32) {
        return deltaRoots[seat];
    }

    function _noise(uint256 seed) private pure returns (bytes memory leaf) {
        leaf = new bytes(1024);
        for (uint256 i = 0; i < 256; ++i) {
            uint256 word = uint256(keccak256(abi.encode(seed, i)));
            Float32.store(leaf, i, uint32((115 + word % 10) << 23 | (word >> 32) & 0x7fffff));
        }
    }

    /// @dev As every node has a leaf: zeros behind the last element.
    function _cut(bytes memory leaf, uint256 index) private view returns (bytes memory) {
        for (uint256 at = 0; at < 256; ++at) {
            if (256 * index + at >= parameters) Float32.store(leaf, at, 0);
        }
        return leaf;
    }

    /// @dev Anything, behind the last element too.
    function _delta(uint256 seed) private pure returns (bytes memory delta) {
        delta = new bytes(260);
        for (uint256 i = 0; i < 260; ++i) {
            delta[i] = bytes1(uint8(uint256(keccak256(abi.encode(seed, i)))));
            if (i % 65 == 0) delta[i] = bytes1(uint8(120 + seed % 5));
        }
    }

    /// @dev Seats of the merged claims in ascending order of shards.
    function _ordered(uint64 merged) private view returns (uint256[] memory seats) {
        (bytes32[] memory claims,) = rounds.claimsOf(task, 0);
        bytes32 beacon = rounds.beaconOf(task, 0);
        seats = new uint256[](claims.length);
        uint256 found = 0;
        for (uint256 shard = 0; shard < claims.length; ++shard) {
            for (uint256 slot = 0; slot < claims.length; ++slot) {
                bool isHere = Draw.shard(beacon, slot, claims.length) == shard;
                if (isHere && merged >> slot & 1 == 1) seats[found++] = seatIn(0, slot);
            }
        }
        assembly ("memory-safe") {
            mstore(seats, found)
        }
    }

    function _merge() private {
        uint256[] memory seats = _ordered(mergedSlots);
        bytes[] memory all = new bytes[](seats.length);
        OuterMath.Rates memory rates = OuterMath.Rates(terms.outerLearningRate, terms.outerMomentum);
        for (uint256 i = 0; i < weights.length; ++i) {
            for (uint256 j = 0; j < all.length; ++j) {
                all[j] = deltas[seats[j]][i];
            }
            (bytes memory w, bytes memory m) = OuterMath.outerLeaf(weights[i], momentum[i], all, rates);
            newWeights.push(PositionalMerkle.leafHash(_cut(w, i)));
            newMomentum.push(PositionalMerkle.leafHash(_cut(m, i)));
        }
        (postedWeights, postedMomentum) = (newWeights, newMomentum);
    }

    // Moves -------------------------------------------------------------------------------------------------------
    function _expect(bytes memory error_) private {
        refusal = error_;
    }

    function _as(address account) private {
        if (refusal.length != 0) vm.expectRevert(refusal);
        delete refusal;
        vm.prank(account);
    }

    function _postRoot() private {
        bytes32 root = Hashing.outerRoot(Trees.root(postedWeights), Trees.root(postedMomentum));
        behind[root] = [Trees.root(postedWeights), Trees.root(postedMomentum)];
        post(0, mergedSlots, root, bitsOf(CLAIMS));
    }

    function _contest(bytes32 salt) private returns (bytes32) {
        uint256 bondWei = BOND * (1 + OpenCounts.total(game.openOf(task)));
        _as(contester);
        return game.contest(task, 0, bondWei, salt);
    }

    function _answer(bytes32 id) private {
        bytes32[] memory nodes = _nodesOf(id);
        _as(helper);
        game.answer(task, id, nodes);
    }

    function _nodesOf(bytes32 id) private view returns (bytes32[] memory nodes) {
        (,,, uint256 tensor, uint256 level, uint256 index,) = game.contestOf(task, id);
        if (level == 0) return _roots();
        bytes32[] memory leaves = tensor == 0 ? postedWeights : postedMomentum;
        uint256 down = LEVELS + 1 - level < 4 ? LEVELS + 1 - level : 4;
        bytes32[] memory below = Trees.level(leaves, LEVELS + 1 - level - down);
        nodes = new bytes32[](1 << down);
        for (uint256 i = 0; i < nodes.length; ++i) {
            nodes[i] = below[(index << down) + i];
        }
    }

    function _roots() private view returns (bytes32[] memory nodes) {
        nodes = new bytes32[](2);
        (nodes[0], nodes[1]) = (Trees.root(postedWeights), Trees.root(postedMomentum));
    }

    /// @dev An answer, and the child that the contester names.
    function _step(bytes32 id, uint256 child) private {
        bytes32[] memory nodes = _nodesOf(id);
        _answer(id);
        _as(contester);
        game.nameChild(task, id, child, nodes);
    }

    function _descend(bytes32 id, uint256 tensor, uint256 index) private {
        _step(id, tensor);
        _step(id, index >> 1);
        _step(id, index & 1);
        assertEq(uint256(_turnOf(id)), uint256(IContests.Turn.LEAF), "at the leaf");
    }

    function _inputs(uint256 index) private view returns (bytes memory inputs) {
        inputs = bytes.concat(_leafAndPath(weights, index), _leafAndPath(momentum, index));
        uint256[] memory seats = _ordered(mergedSlots);
        for (uint256 i = 0; i < seats.length; ++i) {
            inputs = bytes.concat(
                inputs,
                _leafAndPath(deltas[seats[i]], index),
                carriedRoot(0, seats[i]),
                abi.encodePacked(Trees.path(claimLeaves(0, seats[i]), segmentsOf(0, seats[i]) + 1))
            );
        }
    }

    function _leafAndPath(bytes[] storage data, uint256 index) private view returns (bytes memory) {
        bytes[] memory leaves = data;
        return bytes.concat(leaves[index], abi.encodePacked(Trees.path(Trees.hashAll(leaves), index)));
    }

    function _bring(bytes32 id, bytes memory inputs) private {
        _as(stranger);
        game.bringLeaf(task, id, inputs);
    }

    function _end(bytes32 id) private {
        _as(helper);
        game.endContest(task, id);
    }

    function _turnOf(bytes32 id) private view returns (IContests.Turn turn) {
        (turn,,,,,,) = game.contestOf(task, id);
    }

    function _clockOf(bytes32 id) private view returns (uint256 clockBlock) {
        (, clockBlock,,,,,) = game.contestOf(task, id);
    }

    // What an end means ---------------------------------------------------------------------------------------------
    function _requireFallen(bytes32 id) private view {
        assertEq(uint256(_turnOf(id)), uint256(IContests.Turn.FALLS), "it fell");
        assertEq(uint256(roundOf(0).phase), uint256(Phase.FALLEN), "the round waits for another root");
        for (uint256 i = 0; i < CLAIMS; ++i) {
            assertEq(
                uint256(tasks.seatAt(task, solverSeat(i)).status), uint256(SeatStatus.CLOSED), "a signer"
            );
        }
        assertEq(purse.creditOf(contester), 1000 + 120, "the bond and the finder's share");
        assertEq(game.openOf(task), 0, "nothing is open");
        assertBooks();
    }

    function _requireStands(bytes32 id, address answerer) private view {
        assertEq(uint256(_turnOf(id)), uint256(IContests.Turn.STANDS), "it stands");
        assertEq(uint256(roundOf(0).phase), uint256(Phase.POSTED), "still posted");
        assertEq(purse.creditOf(contester), 1000 - BOND, "the bond is lost");
        assertEq(purse.creditOf(answerer), BOND / 2, "half is the answerer's");
        assertEq(purse.burnPending(), BOND / 2, "half is burned");
        assertEq(game.openOf(task), 0, "nothing is open");
        assertEq(game.contestedUntil(task), now_() + RESPOND, "time for who waited");
        assertBooks();
    }

    function _error(bytes4 selector, uint256 a, uint256 b) private pure returns (bytes memory) {
        return abi.encodeWithSelector(selector, a, b);
    }

    function _invalid(bytes32 what) private pure returns (bytes memory) {
        return abi.encodeWithSelector(IRefusals.ProofInvalid.selector, what);
    }

    // Leaves ------------------------------------------------------------------------------------------------------
    /// forge-config: default.fuzz.runs = 8
    function testFuzz_bringLeaf_wrongLeaf_isRefusedAndFalls(uint256 index, bool isMomentum) public {
        index = bound(index, 0, LEAVES - 1);
        (isMomentum ? postedMomentum : postedWeights)[index] = "wrong";
        _postRoot();
        bytes32 id = _contest("");
        _descend(id, isMomentum ? 1 : 0, index);
        _requireWrong(id, _inputs(index));
    }

    /// @dev The leaf is refused; the root falls once the clock has run out, not before.
    function _requireWrong(bytes32 id, bytes memory inputs) private {
        _as(stranger);
        vm.expectRevert(_invalid("leaf"));
        game.bringLeaf(task, id, inputs);
        uint256 clock = _clockOf(id);
        _as(helper);
        vm.expectRevert(_error(IRefusals.NotLate.selector, clock, now_()));
        game.endContest(task, id);
        roll(clock + 1);
        _end(id);
        _requireFallen(id);
    }

    function test_bringLeaf_wrongPadding_falls() public {
        postedWeights = Trees.pad(postedWeights);
        postedWeights[LEAVES] = "not zero";
        _postRoot();
        bytes32 id = _contest("");
        _descend(id, 0, LEAVES);
        _requireWrong(id, "");
    }

    /// @dev Wherever a contester leads the descent, padding too: a right root stands.
    /// forge-config: default.fuzz.runs = 8
    function testFuzz_bringLeaf_rightLeaf_stands(uint256 index, bool isMomentum) public {
        index = bound(index, 0, 31);
        _postRoot();
        bytes32 id = _contest("");
        _descend(id, isMomentum ? 1 : 0, index);
        _bring(id, index < LEAVES ? _inputs(index) : bytes(""));
        _requireStands(id, stranger);
    }

    /// @dev The right root is that of tensors, which end with the last element: a claim that has numbers behind it fells no root.
    function test_bringLeaf_claimsBehindTheLastElement_stands() public {
        _postRoot();
        bytes32 id = _contest("");
        _descend(id, 0, LEAVES - 1);
        _bring(id, _inputs(LEAVES - 1));
        _requireStands(id, stranger);
    }

    /// @dev The same of the momentum.
    function test_bringLeaf_claimsBehindTheLastMoment_stands() public {
        _postRoot();
        bytes32 id = _contest("");
        _descend(id, 1, LEAVES - 1);
        _bring(id, _inputs(LEAVES - 1));
        _requireStands(id, stranger);
    }

    /// @dev A root that merges two of three claims is computed from these alone.
    function test_bringLeaf_someClaimsMerged_stands() public {
        mergedSlots = 5;
        delete newWeights;
        delete newMomentum;
        _merge();
        _postRoot();
        bytes32 id = _contest("");
        _descend(id, 0, 6);
        _bring(id, _inputs(6));
        _requireStands(id, stranger);
    }

    function test_bringLeaf_otherInputs_areRefused() public {
        _postRoot();
        bytes32 id = _contest("");
        _descend(id, 0, 6);
        bytes memory inputs = _inputs(6);
        bytes memory longer = bytes.concat(inputs, hex"00");
        bytes memory shorter = _inputs(6);
        assembly ("memory-safe") {
            mstore(shorter, sub(mload(shorter), 1))
        }
        _expect(_invalid("inputs"));
        _bring(id, longer);
        _expect(_invalid("inputs"));
        _bring(id, shorter);
        _expect(_invalid("inputs"));
        _bring(id, "");
        // A byte of the weights; of a sibling; then of each part of the first claim.
        uint256[2] memory ofBase = [uint256(3), 1024 + 5];
        for (uint256 i = 0; i < ofBase.length; ++i) {
            _expect(_invalid("base"));
            _bring(id, _changed(inputs, ofBase[i]));
        }
        uint256 claim = 2 * (1024 + 32 * LEVELS);
        uint256[4] memory ofClaim = [claim, claim + 260, claim + 260 + 160, claim + 260 + 160 + 32];
        for (uint256 i = 0; i < ofClaim.length; ++i) {
            _expect(_invalid("claim"));
            _bring(id, _changed(inputs, ofClaim[i]));
        }
        _expect(_invalid("base"));
        _bring(id, _inputs(7));
        _bring(id, inputs);
        _requireStands(id, stranger);
    }

    function _changed(bytes memory inputs, uint256 at) private pure returns (bytes memory changed) {
        changed = bytes.concat(inputs);
        changed[at] = bytes1(uint8(changed[at]) ^ 1);
    }

    /// @dev The sum depends on the order: claims that change places are not the shards' order.
    function test_bringLeaf_otherOrder_isRefused() public {
        _postRoot();
        bytes32 id = _contest("");
        _descend(id, 0, 6);
        bytes memory inputs = _inputs(6);
        uint256 base = 2 * (1024 + 32 * LEVELS);
        uint256 size = (inputs.length - base) / CLAIMS;
        for (uint256 i = 0; i < size; ++i) {
            (inputs[base + i], inputs[base + size + i]) = (inputs[base + size + i], inputs[base + i]);
        }
        _expect(_invalid("claim"));
        _bring(id, inputs);
    }

    // A model of one leaf ---------------------------------------------------------------------------------------------
    function test_contest_singleLeaf_isReachedAtOnce() public {
        _shrink();
        postedMomentum[0] = "wrong";
        _postRoot();
        bytes32 id = _contest("");
        _step(id, 1);
        assertEq(uint256(_turnOf(id)), uint256(IContests.Turn.LEAF), "at the leaf");
        _requireWrong(id, _inputs(0));
    }

    /// @dev Another world, of 200 parameters.
    function _shrink() private {
        delete pots;
        delete weights;
        delete momentum;
        delete newWeights;
        delete newMomentum;
        for (uint256 seat = 0; seat < CLAIMS; ++seat) {
            delete deltas[solverSeat(seat)];
        }
        parameters = 200;
        _makeModel();
        deploy();
        begin(CLAIMS, 6, 3);
        give(contester, 1000);
        _merge();
        playToDraw(0);
        acceptAll(0);
    }

    // Refusals ----------------------------------------------------------------------------------------------------
    function test_answer_refusals() public {
        _postRoot();
        bytes32 id = _contest("");
        bytes32[] memory nodes = _roots();
        (nodes[0], nodes[1]) = (nodes[1], nodes[0]);
        _tryAnswer(id, nodes, _invalid("nodes"));
        _tryAnswer(id, new bytes32[](1), _invalid("nodes"));
        _tryAnswer(id, new bytes32[](0), _invalid("nodes"));
        _step(id, 0);
        nodes = _nodesOf(id);
        nodes[3] = "other";
        _tryAnswer(id, nodes, _invalid("nodes"));
        _tryAnswer(id, _roots(), _invalid("nodes"));
        nodes = _nodesOf(id);
        _answer(id);
        uint256 theirs = uint256(IContests.Turn.CONTESTER);
        bytes memory turn = _error(IRefusals.WrongTurn.selector, theirs, uint256(IContests.Turn.ANSWER));
        _tryAnswer(id, nodes, turn);
        _expect(_error(IRefusals.WrongTurn.selector, theirs, uint256(IContests.Turn.LEAF)));
        _bring(id, "");
        _tryAnswer(
            "no contest", nodes, abi.encodeWithSelector(IRefusals.NothingOpen.selector, bytes32("no contest"))
        );
    }

    function _tryAnswer(bytes32 id, bytes32[] memory nodes, bytes memory error_) private {
        _expect(error_);
        _as(helper);
        game.answer(task, id, nodes);
    }

    function test_nameChild_refusals() public {
        _postRoot();
        bytes32 id = _contest("");
        bytes32[] memory nodes = _nodesOf(id);
        _answer(id);
        _expect(abi.encodeWithSelector(IRefusals.NotContester.selector, contester, helper));
        _as(helper);
        game.nameChild(task, id, 0, nodes);
        _expect(_invalid("child"));
        _as(contester);
        game.nameChild(task, id, 2, nodes);
        nodes[0] = "other";
        _expect(_invalid("nodes"));
        _as(contester);
        game.nameChild(task, id, 0, nodes);
    }
}
