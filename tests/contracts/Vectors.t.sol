// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.28;

import {Limits} from "../../contracts/Types.sol";
import {Draw} from "../../contracts/libraries/Draw.sol";
import {Float32} from "../../contracts/libraries/Float32.sol";
import {OuterMath} from "../../contracts/libraries/OuterMath.sol";
import {PositionalMerkle} from "../../contracts/libraries/PositionalMerkle.sol";
import {Tolerance} from "../../contracts/libraries/Tolerance.sol";
import {FixedPointMathLib} from "solady/utils/FixedPointMathLib.sol";
import {Trees} from "./Trees.sol";
import {VectorFile} from "./VectorFile.sol";

/// @dev Section 1.
contract MerkleVectors is VectorFile {
    function setUp() public {
        open("merkle");
    }

    function test_leaves() public view {
        string[] memory name = names(".leaves");
        for (uint256 i = 0; i < name.length; ++i) {
            assertEq(PositionalMerkle.leafHash(blobs(".leaves.data")[i]), words(".leaves.hash")[i], name[i]);
        }
    }

    function test_trees() public view {
        string[] memory name = names(".trees");
        WordLists memory leaves = wordLists(".trees.leaf");
        for (uint256 i = 0; i < name.length; ++i) {
            bytes32[] memory given = pick(leaves, i);
            uint256 depth = PositionalMerkle.depth(given.length);
            assertEq(depth, numbers(".trees.depth")[i], name[i]);
            bytes32[] memory padded = new bytes32[](1 << depth);
            for (uint256 j = 0; j < given.length; ++j) {
                padded[j] = given[j];
            }
            assertEq(PositionalMerkle.rootOf(padded), words(".trees.root")[i], name[i]);
        }
    }

    function test_proofs() public view {
        string[] memory name = names(".proofs");
        WordLists memory paths = wordLists(".proofs.path");
        for (uint256 i = 0; i < name.length; ++i) {
            bool valid = this.verify(
                words(".proofs.root")[i],
                words(".proofs.leaf")[i],
                numbers(".proofs.index")[i],
                numbers(".proofs.count")[i],
                pick(paths, i)
            );
            assertEq(valid, flags(".proofs.valid")[i], name[i]);
        }
    }

    function verify(bytes32 root, bytes32 leaf, uint256 index, uint256 count, bytes32[] calldata path)
        external
        pure
        returns (bool)
    {
        return PositionalMerkle.verify(root, leaf, index, count, path);
    }

    function test_ranges() public view {
        string[] memory name = names(".ranges");
        bytes[] memory data = blobs(".ranges.data");
        bool[] memory valid = flags(".ranges.valid");
        WordLists memory paths = wordLists(".ranges.path");
        for (uint256 i = 0; i < name.length; ++i) {
            assertEq(this.verifyRange(data[i], i, pick(paths, i)), valid[i], name[i]);
        }
    }

    function verifyRange(bytes memory data, uint256 i, bytes32[] calldata path) external view returns (bool) {
        return Trees.verifyRange(
            words(".ranges.root")[i],
            data,
            numbers(".ranges.leafBytes")[i],
            numbers(".ranges.first")[i],
            numbers(".ranges.count")[i],
            numbers(".ranges.total")[i],
            path
        );
    }

    function test_sets() public view {
        string[] memory name = names(".sets");
        bool[] memory valid = flags(".sets.valid");
        NumberLists memory indices = numberLists(".sets.index");
        WordLists memory leaves = wordLists(".sets.leaf");
        WordLists memory paths = wordLists(".sets.path");
        for (uint256 i = 0; i < name.length; ++i) {
            bool found = this.verifySet(i, pick(indices, i), pick(leaves, i), pick(paths, i));
            assertEq(found, valid[i], name[i]);
        }
    }

    function verifySet(uint256 i, uint256[] memory indices, bytes32[] memory leaves, bytes32[] calldata path)
        external
        view
        returns (bool)
    {
        return Trees.verifySet(words(".sets.root")[i], indices, leaves, numbers(".sets.count")[i], path);
    }

    function test_zeroTensors() public view {
        string[] memory name = names(".zeroTensors");
        for (uint256 i = 0; i < name.length; ++i) {
            uint256 count = PositionalMerkle.tensorLeafCount(numbers(".zeroTensors.parameterCount")[i]);
            assertEq(count, numbers(".zeroTensors.leafCount")[i], name[i]);
            bytes32[] memory leaves = new bytes32[](1 << PositionalMerkle.depth(count));
            bytes32 zeroLeaf = PositionalMerkle.leafHash(new bytes(PositionalMerkle.LEAF_BYTES));
            for (uint256 j = 0; j < count; ++j) {
                leaves[j] = zeroLeaf;
            }
            assertEq(PositionalMerkle.rootOf(leaves), words(".zeroTensors.root")[i], name[i]);
        }
    }
}

