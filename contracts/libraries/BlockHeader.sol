// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.28;

import {IRandomness} from "../interfaces/IRandomness.sol";
import {Blockhash} from "@openzeppelin/contracts/utils/Blockhash.sol";
import {FixedPointMathLib} from "solady/utils/FixedPointMathLib.sol";

/// @title What a past block says of itself, from its header proven against its hash.
/// @dev Fields of a header in order: Ethereum Yellow Paper, section 4.4; EIP-4399 puts prevrandao where mixHash was; later forks append. Two fields
/// are read where they stand, at 4,400 gas: decoding the whole list with OpenZeppelin's RLP costs 23,000 more. The tests hold the two against each other.
library BlockHeader {
    /// @dev A list whose length takes two bytes.
    bytes1 private constant LIST = 0xf9;
    uint256 private constant LIST_BYTES = 3;
    /// @dev Behind four roots, the beneficiary and the receipts' root: 5 * 33 + 21 bytes.
    uint256 private constant BLOOM = 189;
    bytes3 private constant BLOOM_HEAD = 0xb90100;
    /// @dev Behind the bloom filter: difficulty, number, gas limit, gas used, timestamp, extra data, mixHash, nonce.
    uint256 private constant DIFFICULTY = 448;
    uint256 private constant FIELDS_BEFORE_TIMESTAMP = 4;
    /// @dev Strings of RLP: one byte as it is below 0x80, else a byte that says their length, up to 55.
    uint256 private constant EMPTY = 0x80;
    uint256 private constant LONGEST = 0xb7;
    uint256 private constant WORD = 0xa0;
    uint256 private constant NONCE = 0x88;

    /// @notice prevrandao of block `number`, and its time (Unix, seconds).
    /// @dev The hash decides: of all byte strings only the header that the chain made passes. What is checked behind it is for chains whose
    /// headers have another shape.
    function read(uint256 number, bytes calldata header)
        internal
        view
        returns (bytes32 prevrandao, uint256 timestamp)
    {
        if (number >= block.number) revert IRandomness.RandomnessPending(number, block.number);
        bytes32 expected = Blockhash.blockHash(number);
        if (expected == 0) revert IRandomness.RandomnessGone(number);
        bytes32 actual = keccak256(header);
        if (actual != expected) revert IRandomness.WrongHeader(expected, actual);
        return decode(header);
    }

    function decode(bytes calldata header) internal pure returns (bytes32 prevrandao, uint256 timestamp) {
        _require(header.length > DIFFICULTY && header[0] == LIST, 0);
        _require(uint16(bytes2(header[1:LIST_BYTES])) + LIST_BYTES == header.length, 1);
        _require(bytes3(header[BLOOM:BLOOM + 3]) == BLOOM_HEAD, BLOOM);
        uint256 at = DIFFICULTY;
        for (uint256 i = 0; i < FIELDS_BEFORE_TIMESTAMP; ++i) {
            at = _behind(header, at);
        }
        uint256 extraData = _behind(header, at);
        timestamp = _number(header, at, extraData);
        at = _behind(header, extraData);
        _require(_byteAt(header, at) == WORD, at);
        uint256 nonce = _behind(header, at);
        _require(_byteAt(header, nonce) == NONCE && _behind(header, nonce) <= header.length, nonce);
        prevrandao = bytes32(header[at + 1:nonce]);
    }

    /// @dev Where the next field starts.
    function _behind(bytes calldata header, uint256 at) private pure returns (uint256) {
        uint256 head = _byteAt(header, at);
        _require(head <= LONGEST, at);
        return at + 1 + FixedPointMathLib.zeroFloorSub(head, EMPTY);
    }

    function _number(bytes calldata header, uint256 at, uint256 end) private pure returns (uint256) {
        uint256 bytes_ = end - at - 1;
        if (bytes_ == 0) return _byteAt(header, at) % EMPTY;
        _require(bytes_ <= 32 && end <= header.length, at);
        return uint256(bytes32(header[at + 1:end])) >> (256 - 8 * bytes_);
    }

    function _byteAt(bytes calldata header, uint256 at) private pure returns (uint256) {
        _require(at < header.length, at);
        return uint8(header[at]);
    }

    function _require(bool holds, uint256 at) private pure {
        if (!holds) revert IRandomness.HeaderMalformed(at);
    }
}
