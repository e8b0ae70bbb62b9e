// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.28;

import {Limits, StateHeader, TaskId} from "../../../contracts/Types.sol";
import {DevToken} from "../../../contracts/devnet/DevToken.sol";
import {
    DeploymentBounds,
    GameAmounts,
    GameTerms,
    GameWindows,
    NO_DRAW,
    Proof,
    RoundView,
    Seat,
    SeatRole,
    SeatStatus,
    StatementRef
} from "../../../contracts/game/GameTypes.sol";
import {Part} from "../../../contracts/game/Game.sol";
import {Modules} from "../../../contracts/game/Module.sol";
import {IVault} from "../../../contracts/game/interfaces/IVault.sol";
import {IRounds} from "../../../contracts/game/interfaces/IRounds.sol";
import {ISeats} from "../../../contracts/game/interfaces/ISeats.sol";
import {ISettlement} from "../../../contracts/game/interfaces/ISettlement.sol";
import {IShares} from "../../../contracts/game/interfaces/IShares.sol";
import {ITasks} from "../../../contracts/game/interfaces/ITasks.sol";
import {IVotes} from "../../../contracts/game/interfaces/IVotes.sol";
import {Pots} from "../../../contracts/game/libraries/Pots.sol";
import {Slots} from "../../../contracts/game/libraries/Slots.sol";
import {IReferee} from "../../../contracts/interfaces/IReferee.sol";
import {Draw} from "../../../contracts/libraries/Draw.sol";
import {Hashing} from "../../../contracts/libraries/Hashing.sol";
import {Statements} from "../../../contracts/libraries/Statements.sol";
import {Test} from "../Test.sol";
import {Trees} from "../Trees.sol";
import {RandomnessBook} from "./RandomnessBook.sol";

/// @dev Source: Foundry's `Vm` interface.
interface CodeVm {
    function getCode(string calldata artifact) external view returns (bytes memory);
}