/// @dev Section 4.
contract DrawVectors is VectorFile {
    function setUp() public {
        open("draw");
    }

    function test_uniform() public view {
        string[] memory name = names(".uniform");
        bytes32[] memory seed = words(".uniform.seed");
        (uint256[] memory counter, uint256[] memory n) = (numbers(".uniform.counter"), numbers(".uniform.n"));
        uint256[] memory value = numbers(".uniform.value");
        for (uint256 i = 0; i < name.length; ++i) {
            assertEq(Draw.uniform(seed[i], counter[i], n[i]), value[i], name[i]);
        }
    }

    function test_shards() public view {
        string[] memory name = names(".shards");
        for (uint256 i = 0; i < name.length; ++i) {
            uint256 shard = Draw.shard(
                words(".shards.beacon")[i], numbers(".shards.slot")[i], numbers(".shards.solverCount")[i]
            );
            assertEq(shard, numbers(".shards.shard")[i], name[i]);
        }
    }
}

/// @dev Section 4, the data of a step.
contract SampleVectors is VectorFile {
    function test_samples() public {
        open("draw");
        string[] memory name = names(".samples");
        for (uint256 i = 0; i < name.length; ++i) {
            uint256 start = Draw.sampleStart(
                words(".samples.beacon")[i],
                numbers(".samples.shard")[i],
                numbers(".samples.step")[i],
                numbers(".samples.row")[i],
                numbers(".samples.tokenCount")[i],
                numbers(".samples.sequenceTokens")[i]
            );
            assertEq(start, numbers(".samples.start")[i], name[i]);
        }
    }
}

/// @dev Section 5, the arithmetic.
contract Float32Vectors is VectorFile {
    function setUp() public {
        open("float32");
    }

    function test_add() public view {
        _check(".add", Float32.add);
    }

    function test_subtract() public view {
        _check(".subtract", Float32.sub);
    }

    function test_multiply() public view {
        _check(".multiply", Float32.mul);
    }

    function test_divide() public view {
        _check(".divide", Float32.div);
    }

    function _check(string memory table, function(uint32, uint32) pure returns (uint32) operation)
        private
        view
    {
        string[] memory name = names(table);
        uint256[] memory a = numbers(string.concat(table, ".a"));
        uint256[] memory b = numbers(string.concat(table, ".b"));
        uint256[] memory result = numbers(string.concat(table, ".result"));
        for (uint256 i = 0; i < name.length; ++i) {
            assertEq(operation(uint32(a[i]), uint32(b[i])), result[i], name[i]);
        }
    }

    function test_units() public view {
        string[] memory name = names(".units");
        uint256[] memory bits = numbers(".units.bits");
        (uint256[] memory magnitude, bool[] memory negative) =
            (numbers(".units.magnitude"), flags(".units.negative"));
        for (uint256 i = 0; i < name.length; ++i) {
            uint32 pattern = uint32(bits[i]);
            int256 expected = int256(magnitude[i]) * (negative[i] ? int256(-1) : int256(1));
            int256 units = int256(Tolerance.magnitude(pattern))
                * (pattern & Float32.SIGN_BIT != 0 ? int256(-1) : int256(1));
            assertEq(uint256(units), uint256(expected), name[i]);
        }
    }
}

