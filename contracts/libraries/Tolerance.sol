// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.28;

import {Limits} from "../Types.sol";
import {Float32} from "./Float32.sol";
import {PositionalMerkle} from "./PositionalMerkle.sol";
import {FixedPointMathLib} from "solady/utils/FixedPointMathLib.sol";

/// @title How far honest hardware may differ, element by element, in integers (docs/spec.md, section 6).
/// @notice Replays start from the committed state, so noise does not accumulate; the replayer's second moment and weight set the scale.
/// @dev Twin of `protocol/spec/tolerance.py`. No division and no float: values are integers of 2^-149. What exceeds 2^64 in magnitude counts as
/// 2^64, so every finite element has a judgement. Every intermediate result stays below 2^256: nothing here can revert on hostile numbers.
library Tolerance {
    /// @dev The pattern of 2^64, which is 2^213 in units of 2^-149: exponent field 127 + 64.
    uint256 private constant MAGNITUDE_LIMIT = (127 + 64) << 23;
    uint256 private constant INFINITY = 0xff << 23;
    uint256 private constant SIGN_BIT = 1 << 31;
    uint256 private constant MAGNITUDE = SIGN_BIT - 1;
    uint256 private constant HIDDEN_BIT = 1 << 23;
    uint256 private constant LANE = type(uint32).max;
    uint256 private constant TAU_FRACTION_BITS = 64;
    /// @dev v' * 2^43 < 2^256, and its root counts 2^-96, so 53 more bits make it count 2^-149.
    uint256 private constant SQRT_SHIFT = 43;
    uint256 private constant ROOT_TO_UNITS_SHIFT = 53;
    /// @dev The root of a v' from 2^64 on is 2^32 times that of v' / 2^64, whose exponent field is less by 64.
    uint256 private constant LARGE_ROOT_SHIFT = 32;
    uint256 private constant LARGE_FIELDS = (2 * LARGE_ROOT_SHIFT) << 23;
    /// @dev tauW * L counts 2^-128.
    uint256 private constant RATE_TO_UNITS_SHIFT = 21;
    /// @dev A hostile schedule leaf is capped, so that no comparison can overflow.
    uint256 private constant LEARNING_RATE_SUM_MAX = type(uint128).max;

    /// @notice One element of a state, float32 bits.
    struct Element {
        uint32 weight;
        uint32 firstMoment;
        uint32 secondMoment;
    }

    /// @notice The same leaf of all three tensors, raw bytes.
    struct Leaf {
        bytes weights;
        bytes firstMoment;
        bytes secondMoment;
    }

    /// @dev Limits, ready to use; every field a word, since masks cost more than the comparisons.
    struct Bounds {
        uint256 rate;
        uint256 tauR;
        uint256 tauM;
        uint256 epsM;
        uint256 tauV;
        uint256 floorV;
    }

    /// @dev Eight elements of all three tensors, 32 bits each.
    struct Lanes {
        uint256 weights;
        uint256 firstMoments;
        uint256 secondMoments;
    }

    /// @notice Whether an element of a leaf lies beyond the limits. A leaf of another size than LEAF_BYTES does, too.
    /// @param learningRateSum of the segment, in units of 2^-64
    function doesLeafExceed(
        Leaf memory claimed,
        Leaf memory replayed,
        Limits memory limits,
        uint256 learningRateSum
    ) internal pure returns (bool) {
        if (!_isWhole(claimed) || !_isWhole(replayed)) return true;
        Bounds memory bounds = _boundsOf(limits, learningRateSum);
        // Filled anew for every word: memory that grew with each would cost more than the arithmetic.
        (Lanes memory a, Lanes memory b) = (Lanes(0, 0, 0), Lanes(0, 0, 0));
        for (uint256 i = 0; i < PositionalMerkle.LEAF_BYTES / 32; ++i) {
            _load(a, claimed, i);
            _load(b, replayed, i);
            if (!_areWithin(a, b, bounds)) return true;
        }
        return false;
    }

    function _load(Lanes memory lanes, Leaf memory leaf, uint256 word) private pure {
        lanes.weights = Float32.lanes(leaf.weights, word);
        lanes.firstMoments = Float32.lanes(leaf.firstMoment, word);
        lanes.secondMoments = Float32.lanes(leaf.secondMoment, word);
    }

    function _areWithin(Lanes memory a, Lanes memory b, Bounds memory bounds) private pure returns (bool) {
        for (uint256 shift = 0; shift < 256; shift += 32) {
            bool isWithin = _isWithin(
                a.weights >> shift & LANE,
                a.firstMoments >> shift & LANE,
                a.secondMoments >> shift & LANE,
                b.weights >> shift & LANE,
                b.firstMoments >> shift & LANE,
                b.secondMoments >> shift & LANE,
                bounds
            );
            if (!isWithin) return false;
        }
        return true;
    }

    function _isWhole(Leaf memory leaf) private pure returns (bool) {
        return leaf.weights.length == PositionalMerkle.LEAF_BYTES
            && leaf.firstMoment.length == PositionalMerkle.LEAF_BYTES
            && leaf.secondMoment.length == PositionalMerkle.LEAF_BYTES;
    }

    function _boundsOf(Limits memory limits, uint256 learningRateSum) private pure returns (Bounds memory) {
        return Bounds(
            rateAllowance(learningRateSum, limits.tauW),
            limits.tauR,
            limits.tauM,
            limits.epsM,
            limits.tauV,
            limits.floorV
        );
    }

    /// @notice Whether an element lies beyond the limits: a difference is too large, the claimed v alone is below zero, or a number is not finite.
    /// @param learningRateSum of the segment, in units of 2^-64
    function doesElementExceed(
        Element memory claimed,
        Element memory replayed,
        Limits memory limits,
        uint256 learningRateSum
    ) internal pure returns (bool) {
        return !_isWithin(
            claimed.weight,
            claimed.firstMoment,
            claimed.secondMoment,
            replayed.weight,
            replayed.firstMoment,
            replayed.secondMoment,
            _boundsOf(limits, learningRateSum)
        );
    }

    function _isWithin(
        uint256 weightA,
        uint256 firstA,
        uint256 secondA,
        uint256 weightB,
        uint256 firstB,
        uint256 secondB,
        Bounds memory bounds
    ) private pure returns (bool) {
        if (!_isFinite(weightA, firstA, secondA) || !_isFinite(weightB, firstB, secondB)) return false;
        // The root of such a v is no number. A step that takes it would lose the weight, however small v is. -0 is zero.
        if (secondA > SIGN_BIT && secondB <= SIGN_BIT) return false;
        uint256 weight = magnitude(weightB);
        if (_distance(weightA, weightB, weight) > bounds.rate + scaled(bounds.tauR, weight)) return false;
        uint256 v = magnitude(secondB);
        if (_distance(secondA, secondB, v) > scaled(bounds.tauV, v) + bounds.floorV) return false;
        // The square root is the dear part: not at all where nothing differs.
        return firstA == firstB
            || distance(firstA, firstB) <= firstAllowance(_rootOf(secondB, v), bounds.tauM, bounds.epsM);
    }

    function _isFinite(uint256 weight, uint256 first, uint256 second) private pure returns (bool) {
        return weight & MAGNITUDE < INFINITY && first & MAGNITUDE < INFINITY && second & MAGNITUDE < INFINITY;
    }

    /// @notice |a - b| of two finite patterns that are cut off at 2^64, in units of 2^-149.
    function distance(uint256 a, uint256 b) internal pure returns (uint256) {
        return _distance(a, b, magnitude(b));
    }

    /// @dev The same where |b| is known.
    function _distance(uint256 a, uint256 b, uint256 y) private pure returns (uint256) {
        if (a == b) return 0;
        uint256 x = magnitude(a);
        unchecked {
            if ((a ^ b) & SIGN_BIT != 0) return x + y;
            return FixedPointMathLib.dist(x, y);
        }
    }

    /// @notice |a| of a finite pattern in units of 2^-149: exact below 2^64, which larger ones count as.
    function magnitude(uint256 bits) internal pure returns (uint256) {
        unchecked {
            bits &= MAGNITUDE;
            if (bits > MAGNITUDE_LIMIT) bits = MAGNITUDE_LIMIT;
            uint256 exponent = bits >> 23;
            uint256 fraction = bits & (HIDDEN_BIT - 1);
            return exponent == 0 ? fraction : (fraction | HIDDEN_BIT) << (exponent - 1);
        }
    }

    /// @notice The part of the largest |dW| that all elements share: tauW * L, exact. The other is `scaled(tauR, |W'|)`.
    function rateAllowance(uint256 learningRateSum, uint256 tauW) internal pure returns (uint256) {
        uint256 rate = FixedPointMathLib.min(learningRateSum, LEARNING_RATE_SUM_MAX);
        unchecked {
            return tauW * rate << RATE_TO_UNITS_SHIFT;
        }
    }

    /// @notice The largest |dm|: tauM * (sqrt(v') + epsM), the whole units of the product.
    /// @param root what `rootOf` gave for v'
    function firstAllowance(uint256 root, uint256 tauM, uint256 epsM) internal pure returns (uint256) {
        unchecked {
            return scaled(tauM, (root << ROOT_TO_UNITS_SHIFT) + epsM);
        }
    }

    /// @notice sqrt(|v'|) of a finite pattern in units of 2^-96, rounded up. It is not cut off, since m may be large where v' is.
    function rootOf(uint256 bits) internal pure returns (uint256) {
        return _rootOf(bits, magnitude(bits));
    }

    /// @dev The same where the magnitude v is known.
    function _rootOf(uint256 bits, uint256 v) private pure returns (uint256) {
        unchecked {
            bits &= MAGNITUDE;
            if (bits < MAGNITUDE_LIMIT) return rootUp(v);
            return rootUp(magnitude(bits - LARGE_FIELDS)) << LARGE_ROOT_SHIFT;
        }
    }

    /// @notice The least r with r^2 >= v' * 2^43: sqrt(v') in units of 2^-96, rounded up; v' < 2^213 in units of 2^-149.
    function rootUp(uint256 v) internal pure returns (uint256 root) {
        unchecked {
            uint256 scaled = v << SQRT_SHIFT;
            root = FixedPointMathLib.sqrt(scaled);
            if (root * root < scaled) ++root;
        }
    }

    /// @notice The whole units of tau * units: what |dv| may be, but for floorV, and what rounding may add to |dW|. In two parts,
    /// since the product may exceed 2^256.
    function scaled(uint256 tau, uint256 units) internal pure returns (uint256) {
        unchecked {
            uint256 low = units & (1 << TAU_FRACTION_BITS) - 1;
            return tau * (units >> TAU_FRACTION_BITS) + (tau * low >> TAU_FRACTION_BITS);
        }
    }
}
