// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.28;

import {Float32} from "./Float32.sol";
import {PositionalMerkle} from "./PositionalMerkle.sol";
import {LibBit} from "solady/utils/LibBit.sol";

/// @title The pseudo-gradient and the outer step of one leaf, bit for bit (docs/spec.md, section 5).
/// @dev Twin of `protocol/spec/outer.py`: DiLoCo's mean of pseudo-gradients, then Nesterov (arXiv 2311.08105).
library OuterMath {
    using Float32 for uint32;

    uint256 internal constant BLOCK_ELEMENTS = 64;
    uint256 internal constant BLOCKS_PER_LEAF = 4;
    uint256 internal constant BLOCK_BYTES = 1 + BLOCK_ELEMENTS;
    uint256 internal constant DELTA_LEAF_BYTES = BLOCKS_PER_LEAF * BLOCK_BYTES;
    uint256 private constant QUANTUM_MAX = 127;
    /// @dev The largest e + 149 of an encoding: sums of 64 integers below 2^(7 + 220) fit a word. A block with a larger one is read as zeros.
    uint256 private constant SCALE_MAX = 220;
    /// @dev What is shifted by so much is 0.
    uint256 private constant NOTHING = 256;
    /// @dev Below it every integer is a float32: the partial sum needs no rounding.
    uint256 private constant EXACT_LIMIT = 1 << 24;

    /// @notice A leaf of another length.
    /// @param expected bytes that are due
    /// @param actual bytes that were given
    error WrongLeafBytes(uint256 expected, uint256 actual);

    /// @notice The optimizer's numbers, float32 bits.
    struct Rates {
        uint32 learningRate;
        uint32 momentum;
    }

    // Pseudo-gradient ---------------------------------------------------------------------------------------------
    /// @notice The delta leaf that belongs to one leaf of the global and of the final weights.
    /// @return ok false where no encoding exists: a leaf of another size, a difference that is not finite or beyond 127 * 2^71
    function deltaLeaf(bytes memory globalLeaf, bytes memory finalLeaf)
        internal
        pure
        returns (bool ok, bytes memory delta)
    {
        if (
            globalLeaf.length != PositionalMerkle.LEAF_BYTES
                || finalLeaf.length != PositionalMerkle.LEAF_BYTES
        ) return (false, "");
        delta = new bytes(DELTA_LEAF_BYTES);
        uint32[] memory differences = new uint32[](BLOCK_ELEMENTS);
        for (uint256 i = 0; i < BLOCKS_PER_LEAF; ++i) {
            if (!_subtract(globalLeaf, finalLeaf, i * BLOCK_ELEMENTS, differences)) return (false, "");
            if (!encodeBlock(differences, delta, i * BLOCK_BYTES)) return (false, "");
        }
        ok = true;
    }

    /// @dev Fills `differences` from element `first` on; false where an operand is not finite.
    function _subtract(
        bytes memory globalLeaf,
        bytes memory finalLeaf,
        uint256 first,
        uint32[] memory differences
    ) private pure returns (bool) {
        for (uint256 i = 0; i < BLOCK_ELEMENTS; ++i) {
            (uint32 a, uint32 b) = (Float32.load(globalLeaf, first + i), Float32.load(finalLeaf, first + i));
            if (!a.isFinite() || !b.isFinite()) return false;
            differences[i] = a.sub(b);
        }
        return true;
    }

    /// @notice Writes e + 149 and 64 signed bytes at `offset`; false where a difference is not finite or e does not fit.
    function encodeBlock(uint32[] memory differences, bytes memory delta, uint256 offset)
        internal
        pure
        returns (bool)
    {
        uint32 largest = 0;
        for (uint256 i = 0; i < BLOCK_ELEMENTS; ++i) {
            uint32 magnitude = differences[i] & ~Float32.SIGN_BIT;
            if (magnitude > largest) largest = magnitude;
        }
        if (!largest.isFinite()) return false;
        uint256 scale = scaleOf(largest);
        if (scale > SCALE_MAX) return false;
        delta[offset] = bytes1(uint8(scale));
        for (uint256 i = 0; i < BLOCK_ELEMENTS; ++i) {
            delta[offset + 1 + i] = bytes1(uint8(quantise(differences[i], scale)));
        }
        return true;
    }

    /// @notice e + 149 for the smallest e >= -149 with |largest| <= 127 * 2^e.
    function scaleOf(uint32 largest) internal pure returns (uint256) {
        (, uint256 mantissa, uint256 exponent) = largest.decode();
        if (mantissa == 0) return 0;
        // In units of 2^-149 the magnitude has this many bits; 7 of them stay.
        uint256 bitLength = LibBit.fls(mantissa) + 1 + exponent;
        if (bitLength <= 7) return 0;
        uint256 scale = bitLength - 7;
        return mantissa << exponent > QUANTUM_MAX << scale ? scale + 1 : scale;
    }

    /// @notice roundHalfEven(d / 2^e), given scale = e + 149 of the block.
    function quantise(uint32 d, uint256 scale) internal pure returns (int8) {
        (bool negative, uint256 mantissa, uint256 exponent) = d.decode();
        uint256 quantum = exponent >= scale
            ? mantissa << (exponent - scale)
            : Float32.shiftRightEven(mantissa, scale - exponent);
        return negative ? int8(-int256(quantum)) : int8(int256(quantum));
    }

    /// @notice Whether all scales of a delta leaf are ones that an encoding can have.
    function hasScales(bytes memory delta) internal pure returns (bool) {
        _requireBytes(delta, DELTA_LEAF_BYTES);
        for (uint256 i = 0; i < BLOCKS_PER_LEAF; ++i) {
            if (uint8(delta[i * BLOCK_BYTES]) > SCALE_MAX) return false;
        }
        return true;
    }

    /// @notice Bits of element `index` of a delta leaf: q * 2^e, exact; 0 in a block whose scale no encoding has.
    function valueAt(bytes memory delta, uint256 index) internal pure returns (uint32) {
        uint256 offset = (index / BLOCK_ELEMENTS) * BLOCK_BYTES;
        if (uint8(delta[offset]) > SCALE_MAX) return 0;
        int256 quantum = int8(uint8(delta[offset + 1 + index % BLOCK_ELEMENTS]));
        uint256 magnitude = uint256(quantum < 0 ? -quantum : quantum);
        return Float32.round(quantum < 0, magnitude, int256(uint256(uint8(delta[offset]))));
    }

    // Outer step --------------------------------------------------------------------------------------------------
    /// @notice The new weights and momentum leaf from the old ones and the included claims' delta leaves in ascending shard order.
    function outerLeaf(bytes memory weights, bytes memory momentum, bytes[] memory deltas, Rates memory rates)
        internal
        pure
        returns (bytes memory newWeights, bytes memory newMomentum)
    {
        _requireBytes(weights, PositionalMerkle.LEAF_BYTES);
        _requireBytes(momentum, PositionalMerkle.LEAF_BYTES);
        for (uint256 i = 0; i < deltas.length; ++i) {
            _requireBytes(deltas[i], DELTA_LEAF_BYTES);
        }
        (newWeights, newMomentum) = (bytes.concat(weights), bytes.concat(momentum));
        if (deltas.length == 0) return (newWeights, newMomentum);
        for (uint256 i = 0; i < BLOCKS_PER_LEAF; ++i) {
            Blocks memory blocks = _gather(deltas, i);
            for (uint256 j = 0; j < BLOCK_ELEMENTS; ++j) {
                uint256 at = i * BLOCK_ELEMENTS + j;
                uint32 d = _meanOf(blocks, j);
                (uint32 w, uint32 m) =
                    outerElement(Float32.load(weights, at), Float32.load(momentum, at), d, rates);
                Float32.store(newWeights, at, w);
                Float32.store(newMomentum, at, m);
            }
        }
    }

    function _requireBytes(bytes memory data, uint256 expected) private pure {
        if (data.length != expected) revert WrongLeafBytes(expected, data.length);
    }

    /// @dev The same block of all claims. In units of 2^(base - 149) every value is an integer below 2^(7 + SCALE_MAX).
    struct Blocks {
        bytes[] deltas;
        uint256 offset;
        uint256 base;
        uint256[] shifts;
    }

    /// @dev A block of zeros says nothing of its scale, nor does one that is read as zeros: it takes part in the sum, but not in the choice of the base.
    function _gather(bytes[] memory deltas, uint256 index) private pure returns (Blocks memory blocks) {
        blocks.deltas = deltas;
        blocks.offset = index * BLOCK_BYTES;
        blocks.shifts = new uint256[](deltas.length);
        uint256 least = SCALE_MAX;
        for (uint256 i = 0; i < deltas.length; ++i) {
            uint256 scale = uint8(deltas[i][blocks.offset]);
            if (scale > SCALE_MAX || _isZeroBlock(deltas[i], blocks.offset)) scale = NOTHING;
            blocks.shifts[i] = scale;
            if (scale < least) least = scale;
        }
        blocks.base = least;
        for (uint256 i = 0; i < deltas.length; ++i) {
            if (blocks.shifts[i] != NOTHING) blocks.shifts[i] -= least;
        }
    }

    function _isZeroBlock(bytes memory delta, uint256 offset) private pure returns (bool zero) {
        assembly ("memory-safe") {
            let quanta := add(add(delta, 33), offset)
            zero := iszero(or(mload(quanta), mload(add(quanta, 32))))
        }
    }

    /// @dev D of element `index` of the block: the sum over the number of claims. It stays far below overflow.
    function _meanOf(Blocks memory blocks, uint256 index) private pure returns (uint32) {
        int256 total = _sumOf(blocks, index);
        uint32 sum = Float32.round(total < 0, _abs(total), int256(blocks.base));
        return sum.div(Float32.fromUint(blocks.shifts.length));
    }

    /// @dev fl(... fl(fl(x_0 + x_1) + x_2) ...) in units of 2^(base - 149). By hand: a leaf of 64 claims has 16,384 additions, and a contest of an honest
    /// root is lost where they do not fit a transaction. 24 significant bits stay, ties to even. Sums rarely change their size, so the last count of lost
    /// bits mostly fits; else it is that of Solady's `LibBit.fls` (MIT), less 23.
    function _sumOf(Blocks memory blocks, uint256 index) private pure returns (int256 total) {
        (bytes[] memory deltas, uint256[] memory shifts) = (blocks.deltas, blocks.shifts);
        uint256 place = blocks.offset + 33 + index;
        assembly ("memory-safe") {
            let gap := sub(shifts, deltas)
            let end := add(deltas, shl(5, add(mload(deltas), 1)))
            let lost := 1
            for { let next := add(deltas, 32) } lt(next, end) { next := add(next, 32) } {
                let quantum := signextend(0, byte(0, mload(add(mload(next), place))))
                total := add(total, shl(mload(add(next, gap)), quantum))
                let sign := sar(255, total)
                let magnitude := sub(xor(total, sign), sign)
                if lt(magnitude, EXACT_LIMIT) { continue }
                if xor(shr(add(lost, 23), magnitude), 1) {
                    lost := shl(7, lt(0xffffffffffffffffffffffffffffffff, magnitude))
                    lost := or(lost, shl(6, lt(0xffffffffffffffff, shr(lost, magnitude))))
                    lost := or(lost, shl(5, lt(0xffffffff, shr(lost, magnitude))))
                    lost := or(lost, shl(4, lt(0xffff, shr(lost, magnitude))))
                    lost := or(lost, shl(3, lt(0xff, shr(lost, magnitude))))
                    let rest := and(0x1f, shr(shr(lost, magnitude), 0x8421084210842108cc6318c6db6d54be))
                    lost := or(
                        lost,
                        byte(rest, 0x0706060506020504060203020504030106050205030304010505030400000000)
                    )
                    lost := sub(lost, 23)
                }
                let most := sub(shl(sub(lost, 1), 1), 1)
                let odd := and(shr(lost, magnitude), 1)
                magnitude := shl(lost, shr(lost, add(magnitude, add(most, odd))))
                total := sub(xor(magnitude, sign), sign)
            }
        }
    }

    function _abs(int256 value) private pure returns (uint256) {
        unchecked {
            return uint256(value < 0 ? -value : value);
        }
    }

    /// @notice M' = fl(fl(mu M) + D), W' = fl(W - fl(eta fl(D + fl(mu M')))), D the mean of the claims' values. An element one of
    /// whose intermediate results is not finite keeps its values: the step is total, whatever a claim contains.
    function outerElement(uint32 weight, uint32 momentum, uint32 d, Rates memory rates)
        internal
        pure
        returns (uint32, uint32)
    {
        (bool ok, uint32 newMomentum) = _multiplyAdd(rates.momentum, momentum, d);
        if (!ok) return (weight, momentum);
        uint32 step;
        (ok, step) = _multiplyAdd(rates.momentum, newMomentum, d);
        if (!ok) return (weight, momentum);
        uint32 newWeight;
        (ok, newWeight) = _multiplyAdd(rates.learningRate, step.negate(), weight);
        return ok ? (newWeight, newMomentum) : (weight, momentum);
    }

    /// @notice D = fl(s / n), s summed in the order given, n >= 1: the definition, of which `outerLeaf` computes whole blocks. ok unless a sum overflows,
    /// which values of claims (at most 2^78) cannot.
    function mean(uint32[] memory values) internal pure returns (bool ok, uint32 d) {
        d = values[0];
        for (uint256 i = 1; i < values.length; ++i) {
            d = d.add(values[i]);
            if (!d.isFinite()) return (false, d);
        }
        return (true, d.div(Float32.fromUint(values.length)));
    }

    /// @dev fl(fl(a * b) + c), rounded twice; ok where both results are finite.
    function _multiplyAdd(uint32 a, uint32 b, uint32 c) private pure returns (bool ok, uint32 result) {
        uint32 product = a.mul(b);
        if (!product.isFinite()) return (false, product);
        result = product.add(c);
        ok = result.isFinite();
    }
}