/// @title All contracts of the round, deployed and at play with a task of toy size, and one function for each move.
/// @dev Four segments of five steps, two of them audited. `roll` is the only clock: the compiler takes `block.number` for a constant, so ask `now_`.
/// What a member says follows from who it is and where, so it can be made again by whoever must open or prove it.
abstract contract GameWorld is Test {
    uint256 internal constant FIRST_BLOCK = 1000;
    uint256 internal constant HEADER_BLOCKS = 200;
    bytes internal constant PROOF = "proof";
    bytes internal constant TRAINING = "training";
    uint256 internal constant ACCEPT = uint256(Statements.Word.ACCEPT);
    uint256 internal constant REJECT_STATE = uint256(Statements.Word.REJECT_STATE);
    uint256 internal constant REJECT_DELTA = uint256(Statements.Word.REJECT_DELTA);
    uint256 internal constant REJECT_START = uint256(Statements.Word.REJECT_START);
    uint256 internal constant UNSERVED = uint256(Statements.Word.UNSERVED);
    uint256 internal constant ABSTAIN = uint256(Statements.Word.ABSTAIN);

    DevToken internal token;
    RandomnessBook internal randomness;
    IVault internal vault;
    ITasks internal tasks;
    ISeats internal seatBook;
    IRounds internal rounds;
    IVotes internal votes;
    ISettlement internal settlement;
    /// @dev Where tasks, rounds, votes and the rest lie.
    address internal game;
    IReferee internal referee;
    address[] private _parts;
    IShares internal shares;

    TaskId internal task;
    GameTerms internal terms;
    address internal submitter;
    address internal stranger;
    mapping(address => uint256) internal keyOf;
    /// @dev Everybody who can have credit.
    address[] internal people;
    /// @dev Every pot that can hold something.
    bytes32[] internal pots;
    /// @dev What holders of shares can claim: parts of a wei stay there.
    bytes32[] internal revenuePots;
    /// @dev Seats in the order of joining, by role.
    mapping(SeatRole => uint256[]) internal seatsOf;
    /// @dev What stands behind an outer root: weights and momentum.
    mapping(bytes32 => bytes32[2]) internal behind;

    function setUp() public virtual {
        vm.roll(FIRST_BLOCK);
        submitter = person("submitter");
        stranger = person("stranger");
        deploy();
    }

    // Deployment
    function deploy() internal {
        (token, randomness) = (new DevToken(), new RandomnessBook());
        referee = IReferee(create("Referee.sol:Referee", ""));
        string[10] memory artifacts = partArtifacts();
        uint256 nonce = vm.getNonce(address(this));
        Part[] memory parts = partsFrom(nonce + 2);
        Modules memory m;
        (m.vault, m.game, m.randomness) = (IVault(placeAt(nonce)), placeAt(nonce + 1), randomness);
        m.shares = IShares(placeAt(nonce + 2 + parts.length));
        vault = IVault(create("Vault.sol:Vault", abi.encode(token, m.game, m.shares)));
        game = create("Game.sol:Game", abi.encode(parts, localBounds()));
        for (uint256 i = 0; i < parts.length; ++i) {
            bool isJudging = keccak256(bytes(artifacts[i])) == keccak256("Steps.sol:Steps");
            _parts.push(parts[i].code);
            create(artifacts[i], isJudging ? abi.encode(m, referee) : abi.encode(m));
        }
        shares = IShares(create("Shares.sol:Shares", abi.encode(m)));
        assertEq(address(shares), address(m.shares), "addresses are as predicted");
        (tasks, seatBook) = (ITasks(game), ISeats(game));
        (rounds, votes) = (IRounds(game), IVotes(game));
        settlement = ISettlement(game);
        for (uint256 i = 0; i < people.length; ++i) {
            vm.prank(people[i]);
            token.approve(address(vault), type(uint256).max);
        }
    }

    /// @dev As `new`, without the code of the contract in that of the test: a change of a contract compiles no test again.
    function create(string memory artifact, bytes memory arguments) internal returns (address made) {
        bytes memory code = bytes.concat(CodeVm(address(vm)).getCode(codePath(artifact)), arguments);
        assembly ("memory-safe") {
            made := create(0, add(code, 32), mload(code))
        }
        assertTrue(made != address(0), artifact);
    }

    /// @dev Where the code of "File.sol:Name" lies: by that name in what was built, unless a suite knows another place.
    function codePath(string memory artifact) internal view virtual returns (string memory) {
        return artifact;
    }

    /// @dev By name, so that `./dev mutate` knows what a suite rests on; in the order of tests/vectors/parts.json.
    function partArtifacts() internal pure returns (string[10] memory) {
        return [
            "Tasks.sol:Tasks",
            "Seats.sol:Seats",
            "Rounds.sol:Rounds",
            "Votes.sol:Votes",
            "Settlement.sol:Settlement",
            "Queries.sol:Queries",
            "Disputes.sol:Disputes",
            "Steps.sol:Steps",
            "Evidence.sol:Evidence",
            "Contests.sol:Contests"
        ];
    }

    /// @dev The parts of the game, created from this nonce on.
    function partsFrom(uint256 nonce) internal view returns (Part[] memory parts) {
        string memory json = vm.readFile("tests/vectors/parts.json");
        uint256[] memory selectors = vm.parseJsonUintArray(json, ".parts.selector");
        uint256[] memory start = vm.parseJsonUintArray(json, ".parts.selectorStart");
        parts = new Part[](start.length - 1);
        for (uint256 i = 0; i < parts.length; ++i) {
            parts[i] = Part(placeAt(nonce + i), new bytes4[](start[i + 1] - start[i]));
            for (uint256 j = start[i]; j < start[i + 1]; ++j) {
                parts[i].selectors[j - start[i]] = bytes4(uint32(selectors[j]));
            }
        }
    }

    function placeAt(uint256 nonce) internal view returns (address) {
        return vm.computeCreateAddress(address(this), nonce);
    }

    // Terms
    /// @dev As `protocol/spec/game/presets.py`, BOUNDS_LOCAL.
    function localBounds() internal pure returns (DeploymentBounds memory) {
        GameWindows memory least = GameWindows(1, 1, 10, 10, 12, 2, 4, 76, 6);
        return DeploymentBounds(least, 1_000_000, 1, 1 << 90, 200, 50, 1);
    }

    /// @dev WINDOWS_LOCAL: delay, drawGrid, trainMin, trainMax, auditMax, post, respond, dispute, ask.
    function localWindows() internal pure returns (GameWindows memory) {
        return GameWindows(1, 2, 40, 80, 30, 6, 10, 200, 720);
    }

    function soundAmounts() internal pure returns (GameAmounts memory) {
        return GameAmounts({
            solverStake: 1000,
            auditorStake: 600,
            solverPay: 100,
            auditPay: 10,
            latePay: 7,
            droppedFee: 40,
            unservedFee: 90,
            contestBond: 50,
            queryBond: 20,
            disputeBond: 30,
            finderCap: 120
        });
    }

    function soundTerms() internal view virtual returns (GameTerms memory t) {
        t.submitter = submitter;
        (t.initialWeightsRoot, t.zeroRoot) = ("weights", "zero");
        (t.scheduleRoot, t.stepRoot) = ("schedule", "step");
        (t.parameterCount, t.rounds, t.innerSteps, t.segmentSteps) = (1000, 4, 20, 5);
        (t.solverSeats, t.draws, t.lateChance) = (4, 2, 0);
        (t.leastSolvers, t.leastVerifiers, t.leastWhistleblowers) = (2, 6, 3);
        (t.outerLearningRate, t.outerMomentum) = (0x3f333333, 0x3f666666);
        (t.windows, t.amounts, t.limits) = (localWindows(), soundAmounts(), Limits(1, 2, 3, 4, 5, 6));
    }

    function postTask(GameTerms memory wanted) internal {
        terms = wanted;
        give(submitter, tasks.escrowFor(wanted));
        vm.prank(submitter);
        task = tasks.postTask(wanted, TRAINING);
        pots.push(Pots.escrow(task));
        pots.push(Pots.stakes(task));
        pots.push(Pots.bonds(task));
        revenuePots.push(Pots.revenue(task));
        pots.push(Pots.held(task));
        pots.push(Pots.restitution(task));
        bytes32 root = Hashing.outerRoot(wanted.initialWeightsRoot, wanted.zeroRoot);
        behind[root] = [wanted.initialWeightsRoot, wanted.zeroRoot];
    }

    // People
    /// @dev An account with a key and tokens.
    function person(string memory name) internal returns (address account) {
        uint256 key = uint256(keccak256(bytes(name)));
        account = vm.addr(key);
        if (keyOf[account] != 0) return account;
        keyOf[account] = key;
        people.push(account);
        if (address(vault) == address(0)) return account;
        vm.prank(account);
        token.approve(address(vault), type(uint256).max);
    }

    /// @dev Credit from outside.
    function give(address account, uint256 wei_) internal {
        if (wei_ == 0) return;
        token.mint(account, wei_);
        vm.prank(account);
        vault.deposit(wei_);
    }

    function join(SeatRole role, string memory name, uint256 stakeWei) internal returns (uint256 seat) {
        address account = person(name);
        give(account, stakeWei);
        vm.prank(account);
        seat = seatBook.join(task, role, stakeWei);
        seatsOf[role].push(seat);
    }

    function joinMany(SeatRole role, string memory name, uint256 count) internal {
        uint256 stakeWei = role == SeatRole.SOLVER ? terms.amounts.solverStake : terms.amounts.auditorStake;
        for (uint256 i = 0; i < count; ++i) {
            join(role, string.concat(name, vm.toString(i)), stakeWei);
        }
    }

    function joinAll(uint256 solvers, uint256 verifiers, uint256 whistleblowers) internal {
        joinMany(SeatRole.SOLVER, "solver", solvers);
        joinMany(SeatRole.VERIFIER, "verifier", verifiers);
        joinMany(SeatRole.WHISTLEBLOWER, "whistleblower", whistleblowers);
    }

    function solverSeat(uint256 number) internal pure returns (uint256) {
        return uint256(SeatRole.SOLVER) << 16 | number;
    }

    function verifierSeat(uint256 number) internal pure returns (uint256) {
        return uint256(SeatRole.VERIFIER) << 16 | number;
    }

    function whistleblowerSeat(uint256 number) internal pure returns (uint256) {
        return uint256(SeatRole.WHISTLEBLOWER) << 16 | number;
    }

    function accountOf(uint256 seat) internal view virtual returns (address) {
        return seatBook.seatAt(task, seat).account;
    }

    function creditOf(uint256 seat) internal view returns (uint256) {
        return vault.creditOf(accountOf(seat));
    }

    function asSeat(uint256 seat) internal {
        vm.prank(accountOf(seat));
    }

    // Clock
    /// @dev Where the task stands, field by field.
    function lineNow()
        internal
        view
        returns (
            uint256 next,
            uint256 live,
            uint256 frozenTo,
            uint256 pausedSince,
            uint256 startBlock,
            bool isHalted,
            bytes32 root
        )
    {
        IRounds.Line memory line;
        (line, root) = rounds.lineOf(task);
        (next, live, frozenTo) = (line.nextRound, line.live, line.frozenTo);
        (pausedSince, startBlock, isHalted) = (line.pausedSince, line.startBlock, line.isHalted);
    }

    function now_() internal view returns (uint256) {
        return vm.getBlockNumber();
    }

    function roll(uint256 block_) internal {
        assertTrue(block_ >= now_(), "the clock goes forward");
        vm.roll(block_);
    }

    function pass(uint256 blocks) internal {
        vm.roll(now_() + blocks);
    }

    // Rounds
    function startRounds() internal {
        rounds.start(task);
        (,,,, uint256 startBlock,,) = lineNow();
        roll(startBlock + 1);
        rounds.drawStart(task, PROOF);
    }

    function roundOf(uint256 round) internal view returns (RoundView memory) {
        return rounds.roundOf(task, round);
    }

    function slotOf(uint256 round, uint256 seat) internal view returns (uint256) {
        return Slots.slotOf(roundOf(round).pool, seat & 0xffff);
    }

    function seatIn(uint256 round, uint256 slot) internal view virtual returns (uint256) {
        return solverSeat(Slots.numberAt(roundOf(round).pool, slot));
    }

    function segmentsOf(uint256, uint256) internal view returns (uint256) {
        return terms.innerSteps / terms.segmentSteps;
    }

    function commit(uint256 round, uint256 seat) internal {
        bytes32 base = roundOf(round).base;
        bytes32 beacon = rounds.beaconOf(task, round);
        bytes32 root = claimRoot(round, seat);
        uint256 segments = segmentsOf(round, seat);
        asSeat(seat);
        rounds.commit(task, round, base, beacon, root, segments);
    }

    /// @dev All seats of the round's pool.
    function commitAll(uint256 round) internal {
        uint256[] memory seats = Slots.idsOf(roundOf(round).pool);
        for (uint256 i = 0; i < seats.length; ++i) {
            commit(round, seats[i]);
        }
    }

    /// @dev One block on: a round whose closing block this one is, is closed.
    function close(uint256 round) internal returns (uint256 closed) {
        pass(1);
        rounds.sync(task);
        closed = roundOf(round).closed;
        assertTrue(closed != 0, "the round is closed");
    }

    /// @dev The block whose randomness draws what is asked for at `fromBlock`: the first even one behind it but one.
    function drawBlock(uint256 fromBlock) internal view returns (uint256) {
        uint256 grid = terms.windows.drawGrid;
        return (fromBlock + terms.windows.delay + grid - 1) / grid * grid;
    }

    /// @dev Draws a round in the first block that can.
    function drawAudits(uint256 round) internal {
        uint256 closed = roundOf(round).closed;
        if (closed == 0) closed = close(round);
        roll(drawBlock(closed) + 1);
        rounds.drawAudits(task, round, PROOF);
    }

    function bitsOf(uint256 count) internal pure returns (uint64) {
        return uint64((1 << count) - 1);
    }

    /// @dev A root of its own for each round, with weights and momentum behind it.
    function rootAfter(uint256 round) internal returns (bytes32 root) {
        bytes32 weights = keccak256(abi.encode("weights after", round));
        bytes32 momentum = keccak256(abi.encode("momentum after", round));
        root = Hashing.outerRoot(weights, momentum);
        behind[root] = [weights, momentum];
    }

    function mergeOf(uint256 round, uint64 merged, bytes32 root)
        internal
        view
        returns (Statements.MergeSignature memory)
    {
        RoundView memory view_ = roundOf(round);
        (bytes32[] memory claims,) = rounds.claimsOf(task, round);
        bytes32[] memory ordered = new bytes32[](64);
        uint256 found = 0;
        for (uint256 shard = 0; shard < claims.length; ++shard) {
            for (uint256 slot = 0; slot < claims.length; ++slot) {
                bool isHere = Draw.shard(rounds.beaconOf(task, round), slot, claims.length) == shard;
                if (isHere && merged >> slot & 1 == 1) ordered[found++] = claims[slot];
            }
        }
        assembly ("memory-safe") {
            mstore(ordered, found)
        }
        bytes32 merged_ = Statements.mergedHash(ordered);
        return Statements.MergeSignature(domain_(), uint32(round), view_.base, merged, merged_, root);
    }

    /// @dev Signatures of the seats with these numbers, 64 bytes each.
    function signMerge(uint256 round, uint64 merged, bytes32 root, uint64 signers)
        internal
        view
        returns (bytes memory signatures)
    {
        bytes32 digest = digestOf(Statements.hash(mergeOf(round, merged, root)));
        uint256[] memory seats = Slots.idsOf(signers);
        for (uint256 i = 0; i < seats.length; ++i) {
            signatures = bytes.concat(signatures, signAs(accountOf(seats[i]), digest));
        }
    }

    /// @dev Posts a root over these slots, signed by these seats.
    function post(uint256 round, uint64 merged, bytes32 root, uint64 signers) internal {
        bytes memory signatures = signMerge(round, merged, root, signers);
        rounds.post(task, round, merged, root, signers, signatures);
    }

    /// @dev Posts all that can be merged, signed by all seats of the pool.
    function postAll(uint256 round) internal {
        uint64 merged = rounds.statusesOf(task, round).mergeable;
        post(round, merged, rootAfter(round), roundOf(round).pool);
    }

    // Claims
    /// @dev A training state; with b = 0 where the round starts from, moments reset.
    function stateAt(uint256 round, uint256 seat, uint256 boundary)
        internal
        view
        virtual
        returns (StateHeader memory state)
    {
        state.globalStep = uint32(round * terms.innerSteps + boundary * terms.segmentSteps);
        state.localStep = uint32(boundary * terms.segmentSteps);
        if (boundary == 0) {
            (state.weightsRoot, state.firstMomentRoot) = (behind[roundOf(round).base][0], terms.zeroRoot);
            state.secondMomentRoot = terms.zeroRoot;
            return state;
        }
        state.weightsRoot = keccak256(abi.encode("w", round, seat, boundary));
        state.firstMomentRoot = keccak256(abi.encode("m", round, seat, boundary));
        state.secondMomentRoot = keccak256(abi.encode("v", round, seat, boundary));
    }

    function stateRootAt(uint256 round, uint256 seat, uint256 boundary) internal view returns (bytes32) {
        return Hashing.stateRoot(stateAt(round, seat, boundary));
    }

    function boundarySalt(uint256 round, uint256 seat, uint256 boundary) internal pure returns (bytes32) {
        return keccak256(abi.encode("boundary salt", round, seat, boundary));
    }

    function deltaRoot(uint256 round, uint256 seat) internal view virtual returns (bytes32) {
        return keccak256(abi.encode("delta", round, seat));
    }

    function carriedRoot(uint256 round, uint256 seat) internal view virtual returns (bytes32) {
        StateHeader memory last = stateAt(round, seat, segmentsOf(round, seat));
        return sha256(
            abi.encode(
                bytes32("touchstone.carried"), last.firstMomentRoot, last.secondMomentRoot, last.localStep
            )
        );
    }

    function domain_() internal view virtual returns (bytes32) {
        return tasks.domainOf(task);
    }

    function boundaryLeaf(uint256 round, uint256 seat, uint256 boundary) internal view returns (bytes32) {
        return Hashing.boundaryLeaf(
            domain_(),
            uint32(round),
            accountOf(seat),
            uint32(boundary),
            boundarySalt(round, seat, boundary),
            stateRootAt(round, seat, boundary)
        );
    }

    function workLeaf(uint256 round, uint256 seat) internal view returns (bytes32) {
        return sha256(
            abi.encode(
                bytes32("touchstone.work"),
                domain_(),
                round,
                accountOf(seat),
                segmentsOf(round, seat),
                deltaRoot(round, seat),
                carriedRoot(round, seat)
            )
        );
    }

    /// @dev One leaf a boundary, then that of the work: what `Trees.path` wants.
    function claimLeaves(uint256 round, uint256 seat) internal view returns (bytes32[] memory leaves) {
        uint256 segments = segmentsOf(round, seat);
        leaves = new bytes32[](segments + 2);
        for (uint256 i = 0; i <= segments; ++i) {
            leaves[i] = boundaryLeaf(round, seat, i);
        }
        leaves[segments + 1] = workLeaf(round, seat);
    }

    function claimRoot(uint256 round, uint256 seat) internal view returns (bytes32) {
        return Hashing.claimRoot(Trees.root(claimLeaves(round, seat)), segmentsOf(round, seat));
    }

    // Votes
    /// @dev EIP-712, as wallets do it.
    function digestOf(bytes32 structHash) internal view returns (bytes32) {
        bytes32 domainType =
            keccak256("EIP712Domain(string name,string version,uint256 chainId,address verifyingContract)");
        bytes32 separator = keccak256(
            abi.encode(domainType, keccak256("Touchstone"), keccak256("3"), block.chainid, address(tasks))
        );
        return keccak256(abi.encodePacked(hex"1901", separator, structHash));
    }

    /// @dev EIP-2098: r, then s with the parity in its highest bit.
    function signAs(address account, bytes32 digest) internal view returns (bytes memory) {
        (uint8 v, bytes32 r, bytes32 s) = vm.sign(keyOf[account], digest);
        return abi.encodePacked(r, bytes32(uint256(s) | (uint256(v) - 27) << 255));
    }

    function drawnSeat(uint256 round, uint256 slot, uint256 draw, uint256 rank)
        internal
        view
        returns (uint256 seat)
    {
        (seat,) = votes.drawnOf(task, round, slot, draw, rank);
    }

    function sealSalt(uint256 round, uint256 slot, uint256 draw, uint256 rank)
        internal
        pure
        returns (bytes32)
    {
        return keccak256(abi.encode("seal salt", round, slot, draw, rank));
    }

    /// @dev What the auditor's own replay gave: the claim's end, unless it rejects the state.
    function ownEndRoot(uint256 round, uint256 slot, uint256 segment, uint256 word)
        internal
        view
        virtual
        returns (bytes32)
    {
        if (word == REJECT_STATE) return keccak256(abi.encode("other end", round, slot, segment));
        return stateRootAt(round, seatIn(round, slot), segment + 1);
    }

    /// @dev The vote that the drawn auditor signs.
    function voteOf(uint256 round, uint256 slot, uint256 draw, uint256 rank, uint256 word)
        internal
        view
        returns (Statements.Vote memory vote)
    {
        RoundView memory view_ = roundOf(round);
        (uint256 auditor, uint256 segment) = votes.drawnOf(task, round, slot, draw, rank);
        (, vote.claimRoot,) = rounds.claimOf(task, round, slot);
        (vote.domain, vote.round, vote.baseRoot) = (domain_(), uint32(round), view_.base);
        vote.seed = draw == terms.draws ? view_.lateSeed : view_.seed;
        (vote.slot, vote.draw, vote.rank) = (uint32(slot), uint32(draw), uint32(rank));
        (vote.segment, vote.word) = (uint32(segment), Statements.Word(word));
        if (word == UNSERVED || word == ABSTAIN) return vote;
        uint256 solver = seatIn(round, slot);
        vote.startLeaf = boundaryLeaf(round, solver, segment);
        vote.endLeaf = boundaryLeaf(round, solver, segment + 1);
        bytes32 own = ownEndRoot(round, slot, segment, word);
        vote.seal = Statements.sealOf(vote, accountOf(auditor), own, sealSalt(round, slot, draw, rank));
    }

    /// @dev A vote as it is handed in, signed by `account`.
    function handSigned(Statements.Vote memory vote, bool isOpened, address account)
        internal
        view
        returns (IVotes.HandedVote memory handed)
    {
        bytes memory signature = signAs(account, digestOf(Statements.hash(vote)));
        (handed.r, handed.vs) = abi.decode(signature, (bytes32, bytes32));
        (handed.slot, handed.draw, handed.rank) = (vote.slot, uint8(vote.draw), uint8(vote.rank));
        (handed.word, handed.isOpened, handed.namedLeaf) = (uint8(vote.word), isOpened, vote.namedLeaf);
        handed.startLeaf = vote.startLeaf;
        if (!isOpened) {
            (handed.endLeaf, handed.seal) = (vote.endLeaf, vote.seal);
            return handed;
        }
        uint256 solver = seatIn(vote.round, vote.slot);
        handed.opening = Statements.Opening(
            stateRootAt(vote.round, solver, vote.segment + 1),
            boundarySalt(vote.round, solver, vote.segment + 1),
            ownEndRoot(vote.round, vote.slot, vote.segment, uint256(vote.word)),
            sealSalt(vote.round, vote.slot, vote.draw, vote.rank)
        );
    }

    /// @dev The drawn auditor's vote.
    function hand(uint256 round, uint256 slot, uint256 draw, uint256 rank, uint256 word, bool isOpened)
        internal
        view
        returns (IVotes.HandedVote memory)
    {
        address auditor = accountOf(drawnSeat(round, slot, draw, rank));
        return handSigned(voteOf(round, slot, draw, rank, word), isOpened, auditor);
    }

    function judge(uint256 round, IVotes.HandedVote memory handed) internal {
        IVotes.HandedVote[] memory all = new IVotes.HandedVote[](1);
        all[0] = handed;
        votes.judge(task, round, all);
    }

    /// @dev One vote, alone.
    function vote_(uint256 round, uint256 slot, uint256 draw, uint256 rank, uint256 word, bool isOpened)
        internal
    {
        judge(round, hand(round, slot, draw, rank, word, isOpened));
    }

    /// @dev Every primary accepts, with its opening, in one call.
    function acceptAll(uint256 round) internal {
        votes.judge(task, round, acceptances(round));
    }

    function acceptances(uint256 round) internal view returns (IVotes.HandedVote[] memory all) {
        (bytes32[] memory claims, uint256[] memory segments) = rounds.claimsOf(task, round);
        all = new IVotes.HandedVote[](claims.length * terms.draws);
        uint256 count = 0;
        for (uint256 slot = 0; slot < claims.length; ++slot) {
            for (uint256 draw = 0; draw < terms.draws && draw < (segments[slot] + 2) / 3; ++draw) {
                all[count++] = hand(round, slot, draw, 0, ACCEPT, true);
            }
        }
        assembly ("memory-safe") {
            mstore(all, count)
        }
    }

    // Plays
    /// @dev A task, its members, and round 0 open.
    function begin(uint256 solvers, uint256 verifiers, uint256 whistleblowers) internal {
        begin(soundTerms(), solvers, verifiers, whistleblowers);
    }

    function begin(GameTerms memory wanted, uint256 solvers, uint256 verifiers, uint256 whistleblowers)
        internal
    {
        postTask(wanted);
        joinAll(solvers, verifiers, whistleblowers);
        startRounds();
    }

    /// @dev All commit, the draw is sealed.
    function playToDraw(uint256 round) internal {
        commitAll(round);
        drawAudits(round);
    }

    /// @dev From OPEN to the posted root: the next round opens where there is one.
    function playRound(uint256 round) internal {
        playToDraw(round);
        acceptAll(round);
        postAll(round);
    }

    /// @dev Every seat that ever joined, those that can.
    function settleAll(uint256 untilRound) internal {
        for (uint256 role = 1; role <= 3; ++role) {
            uint256[] memory seats = seatsOf[SeatRole(role)];
            settlement.settle(task, seats, untilRound);
        }
    }

    /// @dev A block after which every round so far can be settled.
    function passDuties() internal {
        uint256 next = rounds.nextRound(task);
        uint256 latest = now_();
        IRounds.Facts[] memory facts = rounds.factsOf(task, 0, next - 1);
        for (uint256 i = 0; i < facts.length; ++i) {
            if (facts[i].dutyUntil > latest) latest = facts[i].dutyUntil;
        }
        assertTrue(latest != type(uint256).max, "every round has its root");
        roll(latest + 1);
    }

    /// @dev The end of a play: all settle, are paid out, the task closes, everybody withdraws, and nothing is left anywhere.
    function windUp() internal {
        assertBooks();
        (uint256 next,,, uint256 pausedSince,,,) = lineNow();
        if (next != 0) passDuties();
        if (!rounds.isOver(task)) roll(pausedSince + terms.windows.dispute);
        if (next != 0) settleAll(next - 1);
        for (uint256 role = 1; role <= 3; ++role) {
            uint256[] memory seats = seatsOf[SeatRole(role)];
            for (uint256 i = 0; i < seats.length; ++i) {
                if (seatBook.seatAt(task, seats[i]).status != SeatStatus.NONE) seatBook.payOut(task, seats[i]);
            }
        }
        tasks.closeTask(task);
        assertBooks();
        for (uint256 i = 0; i < pots.length; ++i) {
            assertEq(vault.potOf(pots[i]), 0, "nothing is left in any pot");
        }
        withdrawAll();
    }

    function withdrawAll() internal {
        for (uint256 i = 0; i < people.length; ++i) {
            if (vault.creditOf(people[i]) == 0) continue;
            vm.prank(people[i]);
            vault.withdraw();
        }
        if (vault.burnPending() != 0) vault.burn();
        assertEq(token.balanceOf(address(vault)), unclaimedWei(), "no token is left but for revenue");
    }

    /// @dev What lies there for holders of shares.
    function unclaimedWei() internal view returns (uint256 sumWei) {
        for (uint256 i = 0; i < revenuePots.length; ++i) {
            sumWei += vault.potOf(revenuePots[i]);
        }
    }

    /// @dev The vault holds what its books say.
    function assertBooks() internal view {
        uint256 sumWei = vault.burnPending() + unclaimedWei();
        for (uint256 i = 0; i < people.length; ++i) {
            sumWei += vault.creditOf(people[i]);
        }
        for (uint256 i = 0; i < pots.length; ++i) {
            sumWei += vault.potOf(pots[i]);
        }
        assertEq(sumWei, token.balanceOf(address(vault)), "books and tokens agree");
    }

    // Convictions
    function claimRef(uint256 round, uint256 slot) internal pure returns (StatementRef memory) {
        return StatementRef(uint32(round), uint32(slot), NO_DRAW, 0);
    }

    function voteRef(uint256 round, uint256 slot, uint256 draw, uint256 rank)
        internal
        pure
        returns (StatementRef memory)
    {
        return StatementRef(uint32(round), uint32(slot), uint32(draw), uint32(rank));
    }

    function punish(uint256 seat, Proof proof, StatementRef memory ref) internal {
        vm.prank(game);
        settlement.punish(task, seat, stranger, proof, ref);
    }

    function fall(uint256 round) internal {
        vm.prank(game);
        settlement.fall(task, round, stranger);
    }

    /// @dev As at the beginning of a transaction: nothing of the contracts counts as read.
    function cool() internal {
        vm.cool(game);
        vm.cool(address(vault));
        for (uint256 i = 0; i < _parts.length; ++i) {
            vm.cool(_parts[i]);
        }
    }
}