/// @dev Section 5, the pseudo-gradient and the outer step.
contract OuterVectors is VectorFile {
    function setUp() public {
        open("outer");
    }

    function test_blocks() public view {
        string[] memory name = names(".blocks");
        NumberLists memory differences = numberLists(".blocks.difference");
        for (uint256 i = 0; i < name.length; ++i) {
            bytes memory encoded = new bytes(OuterMath.BLOCK_BYTES);
            OuterMath.encodeBlock(_patterns(pick(differences, i)), encoded, 0);
            assertEq(encoded, blobs(".blocks.encoded")[i], name[i]);
        }
    }

    function _patterns(uint256[] memory values) private pure returns (uint32[] memory patterns) {
        patterns = new uint32[](values.length);
        for (uint256 i = 0; i < values.length; ++i) {
            patterns[i] = uint32(values[i]);
        }
    }

    function test_elements() public view {
        string[] memory name = names(".elements");
        uint256[] memory exponent = numbers(".elements.exponentByte");
        int256[] memory quantum = integers(".elements.quantum");
        uint256[] memory value = numbers(".elements.value");
        for (uint256 i = 0; i < name.length; ++i) {
            bytes memory delta = new bytes(OuterMath.DELTA_LEAF_BYTES);
            // Element 65 is the second of the second block.
            delta[65] = bytes1(uint8(exponent[i]));
            delta[67] = bytes1(uint8(int8(quantum[i])));
            assertEq(OuterMath.valueAt(delta, 65), value[i], name[i]);
        }
    }

    function test_deltaLeaves() public view {
        string[] memory name = names(".deltaLeaves");
        for (uint256 i = 0; i < name.length; ++i) {
            (bool ok, bytes memory delta) =
                OuterMath.deltaLeaf(blobs(".deltaLeaves.globalLeaf")[i], blobs(".deltaLeaves.finalLeaf")[i]);
            assertEq(ok, flags(".deltaLeaves.isFinite")[i], name[i]);
            if (ok) assertEq(delta, blobs(".deltaLeaves.deltaLeaf")[i], name[i]);
        }
    }

    function test_means() public view {
        string[] memory name = names(".means");
        NumberLists memory values = numberLists(".means.value");
        for (uint256 i = 0; i < name.length; ++i) {
            (bool ok, uint32 mean) = OuterMath.mean(_patterns(pick(values, i)));
            assertTrue(ok, name[i]);
            assertEq(mean, numbers(".means.mean")[i], name[i]);
        }
    }

    function test_steps() public view {
        string[] memory name = names(".steps");
        NumberLists memory deltas = numberLists(".steps.delta");
        for (uint256 i = 0; i < name.length; ++i) {
            OuterMath.Rates memory rates = _rates(".steps", i);
            uint32 weight = uint32(numbers(".steps.weight")[i]);
            uint32 momentum = uint32(numbers(".steps.momentum")[i]);
            uint32[] memory values = _patterns(pick(deltas, i));
            (bool ok, uint32 d) = values.length == 0 ? (false, 0) : OuterMath.mean(values);
            if (ok) (weight, momentum) = OuterMath.outerElement(weight, momentum, d, rates);
            assertEq(weight, numbers(".steps.newWeight")[i], name[i]);
            assertEq(momentum, numbers(".steps.newMomentum")[i], name[i]);
        }
    }

    function _rates(string memory table, uint256 i) private view returns (OuterMath.Rates memory) {
        uint256 learningRate = numbers(string.concat(table, ".learningRate"))[i];
        return
            OuterMath.Rates(uint32(learningRate), uint32(numbers(string.concat(table, ".momentumFactor"))[i]));
    }

    function test_leafSteps() public view {
        string[] memory name = names(".leafSteps");
        BytesLists memory deltas = blobLists(".leafSteps.deltaLeaf");
        for (uint256 i = 0; i < name.length; ++i) {
            (bytes memory weights, bytes memory momentum) = OuterMath.outerLeaf(
                blobs(".leafSteps.weights")[i],
                blobs(".leafSteps.momentum")[i],
                pick(deltas, i),
                _rates(".leafSteps", i)
            );
            assertEq(weights, blobs(".leafSteps.newWeights")[i], name[i]);
            assertEq(momentum, blobs(".leafSteps.newMomentum")[i], name[i]);
        }
    }
}

