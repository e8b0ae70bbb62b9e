// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.28;

import {GameTerms, Phase} from "../../../contracts/game/GameTypes.sol";
import {IContests} from "../../../contracts/game/interfaces/IContests.sol";
import {Draw} from "../../../contracts/libraries/Draw.sol";
import {Float32} from "../../../contracts/libraries/Float32.sol";
import {Hashing} from "../../../contracts/libraries/Hashing.sol";
import {OuterMath} from "../../../contracts/libraries/OuterMath.sol";
import {PositionalMerkle} from "../../../contracts/libraries/PositionalMerkle.sol";
import {GameWorld} from "./GameWorld.sol";

/// @title The dearest leaf: 64 merged claims of 65,535 segments each, 2^31 parameters, sums that round at every claim.
/// @dev Trees of millions of leaves are paths with siblings that stand for the rest.
contract ContestsGasTest is GameWorld {
    uint256 private constant CLAIMS = 64;
    uint256 private constant SEGMENTS = 65_535;
    uint256 private constant DEPTH = 23;
    uint256 private constant INDEX = 0x2aaaab;
    uint256 private constant BYTES_MAX = 120 * 1024;
    uint256 private constant GAS_MAX = 12_000_000;

    bytes private baseInputs;
    bytes32[2] private baseRoots;
    bytes[] private deltas;
    bytes[] private claimInputs;
    bytes32[] private claimRoots_;

    event Cost(string what, uint256 amount);

    // A path: a leaf, siblings that stand for the rest of its tree, and the root
    function _root(bytes32 leaf, uint256 index, uint256 levels, bytes32 salt)
        private
        pure
        returns (bytes32 node, bytes memory siblings)
    {
        (node, siblings) = (leaf, new bytes(0));
        for (uint256 i = 0; i < levels; ++i) {
            bytes32 sibling = keccak256(abi.encode(salt, i));
            siblings = bytes.concat(siblings, sibling);
            node = index >> i & 1 == 0
                ? PositionalMerkle.nodeHash(node, sibling)
                : PositionalMerkle.nodeHash(sibling, node);
        }
    }

    function _noise(uint256 seed) private pure returns (bytes memory leaf) {
        leaf = new bytes(1024);
        for (uint256 i = 0; i < 256; ++i) {
            uint256 word = uint256(keccak256(abi.encode(seed, i)));
            Float32.store(leaf, i, uint32(word) & 0xbfffffff);
        }
    }

    function _makeBase() private {
        (bytes memory w, bytes memory m) = (_noise(1), _noise(2));
        (bytes32 rootW, bytes memory pathW) = _root(PositionalMerkle.leafHash(w), INDEX, DEPTH, "w");
        (bytes32 rootM, bytes memory pathM) = _root(PositionalMerkle.leafHash(m), INDEX, DEPTH, "m");
        (baseRoots, baseInputs) = ([rootW, rootM], bytes.concat(w, pathW, m, pathM));
    }

    /// @dev From claim to claim scales rise by three bits, so nearly every sum rounds: in whichever order the shards come.
    function _delta(uint256 claim) private pure returns (bytes memory delta) {
        delta = new bytes(260);
        for (uint256 i = 0; i < 260; ++i) {
            uint256 word = uint256(keccak256(abi.encode("delta", claim, i)));
            delta[i] = bytes1(uint8(i % 65 == 0 ? 3 * claim : word));
        }
    }

    function _makeClaim(uint256 slot, bytes memory delta) private {
        address solver = accountOf(solverSeat(slot));
        (bytes32 deltaRoot_, bytes memory deltaPath) =
            _root(PositionalMerkle.leafHash(delta), INDEX, DEPTH, bytes32(slot));
        bytes32 carried = keccak256(abi.encode("carried", slot));
        bytes32 leaf = Hashing.workLeaf(tasks.domainOf(task), 0, solver, SEGMENTS, deltaRoot_, carried);
        (bytes32 root, bytes memory path) = _root(leaf, SEGMENTS + 1, 17, bytes32(1000 + slot));
        deltas.push(delta);
        claimInputs.push(bytes.concat(delta, deltaPath, carried, path));
        claimRoots_.push(Hashing.claimRoot(root, SEGMENTS));
    }

    function _begin() private {
        _makeBase();
        GameTerms memory wanted = soundTerms();
        (wanted.parameterCount, wanted.solverSeats, wanted.draws) = (1 << 31, uint32(CLAIMS), 1);
        (wanted.segmentSteps, wanted.innerSteps) = (1, uint32(SEGMENTS));
        (wanted.initialWeightsRoot, wanted.zeroRoot) = (baseRoots[0], baseRoots[1]);
        (wanted.rounds, wanted.windows.respond, wanted.windows.dispute) = (200, 6000, 100_000);
        postTask(wanted);
        joinAll(CLAIMS, 6, 3);
        startRounds();
        for (uint256 slot = 0; slot < CLAIMS; ++slot) {
            _makeClaim(slot, _delta(slot));
            bytes32 beacon = rounds.beaconOf(task, 0);
            bytes32 base = roundOf(0).base;
            asSeat(solverSeat(slot));
            rounds.commit(task, 0, base, beacon, claimRoots_[slot], SEGMENTS);
        }
        drawAudits(0);
        acceptAll(0);
    }

    /// @dev The right leaf of the new weights, and the inputs that prove it.
    function _compute() private view returns (bytes32 right, bytes memory inputs) {
        bytes[] memory ordered = new bytes[](CLAIMS);
        bytes32 beacon = rounds.beaconOf(task, 0);
        uint256 offset = Draw.shard(beacon, 0, CLAIMS);
        inputs = baseInputs;
        for (uint256 shard = 0; shard < CLAIMS; ++shard) {
            uint256 slot = (shard + CLAIMS - offset) % CLAIMS;
            ordered[shard] = deltas[slot];
            inputs = bytes.concat(inputs, claimInputs[slot]);
        }
        OuterMath.Rates memory rates = OuterMath.Rates(terms.outerLearningRate, terms.outerMomentum);
        (bytes memory w,) = OuterMath.outerLeaf(_noise(1), _noise(2), ordered, rates);
        right = PositionalMerkle.leafHash(w);
    }

    /// @dev Posts a root that has this leaf, and leads a contest to it. Groups of nodes from the leaf upwards.
    function _lead(bytes32 leaf) private returns (bytes32 id) {
        bytes32[][] memory groups = new bytes32[][](6);
        uint256[6] memory children;
        (bytes32 node, uint256 rest) = (leaf, INDEX);
        for (uint256 i = 0; i < 6; ++i) {
            uint256 levels = i == 0 ? 3 : 4;
            groups[i] = new bytes32[](1 << levels);
            (children[i], rest) = (rest % (1 << levels), rest >> levels);
            bytes32[] memory copy = new bytes32[](1 << levels);
            for (uint256 j = 0; j < copy.length; ++j) {
                groups[i][j] = j == children[i] ? node : keccak256(abi.encode(i, j));
                copy[j] = groups[i][j];
            }
            node = PositionalMerkle.rootOf(copy);
        }
        bytes32[] memory roots = new bytes32[](2);
        (roots[0], roots[1]) = (node, "momentum");
        post(0, type(uint64).max, Hashing.outerRoot(roots[0], roots[1]), type(uint64).max);
        give(stranger, 50);
        vm.prank(stranger);
        id = IContests(game).contest(task, 0, 50, "");
        _turn(id, roots, 0);
        for (uint256 i = 6; i > 0; --i) {
            _turn(id, groups[i - 1], children[i - 1]);
        }
    }

    function _turn(bytes32 id, bytes32[] memory nodes, uint256 child) private {
        cool();
        IContests(game).answerContest(task, id, nodes);
        emit Cost("answer, without 21,000 and its bytes", vm.lastCallGas().gasTotalUsed);
        vm.prank(stranger);
        IContests(game).nameChild(task, id, child, nodes);
    }

    function _bring(bytes32 id, bytes memory inputs) private returns (uint256) {
        return _send(abi.encodeCall(IContests.bringLeaf, (task, id, inputs)));
    }

    /// @dev As a transaction of its own.
    function _send(bytes memory call_) private returns (uint256 sum) {
        sum = 21_000;
        for (uint256 i = 0; i < call_.length; ++i) {
            sum += call_[i] == 0 ? 4 : 16;
        }
        emit Cost("bytes", call_.length);
        assertTrue(call_.length <= BYTES_MAX, "bytes of the call");
        cool();
        (bool isDone, bytes memory answer) = game.call(call_);
        sum += vm.lastCallGas().gasTotalUsed;
        if (!isDone) {
            assembly ("memory-safe") {
                revert(add(answer, 32), mload(answer))
            }
        }
    }

    function test_gas_rightLeaf() public {
        _begin();
        (bytes32 right, bytes memory inputs) = _compute();
        bytes32 id = _lead(right);
        uint256 gas = _bring(id, inputs);
        emit Cost("gas of a right leaf", gas);
        assertEq(uint256(roundOf(0).phase), uint256(Phase.POSTED), "it stands");
        assertTrue(gas <= GAS_MAX, "gas");
    }

    /// @dev All the rounds that the ring holds behind round 0, every second one with votes.
    function _playLater() private {
        for (uint256 round = 1; round < 128; ++round) {
            (bytes32 base, bytes32 beacon) = (roundOf(round).base, rounds.beaconOf(task, round));
            for (uint256 slot = 0; slot < CLAIMS; ++slot) {
                asSeat(solverSeat(slot));
                rounds.commit(task, round, base, beacon, claimRoots_[slot], SEGMENTS);
            }
            if (round % 2 == 0) {
                drawAudits(round);
                vote_(round, 0, 0, 0, UNSERVED, false);
                vote_(round, 0, 0, 1, UNSERVED, false);
                roll(roundOf(round).closed + terms.windows.auditMax + terms.windows.post);
            } else {
                roll(close(round) + 10);
            }
            rounds.stand(task, round);
        }
    }

    function test_gas_fallOverAllRoundsOfTheRing() public {
        _begin();
        bytes32 id = _lead("wrong");
        _playLater();
        (, uint256 clock,,,,,) = IContests(game).contestOf(task, id);
        if (now_() <= clock) roll(clock + 1);
        uint256 gas = _send(abi.encodeCall(IContests.endContest, (task, id)));
        emit Cost("gas of a fall over 127 rounds", gas);
        assertEq(uint256(roundOf(0).phase), uint256(Phase.FALLEN), "it falls");
        assertTrue(gas <= GAS_MAX, "gas");
    }
}
