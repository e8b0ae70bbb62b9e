// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.28;

import {IRandomness} from "../../contracts/interfaces/IRandomness.sol";
import {BlockHeader} from "../../contracts/libraries/BlockHeader.sol";
import {Quicknet} from "../../contracts/libraries/Quicknet.sol";
import {BlockRandomness} from "../../contracts/randomness/BlockRandomness.sol";
import {DrandRandomness} from "../../contracts/randomness/DrandRandomness.sol";
import {Memory} from "@openzeppelin/contracts/utils/Memory.sol";
import {RLP} from "@openzeppelin/contracts/utils/RLP.sol";
import {BLS} from "solady/utils/ext/ithaca/BLS.sol";
import {VectorFile} from "./VectorFile.sol";

/// @dev Source: Foundry's `Vm` interface.
interface EtchVm {
    function etch(address target, bytes calldata code) external;
}

/// @title Library calls from outside, so that their reverts can be expected.
contract RandomnessHarness {
    function decode(bytes calldata header) external pure returns (bytes32, uint256) {
        return BlockHeader.decode(header);
    }

    function verify(uint64 round, bytes calldata point) external view returns (bool) {
        return Quicknet.verify(round, abi.decode(point, (BLS.G1Point)));
    }

    function randomness(bytes calldata point) external pure returns (bytes32) {
        return Quicknet.randomness(abi.decode(point, (BLS.G1Point)));
    }
}

/// @title Stands at the address of EIP-2935's contract and knows one block.
contract HistoryStub {
    fallback(bytes calldata input) external returns (bytes memory) {
        require(uint256(bytes32(input)) == 1, "another block was asked for");
        return abi.encode(bytes32(0x477832cb29f98b17ae1cecd51db1af4f3749ead1111f816d53eb6d9bcadbed14));
    }
}

