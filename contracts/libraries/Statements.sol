// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.28;

import {Hashing} from "./Hashing.sol";
import {Sha256} from "./Sha256.sol";

/// @title What members sign in a round, and when two such statements contradict.
/// @dev Twin of `statements.py` and `typed_data.py` in `protocol/spec`. Hashes of structs are those of EIP-712;
/// `Module._digest` makes digests of them.
library Statements {
    /// @dev NONE is what an empty place says.
    enum Word {
        NONE,
        ACCEPT,
        REJECT_STATE,
        REJECT_DELTA,
        REJECT_START,
        UNSERVED,
        ABSTAIN
    }

    /// @dev An auditor's result of one replay, hidden. Leaf and seal are zero where it was not served so far.
    struct Sealed {
        bytes32 domain;
        uint32 round;
        bytes32 baseRoot;
        bytes32 seed;
        uint32 slot;
        bytes32 claimRoot;
        uint32 draw;
        uint32 rank;
        uint32 segment;
        bytes32 startLeaf;
        bytes32 seal;
    }

    /// @dev What the auditor found; the fields before `endLeaf` are those of its Sealed.
    struct Vote {
        bytes32 domain;
        uint32 round;
        bytes32 baseRoot;
        bytes32 seed;
        uint32 slot;
        bytes32 claimRoot;
        uint32 draw;
        uint32 rank;
        uint32 segment;
        bytes32 startLeaf;
        bytes32 seal;
        bytes32 endLeaf;
        Word word;
        uint32 namedLeaf;
    }

    /// @dev What stands behind a vote's hashes; the vote itself is at hand wherever it is opened.
    struct Opening {
        bytes32 claimEndRoot;
        bytes32 boundarySalt;
        bytes32 ownEndRoot;
        bytes32 sealSalt;
    }

    /// @dev A solver states that merging the claims of these slots, a bitmap, into the base root gives `root`. It names the slots too, not the claims' roots
    /// alone: two slots may have committed the same root, and only the account that made it can open its work leaf.
    struct MergeSignature {
        bytes32 domain;
        uint32 round;
        bytes32 baseRoot;
        uint64 merged;
        bytes32 mergedHash;
        bytes32 root;
    }

    uint256 private constant SEALED_FIELDS = 11;
    uint256 private constant VOTE_FIELDS = 14;
    /// @dev Half the order of secp256k1.
    uint256 private constant HALF_ORDER = 0x7fffffffffffffffffffffffffffffff5d576e7357a4501ddfe92f46681b20a0;

    bytes32 internal constant SEALED_TYPE = keccak256(
        "Sealed(bytes32 domain,uint32 round,bytes32 baseRoot,bytes32 seed,uint32 slot,bytes32 claimRoot,uint32 draw,uint32 rank,uint32 segment,bytes32 startLeaf,bytes32 seal)"
    );
    bytes32 internal constant VOTE_TYPE = keccak256(
        "Vote(bytes32 domain,uint32 round,bytes32 baseRoot,bytes32 seed,uint32 slot,bytes32 claimRoot,uint32 draw,uint32 rank,uint32 segment,bytes32 startLeaf,bytes32 seal,bytes32 endLeaf,uint8 word,uint32 namedLeaf)"
    );
    bytes32 internal constant OPENING_TYPE = keccak256(
        "VoteOpening(Vote vote,bytes32 claimEndRoot,bytes32 boundarySalt,bytes32 ownEndRoot,bytes32 sealSalt)Vote(bytes32 domain,uint32 round,bytes32 baseRoot,bytes32 seed,uint32 slot,bytes32 claimRoot,uint32 draw,uint32 rank,uint32 segment,bytes32 startLeaf,bytes32 seal,bytes32 endLeaf,uint8 word,uint32 namedLeaf)"
    );
    bytes32 internal constant MERGE_TYPE = keccak256(
        "MergeSignature(bytes32 domain,uint32 round,bytes32 baseRoot,uint64 merged,bytes32 mergedHash,bytes32 root)"
    );

    // Hashes
    // The assembly of these two takes the struct's place in memory as a number, which Solidity does not give.
    function hash(Sealed memory sealed_) internal pure returns (bytes32) {
        uint256 fields;
        assembly ("memory-safe") {
            fields := sealed_
        }
        return _hashFields(SEALED_TYPE, fields, SEALED_FIELDS);
    }

    function hash(Vote memory vote) internal pure returns (bytes32) {
        uint256 fields;
        assembly ("memory-safe") {
            fields := vote
        }
        return _hashFields(VOTE_TYPE, fields, VOTE_FIELDS);
    }

    function hash(Vote memory vote, Opening memory opening) internal pure returns (bytes32) {
        return keccak256(abi.encode(OPENING_TYPE, hash(vote), opening));
    }

    function hash(MergeSignature memory merge) internal pure returns (bytes32) {
        return keccak256(abi.encode(MERGE_TYPE, merge));
    }

    /// @dev As keccak256(abi.encode(kind, statement)): a static struct lies in memory as it is encoded, a clean word a field, and the compiler's encoder
    /// of so many fields weighs half a kilobyte in each contract.
    /// @param fields where in memory the struct lies
    function _hashFields(bytes32 kind, uint256 fields, uint256 count) private pure returns (bytes32 digest) {
        assembly ("memory-safe") {
            let message := mload(0x40)
            mstore(message, kind)
            mcopy(add(message, 32), fields, shl(5, count))
            digest := keccak256(message, shl(5, add(count, 1)))
        }
    }

    /// @notice One word for the merged claims: their roots, in the order of their shards.
    function mergedHash(bytes32[] memory claimRoots) internal pure returns (bytes32) {
        return sha256(abi.encodePacked(bytes32("touchstone.merged"), claimRoots));
    }

    /// @notice Hides an auditor's own end root; bound to its account, so that nobody can hand it in for another.
    function sealOf(Vote memory vote, address auditor, bytes32 ownEndRoot, bytes32 salt)
        internal
        pure
        returns (bytes32)
    {
        bytes32 tag = "touchstone.sealed";
        uint256 message;
        assembly ("memory-safe") {
            // abi.encode(tag, domain, round, slot, draw, rank, auditor, startLeaf, ownEndRoot, salt), past the free pointer, which stays where it is. The
            // fields are copied by their places in Vote: 0x00 domain and round, 0x80 slot, 0xc0 draw and rank, 0x120 startLeaf. Another order of fields
            // needs other places. `sha256(abi.encode(...))` would encode field by field and copy the message.
            message := mload(0x40)
            mstore(message, tag)
            mcopy(add(message, 0x20), vote, 0x40)
            mstore(add(message, 0x60), mload(add(vote, 0x80)))
            mcopy(add(message, 0x80), add(vote, 0xc0), 0x40)
            mstore(add(message, 0xc0), shr(96, shl(96, auditor)))
            mstore(add(message, 0xe0), mload(add(vote, 0x120)))
            mstore(add(message, 0x100), ownEndRoot)
            mstore(add(message, 0x120), salt)
        }
        return Sha256.digest(message, 0x140);
    }

    // Signatures
    /// @notice Who signed a digest; the zero address where the signature is malformed.
    /// @dev The precompile reads no state, yet `staticcall` makes `_recover` a view. So assembly takes the pointer to it for one to a pure function.
    /// @param vs EIP-2098: s, with the parity in its highest bit. So one signature has one form.
    function signer(bytes32 digest, bytes32 r, bytes32 vs) internal pure returns (address) {
        function(bytes32, bytes32, bytes32) view returns (address) reads = _recover;
        function(bytes32, bytes32, bytes32) pure returns (address) computes;
        assembly ("memory-safe") {
            computes := reads
        }
        return computes(digest, r, vs);
    }

    /// @dev The precompile answers nothing where there is no such key. Of the two signatures that say the same only the one with the smaller s is good.
    /// As the compiler's `ecrecover`, which would write its four words to free memory. Here they lie at 0x00 .. 0x7f: the free pointer at 0x40 and the zero at
    /// 0x60 are overwritten and put back.
    function _recover(bytes32 digest, bytes32 r, bytes32 vs) private view returns (address recovered) {
        assembly ("memory-safe") {
            let free := mload(0x40)
            let s := and(vs, 0x7fffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff)
            mstore(0, digest)
            mstore(0x20, add(27, shr(255, vs)))
            mstore(0x40, r)
            mstore(0x60, s)
            pop(staticcall(gas(), 1, 0, 0x80, 0, 0x20))
            if returndatasize() {
                if iszero(gt(s, HALF_ORDER)) { recovered := mload(0) }
            }
            mstore(0x40, free)
            mstore(0x60, 0)
        }
    }

    // Judging
    /// @notice Whether a vote says all that its word needs. One that does not counts for nothing.
    function isWhole(Vote memory vote) internal pure returns (bool) {
        uint256 word = uint256(vote.word);
        if (word == uint256(Word.NONE)) return false;
        if (vote.namedLeaf != 0 && word != uint256(Word.REJECT_STATE) && word != uint256(Word.REJECT_DELTA)) {
            return false;
        }
        // UNSERVED and ABSTAIN need nothing.
        if (word >= uint256(Word.UNSERVED)) return true;
        return vote.startLeaf != 0 && vote.endLeaf != 0 && vote.seal != 0;
    }

    /// @notice Whether an opening shows what stands behind the auditor's vote on the solver's claim.
    function fits(Vote memory vote, Opening memory opening, address solver, address auditor)
        internal
        pure
        returns (bool)
    {
        bytes32 leaf = Hashing.boundaryLeaf(
            vote.domain, vote.round, solver, vote.segment + 1, opening.boundarySalt, opening.claimEndRoot
        );
        return
            leaf == vote.endLeaf && sealOf(vote, auditor, opening.ownEndRoot, opening.sealSalt) == vote.seal;
    }

    /// @notice Whether an opening bears the word out in an `exact` task.
    function fitsExactly(Word word, Opening memory opening) internal pure returns (bool) {
        bool equal = opening.claimEndRoot == opening.ownEndRoot;
        if (word == Word.ACCEPT) return equal;
        return word != Word.REJECT_STATE || !equal;
    }

    /// @notice Whether two votes of one auditor contradict: of one draw and rank of one claim, and not equal.
    function differ(Vote memory a, Vote memory b) internal pure returns (bool) {
        return _drawOf(sealedOf(a)) == _drawOf(sealedOf(b)) && hash(a) != hash(b);
    }

    /// @notice Whether an auditor sealed one thing and sealed or said another for the same draw and rank. A zero in place of the seal hides nothing, so it
    /// contradicts nothing.
    function differ(Sealed memory a, Sealed memory b) internal pure returns (bool) {
        bool isSaid = a.seal != 0 && b.seal != 0;
        return isSaid && _drawOf(a) == _drawOf(b) && hash(a) != hash(b);
    }

    /// @notice What a vote repeats of its Sealed.
    /// @dev Copies the first SEALED_FIELDS fields of the vote at once: they are those of Sealed, in the same order. Field by field the compiler would
    /// load and store each.
    function sealedOf(Vote memory vote) internal pure returns (Sealed memory sealed_) {
        assembly ("memory-safe") {
            mcopy(sealed_, vote, shl(5, SEALED_FIELDS))
        }
    }

    /// @notice Whether a vote names another leaf than the one that the claim's tree holds at a boundary.
    function misnames(Vote memory vote, uint256 boundary, bytes32 leaf) internal pure returns (bool) {
        if (boundary == vote.segment) return vote.startLeaf != 0 && vote.startLeaf != leaf;
        return boundary == uint256(vote.segment) + 1 && vote.endLeaf != 0 && vote.endLeaf != leaf;
    }

    /// @dev All that two statements must share to be of one draw and rank.
    function _drawOf(Sealed memory s) private pure returns (bytes32) {
        return
            keccak256(abi.encode(s.domain, s.round, s.baseRoot, s.seed, s.slot, s.claimRoot, s.draw, s.rank));
    }
}
