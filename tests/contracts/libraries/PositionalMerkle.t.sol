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
}