contract RandomnessTest is VectorFile {
    address private constant HISTORY = 0x0000F90827F1C53a10cb7A02335B175320002935;
    /// @dev Rows of the tables.
    uint256 private constant CANCUN = 0;
    uint256 private constant SIGNED = 0;
    uint256 private constant NEGATIVE = 1;

    BlockRandomness private plain = new BlockRandomness();
    DrandRandomness private mixed = new DrandRandomness();
    RandomnessHarness private harness = new RandomnessHarness();
    bytes private header;
    bytes32 private prevrandao;

    function setUp() public {
        open("randomness");
        header = vm.parseJsonBytesArray(json, ".headers.header")[CANCUN];
        prevrandao = words(".headers.prevrandao")[CANCUN];
        vm.roll(2);
        vm.setBlockhash(1, words(".headers.hash")[CANCUN]);
    }

    // Headers -----------------------------------------------------------------------------------------------------
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

    function test_read_provenHeader_givesItsPrevrandao() public view {
        assertEq(plain.read(1, header), prevrandao, "prevrandao");
        assertEq(plain.drandRound(1_692_806_304), 0, "no drand needed");
    }

    function testFuzz_read_anyOtherHeader_reverts(uint256 at, uint8 change) public {
        bytes memory forged = header;
        at %= forged.length;
        forged[at] = bytes1(uint8(forged[at]) ^ (change == 0 ? 1 : change));
        vm.expectRevert(
            abi.encodeWithSelector(IRandomness.WrongHeader.selector, keccak256(header), keccak256(forged))
        );
        plain.read(1, forged);
    }

    function test_read_blockNotBehind_reverts() public {
        vm.expectRevert(abi.encodeWithSelector(IRandomness.RandomnessPending.selector, 2, 2));
        plain.read(2, header);
        vm.expectRevert(abi.encodeWithSelector(IRandomness.RandomnessPending.selector, 3, 2));
        plain.read(3, header);
    }

    function test_read_forgottenHash_isFoundInHistoryWhereThereIsOne() public {
        vm.roll(258);
        vm.expectRevert(abi.encodeWithSelector(IRandomness.RandomnessGone.selector, 1));
        plain.read(1, header);
        EtchVm(address(vm)).etch(HISTORY, address(new HistoryStub()).code);
        assertEq(plain.read(1, header), prevrandao, "by EIP-2935");
    }

    // drand -------------------------------------------------------------------------------------------------------
    function test_roundAfter_vectors() public view {
        string[] memory name = names(".rounds");
        for (uint256 i = 0; i < name.length; ++i) {
            uint64 round = mixed.drandRound(numbers(".rounds.timestamp")[i]);
            assertEq(round, numbers(".rounds.round")[i], name[i]);
        }
    }

    /// forge-config: default.evm_version = "prague"
    function test_beacons_vectors() public view {
        string[] memory name = names(".beacons");
        for (uint256 i = 0; i < name.length; ++i) {
            bytes memory point = _point(i);
            assertEq(harness.randomness(point), words(".beacons.randomness")[i], name[i]);
            bytes32 both =
                sha256(abi.encode(words(".beacons.prevrandao")[i], words(".beacons.randomness")[i]));
            assertEq(both, words(".beacons.mixed")[i], name[i]);
            uint64 round = uint64(numbers(".beacons.round")[i]);
            assertEq(harness.verify(round, point), flags(".beacons.isSigned")[i], name[i]);
            assertTrue(!harness.verify(round + 1, point), "another round");
        }
    }

    /// @dev Half of the field is the last y that a compressed point calls the smaller one.
    function test_randomness_largerHalf_beginsAboveHalf() public view {
        bytes32 high = 0x000000000000000000000000000000000d0088f51cbff34d258dd3db21a5d66b;
        uint256 low = 0xb23ba5c279c2895fb39869507b587b120f55ffff58a9ffffdcff7fffffffd555;
        bytes32 x = "low part of x";
        for (uint256 above = 0; above < 2; ++above) {
            uint128 head = uint128(above == 0 ? 0x80 : 0xa0) << 120;
            bytes memory point = abi.encode(bytes32(0), x, high, bytes32(low + above));
            assertEq(harness.randomness(point), sha256(abi.encodePacked(head, x)), "half, and one more");
        }
    }

    /// @dev Without the check against the curve and the group, somebody could hand in a point that pairs as it likes.
    /// forge-config: default.evm_version = "prague"
    function test_verify_noPointOfTheGroup_reverts() public {
        bytes memory offCurve = _point(SIGNED);
        offCurve[127] ^= 0x01;
        // (0, 2) is on y^2 = x^3 + 4, but not in the group of prime order.
        bytes memory offGroup = new bytes(128);
        offGroup[127] = 0x02;
        vm.expectRevert(BLS.PairingFailed.selector);
        harness.verify(1000, offCurve);
        vm.expectRevert(BLS.PairingFailed.selector);
        harness.verify(1000, offGroup);
    }

    /// forge-config: default.evm_version = "prague"
    function test_verify_infinity_isNoSignature() public view {
        assertTrue(!harness.verify(1000, new bytes(128)), "infinity");
    }

    /// forge-config: default.evm_version = "prague"
    function test_readMixed_rightRound_mixes() public view {
        bytes32 expected = sha256(abi.encode(prevrandao, words(".beacons.randomness")[SIGNED]));
        assertEq(mixed.read(1, bytes.concat(_point(SIGNED), header)), expected, "mixed");
    }

    /// forge-config: default.evm_version = "prague"
    function test_readMixed_wrongSignature_reverts() public {
        bytes memory proof = bytes.concat(_point(NEGATIVE), header);
        vm.expectRevert(abi.encodeWithSelector(IRandomness.WrongSignature.selector, 1000));
        mixed.read(1, proof);
    }

    function test_readMixed_shortProof_reverts() public {
        vm.expectRevert(abi.encodeWithSelector(IRandomness.ProofTooShort.selector, 128, 127));
        mixed.read(1, new bytes(127));
        // A point and an empty header.
        vm.expectRevert(
            abi.encodeWithSelector(IRandomness.WrongHeader.selector, keccak256(header), keccak256(""))
        );
        mixed.read(1, new bytes(128));
    }

    /// @dev What a chain without EIP-2537 gets, if somebody deploys there by hand.
    function test_readMixed_noPrecompiles_reverts() public {
        bytes memory proof = bytes.concat(_point(SIGNED), header);
        vm.expectRevert(BLS.MapFpToG1Failed.selector);
        mixed.read(1, proof);
    }

    function _point(uint256 row) private view returns (bytes memory) {
        return vm.parseJsonBytesArray(json, ".beacons.point")[row];
    }
}
