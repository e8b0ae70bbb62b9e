// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.28;

import {BoundaryProof, LeafProof, Limits, StateHeader, StateLeaves} from "../../../contracts/Types.sol";
import {GameTerms} from "../../../contracts/game/GameTypes.sol";
import {OuterOpening, SignedVote, WorkProof} from "../../../contracts/game/StatementTypes.sol";
import {Hashing} from "../../../contracts/libraries/Hashing.sol";
import {OuterMath} from "../../../contracts/libraries/OuterMath.sol";
import {PositionalMerkle} from "../../../contracts/libraries/PositionalMerkle.sol";
import {Statements} from "../../../contracts/libraries/Statements.sol";
import {Trees} from "../Trees.sol";
import {GameWorld} from "./GameWorld.sol";

/// @title A world whose claims of round 0 have states down to their leaves, so that they can be opened and proven false.
/// @dev Four leaves a tensor; all elements of a leaf are one number. `twists` make a seat's claim false in one thing.
abstract contract StatementWorld is GameWorld {
    enum Twist {
        NONE,
        START_WEIGHTS,
        START_STEP,
        START_MOMENT,
        DELTA,
        SCALE,
        FINAL_INFINITE,
        CARRIED,
        END_STEPS,
        BROKEN_LEAF
    }

    uint256 internal constant LEAVES = 4;
    uint256 internal constant WEIGHTS = 0;
    uint256 internal constant FIRST = 1;
    uint256 internal constant SECOND = 2;
    uint256 internal constant RATE = 1 << 60;
    uint32 internal constant INSIDE = 0x400;
    uint32 internal constant BEYOND = 0x100000;

    /// @dev By seat.
    mapping(uint256 => Twist) internal twists;
    /// @dev How far the auditor's own end lies from the claim's, in the bits of the weights of one leaf.
    uint32 internal apart;
    uint32 internal apartLeaf;
    /// @dev Of the auditor's own end: steps beside those of the boundary.
    uint32 internal apartSteps;
    /// @dev The same, of the local steps alone.
    uint32 internal apartLocal;

    function soundTerms() internal view virtual override returns (GameTerms memory t) {
        t = super.soundTerms();
        t.initialWeightsRoot = Trees.root(_tensor(0, 0, 0, WEIGHTS));
        t.scheduleRoot = Trees.root(scheduleLeaves(t.rounds * t.innerSteps / t.segmentSteps));
        t.limits = Limits(1 << 54, 1, 1 << 54, 0, 0, 1 << 54);
    }

    function scheduleLeaves(uint256 count) internal pure returns (bytes32[] memory leaves) {
        leaves = new bytes32[](count);
        for (uint256 i = 0; i < count; ++i) {
            leaves[i] = Hashing.scheduleLeaf(i, RATE + i);
        }
    }

    // States
    function bitsOf(uint256 seat, uint256 boundary, uint256 tensor) internal pure returns (uint32) {
        uint256 moved = boundary == 0 ? 0 : boundary * 0x1000 + (seat & 0xffff) * 16;
        return uint32([uint256(0x3f800000), 0x3a000000, 0x38000000][tensor] + moved);
    }

    /// @dev A leaf of one number.
    function filled(uint32 bits, uint256 length) internal pure returns (bytes memory leaf) {
        leaf = new bytes(length);
        uint256 x =
            (bits >> 24) | (bits >> 8 & 0xff00) | (bits << 8 & 0xff0000) | (uint256(bits) << 24 & 0xff000000);
        x |= x << 32;
        x |= x << 64;
        x |= x << 128;
        for (uint256 i = 0; i < length; i += 32) {
            assembly ("memory-safe") {
                mstore(add(add(leaf, 32), i), x)
            }
        }
    }

    /// @dev A leaf of a claim's state; of boundary 0 the weights that all start from.
    function leafOf(uint256 seat, uint256 boundary, uint256 tensor, uint256 index)
        internal
        view
        returns (bytes memory)
    {
        Twist twist = twists[seat];
        bool isSpoiled = tensor == WEIGHTS && index == 1 && boundary != 0;
        if (isSpoiled && twist == Twist.FINAL_INFINITE) return filled(0x7f800000, 1024);
        if (isSpoiled && twist == Twist.BROKEN_LEAF) return filled(0x3f800000, 1056);
        bool isGlobal = tensor == WEIGHTS && boundary == 0;
        return filled(uint32(index) + (isGlobal ? 0x3f800000 : bitsOf(seat, boundary, tensor)), 1024);
    }

    function _tensor(uint256, uint256 seat, uint256 boundary, uint256 tensor)
        internal
        view
        returns (bytes32[] memory leaves)
    {
        leaves = new bytes32[](LEAVES);
        for (uint256 i = 0; i < LEAVES; ++i) {
            leaves[i] = PositionalMerkle.leafHash(leafOf(seat, boundary, tensor, i));
        }
    }

    function stateAt(uint256 round, uint256 seat, uint256 boundary)
        internal
        view
        virtual
        override
        returns (StateHeader memory state)
    {
        state = super.stateAt(round, seat, boundary);
        if (boundary == 0) return _twistStart(state, twists[seat]);
        if (round == 0) {
            state.weightsRoot = Trees.root(_tensor(round, seat, boundary, WEIGHTS));
            state.firstMomentRoot = Trees.root(_tensor(round, seat, boundary, FIRST));
            state.secondMomentRoot = Trees.root(_tensor(round, seat, boundary, SECOND));
        }
        if (twists[seat] == Twist.END_STEPS) ++state.localStep;
    }

    function _twistStart(StateHeader memory state, Twist twist) private pure returns (StateHeader memory) {
        if (twist == Twist.START_WEIGHTS) state.weightsRoot = "another start";
        if (twist == Twist.START_STEP) ++state.globalStep;
        if (twist == Twist.START_MOMENT) state.secondMomentRoot = "another moment";
        return state;
    }

    // The auditor's own end
    function ownLeafOf(uint256 seat, uint256 boundary, uint256 tensor, uint256 index)
        internal
        view
        returns (bytes memory)
    {
        bool isApart = tensor == WEIGHTS && index == apartLeaf && apart != 0;
        if (!isApart) return leafOf(seat, boundary, tensor, index);
        return filled(bitsOf(seat, boundary, tensor) + uint32(index) + apart, 1024);
    }

    function ownWeights(uint256 seat, uint256 boundary) internal view returns (bytes32[] memory leaves) {
        leaves = new bytes32[](LEAVES);
        for (uint256 i = 0; i < LEAVES; ++i) {
            leaves[i] = PositionalMerkle.leafHash(ownLeafOf(seat, boundary, WEIGHTS, i));
        }
    }

    function ownStateAt(uint256 round, uint256 seat, uint256 boundary)
        internal
        view
        returns (StateHeader memory state)
    {
        state = stateAt(round, seat, boundary);
        if (twists[seat] == Twist.END_STEPS) --state.localStep;
        state.weightsRoot = Trees.root(ownWeights(seat, boundary));
        state.globalStep += apartSteps;
        state.localStep += apartLocal;
    }

    function ownEndRoot(uint256 round, uint256 slot, uint256 segment, uint256)
        internal
        view
        virtual
        override
        returns (bytes32)
    {
        uint256 solver = seatIn(round, slot);
        if (round != 0) return stateRootAt(round, solver, segment + 1);
        return Hashing.stateRoot(ownStateAt(round, solver, segment + 1));
    }

    // The work
    function deltaOf(uint256 seat, uint256 index) internal view returns (bytes memory delta) {
        Twist twist = twists[seat];
        bool isOk;
        (isOk, delta) = OuterMath.deltaLeaf(
            leafOf(0, 0, WEIGHTS, index), leafOf(seat, segmentsOf(0, seat), WEIGHTS, index)
        );
        if (!isOk) delta = new bytes(260);
        if (index != 1) return delta;
        if (twist == Twist.DELTA) delta[7] ^= 0x01;
        if (twist == Twist.SCALE) delta[65] = bytes1(uint8(221));
    }

    function deltaLeaves(uint256 seat) internal view returns (bytes32[] memory leaves) {
        leaves = new bytes32[](LEAVES);
        for (uint256 i = 0; i < LEAVES; ++i) {
            leaves[i] = PositionalMerkle.leafHash(deltaOf(seat, i));
        }
    }

    function deltaRoot(uint256 round, uint256 seat) internal view virtual override returns (bytes32) {
        return round == 0 ? Trees.root(deltaLeaves(seat)) : super.deltaRoot(round, seat);
    }

    function carriedRoot(uint256 round, uint256 seat) internal view virtual override returns (bytes32) {
        return twists[seat] == Twist.CARRIED ? bytes32("another") : super.carriedRoot(round, seat);
    }

    // Openings
    function boundaryProof(uint256 round, uint256 seat, uint256 boundary)
        internal
        view
        returns (BoundaryProof memory)
    {
        bytes32[] memory path = Trees.path(claimLeaves(round, seat), boundary);
        return BoundaryProof(stateAt(round, seat, boundary), boundarySalt(round, seat, boundary), path);
    }

    function workProof(uint256 round, uint256 seat) internal view returns (WorkProof memory) {
        bytes32[] memory path = Trees.path(claimLeaves(round, seat), segmentsOf(round, seat) + 1);
        return WorkProof(deltaRoot(round, seat), carriedRoot(round, seat), path);
    }

    function outerOpening(uint256 round) internal view returns (OuterOpening memory) {
        bytes32[2] memory both = behind[roundOf(round).base];
        return OuterOpening(both[0], both[1]);
    }

    function leafProof(uint256 seat, uint256 boundary, uint256 tensor, uint256 index)
        internal
        view
        returns (LeafProof memory)
    {
        bytes32[] memory path = Trees.path(_tensor(0, seat, boundary, tensor), index);
        return LeafProof(leafOf(seat, boundary, tensor, index), path);
    }

    function deltaProof(uint256 seat, uint256 index) internal view returns (LeafProof memory) {
        return LeafProof(deltaOf(seat, index), Trees.path(deltaLeaves(seat), index));
    }

    function stateLeaves(uint256 seat, uint256 boundary, uint256 index)
        internal
        view
        returns (StateLeaves memory)
    {
        return StateLeaves(
            leafProof(seat, boundary, WEIGHTS, index),
            leafProof(seat, boundary, FIRST, index),
            leafProof(seat, boundary, SECOND, index)
        );
    }

    function ownLeaves(uint256 seat, uint256 boundary, uint256 index)
        internal
        view
        returns (StateLeaves memory leaves)
    {
        leaves = stateLeaves(seat, boundary, index);
        leaves.weights = LeafProof(
            ownLeafOf(seat, boundary, WEIGHTS, index), Trees.path(ownWeights(seat, boundary), index)
        );
    }

    // Statements
    function sign(Statements.Vote memory vote, address account)
        internal
        view
        returns (SignedVote memory signed)
    {
        signed.vote = vote;
        (signed.r, signed.vs) =
            abi.decode(signAs(account, digestOf(Statements.hash(vote))), (bytes32, bytes32));
    }
}
