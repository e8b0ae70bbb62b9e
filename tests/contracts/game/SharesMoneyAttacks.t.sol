// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.28;

import {TaskId} from "../../../contracts/Types.sol";
import {DevToken} from "../../../contracts/devnet/DevToken.sol";
import {IVault} from "../../../contracts/game/interfaces/IVault.sol";
import {IShares, ITaskShares} from "../../../contracts/game/interfaces/IShares.sol";
import {Pots} from "../../../contracts/game/libraries/Pots.sol";
import {ISharesToken, SharesWorld} from "./SharesWorld.sol";

/// @dev EIP-2612, as wallets use it.
interface IPermits {
    function permit(
        address owner,
        address spender,
        uint256 value,
        uint256 deadline,
        uint8 v,
        bytes32 r,
        bytes32 s
    ) external;
    function nonces(address owner) external view returns (uint256);
    function DOMAIN_SEPARATOR() external view returns (bytes32);
}

/// @dev Source: Foundry's `Vm` interface.
interface CoinVm {
    function deal(address account, uint256 newBalance) external;
}

/// @title A payment token that calls back whoever receives it, as those of ERC-777 do.
contract CallingToken is DevToken {
    function _update(address from, address to, uint256 value) internal override {
        super._update(from, to, value);
        if (to.code.length != 0) {
            (bool isDone,) = to.call(abi.encodeWithSignature("received()"));
            isDone;
        }
    }
}

/// @title A holder of shares that tries to be paid twice while it is being paid.
contract GreedyHolder {
    IVault private immutable _vault;
    IShares private immutable _shares;
    TaskId private immutable _task;
    uint256 public calls;
    uint256 public gains;

    constructor(IVault vault, IShares shares, TaskId task) {
        (_vault, _shares, _task) = (vault, shares, task);
    }

    function takeOut() external {
        _shares.claimRevenue(_task, address(this));
        _vault.withdraw();
    }

    function received() external {
        ++calls;
        _try(address(_shares), abi.encodeCall(IShares.claimRevenue, (_task, address(this))));
        _try(address(_vault), abi.encodeCall(IVault.withdraw, ()));
        _try(address(_vault), abi.encodeCall(IVault.deposit, (1)));
        _try(address(_shares), abi.encodeCall(IShares.payRevenue, (_task, 1)));
        _try(address(_shares), abi.encodeCall(IShares.haltByVote, (_task)));
        _try(address(_shares), abi.encodeCall(IShares.mint, (_task, address(this), 1)));
    }

    function _try(address target, bytes memory data) private {
        (bool isDone,) = target.call(data);
        if (isDone) ++gains;
    }
}

