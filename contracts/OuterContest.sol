// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.28;

import {ExposureId, LeafProof, TaskId, TaskTerms} from "./Types.sol";
import {IAuditBook} from "./interfaces/IAuditBook.sol";
import {IOuterContest} from "./interfaces/IOuterContest.sol";
import {IRoundLedger} from "./interfaces/IRoundLedger.sol";
import {IStakeVault} from "./interfaces/IStakeVault.sol";
import {ITaskRegistry} from "./interfaces/ITaskRegistry.sol";
import {Hashing} from "./libraries/Hashing.sol";
import {OuterMath} from "./libraries/OuterMath.sol";
import {PositionalMerkle} from "./libraries/PositionalMerkle.sol";
import {Terms} from "./libraries/Terms.sol";

/// @title Settles a wrong outer root, or a wrong pseudo-gradient, by computing one leaf of it (docs/spec.md, section 5).
/// @notice The contract computes; it never votes. An honest poster only has to open its own tree, an honest rival only to follow the difference down.
contract OuterContest is IOuterContest {
    /// @notice Levels of the tree that a poster opens in one move.
    /// @dev 16 nodes a move: three moves reach any leaf of a million parameters.
    uint256 public constant FANOUT_LEVELS = 4;
    uint8 private constant WEIGHTS = 0;
    uint8 private constant MOMENTUM = 1;
    /// @dev Of the bond of a rival that was wrong: to the poster, who had to answer. The rest is burned.
    uint256 private constant POSTER_SHARE_DIVISOR = 2;

    /// @dev Somebody's word for the outer state after a round, backed by the exposure of the same fields.
    struct Stand {
        address account;
        bytes32 weightsRoot;
        bytes32 momentumRoot;
    }

    struct Contest {
        Stand posted;
        Stand rival;
        Turn turn;
        uint8 tensor;
        uint32 level;
        uint32 index;
        uint64 clockBlock;
        bytes32 node;
        bytes32[] children;
    }

    /// @notice Where all money lies.
    IStakeVault public immutable vault;
    /// @notice Tasks, peers and rounds.
    ITaskRegistry public immutable registry;
    /// @notice Claims, verdicts and settlement.
    IRoundLedger public immutable ledger;
    /// @notice The blind audits.
    IAuditBook public immutable auditBook;

    mapping(TaskId => mapping(uint32 => mapping(address => Contest))) private _contests;
    /// @dev Running contests against one posted root, by its exposure.
    mapping(ExposureId => uint256) private _running;

    constructor(IStakeVault vault_, ITaskRegistry registry_, IRoundLedger ledger_, IAuditBook auditBook_) {
        (vault, registry, ledger, auditBook) = (vault_, registry_, ledger_, auditBook_);
    }

    // Contest -----------------------------------------------------------------------------------------------------
    /// @inheritdoc IOuterContest
    function contest(TaskId task, uint32 round, bytes32 weightsRoot, bytes32 momentumRoot, uint8 tensor)
        external
    {
        TaskTerms memory terms = Terms.load(registry, task);
        Stand memory posted = _contestable(task, round, terms.windows.merge);
        Contest storage entry = _contests[task][round][msg.sender];
        if (entry.turn != Turn.NONE) revert ContestRunning(msg.sender);
        if (posted.account == msg.sender) revert OwnRoot(msg.sender);
        Stand memory rival = Stand(msg.sender, weightsRoot, momentumRoot);
        bytes32 root = _rootOf(posted, tensor);
        if (root == _rootOf(rival, tensor)) revert SameRoot(root);
        (entry.posted, entry.rival, entry.tensor, entry.node) =
        (posted, rival, tensor, root);
        ++_running[_exposureOf(task, round, posted)];
        _turnTo(entry, _depth(terms) == 0 ? Turn.LEAF : Turn.POSTER, terms.windows.respond);
        emit Contested(task, round, msg.sender, weightsRoot, momentumRoot, tensor, entry.clockBlock);
        vault.expose(_exposureOf(task, round, rival), msg.sender, terms.amounts.mergeBond);
        ledger.setContested(task, round, true);
    }

    /// @dev The posted root, while its merge window is open. Over an empty set nobody computed anything: the ledger checked the root itself.
    function _contestable(TaskId task, uint32 round, uint256 mergeBlocks)
        private
        view
        returns (Stand memory posted)
    {
        uint256 postedBlock;
        (posted, postedBlock) = _postedOf(task, round);
        if (posted.account == address(0) || ledger.includedOf(task, round).length == 0) {
            revert NothingToContest(posted.account);
        }
        if (block.number >= postedBlock + mergeBlocks) {
            revert ClockOver(postedBlock + mergeBlocks, block.number);
        }
    }

    /// @inheritdoc IOuterContest
    function postNodes(TaskId task, uint32 round, address rival, bytes32[] calldata nodes) external {
        Contest storage entry = _onTurn(task, round, rival, Turn.POSTER);
        if (msg.sender != entry.posted.account) revert NotPoster(entry.posted.account, msg.sender);
        TaskTerms memory terms = Terms.load(registry, task);
        uint256 count = 1 << _levelsDown(entry.level, _depth(terms));
        if (nodes.length != count) revert WrongNodeCount(count, nodes.length);
        bytes32 root = PositionalMerkle.rootOf(nodes);
        if (root != entry.node) revert NodesMismatch(entry.node, root);
        entry.children = nodes;
        _turnTo(entry, Turn.RIVAL, terms.windows.respond);
        emit NodesPosted(task, round, rival, entry.level, entry.index, nodes, entry.clockBlock);
    }

    /// @inheritdoc IOuterContest
    function nameChild(TaskId task, uint32 round, uint32 child) external {
        Contest storage entry = _onTurn(task, round, msg.sender, Turn.RIVAL);
        if (child >= entry.children.length) revert WrongChild(child, entry.children.length);
        TaskTerms memory terms = Terms.load(registry, task);
        uint256 down = _levelsDown(entry.level, _depth(terms));
        entry.node = entry.children[child];
        entry.level += uint32(down);
        entry.index = uint32((uint256(entry.index) << down) | child);
        delete entry.children;
        _turnTo(entry, entry.level == _depth(terms) ? Turn.LEAF : Turn.POSTER, terms.windows.respond);
        emit ChildNamed(task, round, msg.sender, entry.level, entry.index, entry.clockBlock);
    }

    /// @inheritdoc IOuterContest
    function computeLeaf(
        TaskId task,
        uint32 round,
        address rival,
        LeafProof calldata weights,
        LeafProof calldata momentum,
        LeafProof[] calldata deltas
    ) external {
        Contest storage entry = _onTurn(task, round, rival, Turn.LEAF);
        TaskTerms memory terms = Terms.load(registry, task);
        bytes32 expected = 0;
        if (entry.index < _leafCount(terms)) {
            _requireInputs(task, round, entry.index, _leafCount(terms), weights, momentum, deltas);
            expected = _leafHashOf(entry.tensor, terms, weights.data, momentum.data, deltas);
        }
        if (expected == entry.node) _endAgainstRival(task, round, entry, "leaf");
        else _endAgainstPoster(task, round, entry, terms, "leaf");
    }

    /// @inheritdoc IOuterContest
    function timeout(TaskId task, uint32 round, address rival) external {
        Contest storage entry = _existing(task, round, rival);
        if (_isReplaced(task, round, entry)) return _endWithoutLoss(task, round, entry);
        if (block.number < entry.clockBlock) revert ClockRunning(entry.clockBlock, block.number);
        if (entry.turn == Turn.POSTER) {
            _endAgainstPoster(task, round, entry, Terms.load(registry, task), "silent");
        } else {
            _endAgainstRival(task, round, entry, "silent");
        }
    }

    // Leaves ------------------------------------------------------------------------------------------------------
    /// @dev The inputs must be what the round started from and what the included claims committed to, in the order of their sum.
    function _requireInputs(
        TaskId task,
        uint32 round,
        uint256 index,
        uint256 count,
        LeafProof calldata weights,
        LeafProof calldata momentum,
        LeafProof[] calldata deltas
    ) private view {
        (bytes32 weightsRoot, bytes32 momentumRoot) = ledger.globalOf(task, round);
        _requireLeaf(weightsRoot, weights, index, count);
        _requireLeaf(momentumRoot, momentum, index, count);
        uint32[] memory slots = ledger.includedOf(task, round);
        if (deltas.length != slots.length) revert WrongInputCount(slots.length, deltas.length);
        for (uint256 i = 0; i < slots.length; ++i) {
            (,,,, bytes32 deltaRoot) = ledger.claimOf(task, round, slots[i]);
            _requireLeaf(deltaRoot, deltas[i], index, count);
        }
    }

    function _leafHashOf(
        uint8 tensor,
        TaskTerms memory terms,
        bytes calldata weights,
        bytes calldata momentum,
        LeafProof[] calldata proofs
    ) private pure returns (bytes32) {
        bytes[] memory deltas = new bytes[](proofs.length);
        for (uint256 i = 0; i < proofs.length; ++i) {
            deltas[i] = proofs[i].data;
        }
        OuterMath.Rates memory rates = OuterMath.Rates(terms.outerLearningRate, terms.outerMomentum);
        (bytes memory newWeights, bytes memory newMomentum) =
            OuterMath.outerLeaf(weights, momentum, deltas, rates);
        return PositionalMerkle.leafHash(tensor == WEIGHTS ? newWeights : newMomentum);
    }

    /// @inheritdoc IOuterContest
    function provePseudoGradient(
        TaskId task,
        uint32 round,
        uint32 slot,
        uint32 draw,
        uint32 leafIndex,
        LeafProof calldata globalWeights,
        LeafProof calldata lastWeights,
        LeafProof calldata delta
    ) external {
        uint256 count = _leafCount(Terms.load(registry, task));
        (bytes32 weightsRoot,) = ledger.globalOf(task, round);
        (,,,, bytes32 deltaRoot) = ledger.claimOf(task, round, slot);
        _requireLeaf(weightsRoot, globalWeights, leafIndex, count);
        _requireLeaf(_lastWeightsRoot(task, round, slot, draw), lastWeights, leafIndex, count);
        _requireLeaf(deltaRoot, delta, leafIndex, count);
        if (!_isFault(globalWeights.data, lastWeights.data, delta.data)) revert NoFault(leafIndex);
        emit PseudoGradientConvicted(task, round, slot, leafIndex);
        ledger.convictSolver(task, round, slot, msg.sender, "pseudo-gradient");
    }

    /// @dev A final leaf that has no encoding (another size, not finite, out of range) is the solver's own fault; a broken global leaf is not.
    function _isFault(bytes memory globalLeaf, bytes memory lastLeaf, bytes memory delta)
        private
        pure
        returns (bool)
    {
        (bool sound,) = OuterMath.deltaLeaf(globalLeaf, globalLeaf);
        if (!sound) return false;
        (bool ok, bytes memory expected) = OuterMath.deltaLeaf(globalLeaf, lastLeaf);
        return !ok || keccak256(expected) != keccak256(delta);
    }

    function _lastWeightsRoot(TaskId task, uint32 round, uint32 slot, uint32 draw)
        private
        view
        returns (bytes32)
    {
        (, bool opened,) = auditBook.openedOf(task, round, slot, draw, 0);
        if (!opened) revert LastStateUnknown(slot, draw);
        return auditBook.lastOf(task, round, slot).weightsRoot;
    }

    function _requireLeaf(bytes32 root, LeafProof calldata leaf, uint256 index, uint256 count) private pure {
        if (!PositionalMerkle.verifyData(root, leaf.data, index, count, leaf.path)) {
            revert LeafMismatch(root, index);
        }
    }

    // Ends --------------------------------------------------------------------------------------------------------
    /// @dev The rival's bond stays where it is: it now backs the posted root.
    function _endAgainstPoster(
        TaskId task,
        uint32 round,
        Contest storage entry,
        TaskTerms memory terms,
        bytes32 reason
    ) private {
        (Stand memory posted, Stand memory rival) = (entry.posted, entry.rival);
        _end(task, round, rival.account, posted);
        emit ContestEnded(task, round, rival.account, posted.account, reason);
        ledger.replaceOuter(task, round, rival.account, rival.weightsRoot, rival.momentumRoot);
        ledger.setContested(task, round, false);
        vault.slash(
            _exposureOf(task, round, posted),
            rival.account,
            terms.amounts.finderCap,
            terms.submitter,
            terms.amounts.mergePay,
            reason
        );
    }

    function _endAgainstRival(TaskId task, uint32 round, Contest storage entry, bytes32 reason) private {
        (Stand memory posted, Stand memory rival) = (entry.posted, entry.rival);
        uint256 left = _end(task, round, rival.account, posted);
        emit ContestEnded(task, round, rival.account, rival.account, reason);
        if (left == 0) ledger.setContested(task, round, false);
        ExposureId bond = _exposureOf(task, round, rival);
        (, uint256 bondWei) = vault.exposureOf(bond);
        vault.forfeit(bond, posted.account, bondWei / POSTER_SHARE_DIVISOR, reason);
    }

    /// @dev Another rival was faster. Whoever was right can contest the root that stands now.
    function _endWithoutLoss(TaskId task, uint32 round, Contest storage entry) private {
        (Stand memory posted, Stand memory rival) = (entry.posted, entry.rival);
        _end(task, round, rival.account, posted);
        emit ContestEnded(task, round, rival.account, address(0), "replaced");
        vault.release(_exposureOf(task, round, rival));
    }

    function _end(TaskId task, uint32 round, address rival, Stand memory posted)
        private
        returns (uint256 left)
    {
        delete _contests[task][round][rival];
        left = --_running[_exposureOf(task, round, posted)];
    }

    // Helpers -----------------------------------------------------------------------------------------------------
    function _turnTo(Contest storage entry, Turn turn, uint256 respondBlocks) private {
        entry.turn = turn;
        entry.clockBlock = uint64(block.number + respondBlocks);
    }

    function _onTurn(TaskId task, uint32 round, address rival, Turn turn)
        private
        view
        returns (Contest storage entry)
    {
        entry = _existing(task, round, rival);
        if (entry.turn != turn) revert NotYourTurn(turn, entry.turn);
        if (_isReplaced(task, round, entry)) revert RootReplaced(rival);
        if (block.number >= entry.clockBlock) revert ClockOver(entry.clockBlock, block.number);
    }

    function _existing(TaskId task, uint32 round, address rival)
        private
        view
        returns (Contest storage entry)
    {
        entry = _contests[task][round][rival];
        if (entry.turn == Turn.NONE) revert NoContest(rival);
    }

    function _isReplaced(TaskId task, uint32 round, Contest storage entry) private view returns (bool) {
        (Stand memory posted,) = _postedOf(task, round);
        return ExposureId.unwrap(_exposureOf(task, round, posted))
            != ExposureId.unwrap(_exposureOf(task, round, entry.posted));
    }

    function _postedOf(TaskId task, uint32 round)
        private
        view
        returns (Stand memory posted, uint256 postedBlock)
    {
        (posted.account, posted.weightsRoot, posted.momentumRoot, postedBlock,) = ledger.outerOf(task, round);
    }

    function _exposureOf(TaskId task, uint32 round, Stand memory stand) private pure returns (ExposureId) {
        return Hashing.outerExposure(task, round, stand.account, stand.weightsRoot, stand.momentumRoot);
    }

    function _rootOf(Stand memory stand, uint8 tensor) private pure returns (bytes32) {
        if (tensor > MOMENTUM) revert WrongTensor(tensor);
        return tensor == WEIGHTS ? stand.weightsRoot : stand.momentumRoot;
    }

    function _leafCount(TaskTerms memory terms) private pure returns (uint256) {
        return PositionalMerkle.tensorLeafCount(terms.parameterCount);
    }

    function _depth(TaskTerms memory terms) private pure returns (uint256) {
        return PositionalMerkle.depth(_leafCount(terms));
    }

    function _levelsDown(uint256 level, uint256 depth) private pure returns (uint256) {
        return depth - level < FANOUT_LEVELS ? depth - level : FANOUT_LEVELS;
    }

    /// @inheritdoc IOuterContest
    function contestOf(TaskId task, uint32 round, address rival)
        external
        view
        returns (Turn turn, uint256 clockBlock, uint8 tensor, uint32 level, uint32 index, bytes32 node)
    {
        Contest storage entry = _contests[task][round][rival];
        return (entry.turn, entry.clockBlock, entry.tensor, entry.level, entry.index, entry.node);
    }
}
