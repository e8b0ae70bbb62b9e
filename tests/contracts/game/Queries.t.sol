// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.28;

import {GameTerms, SeatStatus} from "../../../contracts/game/GameTypes.sol";
import {SignedVote} from "../../../contracts/game/StatementTypes.sol";
import {IQueries} from "../../../contracts/game/interfaces/IQueries.sol";
import {IVault} from "../../../contracts/game/interfaces/IVault.sol";
import {IRefusals} from "../../../contracts/game/interfaces/IRefusals.sol";
import {Statements} from "../../../contracts/libraries/Statements.sol";
import {Trees} from "../Trees.sol";
import {StatementWorld} from "./StatementWorld.sol";
import {IERC20} from "@openzeppelin/contracts/token/ERC20/IERC20.sol";

/// @dev Calls what a test tells it to call.
contract Forwarder {
    function forward(address target, bytes calldata data) external {
        (bool isDone,) = target.call(data);
        require(isDone, "refused");
    }
}

abstract contract QueriesWorld is StatementWorld {
    uint256 internal constant BOND = 20;
    address internal asker;

    function setUp() public virtual override {
        super.setUp();
        asker = person("asker");
    }

    function book() internal view returns (IQueries) {
        return IQueries(game);
    }

    /// @dev To the draw of round 0, where the auditors' own ends lie so far from the claims'.
    function play(uint32 apart_, uint32 leaf) internal {
        (apart, apartLeaf) = (apart_, leaf);
        begin(3, 6, 3);
        playToDraw(0);
        give(asker, 1000);
    }

    function signed(uint256 slot, uint256 draw, uint256 rank, uint256 word)
        internal
        view
        returns (SignedVote memory)
    {
        return signed(slot, draw, rank, word, 0);
    }

    function signed(uint256 slot, uint256 draw, uint256 rank, uint256 word, uint32 named)
        internal
        view
        returns (SignedVote memory)
    {
        Statements.Vote memory vote = voteOf(0, slot, draw, rank, word);
        vote.namedLeaf = named;
        return sign(vote, accountOf(drawnSeat(0, slot, draw, rank)));
    }

    function ask_(SignedVote memory vote, uint32 leaf, uint256 bondWei) internal returns (bytes32 id) {
        vm.prank(asker);
        id = book().queryVote(task, vote, leaf, bondWei);
    }

    function questionOf(SignedVote memory vote, uint32 leaf) internal view returns (IQueries.Query memory q) {
        q.vote = vote.vote;
        (q.leaf, q.asker) = (leaf, asker);
        q.seat = uint32(signerOf(vote));
    }

    function signerOf(SignedVote memory vote) internal view returns (uint256) {
        return seatBook.seatOf(task, Statements.signer(digestOf(Statements.hash(vote.vote)), vote.r, vote.vs));
    }

    function answerOf(IQueries.Query memory q) internal view returns (IQueries.Answer memory a) {
        uint256 solver = seatIn(q.vote.round, q.vote.slot);
        uint256 end = q.vote.segment + 1;
        (a.claimedEnd, a.ownEnd) = (stateAt(0, solver, end), ownStateAt(0, solver, end));
        (a.solver, a.boundarySalt) = (accountOf(solver), boundarySalt(0, solver, end));
        a.sealSalt = sealSalt(0, q.vote.slot, q.vote.draw, q.vote.rank);
        (a.claimed, a.own) = (stateLeaves(solver, end, q.leaf), ownLeaves(solver, end, q.leaf));
        a.learningRateSum = RATE + q.vote.segment;
        uint256 count = terms.rounds * terms.innerSteps / terms.segmentSteps;
        a.schedulePath = Trees.path(scheduleLeaves(count), q.vote.segment);
    }

    function answer_(IQueries.Query memory q, IQueries.Answer memory a) internal {
        vm.prank(stranger);
        book().answerQuery(task, q, a);
    }

    function expect(bytes4 selector) internal {
        vm.expectPartialRevert(selector);
    }

    function expectInvalid(bytes32 what) internal {
        vm.expectRevert(abi.encodeWithSelector(IRefusals.ProofInvalid.selector, what));
    }

    function isConvicted(uint256 seat) internal view returns (bool) {
        return seatBook.seatAt(task, seat).status == SeatStatus.CONVICTED;
    }

    function assertOpen(uint256 seat, uint256 count) internal view {
        (uint256 open,) = seatBook.openOn(task, seat);
        assertEq(open, count, "open on the seat");
    }
}

