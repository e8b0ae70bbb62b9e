// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.28;

import {EIP712} from "@openzeppelin/contracts/utils/cryptography/EIP712.sol";
import {Statements} from "../../../contracts/libraries/Statements.sol";
import {VectorFile} from "../VectorFile.sol";

/// @dev A contract that checks signatures of statements, as the new round's will.
contract Signed is EIP712 {
    constructor() EIP712("Touchstone", "3") {}

    function digest(bytes32 structHash) external view returns (bytes32) {
        return _hashTypedDataV4(structHash);
    }
}

/// @dev The statements of the new round against those of Python.
contract StatementVectors is VectorFile {
    Signed private _signed;

    /// @dev The columns of votes, read once: the file is large.
    struct Columns {
        Statements.Sealed[] sealed_;
        bytes32[] endLeaf;
        uint256[] word;
        uint256[] namedLeaf;
    }

    function setUp() public {
        open("statements");
        vm.chainId(31337);
        // The vectors are signed for the first contract of this account.
        vm.prank(address(0xd0));
        _signed = new Signed();
    }

    function test_sealed() public view {
        Statements.Sealed[] memory sealed_ = _readSealed(".sealed");
        string[] memory name = names(".sealed");
        bytes32[] memory digest = words(".sealed.digest");
        bool[] memory differs = flags(".sealed.differs");
        Statements.Sealed memory last = sealed_[sealed_.length - 1];
        for (uint256 i = 0; i < name.length; ++i) {
            assertEq(_signed.digest(Statements.hash(sealed_[i])), digest[i], name[i]);
            assertEq(Statements.differ(last, sealed_[i]), differs[i], name[i]);
            assertEq(Statements.differ(sealed_[i], last), differs[i], name[i]);
        }
        _checkSigners(".sealed");
    }

    function test_votes_hashesAndOpenings() public view {
        Statements.Vote[] memory votes = _readVotes(".votes");
        Statements.Opening[] memory openings = _readOpenings();
        string[] memory name = names(".votes");
        (bytes32[] memory digest, bytes32[] memory openingDigest) =
            (words(".votes.digest"), words(".votes.openingDigest"));
        for (uint256 i = 0; i < name.length; ++i) {
            assertEq(_signed.digest(Statements.hash(votes[i])), digest[i], name[i]);
            assertEq(_signed.digest(Statements.hash(votes[i], openings[i])), openingDigest[i], name[i]);
        }
        _checkSigners(".votes");
    }

    function test_votes_judged() public view {
        Statements.Vote[] memory votes = _readVotes(".votes");
        Statements.Opening[] memory openings = _readOpenings();
        string[] memory name = names(".votes");
        (bool[] memory whole, bool[] memory fits) = (flags(".votes.whole"), flags(".votes.fits"));
        bool[] memory exactly = flags(".votes.fitsExactly");
        address solver = addresses(".votes.solver")[0];
        address auditor = addresses(".votes.auditor")[0];
        address stranger = addresses(".votes.stranger")[0];
        for (uint256 i = 0; i < name.length; ++i) {
            assertEq(Statements.isWhole(votes[i]), whole[i], name[i]);
            assertEq(Statements.fits(votes[i], openings[i], solver, auditor), fits[i], name[i]);
            assertTrue(!Statements.fits(votes[i], openings[i], stranger, auditor), name[i]);
            assertTrue(!Statements.fits(votes[i], openings[i], solver, stranger), name[i]);
            assertEq(Statements.fitsExactly(votes[i].word, openings[i]), exactly[i], name[i]);
        }
    }

    function test_votes_withoutAWord_areNone() public view {
        Statements.Vote memory vote = _readVotes(".votes")[0];
        assertTrue(Statements.isWhole(vote), "an ACCEPT");
        vote.word = Statements.Word.NONE;
        assertTrue(!Statements.isWhole(vote), "an empty word");
    }

    function test_pairs() public view {
        Statements.Vote[] memory votes = _readVotes(".pairs");
        string[] memory name = names(".pairs");
        (bool[] memory differs, bool[] memory sealsDiffer) =
            (flags(".pairs.differs"), flags(".pairs.sealsDiffer"));
        Statements.Sealed memory first = Statements.sealedOf(votes[0]);
        for (uint256 i = 0; i < name.length; ++i) {
            assertEq(Statements.differ(votes[0], votes[i]), differs[i], name[i]);
            assertEq(Statements.differ(votes[i], votes[0]), differs[i], name[i]);
            assertEq(Statements.differ(first, Statements.sealedOf(votes[i])), sealsDiffer[i], name[i]);
        }
    }

    function test_leaves() public view {
        string[] memory name = names(".leaves");
        (bytes32[] memory start, bytes32[] memory end) =
            (words(".leaves.startLeaf"), words(".leaves.endLeaf"));
        (uint256[] memory segment, uint256[] memory boundary) =
            (numbers(".leaves.segment"), numbers(".leaves.boundary"));
        bytes32[] memory leaf = words(".leaves.leaf");
        bool[] memory misnames = flags(".leaves.misnames");
        Statements.Vote memory vote;
        for (uint256 i = 0; i < name.length; ++i) {
            (vote.segment, vote.startLeaf, vote.endLeaf) = (uint32(segment[i]), start[i], end[i]);
            assertEq(Statements.misnames(vote, boundary[i], leaf[i]), misnames[i], name[i]);
        }
        // The largest number that a signer can write: no boundary follows it in 32 bits.
        vote.segment = type(uint32).max;
        assertTrue(!Statements.misnames(vote, 0, leaf[0]), "no overflow");
    }

    function test_merges() public view {
        string[] memory name = names(".merges");
        WordLists memory claimRoots = wordLists(".merges.claimRoots");
        for (uint256 i = 0; i < name.length; ++i) {
            Statements.MergeSignature memory merge = Statements.MergeSignature(
                words(".merges.domain")[i],
                uint32(numbers(".merges.round")[i]),
                words(".merges.baseRoot")[i],
                uint64(numbers(".merges.merged")[i]),
                Statements.mergedHash(pick(claimRoots, i)),
                words(".merges.root")[i]
            );
            assertEq(merge.mergedHash, words(".merges.mergedHash")[i], name[i]);
            assertEq(_signed.digest(Statements.hash(merge)), words(".merges.digest")[i], name[i]);
        }
        _checkSigners(".merges");
    }

    /// @dev The hostile ones are refused by ecrecover and OpenZeppelin just where Python refuses them.
    function test_signatures() public view {
        _checkSigners(".signatures");
        address[] memory signer = addresses(".signatures.signer");
        uint256 none = 0;
        for (uint256 i = 0; i < signer.length; ++i) {
            if (signer[i] == address(0)) ++none;
        }
        assertTrue(none >= 5 && none < signer.length, "some are malformed");
    }

    function _checkSigners(string memory table) private view {
        string[] memory name = names(table);
        bytes32[] memory digest = words(string.concat(table, ".digest"));
        bytes32[] memory r = words(string.concat(table, ".r"));
        bytes32[] memory vs = words(string.concat(table, ".vs"));
        address[] memory signer = addresses(string.concat(table, ".signer"));
        for (uint256 i = 0; i < name.length; ++i) {
            assertEq(Statements.signer(digest[i], r[i], vs[i]), signer[i], name[i]);
        }
    }

    // Reading
    function _readSealed(string memory table) private view returns (Statements.Sealed[] memory sealed_) {
        uint256 count = names(table).length;
        sealed_ = new Statements.Sealed[](count);
        _readPlaces(table, sealed_);
        bytes32[] memory domain = words(string.concat(table, ".domain"));
        bytes32[] memory baseRoot = words(string.concat(table, ".baseRoot"));
        bytes32[] memory seed = words(string.concat(table, ".seed"));
        bytes32[] memory claimRoot = words(string.concat(table, ".claimRoot"));
        bytes32[] memory startLeaf = words(string.concat(table, ".startLeaf"));
        bytes32[] memory seal = words(string.concat(table, ".seal"));
        for (uint256 i = 0; i < count; ++i) {
            Statements.Sealed memory one = sealed_[i];
            (one.domain, one.baseRoot, one.seed) = (domain[i], baseRoot[i], seed[i]);
            (one.claimRoot, one.startLeaf, one.seal) = (claimRoot[i], startLeaf[i], seal[i]);
        }
    }

    function _readPlaces(string memory table, Statements.Sealed[] memory sealed_) private view {
        uint256[] memory round = numbers(string.concat(table, ".round"));
        uint256[] memory slot = numbers(string.concat(table, ".slot"));
        uint256[] memory draw = numbers(string.concat(table, ".draw"));
        uint256[] memory rank = numbers(string.concat(table, ".rank"));
        uint256[] memory segment = numbers(string.concat(table, ".segment"));
        for (uint256 i = 0; i < sealed_.length; ++i) {
            Statements.Sealed memory one = sealed_[i];
            (one.round, one.slot, one.draw) = (uint32(round[i]), uint32(slot[i]), uint32(draw[i]));
            (one.rank, one.segment) = (uint32(rank[i]), uint32(segment[i]));
        }
    }

    function _readVotes(string memory table) private view returns (Statements.Vote[] memory votes) {
        Columns memory all;
        all.sealed_ = _readSealed(table);
        all.endLeaf = words(string.concat(table, ".endLeaf"));
        all.word = numbers(string.concat(table, ".word"));
        all.namedLeaf = numbers(string.concat(table, ".namedLeaf"));
        votes = new Statements.Vote[](all.word.length);
        for (uint256 i = 0; i < votes.length; ++i) {
            votes[i] = _toVote(all.sealed_[i]);
            votes[i].endLeaf = all.endLeaf[i];
            votes[i].word = Statements.Word(all.word[i]);
            votes[i].namedLeaf = uint32(all.namedLeaf[i]);
        }
    }

    function _toVote(Statements.Sealed memory s) private pure returns (Statements.Vote memory vote) {
        (vote.domain, vote.round, vote.baseRoot, vote.seed) = (s.domain, s.round, s.baseRoot, s.seed);
        (vote.slot, vote.claimRoot, vote.draw, vote.rank) = (s.slot, s.claimRoot, s.draw, s.rank);
        (vote.segment, vote.startLeaf, vote.seal) = (s.segment, s.startLeaf, s.seal);
    }

    function _readOpenings() private view returns (Statements.Opening[] memory openings) {
        bytes32[] memory claimEndRoot = words(".votes.claimEndRoot");
        bytes32[] memory boundarySalt = words(".votes.boundarySalt");
        bytes32[] memory ownEndRoot = words(".votes.ownEndRoot");
        bytes32[] memory sealSalt = words(".votes.sealSalt");
        openings = new Statements.Opening[](claimEndRoot.length);
        for (uint256 i = 0; i < openings.length; ++i) {
            openings[i] = Statements.Opening(claimEndRoot[i], boundarySalt[i], ownEndRoot[i], sealSalt[i]);
        }
    }
}
