// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.28;

import {TaskId} from "../Types.sol";
import {AuditDraw} from "../libraries/AuditDraw.sol";
import {GameStorage} from "./GameStorage.sol";
import {EPOCH_ROUNDS, GameTerms, GameWindows, Phase, RING_ROUNDS} from "./GameTypes.sol";
import {Module} from "./Module.sol";
import {IRefusals} from "./interfaces/IRefusals.sol";
import {IRounds} from "./interfaces/IRounds.sol";
import {Slots} from "./libraries/Slots.sol";

/// @title Reads rounds, and says from when to when something of them counts.
/// @dev A round is read as it is stored: call `sync` before where one whose closing block is past must look closed. Twin of `timing.py` and
/// `claim_status.py` in `protocol/spec/game`.
///
/// The clock of a round, from its closing block on. The first column names the last block, of reserves the first one.
/// ```
/// closed + ...            | until then                                                   | place in code
/// 0                       | commitments                                                  | _closingBlock
/// auditMax / 3 - 1        | the draw is recorded, or headerBlocks after its block        | _drawWindow
/// auditMax / 3, from then | reserves vote, also where the primary is silent              | VoteCounting._isDue
/// auditMax                | votes make a claim mergeable                                 | VoteJudging._decide; _statusesOf: undecided
/// auditMax + post - 1     | the root is posted; after it the base root can stand         | RoundPosting._postUntil
/// 2 auditMax              | votes count; then draws and claims that are left are over    | VoteCounting._isDue; VoteDraws._isPayable; _statusesOf: open
/// 3 auditMax              | openings are paid                                            | VoteCounting._pay
/// dispute                 | disputes and proofs of claims and votes                      | StatementModule._statementUntil
/// dispute                 | contests of the root (posted again: block of the post + ...) | RoundPosting.post: rootUntil
/// dispute                 | late audits can be drawn                                     | RoundDraws._isMissing
/// 2 auditMax + query      | queries of votes                                             | Queries.queryVote
/// ```
/// Once the round has a root, seats settle it after the greatest of these blocks (`_dutyUntil`). Of late audits the rows of reserves, of 2 and 3 auditMax,
/// of disputes and proofs, and of queries count from `lateFrom` instead. A root that fell is posted again until fallen + post - 1.
abstract contract RoundReading is GameStorage, Module {
    /// @dev In `Round.lateBy`: a closing seed draws the late audits.
    uint32 internal constant CLOSING = 1 << 31;

    // Rounds (7)
    /// @dev What the ring has in the place of a round.
    function _roundAt(TaskId task, uint256 round) internal view returns (Round storage) {
        return _lines[task].ring[round % RING_ROUNDS];
    }

    /// @dev Whether a round was opened and its epoch is not freed.
    function _isKept(TaskId task, uint256 round) internal view returns (bool) {
        RoundLine storage line = _lines[task];
        return round < line.nextRound && round / EPOCH_ROUNDS >= line.freedEpochs;
    }

    /// @dev An opened round whose epoch is not freed; refuses any other.
    function _roundOf(TaskId task, uint256 round) internal view returns (Round storage) {
        if (!_isKept(task, round)) revert IRefusals.RoundUnknown(round);
        return _roundAt(task, round);
    }

    /// @dev 0 while it takes commitments, or until its close is written down.
    function _closedAt(Round storage round) internal view returns (uint256) {
        return round.isClosed ? round.closing : 0;
    }

    /// @dev The outer root of a posted round.
    function _rootOf(TaskId task, uint256 round) internal view returns (bytes32) {
        RoundLine storage line = _lines[task];
        if (_roundAt(task, round).fallen != 0) return line.reposted[round];
        return round + 1 < line.nextRound ? _roundAt(task, round + 1).base : line.root;
    }

    function _lateSeed(TaskId task, Round storage round) internal view returns (bytes32) {
        if (round.lateFrom == 0) return 0;
        uint32 by = round.lateBy;
        return by >= CLOSING ? _lines[task].closingSeeds[by - CLOSING] : _roundAt(task, by).seed;
    }

    // The line of rounds (7.1, 12.4)
    /// @dev Whether a start was asked for and can still be drawn.
    function _isStartAlive(RoundLine storage line) internal view returns (bool) {
        uint256 startBlock = line.startBlock;
        return startBlock != 0 && !line.isHalted && block.number <= startBlock + _bounds.headerBlocks;
    }

    /// @dev Whether no round is without a root, and the task is halted, or all rounds are used, or it has paused for `dispute` blocks without a start that
    /// can still be drawn. The last is not for good: `start` still works.
    function _isOver(TaskId task) internal view returns (bool) {
        (RoundLine storage line, GameTerms storage terms) = (_lines[task], _tasks[task].terms);
        if (line.live != 0) return false;
        if (line.isHalted || line.nextRound >= terms.rounds) return true;
        return !_isStartAlive(line) && block.number >= uint256(line.pausedSince) + terms.windows.dispute;
    }

    // Claims (7.7)
    function _hasClaim(Round storage round, uint256 slot) internal view returns (bool) {
        return round.committed >> slot & 1 == 1;
    }

    /// @dev Zeros where there is none.
    function _claimAt(Round storage round, uint256 slot) internal view returns (bytes32 root, uint256 segments) {
        if (!_hasClaim(round, slot)) return (0, 0);
        KeptClaim storage claim = round.claims[slot];
        return (claim.root, claim.segments);
    }

    function _wholeSegments(GameTerms storage terms) internal view returns (uint256) {
        return terms.innerSteps / terms.segmentSteps;
    }

    /// @param convictedSolvers numbers of CONVICTED solver seats, a bitmap
    function _statusesOf(Round storage round, GameTerms storage terms, uint256 convictedSolvers)
        internal
        view
        returns (IRounds.ClaimStatuses memory statuses)
    {
        statuses.convicted = round.convicted;
        if (_isUndrawn(round, terms)) return statuses;
        uint256 auditMax = terms.windows.auditMax;
        statuses.accepted = round.accepted & ~statuses.convicted;
        statuses.mergeable = statuses.accepted & ~uint64(round.refused | Slots.slotsOf(round.pool, convictedSolvers));
        statuses.undecided = _openClaims(round, terms, convictedSolvers, auditMax);
        statuses.open = _openClaims(round, terms, convictedSolvers, 2 * auditMax);
    }

    /// @dev Claims that nothing has decided, until so many blocks after the close; none afterwards. Claims of CONVICTED seats are left out, and all claims of
    /// a round whose draw was missed: they are void.
    /// @param convictedSolvers numbers of CONVICTED solver seats, a bitmap
    function _openClaims(Round storage round, GameTerms storage terms, uint256 convictedSolvers, uint256 blocks)
        internal
        view
        returns (uint64)
    {
        bool isOver = round.isClosed && block.number > round.closing + blocks;
        if (isOver || _isUndrawn(round, terms)) return 0;
        uint256 decided = round.accepted | round.refused | round.convicted;
        return round.committed & ~uint64(decided | Slots.slotsOf(round.pool, convictedSolvers));
    }

    /// @dev Whether the randomness that draws its audits can be proven no more.
    function _isUndrawn(Round storage round, GameTerms storage terms) private view returns (bool) {
        if (round.isDrawn || !round.isClosed) return false;
        (, uint256 last) = _drawWindow(round.closing, terms.windows);
        return block.number > last;
    }

    // Windows (7.2 to 7.4, 12.1)
    /// @dev Whose randomness is the beacon of a round that was not assigned when it opened.
    function _beaconBlock(Round storage round, GameWindows storage windows) internal view returns (uint256) {
        return AuditDraw.gridBlock(uint256(round.opened) + windows.delay, windows.drawGrid);
    }

    /// @dev The last block that takes commitments, as far as the commitments so far decide it.
    function _closingBlock(Round storage round, GameWindows storage windows) internal view returns (uint256) {
        if (round.closing != 0) return round.closing;
        uint256 sharded = round.sharded;
        // Without a beacon nobody can commit: the round closes when its beacon can be shown no more.
        if (sharded == 0) return _beaconBlock(round, windows) + _bounds.headerBlocks;
        uint256 last = sharded + windows.trainMax;
        uint256 enough = round.enough;
        return enough == 0 ? last : _min(_max(enough, sharded + windows.trainMin), last);
    }

    /// @dev First and last block in which the draw that is asked for at `fromBlock` can be recorded. The block before the first decides.
    function _drawWindow(uint256 fromBlock, GameWindows storage windows)
        internal
        view
        returns (uint256 first, uint256 last)
    {
        uint256 deciding = AuditDraw.gridBlock(fromBlock + windows.delay, windows.drawGrid);
        first = deciding + 1;
        last = _min(fromBlock + windows.auditMax / 3 - 1, deciding + _bounds.headerBlocks);
    }

    /// @dev The last block in which a statement of the round can cost or earn something; the greatest number, so no end, while the round has no root.
    function _dutyUntil(Round storage round, GameWindows storage windows) internal view returns (uint256 until) {
        Phase phase = round.phase;
        if (phase == Phase.RUNNING || phase == Phase.FALLEN) return type(uint256).max;
        (uint256 closing, uint256 lateFrom) = (round.closing, round.lateFrom);
        (uint256 auditMax, uint256 dispute) = (windows.auditMax, windows.dispute);
        uint256 asked = 2 * auditMax + windows.query;
        until = closing + dispute;
        // A root that was posted again can be contested for longer.
        if (phase == Phase.POSTED) until = _max(until, round.rootUntil);
        if (round.isDrawn) until = _max(until, closing + asked);
        if (lateFrom != 0) until = _max(until, lateFrom + _max(_max(3 * auditMax, dispute), asked));
    }
}