contract QueriesTest is QueriesWorld {
    // Answers
    /// @dev Half of the bond to the signer, half burned.
    function _assertCleared(SignedVote memory vote, uint32 leaf) private {
        uint256 seat = signerOf(vote);
        (uint256 before, uint256 burned) = (creditOf(seat), vault.burnPending());
        bytes32 id = ask_(vote, leaf, BOND);
        assertOpen(seat, 1);
        IQueries.Query memory q = questionOf(vote, leaf);
        answer_(q, answerOf(q));
        assertTrue(!isConvicted(seat), "the signer was right");
        assertEq(creditOf(seat), before + BOND / 2, "half to the signer");
        assertEq(vault.burnPending(), burned + BOND / 2, "half burned");
        assertEq(vault.creditOf(asker), 1000 - BOND, "the asker pays");
        assertOpen(seat, 0);
        (uint256 lastBlock,) = book().queryOf(id);
        assertEq(lastBlock, 0, "nothing is left of it");
        assertBooks();
    }

    function _assertConvicted(SignedVote memory vote, uint32 leaf) private {
        uint256 seat = signerOf(vote);
        ask_(vote, leaf, BOND);
        IQueries.Query memory q = questionOf(vote, leaf);
        answer_(q, answerOf(q));
        assertTrue(isConvicted(seat), "the word was false");
        assertEq(vault.creditOf(asker), 1000 + 120, "bond and share to the asker");
        assertOpen(seat, 0);
        assertBooks();
    }

    /// @dev The lie lies in another leaf than was asked for: nothing is shown.
    function test_accept_beyondElsewhere_isCleared() public {
        play(BEYOND, 2);
        _assertCleared(signed(0, 0, 0, ACCEPT), 1);
    }

    /// @dev Two ends that are one state lie nowhere apart, even where an element cannot be judged.
    function test_accept_sameEndNotFinite_isCleared() public {
        begin(3, 6, 3);
        twists[solverSeat(0)] = Twist.FINAL_INFINITE;
        playToDraw(0);
        give(asker, 1000);
        _assertCleared(signed(0, 0, 0, ACCEPT), 1);
    }

    /// @dev What one end alone has not is not needed.
    function test_accept_sameEnd_needsNeitherOwnLeavesNorSchedule() public {
        play(0, 0);
        SignedVote memory vote = signed(0, 0, 0, ACCEPT);
        ask_(vote, 3, BOND);
        IQueries.Query memory q = questionOf(vote, 3);
        IQueries.Answer memory a = answerOf(q);
        delete a.own;
        delete a.schedulePath;
        a.learningRateSum = 0;
        answer_(q, a);
        assertTrue(!isConvicted(signerOf(vote)), "cleared");
    }

    /// @dev A claim that counts steps wrongly: an honest auditor rejects it, and can show why.
    function test_reject_endOfOtherSteps_isCleared() public {
        begin(3, 6, 3);
        twists[solverSeat(0)] = Twist.END_STEPS;
        playToDraw(0);
        give(asker, 1000);
        _assertCleared(signed(0, 0, 0, REJECT_STATE, 1), 1);
    }

    function test_accept_endOfOtherSteps_isConvicted() public {
        begin(3, 6, 3);
        twists[solverSeat(0)] = Twist.END_STEPS;
        playToDraw(0);
        give(asker, 1000);
        _assertConvicted(signed(0, 0, 0, ACCEPT), 1);
    }

    function test_answer_ownEndOfOtherSteps_isRefused() public {
        play(0, 0);
        apartSteps = 1;
        SignedVote memory vote = signed(0, 0, 0, ACCEPT);
        ask_(vote, 3, BOND);
        IQueries.Query memory q = questionOf(vote, 3);
        IQueries.Answer memory a = answerOf(q);
        expectInvalid("steps");
        answer_(q, a);
    }

    /// @dev Where moments do not carry over, local steps are those of the round.
    function test_answer_ownEndOfOtherLocalSteps_isRefused() public {
        play(0, 0);
        apartLocal = 1;
        SignedVote memory vote = signed(0, 0, 0, ACCEPT);
        ask_(vote, 3, BOND);
        IQueries.Query memory q = questionOf(vote, 3);
        IQueries.Answer memory a = answerOf(q);
        expectInvalid("steps");
        answer_(q, a);
    }

    /// @dev Where moments carry over, local steps count from elsewhere: those of the claim are compared with the signer's own, `beside` the claim's.
    function _playCarried(uint32 beside) private {
        GameTerms memory t = soundTerms();
        t.carryMoments = 1;
        begin(t, 3, 6, 3);
        twists[solverSeat(0)] = Twist.END_STEPS;
        (apart, apartLeaf, apartLocal) = (INSIDE, 2, 1 + beside);
        playToDraw(0);
        give(asker, 1000);
    }

    function test_accept_carriedLocalSteps_isCleared() public {
        _playCarried(0);
        _assertCleared(signed(0, 0, 0, ACCEPT), 2);
    }

    function test_accept_otherCarriedLocalSteps_isConvicted() public {
        _playCarried(1);
        _assertConvicted(signed(0, 0, 0, ACCEPT), 2);
    }

    /// @dev Leaf 1 of the claim has 1,056 bytes. Nobody has to repeat them: an auditor that has seen them says UNSERVED, any other cannot answer.
    function test_answer_leafOfOtherLength_isRefused() public {
        begin(3, 6, 3);
        twists[solverSeat(0)] = Twist.BROKEN_LEAF;
        playToDraw(0);
        give(asker, 1000);
        SignedVote memory vote = signed(0, 0, 0, ACCEPT);
        ask_(vote, 1, BOND);
        IQueries.Query memory q = questionOf(vote, 1);
        IQueries.Answer memory a = answerOf(q);
        expectInvalid("leaf");
        answer_(q, a);
    }

    // Logs
    /// @dev The asker is another contract, whose call data say nothing: a stranger ends the ask by what was logged.
    function test_endQuery_openedByAContract_fromTheLogAlone() public {
        play(0, 0);
        Forwarder other = new Forwarder();
        token.mint(address(other), BOND);
        other.forward(address(token), abi.encodeCall(IERC20.approve, (address(vault), BOND)));
        other.forward(address(vault), abi.encodeCall(IVault.deposit, (BOND)));
        SignedVote memory vote = signed(0, 0, 0, ACCEPT);
        IQueries.Query memory q = questionOf(vote, 3);
        q.asker = address(other);
        uint256 until = roundOf(0).closed + 2 * 30 + 10;
        vm.expectEmit(true, true, true, true, game);
        emit IQueries.QueryOpened(task, q.seat, book().idOf(task, q), vote.vote, 3, address(other), BOND, until);
        other.forward(game, abi.encodeCall(IQueries.queryVote, (task, vote, 3, BOND)));
        roll(until + 1);
        vm.prank(stranger);
        book().endQuery(task, q);
        assertTrue(isConvicted(q.seat), "nobody answered");
    }
}

