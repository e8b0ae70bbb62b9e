// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.28;

import {PositionalMerkle} from "../../../contracts/libraries/PositionalMerkle.sol";
import {Test} from "../Test.sol";
import {Trees} from "../Trees.sol";

contract PositionalMerkleTest is Test {
    function verify(bytes32 root, bytes32 leaf, uint256 index, uint256 count, bytes32[] calldata path)
        external
        pure
        returns (bool)
    {
        return PositionalMerkle.verify(root, leaf, index, count, path);
    }

    function _leaves(uint256 seed, uint256 count) private pure returns (bytes32[] memory leaves) {
        leaves = new bytes32[](count);
        for (uint256 i = 0; i < count; ++i) {
            leaves[i] = keccak256(abi.encode(seed, i));
        }
    }

    function testFuzz_verify_everyLeaf_succeeds(uint256 seed, uint256 count, uint256 index) public view {
        count = bound(count, 1, 40);
        index = bound(index, 0, count - 1);
        bytes32[] memory leaves = _leaves(seed, count);
        bytes32[] memory path = Trees.path(leaves, index);
        assertEq(path.length, PositionalMerkle.depth(count), "depth");
        assertTrue(this.verify(Trees.root(leaves), leaves[index], index, count, path), "valid proof");
    }

    function testFuzz_verify_anotherIndex_isRefused(uint256 seed, uint256 count, uint256 index, uint256 other)
        public
        view
    {
        count = bound(count, 2, 40);
        (index, other) = (bound(index, 0, count - 1), bound(other, 0, 2 * count));
        if (other == index) ++other;
        bytes32[] memory leaves = _leaves(seed, count);
        bytes32[] memory path = Trees.path(leaves, index);
        assertTrue(!this.verify(Trees.root(leaves), leaves[index], other, count, path), "position is bound");
    }

    /// @dev Positions wrap around: leaf 0 is no leaf `count` of a full tree.
    function test_verify_firstLeafAsOneBehindTheLast_isRefused() public view {
        bytes32[] memory leaves = _leaves(1, 4);
        bytes32[] memory path = Trees.path(leaves, 0);
        assertTrue(this.verify(Trees.root(leaves), leaves[0], 0, 4, path), "where it is");
        assertTrue(!this.verify(Trees.root(leaves), leaves[0], 4, 4, path), "where no leaf is");
    }

    function testFuzz_verify_anotherDepth_isRefused(uint256 seed, uint256 index) public view {
        index = bound(index, 0, 7);
        bytes32[] memory leaves = _leaves(seed, 8);
        bytes32[] memory path = Trees.path(leaves, index);
        bytes32 root = Trees.root(leaves);
        assertTrue(!this.verify(root, leaves[index], index, 9, path), "too shallow");
        assertTrue(!this.verify(root, leaves[index], index, 4, path), "too deep");
        // An inner node shown as a leaf of a smaller tree has a shorter path.
        bytes32 parent = PositionalMerkle.nodeHash(leaves[0], leaves[1]);
        bytes32[] memory short = new bytes32[](2);
        (short[0], short[1]) = (Trees.path(leaves, 0)[1], Trees.path(leaves, 0)[2]);
        assertTrue(!this.verify(root, parent, 0, 8, short), "a node is not a leaf");
    }

    function testFuzz_verify_changedSibling_isRefused(
        uint256 seed,
        uint256 index,
        uint256 level,
        bytes32 forged
    ) public view {
        index = bound(index, 0, 10);
        bytes32[] memory leaves = _leaves(seed, 11);
        bytes32[] memory path = Trees.path(leaves, index);
        level = bound(level, 0, path.length - 1);
        vm.assume(path[level] != forged);
        path[level] = forged;
        assertTrue(!this.verify(Trees.root(leaves), leaves[index], index, 11, path), "every sibling counts");
    }

    function test_verify_paddingAsLeaf_isRefused() public view {
        bytes32[] memory leaves = _leaves(1, 3);
        bytes32[] memory padded = new bytes32[](4);
        (padded[0], padded[1], padded[2]) = (leaves[0], leaves[1], leaves[2]);
        assertEq(Trees.root(padded), Trees.root(leaves), "same tree");
        assertTrue(
            !this.verify(Trees.root(leaves), 0, 3, 4, Trees.path(padded, 3)), "the zero word is no leaf"
        );
    }

    function test_leafHash_nodeMessage_differs() public pure {
        (bytes32 left, bytes32 right) = (bytes32(uint256(1)), bytes32(uint256(2)));
        bytes32 asLeaf = PositionalMerkle.leafHash(abi.encodePacked(left, right));
        assertTrue(asLeaf != PositionalMerkle.nodeHash(left, right), "prefixes keep them apart");
    }

    function test_depth_knownValues_agree() public pure {
        uint8[9] memory expected = [0, 1, 2, 2, 3, 3, 3, 3, 4];
        for (uint256 i = 0; i < expected.length; ++i) {
            assertEq(PositionalMerkle.depth(i + 1), expected[i], "ceil(log2 n)");
        }
        assertEq(PositionalMerkle.depth(1 << 31), 31, "large");
        assertEq(PositionalMerkle.depth((1 << 31) + 1), 32, "larger");
    }

    // Sets
    /// @dev What stands in memory in front of the set, here a zero, is no leaf of it.
    function test_add_firstLeaf_isTaken() public pure {
        PositionalMerkle.Set memory set;
        assertTrue(PositionalMerkle.add(set, 0, bytes32(uint256(7))), "leaf 0");
        assertEq(set.count, 1, "one");
    }

    function test_add_fullSet_takesOnlyWhatItHas() public pure {
        PositionalMerkle.Set memory set;
        for (uint256 i = 0; i < PositionalMerkle.MAX_SET; ++i) {
            assertTrue(PositionalMerkle.add(set, 2 * i + 1, bytes32(i + 1)), "room");
        }
        assertTrue(PositionalMerkle.add(set, 3, bytes32(uint256(2))), "the same leaf again");
        assertTrue(!PositionalMerkle.add(set, 3, bytes32(uint256(9))), "another leaf of that index");
        for (uint256 index = 0; index <= 2 * PositionalMerkle.MAX_SET; index += 2) {
            assertTrue(!PositionalMerkle.add(set, index, bytes32(uint256(9))), "no room");
        }
        assertEq(set.count, PositionalMerkle.MAX_SET, "as before");
    }

    // Ranges
    uint256 private constant RANGE_LEAF_BYTES = 40;

    /// @dev Consecutive leaves of a tree, and what proves them.
    struct Range {
        bytes32 root;
        bytes leaves;
        uint256 first;
        uint256 count;
        uint256 total;
        bytes32[] path;
    }

    function verifyRange(Range memory range, bytes32[] calldata path) external pure returns (bool) {
        return Trees.verifyRange(
            range.root, range.leaves, RANGE_LEAF_BYTES, range.first, range.count, range.total, path
        );
    }

    function _range(uint256 seed, uint256 total, uint256 first, uint256 count)
        private
        pure
        returns (Range memory range)
    {
        (range.total, range.first) = (bound(total, 1, 40), bound(first, 0, bound(total, 1, 40) - 1));
        range.count = bound(count, 1, range.total - range.first);
        bytes[] memory data = new bytes[](range.total);
        for (uint256 i = 0; i < data.length; ++i) {
            data[i] = abi.encodePacked(keccak256(abi.encode(seed, i)), uint64(i));
            if (i >= range.first && i < range.first + range.count) {
                range.leaves = bytes.concat(range.leaves, data[i]);
            }
        }
        bytes32[] memory leaves = Trees.hashAll(data);
        range.root = Trees.root(leaves);
        range.path = Trees.rangePath(leaves, range.first, range.count);
    }

    function testFuzz_verifyRange_everyRange_succeeds(
        uint256 seed,
        uint256 total,
        uint256 first,
        uint256 count
    ) public view {
        Range memory range = _range(seed, total, first, count);
        bytes memory before = bytes.concat(range.leaves);
        assertTrue(this.verifyRange(range, range.path), "valid range");
        PositionalMerkle.leafHash(range.leaves);
        assertEq(range.leaves, before, "hashing in place leaves no trace");
    }

    function testFuzz_verifyRange_oneLeaf_isItsPath(uint256 seed, uint256 total, uint256 first) public view {
        Range memory range = _range(seed, total, first, 0);
        bytes32 leaf = PositionalMerkle.leafHash(range.leaves);
        assertEq(range.count, 1, "one leaf");
        assertTrue(this.verify(range.root, leaf, range.first, range.total, range.path), "the same proof");
    }

    function testFuzz_verifyRange_anotherPlace_isRefused(
        uint256 seed,
        uint256 total,
        uint256 first,
        uint256 count,
        uint256 other
    ) public view {
        Range memory range = _range(seed, total, first, count);
        other = bound(other, 0, 2 * range.total);
        vm.assume(other != range.first);
        range.first = other;
        assertTrue(!this.verifyRange(range, range.path), "position is bound");
        range.first = type(uint256).max;
        assertTrue(!this.verifyRange(range, range.path), "no overflow");
    }

    function testFuzz_verifyRange_changedByte_isRefused(
        uint256 seed,
        uint256 total,
        uint256 first,
        uint256 count,
        uint256 place
    ) public view {
        Range memory range = _range(seed, total, first, count);
        range.leaves[bound(place, 0, range.leaves.length - 1)] ^= 0x01;
        assertTrue(!this.verifyRange(range, range.path), "every byte counts");
    }

    function testFuzz_verifyRange_changedSibling_isRefused(
        uint256 seed,
        uint256 total,
        uint256 first,
        uint256 count,
        uint256 place
    ) public view {
        Range memory range = _range(seed, total, first, count);
        vm.assume(range.path.length > 0);
        place = bound(place, 0, range.path.length - 1);
        range.path[place] = keccak256(abi.encode(range.path[place]));
        assertTrue(!this.verifyRange(range, range.path), "every sibling counts");
    }

    function testFuzz_verifyRange_pathOfAnotherLength_isRefused(
        uint256 seed,
        uint256 total,
        uint256 first,
        uint256 count
    ) public view {
        Range memory range = _range(seed, total, first, count);
        bytes32[] memory path = new bytes32[](range.path.length + 1);
        for (uint256 i = 0; i < range.path.length; ++i) {
            path[i] = range.path[i];
        }
        assertTrue(!this.verifyRange(range, path), "one too many");
        vm.assume(range.path.length > 0);
        path = new bytes32[](range.path.length - 1);
        for (uint256 i = 0; i < path.length; ++i) {
            path[i] = range.path[i];
        }
        assertTrue(!this.verifyRange(range, path), "one too few");
    }

    function testFuzz_verifyRange_anotherCount_isRefused(
        uint256 seed,
        uint256 total,
        uint256 first,
        uint256 count,
        uint256 other
    ) public view {
        Range memory range = _range(seed, total, first, count);
        (uint256 right, uint256 tree) = (range.count, range.total);
        range.count = bound(other, 0, 2 * tree);
        if (range.count != right) {
            assertTrue(!this.verifyRange(range, range.path), "as many leaves as bytes");
        }
        (range.count, range.total) = (right, bound(other, 0, range.first + right - 1));
        assertTrue(!this.verifyRange(range, range.path), "inside of the tree");
        (range.count, range.total) = (right, 2 * tree + 1);
        assertTrue(!this.verifyRange(range, range.path), "the depth is bound");
    }

    /// @dev All leaves, and none: a range of nothing proves nothing.
    function test_verifyRange_wholeTree_needsNoPath() public view {
        Range memory range = _range(1, 15, 0, 15); // `bound` counts from 1
        assertEq(range.count, range.total, "whole");
        assertEq(range.path.length, 0, "no sibling");
        assertTrue(this.verifyRange(range, range.path), "valid");
        (range.count, range.leaves) = (0, "");
        assertTrue(!this.verifyRange(range, range.path), "empty");
    }
}
