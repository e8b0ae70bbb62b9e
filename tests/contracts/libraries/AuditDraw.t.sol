// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.28;

import {AuditDraw} from "../../../contracts/libraries/AuditDraw.sol";
import {Draw} from "../../../contracts/libraries/Draw.sol";
import {VectorFile} from "../VectorFile.sol";

/// @dev The places of all ranks of a draw.
function placesOf(uint256 size, uint256 slot, uint256 draw, uint256 draws, uint256 slots)
    pure
    returns (uint256[3] memory byRank)
{
    for (uint256 rank = 0; rank < 3; ++rank) {
        byRank[rank] = AuditDraw.place(size, slot, draw, rank, draws, slots);
    }
}

/// @dev A late audit with the places of its whistleblowers.
function lateOf(
    bytes32 seed,
    uint256 slot,
    uint256 chance,
    uint256[] memory drawn,
    uint256 segments,
    uint256 size,
    uint256 slots
) view returns (bool due, uint256 segment, uint256[3] memory byRank) {
    (due, segment) = AuditDraw.late(seed, slot, chance, drawn, segments);
    if (due) byRank = placesOf(size, slot, 0, 1, slots);
}

/// @dev The draws of the new round against those of Python.
contract AuditDrawVectors is VectorFile {
    function setUp() public {
        open("audit_draw");
    }

    function test_seeds() public view {
        string[] memory name = names(".seeds");
        for (uint256 i = 0; i < name.length; ++i) {
            (bytes32 domain, bytes32 randomness) = (words(".seeds.domain")[i], words(".seeds.randomness")[i]);
            uint32 round = uint32(numbers(".seeds.round")[i]);
            assertEq(AuditDraw.roundSeed(domain, round, randomness), words(".seeds.seed")[i], name[i]);
            assertEq(AuditDraw.roundBeacon(domain, round, randomness), words(".seeds.beacon")[i], name[i]);
        }
    }

    function test_grids() public view {
        string[] memory name = names(".grids");
        for (uint256 i = 0; i < name.length; ++i) {
            uint256 number = AuditDraw.gridBlock(numbers(".grids.fromBlock")[i], numbers(".grids.grid")[i]);
            assertEq(number, numbers(".grids.block")[i], name[i]);
        }
    }

    function test_segments() public view {
        string[] memory name = names(".segments");
        NumberLists memory drawn = numberLists(".segments.drawn");
        for (uint256 i = 0; i < name.length; ++i) {
            (uint256 draws, uint256 count) =
                (numbers(".segments.draws")[i], numbers(".segments.segmentCount")[i]);
            uint256[] memory actual = AuditDraw.circleSegments(
                words(".segments.seed")[i], numbers(".segments.slot")[i], draws, count
            );
            assertEq(actual, pick(drawn, i), name[i]);
            assertEq(AuditDraw.countDraws(draws, count), numbers(".segments.count")[i], name[i]);
        }
    }

    function test_permutations() public view {
        string[] memory name = names(".permutations");
        NumberLists memory order = numberLists(".permutations.order");
        for (uint256 i = 0; i < name.length; ++i) {
            bytes32 role = words(".permutations.role")[i];
            assertEq(role, i % 2 == 0 ? AuditDraw.VERIFIER_POOL : AuditDraw.WHISTLEBLOWER_POOL, name[i]);
            (uint256 size, uint256 count) =
                (numbers(".permutations.size")[i], numbers(".permutations.count")[i]);
            uint256[] memory actual = AuditDraw.permutation(words(".permutations.seed")[i], role, size, count);
            assertEq(actual, pick(order, i), name[i]);
        }
    }

    function test_places() public view {
        string[] memory name = names(".places");
        NumberLists memory place = numberLists(".places.place");
        for (uint256 i = 0; i < name.length; ++i) {
            (uint256 size, uint256 draws, uint256 slots) =
                (numbers(".places.size")[i], numbers(".places.draws")[i], numbers(".places.slots")[i]);
            assertEq(AuditDraw.countPlaces(size, draws * slots), numbers(".places.count")[i], name[i]);
            uint256[3] memory actual =
                placesOf(size, numbers(".places.slot")[i], numbers(".places.draw")[i], draws, slots);
            _assertPlaces(actual, pick(place, i), name[i]);
        }
    }

    function test_late() public view {
        string[] memory name = names(".late");
        (NumberLists memory drawn, NumberLists memory place) =
            (numberLists(".late.drawn"), numberLists(".late.place"));
        for (uint256 i = 0; i < name.length; ++i) {
            (bool due, uint256 segment, uint256[3] memory actual) = lateOf(
                words(".late.seed")[i],
                numbers(".late.slot")[i],
                numbers(".late.chance")[i],
                pick(drawn, i),
                numbers(".late.segmentCount")[i],
                numbers(".late.size")[i],
                numbers(".late.slots")[i]
            );
            assertEq(due, flags(".late.isDrawn")[i], name[i]);
            assertEq(segment, numbers(".late.segment")[i], name[i]);
            _assertPlaces(actual, pick(place, i), name[i]);
        }
    }

    function test_shards() public view {
        string[] memory name = names(".shards");
        NumberLists memory shard = numberLists(".shards.shard");
        for (uint256 i = 0; i < name.length; ++i) {
            (bytes32 beacon, uint256 count) = (words(".shards.beacon")[i], numbers(".shards.solverCount")[i]);
            uint256[] memory dealt = pick(shard, i);
            assertEq(dealt.length, count, name[i]);
            for (uint256 slot = 0; slot < count; ++slot) {
                assertEq(Draw.shard(beacon, slot, count), dealt[slot], name[i]);
            }
        }
    }

    function _assertPlaces(uint256[3] memory actual, uint256[] memory expected, string memory what)
        private
        pure
    {
        assertEq(expected.length, 3, what);
        for (uint256 rank = 0; rank < 3; ++rank) {
            assertEq(actual[rank], expected[rank], what);
        }
    }
}

