// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.28;

import {Enclosure} from "./Enclosure.sol";
import {ExactStep} from "./ExactStep.sol";
import {ExactSum} from "./ExactSum.sol";
import {Float32} from "./Float32.sol";
import {Run, Runs} from "./Runs.sol";
import {FixedPointMathLib} from "solady/utils/FixedPointMathLib.sol";

/// @title Whether one output element of one operation is a fault, from its operands alone (docs/spec.md, section 9).
/// @notice A claimed value is a fault where no order of summation, fused or not, with subnormal numbers kept or taken for zero, on
/// conforming hardware can give it. What cannot be decided is decided for the accused. Values compare as numbers: -0 is 0.
/// @dev Twin of `judge_operation` in `protocol/spec/referee.py`: the same verdict on every input.
library Judge {
    using ExactStep for ExactStep.Result;
    using Float32 for uint32;
    using Runs for Run;

    // Operations, as in protocol/spec/program_operations.py.
    uint8 internal constant PRODUCT_SUM = 1;
    uint8 internal constant SUM = 2;
    uint8 internal constant SELECTED_SUM = 3;
    uint8 internal constant MAXIMUM_OF = 4;
    uint8 internal constant ADD = 5;
    uint8 internal constant SUBTRACT = 6;
    uint8 internal constant MULTIPLY = 7;
    uint8 internal constant DIVIDE = 8;
    uint8 internal constant MAXIMUM = 9;
    uint8 internal constant MINIMUM = 10;
    uint8 internal constant SQUARE_ROOT = 11;
    uint8 internal constant RECIPROCAL_ROOT = 12;
    uint8 internal constant EXPONENTIAL = 13;
    uint8 internal constant LOGARITHM = 14;
    uint8 internal constant SIGMOID = 15;
    uint8 internal constant GATHER = 16;
    uint8 internal constant EQUAL_SELECT = 17;
    uint8 internal constant FLUSH = 18;
    uint8 internal constant FINITE_SELECT = 19;
    uint8 internal constant COPY = 20;
    // Of exact programs alone (`ExactElement`), in the place of PRODUCT_SUM.
    uint8 internal constant SCALE_OF = 21;
    uint8 internal constant QUANTIZE = 22;
    uint8 internal constant QUANTIZED_PRODUCT_SUM = 23;

    /// @dev 2^-126 and 2^127 as patterns: below the first a number is subnormal or zero, below the second it is finite on every machine.
    uint32 private constant LEAST_NORMAL = 1 << 23;
    uint32 private constant SAFE = 254 << 23;
    int256 private constant LEAST_NORMAL_POWER = -126;
    int256 private constant SAFE_POWER = 127;

    /// @notice The program language has no such operation, or programs of this format have not.
    /// @param operation code of the operation
    error UnknownOperation(uint8 operation);
    /// @notice The operation takes another number of operands.
    /// @param expected what it takes
    /// @param actual what it has
    error WrongOperandCount(uint256 expected, uint256 actual);
    /// @notice The operation takes another number of terms.
    /// @param operation code of the operation
    /// @param actual what it has
    error WrongTermCount(uint8 operation, uint256 actual);

    /// @notice Whether `claimed` is a fault. Reverts on what is no operation of a valid program, never on values.
    /// @param operands one run an operand, without indices: SELECTED_SUM has the selected values, GATHER, EQUAL_SELECT and COPY have one
    /// value, FINITE_SELECT three
    /// @param terms of a reduction, 1 for all others; 0 for SELECTED_SUM where nothing is selected
    function isFault(uint8 operation, Run[] memory operands, uint256 terms, uint32 claimed)
        internal
        pure
        returns (bool)
    {
        _requireShape(operation, operands.length, terms);
        if (operation == PRODUCT_SUM) {
            return ExactSum.isProductFault(operands[0], operands[1], terms, claimed, terms);
        }
        if (operation == SUM || operation == SELECTED_SUM) return _isSumFault(operands[0], terms, claimed);
        if (operation == MAXIMUM_OF || operation == MAXIMUM || operation == MINIMUM) {
            return _isExtremeFault(operands, terms, claimed, operation == MINIMUM);
        }
        uint32 a = operands[0].head();
        if (operation == FINITE_SELECT) return _isCopyFault(operands[a.isFinite() ? 1 : 2].head(), claimed);
        if (operands.length == 1) return _isUnaryFault(operation, a, claimed);
        return _isBinaryFault(operation, a, operands[1].head(), claimed);
    }

    function _isUnaryFault(uint8 operation, uint32 a, uint32 claimed) private pure returns (bool) {
        if (operation == SQUARE_ROOT) return _isRootFault(a, claimed);
        if (operation >= RECIPROCAL_ROOT && operation <= SIGMOID) {
            return _isFunctionFault(operation, a, claimed);
        }
        return _isCopyFault(a, claimed);
    }

    function _isBinaryFault(uint8 operation, uint32 a, uint32 b, uint32 claimed) private pure returns (bool) {
        if (!a.isFinite() || !b.isFinite()) return false;
        if (operation == FLUSH) return _isFlushFault(a, b, claimed);
        return _isRoundedFault(operation, a, b, claimed);
    }

    // Shape
    function _requireShape(uint8 operation, uint256 operands, uint256 terms) private pure {
        if (operation < PRODUCT_SUM || operation > COPY) revert UnknownOperation(operation);
        uint256 expected = _operandCount(operation);
        if (operands != expected) revert WrongOperandCount(expected, operands);
        uint256 least = operation == SELECTED_SUM ? 0 : 1;
        uint256 most = operation <= SELECTED_SUM ? ExactSum.MAX_TERMS : 1;
        if (operation == MAXIMUM_OF) most = type(uint256).max;
        if (terms < least || terms > most) revert WrongTermCount(operation, terms);
    }

    function _operandCount(uint8 operation) private pure returns (uint256) {
        if (operation == FINITE_SELECT) return 3;
        bool isBinary = operation == PRODUCT_SUM || (operation >= ADD && operation <= MINIMUM);
        return isBinary || operation == FLUSH ? 2 : 1;
    }

    // Sums
    /// @dev n terms meet n - 1 additions; no term gives 0, one itself.
    function _isSumFault(Run memory run, uint256 terms, uint32 claimed) private pure returns (bool) {
        if (terms < 2) return _isCopyFault(terms == 0 ? 0 : run.head(), claimed);
        return ExactSum.isFault(run, terms, claimed, terms - 1);
    }

    // Choosing
    /// @dev The value, or 0 where it is subnormal.
    function _isCopyFault(uint32 exact, uint32 claimed) private pure returns (bool) {
        if (!exact.isFinite()) return false;
        if (!claimed.isFinite()) return _magnitude(exact) < SAFE;
        return !_isSame(claimed, exact) && !(_isZero(claimed) && _isTiny(exact));
    }

    /// @dev a where |a| >= b, else 0. A machine that takes subnormal numbers for 0 keeps a where both are: 0 >= 0.
    function _isFlushFault(uint32 a, uint32 b, uint32 claimed) private pure returns (bool) {
        bool isKept = b >= Float32.SIGN_BIT || _magnitude(a) >= b;
        if (!claimed.isFinite()) return !isKept || _magnitude(a) < SAFE;
        if (_isSame(claimed, a)) return !isKept && !_isZero(a) && !_isTiny(b); // |a| < b
        return !_isZero(claimed) || (isKept && !_isTiny(a));
    }

    /// @dev The largest or smallest of all elements of all operands. A machine that takes subnormal numbers for 0 cannot tell them
    /// apart: where the right one is tiny any operand that is tiny will do.
    function _isExtremeFault(Run[] memory operands, uint256 terms, uint32 claimed, bool isLeast)
        private
        pure
        returns (bool)
    {
        (uint256 best, bool isClaimFound) = (0, false);
        for (uint256 j = 0; j < operands.length; ++j) {
            (bool isSound, bool isFound) = operands[j].inspect(terms, claimed);
            if (!isSound) return false;
            best = FixedPointMathLib.max(operands[j].rankHighest(terms, isLeast), best);
            if (isFound) isClaimFound = true;
        }
        uint32 exact = Runs.unrank(best, isLeast);
        return _isCopyFault(exact, claimed) && !(_isTiny(exact) && _isTiny(claimed) && isClaimFound);
    }

    // One correctly rounded operation
    /// @dev The rounded result, of the operands or of these with 0 for subnormal ones; 0 where either is below 2^-126 before rounding.
    function _isRoundedFault(uint8 operation, uint32 a, uint32 b, uint32 claimed)
        private
        pure
        returns (bool)
    {
        if (operation == DIVIDE && _isTiny(b)) return false;
        ExactStep.Result memory exact = _calculate(operation, a, b);
        if (!claimed.isFinite()) return exact.isBelow(SAFE_POWER);
        if (_isSame(claimed, exact.round())) return false;
        ExactStep.Result memory flushed = exact;
        if (_isTiny(a) || _isTiny(b)) {
            flushed = _calculate(operation, _flush(a), _flush(b));
            if (_isSame(claimed, flushed.round())) return false;
        }
        bool isTiny = exact.isBelow(LEAST_NORMAL_POWER) || flushed.isBelow(LEAST_NORMAL_POWER);
        return !_isZero(claimed) || !isTiny;
    }

    function _calculate(uint8 operation, uint32 a, uint32 b) private pure returns (ExactStep.Result memory) {
        if (operation == DIVIDE) return ExactStep.divide(a, b);
        if (operation == MULTIPLY) return ExactStep.multiply(a, b);
        return ExactStep.add(a, operation == ADD ? b : b.negate());
    }

    function _isRootFault(uint32 a, uint32 claimed) private pure returns (bool) {
        if (!a.isFinite() || a > Float32.SIGN_BIT) return false;
        if (!claimed.isFinite()) return true; // no root reaches 2^127
        if (_isZero(claimed)) return !_isTiny(a);
        return claimed != Enclosure.squareRoot(a);
    }

    // Functions, enclosed
    /// @dev Some units in the last place, and 2^-126 where the value is below 2^-125, or always for SIGMOID.
    function _isFunctionFault(uint8 operation, uint32 a, uint32 claimed) private pure returns (bool) {
        if (!a.isFinite()) return false;
        if (operation == EXPONENTIAL) {
            // Beyond, nothing finite is near.
            if (a < Float32.SIGN_BIT && a > Enclosure.LIMIT) return claimed.isFinite();
            (int256 least, int256 most, int256 power) = Enclosure.exponential(a);
            return Enclosure.isOutside(claimed, least, most, power, 2, false);
        }
        if (operation == SIGMOID) {
            (int256 least, int256 most, int256 power) = Enclosure.sigmoid(a);
            return Enclosure.isOutside(claimed, least, most, power, 6, true);
        }
        if (a >= Float32.SIGN_BIT || _isTiny(a)) return false;
        (int256 low, int256 high, int256 exponent) =
            operation == LOGARITHM ? Enclosure.logarithm(a) : Enclosure.reciprocalRoot(a);
        return Enclosure.isOutside(claimed, low, high, exponent, operation == LOGARITHM ? 1 : 2, false);
    }

    // Patterns
    function _magnitude(uint32 bits) private pure returns (uint32) {
        return bits & ~Float32.SIGN_BIT;
    }

    function _isZero(uint32 bits) private pure returns (bool) {
        return _magnitude(bits) == 0;
    }

    /// @dev Below 2^-126: subnormal or zero.
    function _isTiny(uint32 bits) private pure returns (bool) {
        return _magnitude(bits) < LEAST_NORMAL;
    }

    /// @dev 0 for a subnormal number.
    function _flush(uint32 bits) private pure returns (uint32) {
        return _isTiny(bits) ? 0 : bits;
    }

    function _isSame(uint32 a, uint32 b) private pure returns (bool) {
        return a == b || (_isZero(a) && _isZero(b));
    }
}
