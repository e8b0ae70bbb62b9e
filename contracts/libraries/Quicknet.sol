// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.28;

import {Math} from "@openzeppelin/contracts/utils/math/Math.sol";
import {BLS} from "solady/utils/ext/ithaca/BLS.sol";

/// @title Rounds of drand's quicknet, verified by the precompiles of EIP-2537.
/// @notice Scheme bls-unchained-g1-rfc9380: signatures in G1, the key in G2, the message SHA-256 of the round as 8 bytes. A signature is unique:
/// whoever has one for a round has the round's value, and there is no other.
/// @dev Twin of `protocol/spec/quicknet.py`. Chain hash 52db9ba70e0cc0f6eaf7803dd07447a1f5477735fd3f661792ba94600c84e971.
library Quicknet {
    uint256 private constant GENESIS = 1_692_803_367;
    uint256 private constant PERIOD_SECONDS = 3;
    /// @dev From a block to its round: five slots of Ethereum. Until then a block that is held back can come out late, with its old time.
    uint256 private constant MARGIN_SECONDS = 60;
    bytes private constant DST_PRIME = "BLS_SIG_BLS12381G1_XMD:SHA-256_SSWU_RO_NUL_\x2b";
    uint256 private constant MESSAGE_BLOCKS = 4;
    bytes32 private constant MODULUS_HIGH =
        0x000000000000000000000000000000001a0111ea397fe69a4b1ba7b6434bacd7;
    bytes32 private constant MODULUS_LOW = 0x64774b84f38512bf6730d2a0f6b0f6241eabfffeb153ffffb9feffffffffaaab;
    /// @dev (modulus - 1) / 2: the larger of y and -y is above it.
    bytes32 private constant HALF_HIGH = 0x000000000000000000000000000000000d0088f51cbff34d258dd3db21a5d66b;
    bytes32 private constant HALF_LOW = 0xb23ba5c279c2895fb39869507b587b120f55ffff58a9ffffdcff7fffffffd555;
    uint128 private constant COMPRESSED = 0x80 << 120;
    uint128 private constant LARGER = 0x20 << 120;

    /// @notice The first round that is due a margin or more after `timestamp` (Unix, seconds); round r is due at genesis + 3 (r - 1).
    function roundAfter(uint256 timestamp) internal pure returns (uint64) {
        uint256 due = timestamp + MARGIN_SECONDS;
        if (due <= GENESIS) return 1;
        return uint64(Math.ceilDiv(due - GENESIS, PERIOD_SECONDS) + 1);
    }

    /// @notice Whether `signature` is drand's for `round`. Reverts where it is no point of the group, or the chain has no EIP-2537.
    function verify(uint64 round, BLS.G1Point memory signature) internal view returns (bool) {
        BLS.G1Point[] memory points = new BLS.G1Point[](2);
        BLS.G2Point[] memory keys = new BLS.G2Point[](2);
        (points[0], keys[0]) = (signature, _minusGenerator());
        (points[1], keys[1]) = (_hashToG1(sha256(abi.encodePacked(round))), _publicKey());
        return BLS.pairing(points, keys);
    }

    /// @notice What drand publishes as the round's randomness: SHA-256 of the compressed signature.
    function randomness(BLS.G1Point memory signature) internal pure returns (bytes32) {
        bool isLarger = signature.y_a > HALF_HIGH || (signature.y_a == HALF_HIGH && signature.y_b > HALF_LOW);
        uint128 head = uint128(uint256(signature.x_a)) | COMPRESSED | (isLarger ? LARGER : 0);
        return sha256(abi.encodePacked(head, signature.x_b));
    }

    /// @dev RFC 9380, hash_to_curve for BLS12381G1_XMD:SHA-256_SSWU_RO_: two elements, mapped and added. The map clears the cofactor (EIP-2537).
    function _hashToG1(bytes32 message) private view returns (BLS.G1Point memory) {
        bytes32[MESSAGE_BLOCKS] memory uniform = _expand(message);
        BLS.G1Point memory first = BLS.toG1(_reduce(uniform[0], uniform[1]));
        BLS.G1Point memory second = BLS.toG1(_reduce(uniform[2], uniform[3]));
        return BLS.add(first, second);
    }

    /// @dev RFC 9380, section 5.3.1: expand_message_xmd to 128 bytes. The first block is SHA-256's, 64 zeros.
    function _expand(bytes32 message) private pure returns (bytes32[MESSAGE_BLOCKS] memory uniform) {
        bytes32 zeros;
        bytes32 head =
            sha256(abi.encodePacked(zeros, zeros, message, uint16(MESSAGE_BLOCKS * 32), uint8(0), DST_PRIME));
        bytes32 last;
        for (uint256 i = 0; i < MESSAGE_BLOCKS; ++i) {
            last = sha256(abi.encodePacked(head ^ last, uint8(i + 1), DST_PRIME));
            uniform[i] = last;
        }
    }

    /// @dev 64 bytes modulo the field's prime, by the precompile for powers: to the first power.
    function _reduce(bytes32 high, bytes32 low) private view returns (BLS.Fp memory) {
        bytes memory reduced =
            Math.modExp(abi.encodePacked(high, low), hex"01", abi.encodePacked(MODULUS_HIGH, MODULUS_LOW));
        (bytes32 a, bytes32 b) = abi.decode(reduced, (bytes32, bytes32));
        return BLS.Fp(a, b);
    }

    /// @dev Published by drand as 83cf0f28...5ece45a.
    function _publicKey() private pure returns (BLS.G2Point memory) {
        return BLS.G2Point(
            0x000000000000000000000000000000000d1fec758c921cc22b0e17e63aaf4bcb,
            0x5ed66304de9cf809bd274ca73bab4af5a6e9c76a4bc09e76eae8991ef5ece45a,
            0x0000000000000000000000000000000003cf0f2896adee7eb8b5f01fcad39122,
            0x12c437e0073e911fb90022d3e760183c8c4b450b6a0a6c3ac6a5776a2d106451,
            0x000000000000000000000000000000000e5db2b6bfbb01c867749cadffca88b3,
            0x6c24f3012ba09fc4d3022c5c37dce0f977d3adb5d183c7477c442b1f04515273,
            0x0000000000000000000000000000000001a714f2edb74119a2f2b0d5a7c75ba9,
            0x02d163700a61bc224ededd8e63aef7be1aaf8e93d7a9718b047ccddb3eb5d68b
        );
    }

    /// @dev The generator of G2 with y negated: e(signature, -G) e(message, key) = 1.
    function _minusGenerator() private pure returns (BLS.G2Point memory) {
        return BLS.G2Point(
            0x00000000000000000000000000000000024aa2b2f08f0a91260805272dc51051,
            0xc6e47ad4fa403b02b4510b647ae3d1770bac0326a805bbefd48056c8c121bdb8,
            0x0000000000000000000000000000000013e02b6052719f607dacd3a088274f65,
            0x596bd0d09920b61ab5da61bbdc7f5049334cf11213945d57e5ac7d055d042b7e,
            0x000000000000000000000000000000000d1b3cc2c7027888be51d9ef691d77bc,
            0xb679afda66c73f17f9ee3837a55024f78c71363275a75d75d86bab79f74782aa,
            0x0000000000000000000000000000000013fa4d4a0ad8b1ce186ed5061789213d,
            0x993923066dddaf1040bc3ff59f825c78df74f2d75467e25e0f55f8a00fa030ed
        );
    }
}
