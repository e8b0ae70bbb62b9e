// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.28;

import {
    AuditRef,
    AuditStatus,
    BoundaryProof,
    ClaimRef,
    ClaimStatus,
    DisputeId,
    LeafProof,
    StateHeader,
    StepFacts,
    TaskId
} from "../../../contracts/Types.sol";
import {IDisputeGame} from "../../../contracts/interfaces/IDisputeGame.sol";
import {IReferee} from "../../../contracts/interfaces/IReferee.sol";
import {Hashing} from "../../../contracts/libraries/Hashing.sol";
import {Trees} from "../Trees.sol";
import {Descent} from "./Descent.sol";

/// @title Disputes in an invariant run: claimants that defend themselves or fall silent, a hunter that proves what is wrong, openers without a case.
abstract contract Court is Descent {
    bytes private constant OPENINGS = "openings";
    uint32 private constant LAST = 1;
    uint256 private constant MOST_OPEN = 6;
    uint256 private constant LATEST = 8;

    struct Case {
        DisputeId id;
        uint256 lap;
        ClaimRef claim;
        address opener;
        address claimant;
        bool lying;
        bool ended;
        uint32 named;
        uint32 demands;
        uint32 answered;
        uint8 stage;
        bytes32 traceRoot;
    }

    struct Seal {
        uint256 lap;
        ClaimRef claim;
        address opener;
        uint256 sealedBlock;
        bytes32 salt;
    }

    Case[] internal _cases;
    uint256[] internal _openCases;
    Seal[] private _seals;
    StepFacts private _facts;
    uint256 private _salt;
    /// @dev The step that is aimed at.
    uint32 private _aimSlot;
    uint32 private _aimStep;
    State private _aimBefore;
    StateHeader private _aimStart;
    StateHeader private _aimEnd;
    uint256[2] private _aimRows;

    function setUp() public virtual override {
        super.setUp();
        _facts = stepFacts();
    }

    // Openings ----------------------------------------------------------------------------------------------------
    /// @dev Seals now, opens in a later block.
    function _seal(ClaimRef memory claim, address opener) internal returns (bool) {
        Seal memory made = Seal(_lap, claim, opener, vm.getBlockNumber(), bytes32(++_salt));
        bytes32 sealHash = sha256(abi.encode(claim, opener, made.salt));
        if (!_send(opener, address(disputes), abi.encodeCall(disputes.sealOpening, (sealHash)))) return false;
        _seals.push(made);
        return true;
    }

    function _openSealed(address opener) internal returns (bool did) {
        for (uint256 i = _seals.length; i > 0; --i) {
            Seal memory made = _seals[i - 1];
            if (made.opener != opener || vm.getBlockNumber() <= made.sealedBlock) continue;
            _seals[i - 1] = _seals[_seals.length - 1];
            _seals.pop();
            if (_open(made)) did = true;
        }
    }

    function _open(Seal memory made) private returns (bool) {
        _enter(made.lap);
        AuditRef memory ref = made.claim.audit;
        address claimant =
            made.claim.bySolver ? solvers[ref.slot] : _seat(ref.slot, ref.draw, ref.rank).auditor;
        (, uint256 queued) = disputes.activeOf(TaskId.unwrap(task), claimant);
        if (vault.freeOf(made.opener) < (uint256(terms.amounts.disputeBond) << queued)) _refill(made.opener);
        bytes memory data = abi.encodeCall(disputes.openDispute, (made.claim, made.salt));
        bool ok = _send(made.opener, address(disputes), data);
        _count(ok ? "done openDispute" : "refused openDispute");
        if (!ok && isHonest[made.opener] && _isOpenTo(made.claim)) revert Hindered("openDispute", _lastError);
        if (!ok) return false;
        Case storage c = _cases.push();
        c.id = DisputeId.wrap(sha256(abi.encode(made.claim, made.opener, made.salt)));
        (c.lap, c.claim, c.opener, c.claimant) = (made.lap, made.claim, made.opener, claimant);
        c.lying = _isLying(made.claim, claimant);
        _openCases.push(_cases.length - 1);
        _require(made.opener != claimant, "claimant and challenger differ", 0, 0);
        _watch(c);
        return true;
    }

    /// @dev Whether the end of the claim is not what its steps give.
    function _isLying(ClaimRef memory claim, address account) internal view returns (bool) {
        if (claim.bySolver) {
            Solver memory p = _solver(claim.audit.slot);
            return p.lieShift > 0 && p.lieSegment == claim.segment;
        }
        return _resultOf(claim.audit, claim.segment, account).weight
            != _replayOf(claim.audit.slot, claim.segment).weight;
    }

    // The hunter --------------------------------------------------------------------------------------------------
    function _hunterWakes() internal view returns (bool) {
        return _awake("hunter sleeps", 5);
    }

    /// @dev Seals an opening against each lie of the lap that can be proven, once.
    function _hunt() private returns (bool did) {
        if (!_hunterWakes() || vm.getBlockNumber() >= ledger.settleBlockOf(task, round)) return false;
        for (uint32 slot = 0; slot < _laps[_lap].solvers; ++slot) {
            Solver memory p = _solver(slot);
            if (p.lieShift > 0 && _isOpenTo(ClaimRef(refOf(slot, 0, 0), p.lieSegment, true))) {
                did = _huntOne(ClaimRef(refOf(slot, 0, 0), p.lieSegment, true)) || did;
            }
            if (p.deltaLie && _proveDelta(slot)) did = true;
            for (uint32 rank = 0; rank < RANKS; ++rank) {
                did = _huntAuditor(refOf(slot, 0, rank)) || did;
            }
            did = _huntAuditor(lateRef(slot)) || did;
        }
    }

    /// @dev Who slept still reads what others had opened: the trace of a lie that nobody proved in time.
    function _huntClosed() private returns (bool did) {
        if (_hunterWakes()) return false;
        uint256 lap = _lap;
        for (uint256 i = _cases.length; i > 0 && i + LATEST > _cases.length; --i) {
            if (_cases[i - 1].lap == lap && _proveClosed(_cases[i - 1])) did = true;
        }
    }

    /// @dev Where the hunter sleeps, an accomplice lets a lying solver defend itself to the end, to look acquitted.
    function _acquit() private returns (bool did) {
        if (_hunterWakes() || vm.getBlockNumber() >= ledger.settleBlockOf(task, round)) return false;
        for (uint32 slot = 0; slot < _laps[_lap].solvers; ++slot) {
            Solver memory p = _solver(slot);
            if (p.lieShift == 0 || _isDone("acquit", slot, 0)) continue;
            ClaimRef memory claim = ClaimRef(refOf(slot, 0, 0), p.lieSegment, true);
            if (!_isOpenTo(claim)) continue;
            _setDone("acquit", slot, 0);
            did = _seal(claim, forger) || did;
        }
    }

    function _huntAuditor(AuditRef memory ref) private returns (bool) {
        Seat memory seat = _seat(ref.slot, ref.draw, ref.rank);
        if (seat.auditor == address(0) || isHonest[seat.auditor]) return false;
        ClaimRef memory claim = ClaimRef(ref, seat.segment, false);
        if (!_isOpenTo(claim) || !_isLying(claim, seat.auditor)) return false;
        return _huntOne(claim);
    }

    function _huntOne(ClaimRef memory claim) private returns (bool) {
        uint256 name = uint256(keccak256(abi.encode(claim)));
        if (_isDone("hunt", name, 0)) return false;
        _setDone("hunt", name, 0);
        return _seal(claim, hunter);
    }

    /// @dev Whether a dispute on the claim may be opened.
    function _isOpenTo(ClaimRef memory claim) internal view returns (bool) {
        if (claim.bySolver) {
            ClaimStatus status = statusOf(claim.audit.slot);
            return status != ClaimStatus.NONE && status != ClaimStatus.DROPPED && status != ClaimStatus.CONVICTED;
        }
        AuditStatus found = audits.statusOf(claim.audit);
        return
            found == AuditStatus.REVEALED || found == AuditStatus.ACCEPTS || found == AuditStatus.REJECTS;
    }

    // Play --------------------------------------------------------------------------------------------------------
    /// @dev Both sides of every open dispute of the lap.
    function _workDisputes(bool honest) internal returns (bool did) {
        uint256 lap = _lap;
        if (honest) {
            if (_hunt() || _huntClosed()) did = true;
            if (_openSealed(hunter)) did = true;
        } else {
            if (_acquit()) did = true;
            if (_openSealed(forger)) did = true;
        }
        for (uint256 i = _openCases.length; i > 0; --i) {
            if (i > _openCases.length) continue;
            Case storage c = _cases[_openCases[i - 1]];
            if (c.lap != lap) continue;
            _enter(lap);
            if (_workCase(c, honest)) did = true;
            _watch(c);
        }
    }

    function _workCase(Case storage c, bool honest) private returns (bool) {
        (IDisputeGame.Stage stage, uint256 clockBlock,,) = disputes.stageOf(c.id);
        if (vm.getBlockNumber() >= clockBlock || _isFallen(c.claim)) return false;
        bool claimants = isHonest[c.claimant] == honest;
        bool openers = isHonest[c.opener] == honest;
        if (stage == IDisputeGame.Stage.ROOTS && claimants && _defends(c, 0)) return _postRoots(c);
        bool names = honest || _dice("names", _idOf(c), 0) % 5 != 0;
        if (stage == IDisputeGame.Stage.NAME && openers && names) return _nameStep(c);
        if (stage == IDisputeGame.Stage.TRACE && claimants && _defends(c, 1)) return _postTrace(c);
        if (stage != IDisputeGame.Stage.PROVE) return false;
        if (claimants && c.answered < c.demands && _defends(c, 2)) return _answer(c);
        if (honest && c.opener == hunter && c.lying && c.named == LAST) return _looksFirst(c) ? _look(c) : _prove(c);
        if (openers && !honest && c.opener != forger && c.demands < 2) return _demand(c, c.opener);
        return false;
    }

    /// @dev Now and then the hunter asks for a leaf before it proves anything, and proves when it has it.
    function _looksFirst(Case storage c) private view returns (bool) {
        return _dice("looks first", _idOf(c), 0) % 4 != 0 && (c.demands == 0 || c.answered < c.demands);
    }

    /// @dev The claimant keeps the fee; the finder's share comes later, and only if it falls.
    function _look(Case storage c) private returns (bool did) {
        did = c.demands == 0 && _demand(c, hunter);
        if (did) allowedWei[hunter] += terms.amounts.demandFee;
    }

    function _idOf(Case storage c) private view returns (uint256) {
        return uint256(DisputeId.unwrap(c.id));
    }

    function _isFallen(ClaimRef memory claim) private view returns (bool) {
        if (claim.bySolver) return statusOf(claim.audit.slot) == ClaimStatus.CONVICTED;
        return audits.statusOf(claim.audit) == AuditStatus.SLASHED;
    }

    function _defends(Case storage c, uint8 turn) private view returns (bool) {
        if (isHonest[c.claimant]) return true;
        if (c.claim.bySolver) return _solver(c.claim.audit.slot).quitAt > 5 + turn;
        return _auditor(c.claim.audit, c.claimant).quitAt > 3 + turn;
    }

    /// @dev State `j` of the claimed segment, 0 .. k.
    function _stepState(ClaimRef memory claim, address account, uint32 j) private view returns (State memory s) {
        uint32 slot = claim.audit.slot;
        if (!claim.bySolver && j == terms.segmentSteps) {
            return _resultOf(claim.audit, claim.segment, account);
        }
        Solver memory p = _solver(slot);
        s = stateAt(slot, claim.segment * terms.segmentSteps + j);
        bool moves = claim.segment > p.lieSegment || (claim.segment == p.lieSegment && j == terms.segmentSteps);
        if (p.lieShift > 0 && moves) s = moved(s, p.lieShift);
    }

    function _stepRoots(Case storage c) private view returns (bytes32[] memory roots) {
        roots = new bytes32[](terms.segmentSteps + 1);
        for (uint32 j = 0; j < roots.length; ++j) {
            roots[j] = Hashing.stateRoot(headerOf(_stepState(c.claim, c.claimant, j)));
        }
    }

    function _postRoots(Case storage c) private returns (bool) {
        BoundaryProof[] memory ends = new BoundaryProof[](c.claim.bySolver ? 2 : 0);
        for (uint32 i = 0; i < ends.length; ++i) {
            ends[i] = boundaryProof(c.claim.audit.slot, c.claim.segment + i);
        }
        bytes memory data = abi.encodeCall(disputes.postStepRoots, (c.id, _stepRoots(c), ends));
        return _move(c, c.claimant, data, "postStepRoots");
    }

    /// @dev The hunter and the accomplice name the wrong step; others any.
    function _nameStep(Case storage c) private returns (bool) {
        bool knows = c.opener == hunter || c.opener == forger;
        c.named = knows ? LAST : uint32(_dice("step", _idOf(c), 0) % terms.segmentSteps);
        bytes memory data = abi.encodeCall(disputes.nameStep, (c.id, c.named, _stepRoots(c)));
        return _move(c, c.opener, data, "nameStep");
    }

    function _postTrace(Case storage c) private returns (bool) {
        _aim(c);
        bytes32 root = Trees.root(traceRoots());
        if (c.lying && c.named == LAST && _flavour(c) < 2) referee.spoil(root);
        c.traceRoot = root;
        bytes memory data =
            abi.encodeCall(disputes.postTrace, (c.id, _facts, root, _aimStart, _aimEnd, proveTrace()));
        return _move(c, c.claimant, data, "postTrace");
    }

    /// @dev What is wrong with a lying step: 0 and 1 an operation, 2 a token, 3 a scalar.
    function _flavour(Case storage c) private view returns (uint8) {
        if (c.claim.bySolver) return _solver(c.claim.audit.slot).flavour;
        return _auditor(c.claim.audit, c.claimant).flavour;
    }

    /// @dev Makes the case's named step the one that StepWorld shows.
    function _aim(Case storage c) private {
        (_aimSlot, _aimStep) = (c.claim.audit.slot, c.claim.segment * terms.segmentSteps + c.named);
        _aimBefore = _stepState(c.claim, c.claimant, c.named);
        (_aimStart, _aimEnd) = (headerOf(_aimBefore), headerOf(_stepState(c.claim, c.claimant, c.named + 1)));
        (_aimRows[0], _aimRows[1]) = (super.rowStart(0), super.rowStart(1));
        bool wrong = c.lying && c.named == LAST && _flavour(c) >= 2;
        (_lieBuffer, _lieElement, _lie) = (_flavour(c) == 2 ? TOKENS : SCALARS, 1, wrong ? 1 : 0);
    }

    function namedStep() internal view override returns (uint32, uint32) {
        return (_aimSlot, _aimStep);
    }

    function rowStart(uint256 row) internal view override returns (uint256) {
        return _aimRows[row];
    }

    function stateBefore() internal view override returns (State memory) {
        return _aimBefore;
    }

    function headersAround() internal view override returns (StateHeader memory, StateHeader memory) {
        return (_aimStart, _aimEnd);
    }

    function _move(Case storage c, address sender, bytes memory data, string memory name) internal returns (bool ok) {
        ok = _attempt(sender, address(disputes), data, name);
        _watch(c);
    }

    // Demands and proofs ------------------------------------------------------------------------------------------
    /// @dev Of the node's output, leaf 0, 1 or 2.
    function _demand(Case storage c, address challenger) internal returns (bool) {
        (IDisputeGame.Stage stage, uint256 clockBlock,,) = disputes.stageOf(c.id);
        if (stage != IDisputeGame.Stage.PROVE || vm.getBlockNumber() >= clockBlock) return false;
        if (c.demands == c.answered + 3) return false;
        if (vault.freeOf(challenger) < terms.amounts.demandFee) _refill(challenger);
        bytes memory data =
            abi.encodeCall(disputes.demandLeaf, (c.id, _facts, proveNode(0), 0, c.demands % 3));
        if (!_send(challenger, address(disputes), data)) return false;
        ++c.demands;
        _count("done demandLeaf");
        return true;
    }

    function _answer(Case storage c) private returns (bool did) {
        _aim(c);
        bytes memory data = abi.encodeCall(
            disputes.answerDemand, (c.id, c.answered, _aimStart, openBuffer(TENSOR, c.answered % 3))
        );
        did = _move(c, c.claimant, data, "answerDemand");
        if (did) ++c.answered;
    }

    /// @dev A copy of the proof that is sent first, by a stranger, earns it nothing.
    function _prove(Case storage c) private returns (bool did) {
        address sender = _dice("copies the proof", _idOf(c), 0) % 3 == 0 ? stranger : c.opener;
        uint256[] memory before = _stakes();
        uint256 credit = vault.creditOf(stranger);
        did = _sendProof(c, sender);
        _checkLoss(before, c.claimant);
        _requireEqual(vault.creditOf(stranger), credit, "a front-run proof does not redirect the reward");
    }

    function _sendProof(Case storage c, address sender) internal returns (bool did) {
        _aim(c);
        uint8 flavour = _flavour(c);
        bytes memory data;
        if (flavour < 2) {
            data = abi.encodeCall(
                disputes.proveOperation, (c.id, _facts, _aimStart, proveNode(0), 0, OPENINGS)
            );
        } else if (flavour == 2) {
            LeafProof memory right = proveToken(rowStart(0) + 1);
            data = abi.encodeCall(disputes.proveToken, (c.id, _facts, false, 1, openBuffer(TOKENS, 0), right));
        } else {
            LeafProof memory right = proveScalarLeaf(_aimBefore.localStep);
            data = abi.encodeCall(
                disputes.proveScalar, (c.id, _facts, _aimStart, 1, openBuffer(SCALARS, 0), right)
            );
        }
        did = _attempt(sender, address(disputes), data, "prove");
        string[4] memory kinds = ["operation", "operation", "token", "scalar"];
        if (did) _count(string.concat("dispute CONVICTED, ", kinds[flavour]));
    }

    /// @dev Nothing of an honest trace can be proven wrong.
    function _proveFalsely(Case storage c, address sender) internal returns (bool) {
        (IDisputeGame.Stage stage,,,) = disputes.stageOf(c.id);
        bool traced = stage == IDisputeGame.Stage.PROVE || stage == IDisputeGame.Stage.CLOSED;
        if (!traced || c.traceRoot == 0 || (c.lying && c.named == LAST)) return false;
        _aim(c);
        LeafProof memory scalar = proveScalarLeaf(_aimBefore.localStep);
        bytes memory data =
            abi.encodeCall(disputes.proveScalar, (c.id, _facts, _aimStart, 1, openBuffer(SCALARS, 0), scalar));
        _require(!_send(sender, address(disputes), data), "an honest step is no fault", 0, 1);
        data = abi.encodeCall(disputes.proveOperation, (c.id, _facts, _aimStart, proveNode(0), 0, OPENINGS));
        _require(!_send(sender, address(disputes), data), "an honest step is no fault", 0, 1);
        return true;
    }

    /// @dev A dispute that was closed acquits nothing: the trace convicts until settlement.
    function _proveClosed(Case storage c) internal returns (bool) {
        (IDisputeGame.Stage stage,,,) = disputes.stageOf(c.id);
        if (stage != IDisputeGame.Stage.CLOSED || !c.lying || c.named != LAST || c.traceRoot == 0) return false;
        (,, bool settled,,) = ledger.claimOf(task, round, c.claim.audit.slot);
        if (settled || _isFallen(c.claim)) return false;
        uint256[] memory before = _stakes();
        bool did = _sendProof(c, hunter);
        _require(did, "closed is not acquitted", 1, 0);
        _checkLoss(before, c.claimant);
        _count("dispute CONVICTED, after it was closed");
        return did;
    }

    // Clocks ------------------------------------------------------------------------------------------------------
    function _timeouts() internal returns (bool did) {
        uint256 lap = _lap;
        for (uint256 i = _openCases.length; i > 0; --i) {
            Case storage c = _cases[_openCases[i - 1]];
            if (c.lap != lap || !_timeout(c)) continue;
            did = true;
            _watch(c);
        }
        if (_contestTimeouts()) did = true;
    }

    function _timeout(Case storage c) private returns (bool) {
        (IDisputeGame.Stage stage, uint256 clockBlock,,) = disputes.stageOf(c.id);
        if (stage < IDisputeGame.Stage.ROOTS || stage > IDisputeGame.Stage.PROVE) return false;
        bool fallen = _isFallen(c.claim);
        if (!fallen && vm.getBlockNumber() < clockBlock) return false;
        uint256[] memory before = _stakes();
        uint256 lockedWei = vault.lockedOf(c.opener);
        _must(address(disputes), abi.encodeCall(disputes.timeout, (c.id)), "timeout");
        (IDisputeGame.Stage end,,,) = disputes.stageOf(c.id);
        if (fallen) {
            _count("dispute dismissed");
            _checkLoss(before, address(0));
        } else if (end == IDisputeGame.Stage.CLOSED) {
            _count("dispute CLOSED");
            _checkLoss(before, c.opener);
        } else {
            _count(c.answered < c.demands ? "dispute CONVICTED, withheld" : "dispute CONVICTED, silent");
            _checkLoss(before, c.claimant);
        }
        _require(vault.lockedOf(c.opener) < lockedWei, "the bond of an ended dispute is free", lockedWei, 0);
        return true;
    }

    /// @dev Whoever is on turn has its whole clock after the other's move; an end is an end.
    function _watch(Case storage c) internal {
        (IDisputeGame.Stage stage, uint256 clockBlock,,) = disputes.stageOf(c.id);
        if (c.ended) return;
        if (uint8(stage) != c.stage) {
            _require(uint8(stage) > c.stage, "a dispute only goes on", c.stage, uint8(stage));
            uint256 leastBlocks = stage == IDisputeGame.Stage.NAME
                ? terms.windows.name
                : stage == IDisputeGame.Stage.PROVE ? terms.windows.prove : terms.windows.respond;
            bool turns = stage >= IDisputeGame.Stage.ROOTS && stage <= IDisputeGame.Stage.PROVE;
            uint256 left = clockBlock > vm.getBlockNumber() ? clockBlock - vm.getBlockNumber() : 0;
            if (turns && c.stage != uint8(IDisputeGame.Stage.QUEUED)) {
                _require(left >= leastBlocks, "whoever is on turn has time to respond", leastBlocks, left);
            }
            c.stage = uint8(stage);
        }
        if (stage < IDisputeGame.Stage.CLOSED) return;
        c.ended = true;
        for (uint256 i = 0; i < _openCases.length; ++i) {
            if (DisputeId.unwrap(_cases[_openCases[i]].id) != DisputeId.unwrap(c.id)) continue;
            _openCases[i] = _openCases[_openCases.length - 1];
            _openCases.pop();
            return;
        }
    }

    function _isCrowded() internal view returns (bool) {
        return _openCases.length >= MOST_OPEN;
    }
}
