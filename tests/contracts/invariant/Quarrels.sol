// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.28;

import {BoundaryProof, LeafProof} from "../../../contracts/Types.sol";
import {RoundView, SeatStatus} from "../../../contracts/game/GameTypes.sol";
import {IDisputes} from "../../../contracts/game/interfaces/IDisputes.sol";
import {ISteps} from "../../../contracts/game/interfaces/ISteps.sol";
import {Slots} from "../../../contracts/game/libraries/Slots.sol";
import {IReferee} from "../../../contracts/interfaces/IReferee.sol";
import {Hashing} from "../../../contracts/libraries/Hashing.sol";
import {Statements} from "../../../contracts/libraries/Statements.sol";
import {Trees} from "../Trees.sol";
import {Course} from "./Course.sol";

/// @title Disputes over statements of round 0, fair and unfair, with the real referee.
abstract contract Quarrels is Course {
    uint256 private constant SHOWN = 2;

    struct Quarrel {
        bytes32 id;
        bool isVote;
        Place place;
        uint256 seat;
        uint256 bondWei;
        address opener;
        uint256 step;
        string how;
    }

    Quarrel[] internal quarrels;
    uint256 private _salt;

    // Whose step is at hand
    function _enter(Quarrel memory q) private {
        (ofSeat, ofSlot) = (seatIn(0, q.place.slot), q.place.slot);
        (ofSegment, ofStep) = (q.place.segment, q.step);
        bool isLie = isLying[ofSeat];
        apart = 0;
        if (q.isVote) {
            Said memory s = saidAt(q.place);
            (apart, isLie) = (s.apart, s.isLie);
        }
        (lieBuffer, lieElement) = _lieOf(q);
        lie = isLie ? 1 : 0;
    }

    function _lieOf(Quarrel memory q) private view returns (uint32, uint32) {
        uint256 kind = fixedDice(q.seat + 77, 5);
        if (kind == 0) return (TOKENS, 140);
        if (kind == 1) return (LABELS, 79);
        return kind == 2 ? (SCALARS, uint32(2)) : (TENSOR, uint32(130));
    }

    /// @dev Steps of the segment; of a vote the last state is what was sealed.
    function _rootsOf() private view returns (bytes32[] memory) {
        return stepRoots();
    }

    function stageOf(Quarrel memory q) internal view returns (uint256 stage, uint256 clock) {
        IDisputes.Stage found;
        (found, clock,,,,) = disputing().disputeOf(task, q.id);
        stage = uint256(found);
    }

    function isOnAccused(uint256 stage) internal pure returns (bool) {
        return stage == uint256(IDisputes.Stage.ROOTS) || stage == uint256(IDisputes.Stage.TRACE)
            || stage == uint256(IDisputes.Stage.LEAVES);
    }

    // Opening
    /// @dev Fair: against what is false; otherwise against anybody.
    function openDispute(bool isFair) internal returns (bool) {
        if (rounds.nextRound(task) == 0 || roundOf(0).closed == 0) return false;
        uint256 slots = Slots.idsOf(roundOf(0).pool).length;
        uint256 first = dice(slots * 7);
        for (uint256 i = 0; i < slots * 7; ++i) {
            uint256 where = (first + i) % (slots * 7);
            Quarrel memory q;
            (q.isVote, q.opener) = (where % 7 != 0, person(isFair ? "fair" : "bully"));
            if (!_aim(q, where / 7, where % 7)) continue;
            if (isFair && !_isFalse(q)) continue;
            if (_open(q)) return true;
        }
        return false;
    }

    function _aim(Quarrel memory q, uint256 slot, uint256 which) private returns (bool) {
        (uint256 seat,, uint256 segments) = rounds.claimOf(task, 0, slot);
        if (segments == 0) return false;
        if (q.isVote) {
            q.place = placeAt(0, slot, (which - 1) / 3, (which - 1) % 3);
            if (q.place.seat == 0 || saidAt(q.place).word >= UNSERVED) return false;
            q.seat = q.place.seat;
            return true;
        }
        (q.place.slot, q.place.segment, q.seat) = (slot, dice(SEGMENTS), seat);
        return true;
    }

    function _isFalse(Quarrel memory q) private view returns (bool) {
        return q.isVote ? saidAt(q.place).isLie : isLying[q.seat];
    }

    function _open(Quarrel memory q) private returns (bool) {
        (, uint256 open) = seatBook.openOn(task, q.seat);
        uint256 number = 1 + open;
        q.bondWei = number * terms.amounts.disputeBond;
        give(q.opener, q.bondWei);
        bytes32 salt = bytes32(++_salt);
        q.id = keccak256(abi.encode(task, q.opener, salt));
        bytes memory data;
        if (q.isVote) {
            (Statements.Vote memory vote,) = voteAt(q.place);
            data =
                abi.encodeCall(IDisputes.disputeVote, (task, sign(vote, accountOf(q.seat)), q.bondWei, salt));
        } else {
            data = abi.encodeCall(
                IDisputes.disputeClaim, (task, 0, q.place.slot, q.place.segment, q.bondWei, salt)
            );
        }
        if (!attempt(q.opener, game, data)) return false;
        quarrels.push(q);
        return true;
    }

    // The accused
    /// @dev The move that is due from the accused; a cheat may be silent, an honest one may not be hindered.
    function respond(Quarrel memory q) internal returns (bool) {
        (uint256 stage,) = stageOf(q);
        _enter(q);
        bytes memory data;
        if (stage == uint256(IDisputes.Stage.ROOTS)) data = q.isVote ? _voteRoots(q) : _claimRoots(q);
        else if (stage == uint256(IDisputes.Stage.TRACE)) data = _trace(q);
        else if (stage == uint256(IDisputes.Stage.LEAVES)) data = _shown(q);
        else return false;
        if (!isHonest(q.seat)) return attempt(accountOf(q.seat), game, data);
        must("the answer of an accused", accountOf(q.seat), game, data);
        return true;
    }

    function _claimRoots(Quarrel memory q) private view returns (bytes memory) {
        (BoundaryProof memory start, BoundaryProof memory end) =
            (boundaryProof(ofSegment), boundaryProof(ofSegment + 1));
        return abi.encodeCall(IDisputes.postClaimRoots, (task, q.id, _rootsOf(), start, end));
    }

    function _voteRoots(Quarrel memory q) private view returns (bytes memory) {
        (BoundaryProof memory start, BoundaryProof memory end) =
            (boundaryProof(ofSegment), boundaryProof(ofSegment + 1));
        bytes32 sealed_ = sealSalt(0, q.place.slot, q.place.draw, q.place.rank);
        return abi.encodeCall(
            IDisputes.postVoteRoots, (task, q.id, _rootsOf(), accountOf(ofSeat), start, end, sealed_)
        );
    }

    function _trace(Quarrel memory q) private returns (bytes memory) {
        readRows();
        return abi.encodeCall(
            ISteps.postTrace,
            (
                task,
                q.id,
                stepFacts(),
                Trees.root(traceRoots()),
                stepState(ofStep),
                stepState(ofStep + 1),
                proveTrace()
            )
        );
    }

    function _shown(Quarrel memory q) private returns (bytes memory) {
        readRows();
        IReferee.BufferOpening[] memory openings = new IReferee.BufferOpening[](SHOWN);
        for (uint256 i = 0; i < SHOWN; ++i) {
            openings[i] = openBuffer(i == 0 ? TENSOR : 0, uint32(i));
        }
        return abi.encodeCall(ISteps.showLeaves, (task, q.id, stepState(ofStep), openings));
    }

    // The opener
    /// @dev The next move of the opener. One that is fair proves; another one may demand, and tries to prove what is right to be wrong.
    function prosecute(uint256 index) internal returns (bool) {
        Quarrel memory q = quarrels[index];
        (uint256 stage,) = stageOf(q);
        bool isFair = q.opener == person("fair");
        if (stage == uint256(IDisputes.Stage.NAME)) {
            (q.step, quarrels[index].step) = (1 + dice(3), 0);
            quarrels[index].step = q.step;
            _enter(q);
            bytes memory named = abi.encodeCall(IDisputes.nameStep, (task, q.id, q.step, _rootsOf()));
            return attempt(q.opener, game, named);
        }
        bool isLast = stage == uint256(IDisputes.Stage.LAST);
        bool mayProve =
            isLast || stage == uint256(IDisputes.Stage.PROVE) || stage == uint256(IDisputes.Stage.LEAVES);
        if (!mayProve) return false;
        _enter(q);
        if (stage == uint256(IDisputes.Stage.PROVE) && dice(3) == 0) return _demand(q);
        bool isWrong = lie != 0;
        if (!isFair && isWrong) return false;
        bool isConvicted_ = attempt(q.opener, game, _proof(q));
        _require(isWrong || !isConvicted_, "a right step cannot be proven wrong", 0, q.seat);
        if (isConvicted_) quarrels[index].how = lieBuffer == TENSOR ? "operation" : "datum";
        return true;
    }

    function _demand(Quarrel memory q) private returns (bool) {
        ISteps.LeafDemand[] memory list = new ISteps.LeafDemand[](SHOWN);
        for (uint256 i = 0; i < SHOWN; ++i) {
            list[i] = ISteps.LeafDemand(proveNode(0), uint32(i), uint32(i));
        }
        bytes memory data = abi.encodeCall(ISteps.demandLeaves, (task, q.id, stepFacts(), list));
        return attempt(q.opener, game, data);
    }

    function _proof(Quarrel memory q) private returns (bytes memory) {
        readRows();
        if (lieBuffer == TENSOR) {
            return abi.encodeCall(
                ISteps.proveOperation,
                (
                    task,
                    q.id,
                    stepFacts(),
                    stepState(ofStep),
                    proveNode(0),
                    lieElement,
                    openProduct(lieElement)
                )
            );
        }
        IReferee.BufferOpening memory opening = openBuffer(lieBuffer, lieElement / 128);
        return abi.encodeCall(
            ISteps.proveDatum,
            (task, q.id, stepFacts(), stepState(ofStep), lieBuffer, lieElement, opening, _datum())
        );
    }

    function _datum() private view returns (LeafProof memory) {
        if (lieBuffer == SCALARS) return proveScalarLeaf(stepState(ofStep).localStep);
        uint256 place = rowStart(lieElement / ROW_TOKENS) + lieElement % ROW_TOKENS;
        return proveTokenLeaf(place + (lieBuffer == LABELS ? 1 : 0));
    }

    // The end
    /// @dev Ends what is late or about a convicted seat, and counts what has ended.
    function endDisputes() internal returns (bool isAny) {
        for (uint256 i = quarrels.length; i > 0; --i) {
            Quarrel memory q = quarrels[i - 1];
            (uint256 stage, uint256 clock) = stageOf(q);
            bool isRunning = stage <= uint256(IDisputes.Stage.LAST);
            bool isMoot = seatBook.seatAt(task, q.seat).status == SeatStatus.CONVICTED;
            if (isRunning && (isMoot || now_() > clock)) {
                bytes memory data = abi.encodeCall(IDisputes.endDispute, (task, q.id));
                must("the end of a dispute", stranger, game, data);
                (stage,) = stageOf(q);
                isRunning = false;
            }
            if (isRunning) continue;
            if (stage == uint256(IDisputes.Stage.CLEARED)) _count("dispute cleared");
            else if (stage == uint256(IDisputes.Stage.MOOT)) _count("dispute moot");
            else if (bytes(q.how).length == 0) _count("dispute convicted, silent");
            else _count(string.concat("dispute convicted, ", q.how));
            quarrels[i - 1] = quarrels[quarrels.length - 1];
            quarrels.pop();
            isAny = true;
        }
    }
}
