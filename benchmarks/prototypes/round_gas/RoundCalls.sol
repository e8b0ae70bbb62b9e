// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.28;

import {Judging} from "./Judging.sol";
import {Order} from "./Order.sol";
import {BlockHeader} from "contracts/libraries/BlockHeader.sol";
import {LibBit} from "solady/utils/LibBit.sol";
import {Multicallable} from "solady/utils/Multicallable.sol";

/// @title Measured, not deployed: the calls of a round, with each check and write of the honest path.
/// @dev Left out: money in and out of seats, fees, contests, disputes, and who may set up what.
abstract contract RoundCalls is Judging, Multicallable {
    // COMMIT -------------------------------------------------------------------------------------------------------
    function commit(bytes32 task, uint256 round, bytes32 prevRoot, bytes32 beacon, bytes32 root) external {
        State storage s = _states[task];
        Config memory c = s.config;
        uint256 seat = s.seatOf[msg.sender];
        if (round != c.current || seat == 0 || prevRoot != s.roots[(round - 1) % c.ring]) revert Refused(1);
        bytes32 seed = s.seeds[(round - 2) % c.ring];
        if (beacon != sha256(abi.encode(bytes32("touchstone.beacon"), _domain(task), round, seed))) revert Refused(2);
        _keepClaim(s, round % c.ring, _register(s.frames[round % c.ring], c, seat - 1), seat - 1, root);
        emit Committed(task, round, seat - 1, root);
    }

    function _register(Frame storage frame, Config memory c, uint256 slot) private returns (uint256 before) {
        Frame memory f = frame;
        uint256 bit = 1 << slot;
        before = f.committed;
        if (f.pool & bit == 0 || before & bit != 0 || block.number > _closeOf(f, c)) revert Refused(3);
        (uint256 count, uint256 seats) = (LibBit.popCount(before | bit), LibBit.popCount(f.pool));
        frame.committed = uint64(before | bit);
        if (count == seats) frame.closeBlock = uint32(block.number);
        else if (3 * count >= 2 * seats && f.enoughBlock == 0) frame.enoughBlock = uint32(block.number);
    }

    function _closeOf(Frame memory f, Config memory c) private pure returns (uint256 closes) {
        if (f.closeBlock != 0) return f.closeBlock;
        closes = f.openBlock + c.trainMax;
        uint256 least = f.openBlock + c.trainMin;
        if (f.enoughBlock > least) least = f.enoughBlock;
        if (f.enoughBlock != 0 && least < closes) closes = least;
    }

    // DRAW: seals the seed, freezes the pools of round + 2 --------------------------------------------------------
    function seal(bytes32 task, uint256 round, bytes calldata header) external {
        State storage s = _states[task];
        Config memory c = s.config;
        Frame storage frame = s.frames[round % c.ring];
        uint256 closes = _closeOf(frame, c);
        if (round != c.current || frame.isSealed || block.number > closes + c.auditMax / 3) revert Refused(4);
        (bytes32 random,) = BlockHeader.read((closes + c.delay + c.grid - 1) / c.grid * c.grid, header);
        bytes32 seed = sha256(abi.encode(bytes32("touchstone.draw"), _domain(task), round, random));
        s.seeds[round % c.ring] = seed;
        (frame.closeBlock, frame.isSealed) = (uint32(closes), true);
        Frame storage next = s.frames[(round + 2) % c.ring];
        bool isNeeded = next.closeBlock != 0 && block.number < next.closeBlock + 2 * c.auditMax;
        if (isNeeded) revert Refused(5); // the ring's storage, for that long at least
        (next.committed, next.pool, next.openBlock, next.enoughBlock) = (0, c.seated, 0, 0);
        (next.closeBlock, next.version, next.isSealed) = (0, c.version, false);
        emit Sealed(task, round, seed);
    }

    // POST: the outer root, signed for most of the seats; opens the next round -----------------------------------------
    function post(bytes32 task, uint256 round, bytes32 root, uint64 signers, bytes calldata signatures, bytes calldata claims)
        external
    {
        State storage s = _states[task];
        Run memory x;
        (x.config, x.domain, x.round) = (s.config, _domain(task), round);
        x.at = round % x.config.ring;
        (x.frame, x.result) = (s.frames[x.at], s.results[x.at]);
        if (round != x.config.current || x.result.round != round) revert Refused(8);
        bool isDecided = x.frame.committed & ~(x.result.accepted | x.result.refused) == 0;
        if (!isDecided && block.number < x.frame.closeBlock + x.config.auditMax) revert Refused(9);
        _bring(s, x, claims);
        bytes32 prevRoot = s.roots[(round - 1) % x.config.ring];
        bytes32 tag = "touchstone.merge";
        bytes32 digest = sha256(abi.encode(tag, x.domain, round, prevRoot, _hashMerged(s, x), root));
        _requireMajority(s, x.frame.pool & x.config.seated, digest, signers, signatures);
        s.results[x.at].signers = signers;
        s.roots[x.at] = root;
        s.config.current = uint32(round + 1);
        s.frames[(round + 1) % x.config.ring].openBlock = uint32(block.number);
        emit Posted(task, round, root, signers);
    }

    /// @dev Merged roots in the order of their shards, which the seed of round - 2 dealt.
    function _hashMerged(State storage s, Run memory x) private view returns (bytes32) {
        uint256 merged = x.result.accepted & ~x.result.refused;
        uint256[] memory bitmap = new uint256[](1);
        bitmap[0] = x.frame.pool;
        bytes32 seed = Order.hash(s.seeds[(x.round - 2) % x.config.ring], SOLVER);
        uint256[] memory order =
            Order.fisherYates(seed, LibBit.fls(bitmap[0]) + 1, bitmap, LibBit.popCount(bitmap[0]));
        bytes32[] memory roots = new bytes32[](LibBit.popCount(merged));
        uint256 found;
        for (uint256 i = 0; i < order.length; ++i) {
            if (merged >> order[i] & 1 == 1) roots[found++] = _claimOf(s, x, order[i]);
        }
        return sha256(abi.encodePacked(roots));
    }

    function _requireMajority(State storage s, uint256 may, bytes32 digest, uint256 signers, bytes calldata signatures)
        private
        view
    {
        if (signers & ~may != 0 || 2 * LibBit.popCount(signers) <= LibBit.popCount(may)) revert Refused(10);
        for (uint256 left = signers; left != 0; left &= left - 1) {
            if (!_isSigned(digest, signatures, s.seats[LibBit.ffs(left)])) revert Refused(11);
            signatures = signatures[64:];
        }
    }

    // Set-up, unguarded --------------------------------------------------------------------------------------------------
    function start(bytes32 task, Config calldata config) external {
        State storage s = _states[task];
        s.config = config;
        (s.seeds[0], s.seeds[1], s.roots[1]) = ("seed 0", "seed 1", "root");
        (s.frames[2].openBlock, s.frames[2].pool, s.frames[3].pool) =
            (uint32(block.number), config.seated, config.seated);
    }

    function join(bytes32 task, uint256 kind, uint256 number, address account) external {
        State storage s = _states[task];
        s.seats[kind << 16 | number] = account;
        s.seatOf[account] = number + 1;
        s.pools[kind << 8] += 1 << 16 | 1;
        s.pools[(kind << 8) + 1 + number / 256] |= 1 << number % 256;
    }
}