/// @dev What a transaction costs: its calldata, and everything cold.
contract QueriesGasTest is QueriesWorld {
    /// @dev Two new words (the ask, the seat's count) are 44 k of it, reading and checking the vote 60 k.
    uint256 private constant ASK_GAS = 179_000;
    uint256 private constant ANSWER_GAS = 2_000_000;
    uint256 private constant ANSWER_BYTES = 120 * 1024;

    SignedVote private _vote;
    IQueries.Query private _question;

    function setUp() public override {
        super.setUp();
        play(INSIDE, 2);
        SignedVote memory other = signed(1, 0, 0, ACCEPT);
        ask_(other, 2, BOND);
        _vote = signed(0, 0, 0, ACCEPT);
        assertTrue(signerOf(other) != signerOf(_vote), "the first ask on a seat");
        _question = questionOf(other, 2);
    }

    function _transaction(bytes memory data) private returns (uint256 used) {
        uint256 tokens;
        for (uint256 i = 0; i < data.length; ++i) {
            tokens += data[i] == 0 ? 1 : 4;
        }
        cool();
        vm.prank(asker);
        uint256 before = gasleft();
        (bool isDone, bytes memory failure) = game.call(data);
        used = before - gasleft() + 21_000 + 4 * tokens;
        if (!isDone) {
            assembly ("memory-safe") {
                revert(add(failure, 32), mload(failure))
            }
        }
        uint256 floor = 21_000 + 10 * tokens;
        if (used < floor) used = floor;
    }

    /// @dev The first ask on a seat: a new word for the ask and one for the seat.
    function test_gas_ofQuery() public {
        uint256 used = _transaction(abi.encodeCall(IQueries.queryVote, (task, _vote, 2, BOND)));
        assertTrue(used <= ASK_GAS, string.concat("gas ", vm.toString(used)));
    }

    /// @dev The greatest tree that terms admit has 23 levels instead of these 2, and the schedule's 32 instead of 4: what that adds is added here.
    function test_gas_ofAnswer() public {
        bytes memory data = abi.encodeCall(IQueries.answerQuery, (task, _question, answerOf(_question)));
        uint256 used = _transaction(data);
        uint256 deepest = (6 * 21 + 32) * 32;
        assertTrue(data.length + deepest < ANSWER_BYTES, string.concat("bytes ", vm.toString(data.length)));
        assertTrue(used + 40 * deepest < ANSWER_GAS, string.concat("gas ", vm.toString(used)));
        assertTrue(used > 100_000, string.concat("gas ", vm.toString(used)));
    }
}