/// @title Shares and revenue at odd addresses, in odd amounts, and in the hands of who calls back: nobody takes what is another's, and settling goes on.
contract SharesMoneyAttacksTest is SharesWorld {
    /// @dev More than the largest task can pay.
    uint256 private constant MOST_SHARES = 1 << 125;

    /// @dev Shares without rounds: as `Tasks` mints them when a seat settles.
    function mint(address holder, uint256 amount) private {
        vm.prank(address(tasks));
        shares.mint(task, holder, amount);
    }

    function pot() private view returns (uint256) {
        return vault.potOf(Pots.revenue(task));
    }

    // Odd addresses
    /// @dev Shares that somebody throws away keep their part of revenue. All others are paid as before, and every seat settles.
    function test_transfer_toOddAddresses_takesNothingFromOthers() public {
        settleEpoch();
        ISharesToken found = sharesToken();
        address[6] memory odd = [
            address(0),
            address(1),
            address(found),
            address(shares),
            address(vault),
            vm.computeCreateAddress(address(shares), 1)
        ];
        address from = accountOf(solverSeat(0));
        uint256 part = found.balanceOf(from) / 10;
        for (uint256 i = 0; i < odd.length; ++i) {
            vm.prank(from);
            found.transfer(odd[i], part);
        }
        (uint256 supply, uint256 sumWei) = (found.totalSupply(), 0);
        payRevenue(3 * supply);
        for (uint256 i = 0; i < odd.length; ++i) {
            sumWei += found.claimableOf(odd[i]);
        }
        assertEq(sumWei, 3 * 6 * part, "they keep theirs");
        assertEq(sumWei + claimable(), 3 * supply, "and others theirs");
        for (uint256 i = 0; i < odd.length; ++i) {
            shares.claimRevenue(task, odd[i]);
            assertEq(vault.creditOf(odd[i]), 3 * part, "credit, wherever that is");
        }
        for (uint256 i = 0; i < people.length; ++i) {
            if (found.claimableOf(people[i]) != 0) shares.claimRevenue(task, people[i]);
        }
        assertEq(pot(), 0, "all is claimed");
        while (liveIndex() < 2 * EPOCH) {
            idle(1);
        }
        waitForDuties(EPOCH, 2 * EPOCH - 1);
        settleAll(2 * EPOCH - 1);
        assertTrue(seatBook.settledBy(task) >= 2 * EPOCH, "every seat settles");
    }

    /// @dev Nobody signs for the account of no key: what lies there stays there.
    function test_transferFrom_nobody_isRefused() public {
        settleEpoch();
        ISharesToken found = sharesToken();
        address from = accountOf(solverSeat(0));
        vm.prank(from);
        found.transfer(address(0), 5);
        (uint256 supply, uint256 deadline) = (found.totalSupply(), type(uint256).max);
        vm.startPrank(stranger);
        for (uint256 v = 0; v < 30; ++v) {
            vm.expectRevert(bytes4(keccak256("InvalidPermit()")));
            IPermits(address(found))
                .permit(address(0), stranger, 5, deadline, uint8(v), bytes32(v), bytes32(v));
        }
        vm.expectRevert(bytes4(keccak256("InsufficientAllowance()")));
        found.transferFrom(address(0), stranger, 1);
        // Of nothing, as of any account.
        found.transferFrom(address(0), stranger, 0);
        vm.stopPrank();
        assertEq(found.totalSupply(), supply, "nothing is minted");
        assertEq(found.balanceOf(stranger), 0, "nothing came");
    }

    // Permits
    function _permit(ISharesToken found, address owner, address spender, uint256 value)
        private
        view
        returns (uint8 v, bytes32 r, bytes32 s)
    {
        bytes32 kind = keccak256(
            "Permit(address owner,address spender,uint256 value,uint256 nonce,uint256 deadline)"
        );
        uint256 nonce = IPermits(address(found)).nonces(owner);
        bytes32 message = keccak256(abi.encode(kind, owner, spender, value, nonce, type(uint256).max));
        bytes32 separator = IPermits(address(found)).DOMAIN_SEPARATOR();
        return vm.sign(keyOf[owner], keccak256(abi.encodePacked(hex"1901", separator, message)));
    }

    /// @dev A permit is good once, at one task's token, and moves no shares that vote.
    function test_permit_isGoodOnceAtOneToken() public {
        settleEpoch();
        ISharesToken found = sharesToken();
        address owner = accountOf(solverSeat(0));
        uint256 held = found.balanceOf(owner);
        (uint8 v, bytes32 r, bytes32 s) = _permit(found, owner, stranger, held);
        IPermits permits = IPermits(address(found));
        permits.permit(owner, stranger, held, type(uint256).max, v, r, s);
        assertEq(found.allowance(owner, stranger), held, "allowed");
        vm.expectRevert(bytes4(keccak256("InvalidPermit()")));
        permits.permit(owner, stranger, held, type(uint256).max, v, r, s);
        voteHalt(owner, 1);
        vm.expectRevert(abi.encodeWithSelector(ITaskShares.SharesVote.selector, owner, held - 1, held));
        vm.prank(stranger);
        found.transferFrom(owner, stranger, held);
        // Another task's token is signed for by its own address.
        (v, r, s) = _permit(found, owner, stranger, held);
        TaskId other = TaskId.wrap("other");
        vm.prank(address(tasks));
        shares.create(other);
        address otherToken = shares.sharesOf(other);
        vm.expectRevert(bytes4(keccak256("InvalidPermit()")));
        IPermits(otherToken).permit(owner, stranger, held, type(uint256).max, v, r, s);
    }

    // Calling back
    /// @dev A payment token that calls its receiver back pays it once.
    function test_withdraw_ofATokenThatCallsBack_paysOnce() public {
        settleEpoch();
        ISharesToken found = sharesToken();
        GreedyHolder greedy = new GreedyHolder(vault, shares, task);
        address from = accountOf(solverSeat(0));
        uint256 held = found.balanceOf(from);
        vm.prank(from);
        found.transfer(address(greedy), held);
        payRevenue(5 * found.totalSupply());
        vm.etch(address(token), address(new CallingToken()).code);
        greedy.takeOut();
        assertEq(greedy.calls(), 1, "it was called");
        assertEq(greedy.gains(), 0, "and got nothing more");
        assertEq(token.balanceOf(address(greedy)), 5 * held, "its part");
        assertEq(vault.creditOf(address(greedy)), 0, "once");
        assertEq(pot(), claimable(), "the rest is the others'");
        assertBooks();
    }

    // Odd amounts
    /// @dev Whatever was minted, moved, voted with, paid in and claimed before: the next seat settles, and no holder has more than there is.
    function testFuzz_mint_afterAnything_neverReverts(uint256 seed) public {
        postTask(sharesTerms());
        ISharesToken found = sharesToken();
        address[4] memory holders = [stranger, submitter, address(vault), address(0)];
        uint256 supply;
        for (uint256 i = 0; i < 40; ++i) {
            seed = uint256(keccak256(abi.encode(seed)));
            (address holder, address to) = (holders[seed >> 8 & 3], holders[seed >> 16 & 3]);
            // Of all sizes: from one wei to more than any task can pay.
            uint256 amount = 1 + uint256(keccak256(abi.encode(seed, 1))) % (1 << (seed >> 24) % 117);
            // Nobody sends as the account of no key.
            bool isSender = holder != address(0);
            uint256 held = found.balanceOf(holder);
            if (seed % 5 == 0) {
                mint(holder, amount);
                supply += amount;
            } else if (seed % 5 == 1 && supply != 0 && amount + found.revenueWei() < type(uint128).max) {
                payRevenue(amount);
            } else if (seed % 5 == 2 && isSender) {
                uint256 free = held - found.votesOf(holder);
                vm.prank(holder);
                found.transfer(to, free == 0 ? 0 : amount % (free + 1));
            } else if (seed % 5 == 3 && isSender) {
                voteHalt(holder, (seed >> 32) % 2 == 0 ? held : amount % (held + 1));
            } else if (found.claimableOf(holder) != 0) {
                shares.claimRevenue(task, holder);
            }
            _requireSound(found, holders, supply);
        }
    }

    function _requireSound(ISharesToken found, address[4] memory holders, uint256 supply) private view {
        assertEq(found.totalSupply(), supply, "what was minted");
        (uint256 held, uint256 dueWei, uint256 voting) = (0, 0, 0);
        for (uint256 i = 0; i < holders.length; ++i) {
            assertTrue(found.votesOf(holders[i]) <= found.balanceOf(holders[i]), "its own shares vote");
            held += found.balanceOf(holders[i]);
            dueWei += found.claimableOf(holders[i]);
            voting += found.votesOf(holders[i]);
        }
        assertEq(held, supply, "all shares are somebody's");
        // Parts of a wei of each, and what cannot be divided among more than 2^96 shares: the next revenue takes it along.
        uint256 restWei = holders.length + (supply >> 96);
        assertTrue(dueWei <= pot() && pot() - dueWei <= restWei, "all that lies there is theirs");
        (uint256 counted, uint256 since,) = found.haltVote();
        assertEq(counted, voting, "each share votes once");
        assertTrue(since == 0 || 2 * voting > supply, "no majority of less than half");
    }

    /// @dev All revenue that there can be, for one share, and then as many shares as there can be.
    function test_mint_ofMost_afterMostRevenueForOneShare() public {
        postTask(sharesTerms());
        ISharesToken found = sharesToken();
        mint(stranger, 1);
        voteHalt(stranger, 1);
        payRevenue(type(uint128).max - 1);
        mint(submitter, MOST_SHARES);
        mint(stranger, MOST_SHARES);
        assertEq(found.claimableOf(stranger), type(uint128).max - 1, "all that was paid before");
        assertEq(found.claimableOf(submitter), 0, "it came later");
        payRevenue(1);
        uint256 leastWei = type(uint128).max - 1;
        assertTrue(found.claimableOf(stranger) >= leastWei, "nothing is lost");
        shares.claimRevenue(task, stranger);
        assertEq(pot(), 1, "parts of a wei");
        vm.prank(submitter);
        found.transfer(stranger, MOST_SHARES);
        assertEq(found.votesOf(stranger), MOST_SHARES + 1, "whole");
    }

    // Clones
    /// @dev The argument of a clone ends with bytes of zero where the task's id does.
    function testFuzz_task_ofAnyId(bytes32 id, uint8 zeros) public {
        id = bytes32(uint256(id) >> zeros << zeros);
        vm.startPrank(address(tasks));
        shares.create(TaskId.wrap(id));
        vm.expectRevert(bytes4(keccak256("DeploymentFailed()")));
        shares.create(TaskId.wrap(id));
        vm.stopPrank();
        ISharesToken found = ISharesToken(shares.sharesOf(TaskId.wrap(id)));
        assertEq(found.task(), id, "its task");
        assertEq(bytes(found.symbol()).length, 13, "symbol");
    }

    /// @dev Coin that lies at the address of a token to come keeps nobody from posting the task.
    function test_postTask_withCoinAtTheTokensAddress() public {
        uint256 before = vm.snapshotState();
        postTask(sharesTerms());
        address found = shares.sharesOf(task);
        vm.revertToState(before);
        CoinVm(address(vm)).deal(found, 1 ether);
        postTask(sharesTerms());
        assertEq(shares.sharesOf(task), found, "the same address");
        assertEq(sharesToken().task(), TaskId.unwrap(task), "a token");
    }

    /// @dev The code behind all tokens is a token of nobody: whoever calls it directly gets no shares, and changes no other token.
    function test_implementation_calledDirectly_isOfNoUse() public {
        postTask(sharesTerms());
        ISharesToken code = ISharesToken(vm.computeCreateAddress(address(shares), 1));
        assertTrue(address(code).code.length > 1000, "it is there");
        vm.startPrank(stranger);
        vm.expectRevert(abi.encodeWithSelector(ITaskShares.NotShares.selector, stranger));
        code.mint(stranger, 1);
        code.transfer(stranger, 0);
        vm.expectRevert(bytes4(keccak256("InsufficientBalance()")));
        code.transfer(stranger, 1);
        vm.stopPrank();
        assertEq(sharesToken().totalSupply(), 0, "no token has changed");
    }
}