/// @dev What holds for any seed, and what is refused.
contract AuditDrawTest is VectorFile {
    function gridBlock(uint256 fromBlock, uint256 grid) external pure returns (uint256) {
        return AuditDraw.gridBlock(fromBlock, grid);
    }

    function circleSegments(uint256 draws, uint256 segments) external view returns (uint256[] memory) {
        return AuditDraw.circleSegments(0, 0, draws, segments);
    }

    function permutation(uint256 size, uint256 count) external view returns (uint256[] memory) {
        return AuditDraw.permutation(0, AuditDraw.VERIFIER_POOL, size, count);
    }

    function places(uint256 size, uint256 slot, uint256 draw, uint256 draws, uint256 slots)
        external
        pure
        returns (uint256[3] memory)
    {
        return placesOf(size, slot, draw, draws, slots);
    }

    function late(uint256 chance, uint256 segments, uint256 size) external view returns (bool due) {
        (due,,) = lateOf(0, 0, chance, new uint256[](1), segments, size, 1);
    }

    function testFuzz_gridBlock_anyBlock_isTheNextMultiple(uint256 fromBlock, uint256 grid) public pure {
        fromBlock = bound(fromBlock, 0, 1 << 64);
        grid = bound(grid, 1, 1 << 32);
        uint256 number = AuditDraw.gridBlock(fromBlock, grid);
        assertTrue(number >= fromBlock && number - fromBlock < grid && number % grid == 0, "next multiple");
    }

    /// @dev The definition: each further one is the drawn one of those that touch none before it.
    function testFuzz_circleSegments_againstTheDefinition_agree(
        bytes32 seed,
        uint256 slot,
        uint256 draws,
        uint256 segments
    ) public view {
        draws = bound(draws, 1, 8);
        segments = bound(segments, 1, 40);
        uint256[] memory drawn = AuditDraw.circleSegments(seed, slot, draws, segments);
        bytes32 slotSeed = sha256(abi.encode(bytes32("touchstone.slot"), seed, slot));
        assertEq(drawn[0], Draw.uniform(slotSeed, 0, segments), "the first");
        for (uint256 i = 1; i < drawn.length; ++i) {
            uint256[] memory free = _listFree(drawn, i, segments);
            assertEq(drawn[i], free[Draw.uniform(slotSeed, i, free.length)], "the next");
        }
    }

    /// @dev Segments that touch none of the first `count`, going round from the first drawn.
    function _listFree(uint256[] memory drawn, uint256 count, uint256 segments)
        private
        pure
        returns (uint256[] memory free)
    {
        uint256[] memory all = new uint256[](segments);
        uint256 found = 0;
        for (uint256 distance = 0; distance < segments; ++distance) {
            uint256 segment = (drawn[0] + distance) % segments;
            bool touches = false;
            for (uint256 i = 0; i < count; ++i) {
                uint256 apart = (segment + segments - drawn[i]) % segments;
                touches = touches || apart <= 1 || apart == segments - 1;
            }
            if (!touches) all[found++] = segment;
        }
        free = new uint256[](found);
        for (uint256 i = 0; i < found; ++i) {
            free[i] = all[i];
        }
    }

    function test_circleSegments_nothing_reverts() public {
        vm.expectRevert(abi.encodeWithSelector(AuditDraw.NothingToAudit.selector, 0, 4));
        this.circleSegments(0, 4);
        vm.expectRevert(abi.encodeWithSelector(AuditDraw.NothingToAudit.selector, 2, 0));
        this.circleSegments(2, 0);
    }

    function testFuzz_permutation_anyPool_holdsEachPositionOnce(bytes32 seed, uint256 size) public view {
        size = bound(size, 0, 256);
        uint256[] memory order = AuditDraw.permutation(seed, AuditDraw.VERIFIER_POOL, size, size);
        bool[] memory seen = new bool[](size);
        for (uint256 i = 0; i < size; ++i) {
            assertTrue(!seen[order[i]], "twice");
            seen[order[i]] = true;
        }
    }

    function testFuzz_permutation_cutShort_isItsBeginning(bytes32 seed, uint256 size, uint256 count)
        public
        view
    {
        size = bound(size, 0, 128);
        count = bound(count, 0, size);
        uint256[] memory order = AuditDraw.permutation(seed, AuditDraw.VERIFIER_POOL, size, size);
        uint256[] memory short_ = AuditDraw.permutation(seed, AuditDraw.VERIFIER_POOL, size, count);
        assertEq(short_.length, count, "as many as asked for");
        for (uint256 i = 0; i < count; ++i) {
            assertEq(short_[i], order[i], "the beginning");
        }
    }

    function test_permutation_moreThanThereAre_reverts() public {
        vm.expectRevert(abi.encodeWithSelector(Draw.NothingToDraw.selector, 4, 3));
        this.permutation(3, 4);
    }

    function test_places_allPools_areThreeDifferentOnesThatAreDealt() public pure {
        for (uint256 size = 3; size <= 200; ++size) {
            uint256 slots = size % 64 + 1;
            uint256 count = AuditDraw.countPlaces(size, slots);
            assertTrue(count == size || count == 3 * slots, "three for each draw, at most all");
            uint256[3] memory byRank = placesOf(size, slots - 1, 0, 1, slots);
            assertTrue(byRank[0] < count && byRank[1] < count && byRank[2] < count, "dealt");
            assertTrue(
                byRank[0] != byRank[1] && byRank[1] != byRank[2] && byRank[0] != byRank[2], "different"
            );
        }
    }

    function test_places_none_reverts() public {
        vm.expectRevert(abi.encodeWithSelector(AuditDraw.NoSuchDraw.selector, 2, 2));
        this.places(9, 0, 2, 2, 1);
        vm.expectRevert(abi.encodeWithSelector(AuditDraw.NoSuchDraw.selector, 0, 0));
        this.places(9, 0, 0, 0, 1);
        vm.expectRevert(abi.encodeWithSelector(AuditDraw.NoSuchSlot.selector, 4, 4));
        this.places(9, 4, 0, 1, 4);
        vm.expectRevert(abi.encodeWithSelector(AuditDraw.TooFewAuditors.selector, 6, 5));
        this.places(5, 0, 1, 2, 1);
        this.places(6, 0, 1, 2, 1);
    }

    function test_gridBlock_noGrid_reverts() public {
        vm.expectRevert(abi.encodeWithSelector(AuditDraw.NoGrid.selector, 0));
        this.gridBlock(5, 0);
    }

    function test_late_edges_revertOrAreNotDue() public {
        vm.expectRevert(abi.encodeWithSelector(AuditDraw.NoSuchChance.selector, 65_537));
        this.late(65_537, 4, 3);
        vm.expectRevert(abi.encodeWithSelector(AuditDraw.TooFewAuditors.selector, 3, 2));
        this.late(65_536, 4, 2);
        assertTrue(!this.late(65_536, 1, 3), "every segment drawn");
        assertTrue(!this.late(0, 4, 3), "never");
        assertTrue(this.late(65_536, 4, 3), "always");
    }

    function testFuzz_late_always_isUndrawn(bytes32 seed, uint256 slot, uint256 draws, uint256 segments)
        public
        view
    {
        draws = bound(draws, 1, 8);
        segments = bound(segments, 2, 40);
        slot = bound(slot, 0, 63);
        uint256[] memory drawn = AuditDraw.circleSegments(seed, slot, draws, segments);
        (bool due, uint256 segment, uint256[3] memory byRank) =
            lateOf(seed, slot, 65_536, drawn, segments, 7, 64);
        assertTrue(due && segment < segments && byRank[0] == slot % 7, "due and inside");
        for (uint256 i = 0; i < drawn.length; ++i) {
            assertTrue(drawn[i] != segment, "already drawn");
        }
    }

    /// @dev Due where the number drawn is below the chance.
    function testFuzz_late_chance_isNotReached(bytes32 seed) public view {
        bytes32 slotSeed = sha256(abi.encode(bytes32("touchstone.late-slot"), seed, uint256(2)));
        uint256 number = Draw.uniform(slotSeed, 0, 65_536);
        (bool due,,) = lateOf(seed, 2, number, new uint256[](1), 4, 3, 5);
        assertTrue(!due, "at the chance");
        (due,,) = lateOf(seed, 2, number + 1, new uint256[](1), 4, 3, 5);
        assertTrue(due, "below it");
    }
}