/// @dev Section 6.
contract ToleranceVectors is VectorFile {
    function setUp() public {
        open("tolerance");
    }

    function test_roots() public view {
        string[] memory name = names(".roots");
        (uint256[] memory v, uint256[] memory root) = (numbers(".roots.secondMoment"), numbers(".roots.root"));
        for (uint256 i = 0; i < name.length; ++i) {
            assertEq(Tolerance.rootUp(v[i]), root[i], name[i]);
        }
    }

    function test_elements() public view {
        string[] memory name = names(".elements");
        NumberLists memory claimed = numberLists(".elements.claimed");
        NumberLists memory replayed = numberLists(".elements.replayed");
        for (uint256 i = 0; i < name.length; ++i) {
            bool exceedsLimits = Tolerance.doesElementExceed(
                _element(pick(claimed, i)),
                _element(pick(replayed, i)),
                _limits(".elements", i),
                numbers(".elements.learningRateSum")[i]
            );
            assertTrue(exceedsLimits == flags(".elements.beyond")[i], name[i]);
        }
    }

    function test_allowances() public view {
        string[] memory name = names(".elements");
        NumberLists memory replayed = numberLists(".elements.replayed");
        NumberLists memory allowed = numberLists(".elements.allowed");
        for (uint256 i = 0; i < name.length; ++i) {
            Tolerance.Element memory element = _element(pick(replayed, i));
            bool isJudged = Float32.isFinite(element.weight) && Float32.isFinite(element.firstMoment)
                && Float32.isFinite(element.secondMoment);
            if (!isJudged) continue;
            Limits memory limits = _limits(".elements", i);
            uint256 v = Tolerance.magnitude(element.secondMoment);
            uint256[] memory expected = pick(allowed, i);
            assertEq(
                Tolerance.rateAllowance(numbers(".elements.learningRateSum")[i], limits.tauW)
                    + Tolerance.scaled(limits.tauR, Tolerance.magnitude(element.weight)),
                expected[0],
                name[i]
            );
            assertEq(
                Tolerance.firstAllowance(Tolerance.rootOf(element.secondMoment), limits.tauM, limits.epsM),
                expected[1],
                name[i]
            );
            assertEq(Tolerance.scaled(limits.tauV, v) + limits.floorV, expected[2], name[i]);
        }
    }

    function _element(uint256[] memory bits) private pure returns (Tolerance.Element memory) {
        return Tolerance.Element(uint32(bits[0]), uint32(bits[1]), uint32(bits[2]));
    }

    function _limits(string memory table, uint256 i) private view returns (Limits memory) {
        return _limits(pick(numberLists(string.concat(table, ".limits")), i));
    }

    function _limits(uint256[] memory v) private pure returns (Limits memory) {
        return Limits(uint64(v[0]), uint160(v[1]), uint64(v[2]), uint160(v[3]), uint64(v[4]), uint64(v[5]));
    }

    function test_leaves() public view {
        string[] memory name = names(".leaves");
        BytesLists memory claimed = blobLists(".leaves.claimed");
        BytesLists memory replayed = blobLists(".leaves.replayed");
        for (uint256 i = 0; i < name.length; ++i) {
            bool exceedsLimits = Tolerance.doesLeafExceed(
                _leaf(pick(claimed, i)),
                _leaf(pick(replayed, i)),
                _limits(".leaves", i),
                numbers(".leaves.learningRateSum")[i]
            );
            assertTrue(exceedsLimits == flags(".leaves.beyond")[i], name[i]);
        }
    }

    function _leaf(bytes[] memory parts) private pure returns (Tolerance.Leaf memory) {
        return Tolerance.Leaf(parts[0], parts[1], parts[2]);
    }

    /// @dev solady's root rounds down for every input; the reference is the definition of an integer square root.
    function testFuzz_rootUp_isTheLeastWhoseSquareReaches(uint256 v) public pure {
        v >>= 43;
        uint256 root = Tolerance.rootUp(v);
        uint256 below = FixedPointMathLib.sqrt(v << 43);
        assertTrue(root == below || root == below + 1, "one of the two neighbours");
        if (v == 0) return assertEq(root, 0, "zero");
        assertTrue((root - 1) * (root - 1) < v << 43, "the one below is too small");
        // root may be 2^128, whose square no longer fits.
        assertTrue(root == 1 << 128 || root * root >= v << 43, "its square reaches");
    }
}
