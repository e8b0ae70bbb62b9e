// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.28;

import {ClaimStatus, ExposureId, LeafProof} from "../../../contracts/Types.sol";
import {IOuterContest} from "../../../contracts/interfaces/IOuterContest.sol";
import {Hashing} from "../../../contracts/libraries/Hashing.sol";
import {PositionalMerkle} from "../../../contracts/libraries/PositionalMerkle.sol";
import {Play} from "./Play.sol";

/// @title The outer step in an invariant run: who posts its root, rightly or not, who contests it, and pseudo-gradients that are none.
abstract contract Descent is Play {
    uint32 private constant LIE = 7;

    mapping(uint256 => mapping(address => address)) private _contested;
    /// @dev Bonds behind outer roots, by lap; some have ended.
    mapping(uint256 => ExposureId[]) internal _bonds;

    // Posting -----------------------------------------------------------------------------------------------------
    function _workMerge(bool honest) internal returns (bool did) {
        (address poster,,, uint256 postedBlock,) = ledger.outerOf(task, round);
        if (postedBlock == 0) return _post(honest);
        if (poster == address(0)) return false;
        if (vm.getBlockNumber() < postedBlock + terms.windows.merge) did = _contest(poster, honest);
        address[3] memory rivals = [merger, forger, bully];
        for (uint256 i = 0; i < rivals.length; ++i) {
            if (_descend(rivals[i], honest)) did = true;
        }
    }

    /// @dev Sometimes the forger is first, sometimes nobody posts until the late clock runs anyway.
    function _post(bool honest) private returns (bool) {
        uint32 included = uint32(ledger.includedOf(task, round).length);
        if (!_allJudged() || included == 0) return false;
        uint256 dice = _dice("poster", 0, 0) % 5;
        if (!honest && dice > 1) return false;
        bool late = vm.getBlockNumber() >= _phase(RESERVES).compareEnd + terms.windows.merge;
        if (honest && dice == 2 && !late) return false;
        address poster = honest ? merger : forger;
        (bytes32 weightsRoot, bytes32 momentumRoot) = _rootsOf(honest ? 0 : 1 + dice);
        if (vault.freeOf(poster) < terms.amounts.mergeBond) _refill(poster);
        bytes memory data = abi.encodeCall(ledger.postOuter, (task, round, included, weightsRoot, momentumRoot));
        _addBond(Hashing.outerExposure(task, round, poster, weightsRoot, momentumRoot));
        return _attempt(poster, address(ledger), data, "postOuter");
    }

    function _allJudged() private view returns (bool) {
        for (uint32 slot = 0; slot < _laps[_lap].solvers; ++slot) {
            ClaimStatus status = statusOf(slot);
            bool open = status == ClaimStatus.NONE || status == ClaimStatus.COMMITTED
                || status == ClaimStatus.ESCALATED;
            if (open) return false;
        }
        return _laps[_lap].solvers > 0;
    }

    /// @param lie 0: the right ones, 1: other weights, 2: another momentum, 3: both
    function _rootsOf(uint256 lie) private returns (bytes32 weightsRoot, bytes32 momentumRoot) {
        (uint32 weight, uint32 momentum) = _outerBits();
        weightsRoot = _remember(lie & 1 == 1 ? weight + LIE : weight);
        momentumRoot = _remember(lie & 2 == 2 ? momentum + LIE : momentum);
    }

    /// @dev Once: who posts the same root again after it was replaced has the same exposure again.
    function _addBond(ExposureId bond) private {
        ExposureId[] storage bonds = _bonds[_lap];
        for (uint256 i = 0; i < bonds.length; ++i) {
            if (ExposureId.unwrap(bonds[i]) == ExposureId.unwrap(bond)) return;
        }
        bonds.push(bond);
    }

    // Contests ----------------------------------------------------------------------------------------------------
    /// @dev The merger contests every wrong root; the forger a right one now and then, and the bully a wrong one beside the merger.
    function _contest(address poster, bool honest) private returns (bool) {
        (, bytes32 weightsRoot, bytes32 momentumRoot,,) = ledger.outerOf(task, round);
        (bytes32 rightWeights, bytes32 rightMomentum) = _rootsOf(0);
        bool right = weightsRoot == rightWeights && momentumRoot == rightMomentum;
        if (honest) {
            if (right || poster == merger) return false;
            return _oppose(poster, merger, rightWeights, rightMomentum, weightsRoot != rightWeights ? 0 : 1);
        }
        uint256 dice = _dice("rival", 0, 0) % 4;
        if (right && dice < 2 && poster != forger) {
            (bytes32 w, bytes32 m) = _rootsOf(1 + dice);
            return _oppose(poster, forger, w, m, uint8(dice));
        }
        if (right || poster == bully || dice < 2) return false;
        return _oppose(poster, bully, rightWeights, rightMomentum, weightsRoot != rightWeights ? 0 : 1);
    }

    function _oppose(address poster, address rival, bytes32 weightsRoot, bytes32 momentumRoot, uint8 tensor)
        private
        returns (bool did)
    {
        (IOuterContest.Turn turn,,,,,) = contest.contestOf(task, round, rival);
        if (turn != IOuterContest.Turn.NONE || _isDone("contest", uint160(poster), uint160(rival))) return false;
        if (vault.freeOf(rival) < terms.amounts.mergeBond) _refill(rival);
        bytes memory data = abi.encodeCall(contest.contest, (task, round, weightsRoot, momentumRoot, tensor));
        did = _attempt(rival, address(contest), data, "contest");
        if (!did) return false;
        _setDone("contest", uint160(poster), uint160(rival));
        _addBond(Hashing.outerExposure(task, round, rival, weightsRoot, momentumRoot));
        _contested[_lap][rival] = poster;
    }

    function _descend(address rival, bool honest) private returns (bool) {
        (IOuterContest.Turn turn, uint256 clockBlock, uint8 tensor,,,) = contest.contestOf(task, round, rival);
        if (turn == IOuterContest.Turn.NONE || vm.getBlockNumber() >= clockBlock) return false;
        address poster = _contested[_lap][rival];
        (address standing,,,,) = ledger.outerOf(task, round);
        if (standing != poster) return false;
        if (turn == IOuterContest.Turn.POSTER) {
            if (isHonest[poster] != honest || (!honest && _dice("posts nodes", 0, 0) % 3 == 0)) return false;
            return _postNodes(poster, rival, tensor);
        }
        if (turn == IOuterContest.Turn.RIVAL) {
            if (isHonest[rival] != honest || (!honest && _dice("names a child", 0, 0) % 4 == 0)) return false;
            return _attempt(rival, address(contest), abi.encodeCall(contest.nameChild, (task, round, 0)), "nameChild");
        }
        bool awaited = isHonest[rival] || _dice("computes the leaf", 0, 0) % 4 != 0;
        return honest && awaited && _computeLeaf(poster, rival);
    }

    function _postNodes(address poster, address rival, uint8 tensor) private returns (bool) {
        (, bytes32 weightsRoot, bytes32 momentumRoot,,) = ledger.outerOf(task, round);
        bytes32[] memory nodes = new bytes32[](2);
        nodes[0] = PositionalMerkle.leafHash(leafOf(_bits[tensor == 0 ? weightsRoot : momentumRoot]));
        nodes[1] = nodes[0];
        bytes memory data = abi.encodeCall(contest.postNodes, (task, round, rival, nodes));
        return _attempt(poster, address(contest), data, "postNodes");
    }

    /// @dev The right root wins, whoever holds it.
    function _computeLeaf(address poster, address rival) private returns (bool did) {
        uint32[] memory slots = ledger.includedOf(task, round);
        LeafProof[] memory deltas = new LeafProof[](slots.length);
        for (uint256 i = 0; i < slots.length; ++i) {
            deltas[i] = _deltaProof(slots[i]);
        }
        (, bytes32 weightsRoot, bytes32 momentumRoot,,) = ledger.outerOf(task, round);
        (bytes32 rightWeights, bytes32 rightMomentum) = _rootsOf(0);
        bool right = weightsRoot == rightWeights && momentumRoot == rightMomentum;
        uint256[] memory before = _stakes();
        bytes memory data = abi.encodeCall(
            contest.computeLeaf,
            (task, round, rival, leafProof(_laps[_lap].weight), leafProof(_laps[_lap].momentum), deltas)
        );
        did = _attempt(merger, address(contest), data, "computeLeaf");
        _count(right ? "contest lost by rival, leaf" : "contest lost by poster, leaf");
        (address standing,,,,) = ledger.outerOf(task, round);
        _requireEqual(uint160(standing), uint160(right ? poster : rival), "the right outer root stands");
        _checkLoss(before, right ? rival : poster);
    }

    function _contestTimeouts() internal returns (bool did) {
        address[3] memory rivals = [merger, forger, bully];
        for (uint256 i = 0; i < rivals.length; ++i) {
            (IOuterContest.Turn turn, uint256 clockBlock,,,,) = contest.contestOf(task, round, rivals[i]);
            if (turn == IOuterContest.Turn.NONE) continue;
            (address standing,,,,) = ledger.outerOf(task, round);
            address poster = _contested[_lap][rivals[i]];
            bool replaced = standing != poster;
            if (!replaced && vm.getBlockNumber() < clockBlock) continue;
            uint256[] memory before = _stakes();
            bytes memory data = abi.encodeCall(contest.timeout, (task, round, rivals[i]));
            did = _must(address(contest), data, "contest timeout");
            bool posterLost = turn == IOuterContest.Turn.POSTER;
            _count(
                replaced
                    ? "contest replaced"
                    : posterLost ? "contest lost by poster, silent" : "contest lost by rival, silent"
            );
            _checkLoss(before, replaced ? address(0) : posterLost ? poster : rivals[i]);
        }
    }

    // Pseudo-gradients --------------------------------------------------------------------------------------------
    function _proveDelta(uint32 slot) internal returns (bool did) {
        (, bool opened,) = audits.openedOf(task, round, slot, 0, 0);
        if (!opened || statusOf(slot) == ClaimStatus.CONVICTED || _isDone("settle", slot, 0)) return false;
        uint256[] memory before = _stakes();
        LeafProof memory last = leafProof(boundaryState(slot, segmentCount()).weight);
        bytes memory data = abi.encodeCall(
            contest.provePseudoGradient,
            (task, round, slot, 0, 0, leafProof(_laps[_lap].weight), last, _deltaProof(slot))
        );
        did = _attempt(hunter, address(contest), data, "provePseudoGradient");
        _count("claim CONVICTED, pseudo-gradient");
        _checkLoss(before, solvers[slot]);
    }

    // What an end may take ----------------------------------------------------------------------------------------
    function _stakes() internal view virtual returns (uint256[] memory);
    function _checkLoss(uint256[] memory before, address loser) internal virtual;
}
