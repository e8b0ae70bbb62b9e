// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.28;

import {Float32} from "./Float32.sol";
import {PositionalMerkle} from "./PositionalMerkle.sol";
import {FixedPointMathLib} from "solady/utils/FixedPointMathLib.sol";
import {LibBit} from "solady/utils/LibBit.sol";

/// @title The pseudo-gradient and the outer step of one leaf, bit for bit (docs/spec.md, section 5).
/// @dev Twin of `pseudo_gradient.py` and `outer_update.py` in `protocol/spec`: DiLoCo's mean of pseudo-gradients, then Nesterov (arXiv 2311.08105).
library OuterMath {
    using Float32 for uint32;

    uint256 internal constant BLOCK_ELEMENTS = 64;
    uint256 internal constant BLOCKS_PER_LEAF = 4;
    uint256 internal constant BLOCK_BYTES = 1 + BLOCK_ELEMENTS;
    uint256 internal constant DELTA_LEAF_BYTES = BLOCKS_PER_LEAF * BLOCK_BYTES;
    uint256 private constant QUANTUM_MAX = 127;
    /// @dev 127 * 2^71, the largest value of an encoding: differences are cut off here, infinite ones too.
    uint32 private constant LARGEST = 0x667e0000;
    /// @dev The largest e + 149 of an encoding: sums of 64 integers below 2^(7 + 220) fit a word. A block with a larger one is read as zeros.
    uint256 private constant SCALE_MAX = 220;
    /// @dev What is shifted by so much is 0.
    uint256 private constant NOTHING = 256;
    /// @dev A word and 64 quanta.
    uint256 private constant ROW_BYTES = 96;
    /// @dev Below it every integer is a float32: no rounding is needed.
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

    // Pseudo-gradient
    /// @notice The delta leaf that belongs to one leaf of the global and of the final weights.
    /// @return ok false where a leaf is of another size or holds a number that is not finite: all others have an encoding
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
            encodeBlock(differences, delta, i * BLOCK_BYTES);
        }
        ok = true;
    }

    /// @dev Fills `differences` from element `first` on; false where an operand is not finite. A difference may be infinite.
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

    /// @notice Writes e + 149 and 64 signed bytes at `offset`. What is larger than 127 * 2^71, or infinite, counts as 127 * 2^71.
    function encodeBlock(uint32[] memory differences, bytes memory delta, uint256 offset) internal pure {
        uint32 largest = 0;
        for (uint256 i = 0; i < BLOCK_ELEMENTS; ++i) {
            uint32 magnitude = differences[i] & ~Float32.SIGN_BIT;
            largest = uint32(FixedPointMathLib.max(magnitude, largest));
        }
        uint256 scale = scaleOf(_cut(largest));
        delta[offset] = bytes1(uint8(scale));
        for (uint256 i = 0; i < BLOCK_ELEMENTS; ++i) {
            delta[offset + 1 + i] = bytes1(uint8(quantise(_cut(differences[i]), scale)));
        }
    }

    function _cut(uint32 d) private pure returns (uint32) {
        return d & ~Float32.SIGN_BIT > LARGEST ? d & Float32.SIGN_BIT | LARGEST : d;
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
        return Float32.round(quantum < 0, FixedPointMathLib.abs(quantum), int256(uint256(uint8(delta[offset]))));
    }

    // Outer step
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
        Blocks memory blocks;
        blocks.rows = new bytes((deltas.length + 3) / 4 * (4 * ROW_BYTES));
        uint32 claims = Float32.fromUint(deltas.length);
        for (uint256 at = 0; at < PositionalMerkle.LEAF_ELEMENTS; ++at) {
            uint256 index = at % BLOCK_ELEMENTS;
            if (index == 0) _gather(deltas, at / BLOCK_ELEMENTS, blocks);
            uint32 d = _meanOf(blocks, index, claims);
            (uint32 w, uint32 m) =
                outerElement(Float32.load(weights, at), Float32.load(momentum, at), d, rates);
            Float32.store(newWeights, at, w);
            Float32.store(newMomentum, at, m);
        }
    }

    function _requireBytes(bytes memory data, uint256 expected) private pure {
        if (data.length != expected) revert WrongLeafBytes(expected, data.length);
    }

    /// @dev The same block of all claims. In units of 2^(base - 149) every value is an integer below 2^(7 + SCALE_MAX).
    /// @param rows one for each claim: a word that tells by how many bits its quanta are shifted, then the 64 quanta; zeros up to a multiple of four rows
    struct Blocks {
        bytes rows;
        uint256 base;
    }

    /// @dev A block of zeros says nothing of its scale, nor does one that is read as zeros: it takes part in the sum, but not in the choice of the base.
    /// The first word of a row, its scale, becomes its distance to the least scale; NOTHING stays. By hand: no bounds checks, and the rows lie one after
    /// the other.
    function _gather(bytes[] memory deltas, uint256 index, Blocks memory blocks) private pure {
        (bytes memory rows, uint256 offset, uint256 least) = (blocks.rows, index * BLOCK_BYTES, SCALE_MAX);
        for (uint256 i = 0; i < deltas.length; ++i) {
            least = FixedPointMathLib.min(_copyRow(deltas[i], offset, rows, i), least);
        }
        blocks.base = least;
        assembly ("memory-safe") {
            let end := add(add(rows, 32), mul(mload(deltas), ROW_BYTES))
            for { let row := add(rows, 32) } lt(row, end) { row := add(row, ROW_BYTES) } {
                let scale := mload(row)
                if lt(scale, NOTHING) { mstore(row, sub(scale, least)) }
            }
        }
    }

    /// @dev Copies a claim's block into its row; the row's first word is the scale. The scale is NOTHING where the block counts as zeros. By hand: two words
    /// are copied instead of 64 bytes, without bounds checks. `outerLeaf` has checked the length of each delta and made room for each row.
    function _copyRow(bytes memory delta, uint256 offset, bytes memory rows, uint256 index)
        private
        pure
        returns (uint256 scale)
    {
        assembly ("memory-safe") {
            let from := add(add(delta, 33), offset)
            let row := add(add(rows, 32), mul(index, ROW_BYTES))
            let left := mload(from)
            let right := mload(add(from, 32))
            scale := and(mload(sub(from, 32)), 0xff)
            if or(gt(scale, SCALE_MAX), iszero(or(left, right))) { scale := NOTHING }
            mstore(row, scale)
            mstore(add(row, 32), left)
            mstore(add(row, 64), right)
        }
    }

    /// @dev D of element `index` of the block: the sum over the number of claims. It stays far below overflow.
    function _meanOf(Blocks memory blocks, uint256 index, uint32 claims) private pure returns (uint32) {
        int256 total = _sumOf(blocks.rows, index);
        uint32 sum = Float32.round(total < 0, FixedPointMathLib.abs(total), int256(blocks.base));
        return sum.div(claims);
    }

    /// @dev fl(... fl(fl(x_0 + x_1) + x_2) ...) in units of 2^(base - 149). By hand: a leaf of 64 claims has 16,384 additions, and a contest of an honest
    /// root is lost where they do not fit a transaction. A total is a float32 already where it is its lowest bit times an integer below 2^24: most are.
    /// The loop itself costs as much as an addition: so it makes four at a time.
    function _sumOf(bytes memory rows, uint256 index) private pure returns (int256 total) {
        assembly ("memory-safe") {
            // 24 significant bits stay, ties to even. In two's complement it is the same on either side of zero.
            function nearest(sum) -> rounded {
                // Ones in all places that are lost. The magnitude may be one less: no power of two comes here.
                let lost := shr(24, xor(sum, sar(255, sum)))
                lost := or(lost, shr(1, lost))
                lost := or(lost, shr(2, lost))
                lost := or(lost, shr(4, lost))
                lost := or(lost, shr(8, lost))
                lost := or(lost, shr(16, lost))
                lost := or(lost, shr(32, lost))
                lost := or(lost, shr(64, lost))
                lost := or(lost, shr(128, lost))
                let odd := gt(and(sum, add(lost, 1)), 0)
                rounded := and(add(sum, add(shr(1, lost), odd)), not(lost))
            }
            // Words that end with the quantum: what is above it does not count. The shift is before it, in the same row.
            let back := not(index)
            let place := add(add(rows, 33), index)
            // total / (total & -total) is the total without its trailing zeros. It has more than 24 significant bits where that is not within +-2^24: then
            // the shift by 25 leaves a bit.
            for { let end := add(place, mload(rows)) } lt(place, end) {} {
                total := add(total, shl(mload(add(place, back)), signextend(0, mload(place))))
                if shr(25, add(sdiv(total, and(total, sub(0, total))), EXACT_LIMIT)) {
                    total := nearest(total)
                }
                place := add(place, ROW_BYTES)
                total := add(total, shl(mload(add(place, back)), signextend(0, mload(place))))
                if shr(25, add(sdiv(total, and(total, sub(0, total))), EXACT_LIMIT)) {
                    total := nearest(total)
                }
                place := add(place, ROW_BYTES)
                total := add(total, shl(mload(add(place, back)), signextend(0, mload(place))))
                if shr(25, add(sdiv(total, and(total, sub(0, total))), EXACT_LIMIT)) {
                    total := nearest(total)
                }
                place := add(place, ROW_BYTES)
                total := add(total, shl(mload(add(place, back)), signextend(0, mload(place))))
                if shr(25, add(sdiv(total, and(total, sub(0, total))), EXACT_LIMIT)) {
                    total := nearest(total)
                }
                place := add(place, ROW_BYTES)
            }
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

    /// @notice D = fl(s / n), s summed in the order given, n >= 1: the definition, of which `outerLeaf` computes whole blocks. Only tests call it. ok
    /// unless a sum overflows, which values of claims (at most 2^78) cannot.
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
