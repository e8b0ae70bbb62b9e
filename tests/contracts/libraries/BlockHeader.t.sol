// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.28;

import {IRandomness} from "../../../contracts/interfaces/IRandomness.sol";
import {RandomnessWorld} from "../RandomnessWorld.sol";
import {Memory} from "@openzeppelin/contracts/utils/Memory.sol";
import {RLP} from "@openzeppelin/contracts/utils/RLP.sol";

/// @title Headers of every fork, and forged ones.
contract BlockHeaderTest is RandomnessWorld {
    // Headers
    function test_decode_soundHeaders_givesPrevrandaoAndTime() public view {
        string[] memory name = names(".headers");
        bytes[] memory headers = vm.parseJsonBytesArray(json, ".headers.header");
        for (uint256 i = 0; i < name.length; ++i) {
            (bytes32 value, uint256 timestamp) = harness.decode(headers[i]);
            assertEq(value, words(".headers.prevrandao")[i], name[i]);
            assertEq(timestamp, numbers(".headers.timestamp")[i], name[i]);
            Memory.Slice[] memory fields = RLP.decodeList(headers[i]);
            assertEq(value, RLP.readBytes32(fields[13]), "as OpenZeppelin reads it");
            assertEq(timestamp, RLP.readUint256(fields[11]), "as OpenZeppelin reads it");
        }
    }

    function test_decode_hostileHeaders_reverts() public view {
        string[] memory name = names(".refusedHeaders");
        bytes[] memory headers = vm.parseJsonBytesArray(json, ".refusedHeaders.header");
        for (uint256 i = 0; i < name.length; ++i) {
            try harness.decode(headers[i]) {
                assertTrue(false, name[i]);
            } catch (bytes memory reason) {
                assertEq(bytes32(bytes4(reason)), bytes32(IRandomness.HeaderMalformed.selector), name[i]);
            }
        }
    }

    /// @dev Where the bloom filter would begin something else does: what stands behind it is not what it would be read as.
    function test_decode_otherBloom_reverts() public {
        uint256 bloom = 189;
        bytes memory forged = header;
        forged[bloom + 1] = 0x02;
        vm.expectRevert(abi.encodeWithSelector(IRandomness.HeaderMalformed.selector, bloom));
        harness.decode(forged);
    }

    /// @dev Behind prevrandao comes the nonce: eight bytes, all of them there.
    function test_decode_otherNonce_reverts() public {
        uint256 nonce = 0;
        while (_wordAt(nonce) != prevrandao) ++nonce;
        nonce += 32;
        bytes memory forged = header;
        forged[nonce] = 0x87;
        vm.expectRevert(abi.encodeWithSelector(IRandomness.HeaderMalformed.selector, nonce));
        harness.decode(forged);
        forged = _sized(_part(0, nonce + 8));
        vm.expectRevert(abi.encodeWithSelector(IRandomness.HeaderMalformed.selector, nonce));
        harness.decode(forged);
    }

    /// @dev The longest string whose length is in its first byte: extra data of 55 bytes.
    function test_decode_longExtraData_givesPrevrandao() public view {
        bytes memory longer = _replaced(_extraDataAt(), abi.encodePacked(hex"b7", new bytes(55)));
        (bytes32 value, uint256 timestamp) = harness.decode(longer);
        assertEq(value, prevrandao, "prevrandao");
        assertEq(timestamp, numbers(".headers.timestamp")[CANCUN], "time");
    }

    /// @dev A string whose length would need a byte of its own, where no header has one.
    function test_decode_longerExtraData_reverts() public {
        bytes memory forged = header;
        forged[_extraDataAt()] = 0xb8;
        vm.expectRevert(abi.encodeWithSelector(IRandomness.HeaderMalformed.selector, _extraDataAt()));
        harness.decode(forged);
    }

    /// @dev A number is one small byte, or no byte, or up to 32 of them.
    function test_decode_timestampOfAnyLength_isRead() public {
        (, uint256 timestamp) = harness.decode(_withTimestamp(hex"05"));
        assertEq(timestamp, 5, "one small byte");
        (, timestamp) = harness.decode(_withTimestamp(hex"80"));
        assertEq(timestamp, 0, "none");
        (, timestamp) = harness.decode(_withTimestamp(abi.encodePacked(hex"a0", type(uint256).max - 1)));
        assertEq(timestamp, type(uint256).max - 1, "32 bytes");
        bytes memory forged = _withTimestamp(abi.encodePacked(hex"a101", type(uint256).max));
        vm.expectRevert(abi.encodeWithSelector(IRandomness.HeaderMalformed.selector, _timestampAt()));
        harness.decode(forged);
    }

    function test_decode_headerThatEndsEarly_reverts() public {
        bytes memory forged = _sized(_part(0, 448));
        vm.expectRevert(abi.encodeWithSelector(IRandomness.HeaderMalformed.selector, 0));
        harness.decode(forged);
        forged = _sized(_part(0, _extraDataAt()));
        vm.expectRevert(abi.encodeWithSelector(IRandomness.HeaderMalformed.selector, _extraDataAt()));
        harness.decode(forged);
    }

    function _timestampAt() private view returns (uint256 at) {
        at = 448;
        for (uint256 i = 0; i < 4; ++i) {
            at += 1 + _lengthAt(at);
        }
    }

    function _extraDataAt() private view returns (uint256) {
        return _timestampAt() + 1 + _lengthAt(_timestampAt());
    }

    /// @dev The header with this string where its time stands.
    function _withTimestamp(bytes memory field) private view returns (bytes memory) {
        return _replaced(_timestampAt(), field);
    }

    function _replaced(uint256 at, bytes memory field) private view returns (bytes memory) {
        uint256 behind = at + 1 + _lengthAt(at);
        return _sized(bytes.concat(_part(0, at), field, _part(behind, header.length)));
    }

    function _part(uint256 from, uint256 to) private view returns (bytes memory part) {
        part = new bytes(to - from);
        for (uint256 i = 0; i < part.length; ++i) {
            part[i] = header[from + i];
        }
    }

    /// @dev With the length that it has said at its head.
    function _sized(bytes memory list) private pure returns (bytes memory) {
        (list[1], list[2]) = (bytes1(uint8((list.length - 3) >> 8)), bytes1(uint8(list.length - 3)));
        return list;
    }

    function _lengthAt(uint256 at) private view returns (uint256) {
        uint256 head = uint8(header[at]);
        return head < 0x80 ? 0 : head - 0x80;
    }

    function _wordAt(uint256 at) private view returns (bytes32 word) {
        bytes memory copy = header;
        assembly ("memory-safe") {
            word := mload(add(add(copy, 32), at))
        }
    }
}
