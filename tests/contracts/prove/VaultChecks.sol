// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.28;

import {Vault} from "../../../contracts/game/Vault.sol";
import {IERC20} from "@openzeppelin/contracts/token/ERC20/IERC20.sol";
import {Vm} from "../Vm.sol";

/// @title A token that does what a token says, and no more.
contract ProofToken {
    mapping(address => uint256) public balanceOf;

    function mint(address to, uint256 wei_) external {
        balanceOf[to] += wei_;
    }

    function transfer(address to, uint256 wei_) external returns (bool) {
        return transferFrom(msg.sender, to, wei_);
    }

    function transferFrom(address from, address to, uint256 wei_) public returns (bool) {
        balanceOf[from] -= wei_;
        balanceOf[to] += wei_;
        return true;
    }
}

/// @notice One call of the vault: which, by or about whom, from and to which pot.
struct Move {
    uint8 kind;
    uint8 account;
    uint8 from;
    uint8 to;
    bool byModule;
    uint256 wei_;
}

/// @title What one call may do to the vault, whatever its state: the inductive steps of the money's invariants.
/// @dev Two accounts and two pots stand for all: a call names no more of them, and what it does not name it must leave alone. `_enter` makes the
/// state: any at all for the prover, a reachable one for the fuzzer. The checks use `assert`: the prover looks for its panic.
abstract contract VaultChecks {
    Vm internal constant vm = Vm(address(uint160(uint256(keccak256("hevm cheat code")))));
    uint8 internal constant DEPOSIT = 0;
    uint8 internal constant WITHDRAW = 1;
    uint8 internal constant BURN = 2;
    uint8 internal constant TAKE = 3;
    uint8 internal constant GIVE = 4;
    uint8 internal constant MOVE = 5;
    uint8 internal constant DISCARD = 6;
    uint8 internal constant KINDS = 7;
    /// @dev Far more than any token has; the books are not asked what they do beyond.
    uint256 internal constant MOST_WEI = type(uint120).max;

    ProofToken internal token;
    Vault internal vault;

    function setUp() public virtual {
        token = new ProofToken();
        vault = new Vault(IERC20(address(token)), address(this), address(0));
    }

    function _enter() internal virtual;

    function _account(uint8 index) internal pure returns (address) {
        return index == 0 ? address(0xa11ce) : address(0xb0b);
    }

    function _pot(uint8 index) internal pure returns (bytes32) {
        return index == 0 ? bytes32("one pot") : bytes32("another");
    }

    function play(Move calldata m) external {
        require(msg.sender == address(this), "only through the checks");
        (address account, bytes32 from, bytes32 to) = (_account(m.account), _pot(m.from), _pot(m.to));
        if (m.kind < BURN || !m.byModule) vm.prank(account);
        if (m.kind == DEPOSIT) vault.deposit(m.wei_);
        else if (m.kind == WITHDRAW) vault.withdraw();
        else if (m.kind == BURN) vault.burn();
        else if (m.kind == TAKE) vault.take(account, to, m.wei_);
        else if (m.kind == GIVE) vault.give(from, account, m.wei_);
        else if (m.kind == MOVE) vault.move(from, to, m.wei_);
        else vault.discard(from, m.wei_);
    }

    function _owed() internal view returns (uint256[5] memory owed) {
        (owed[0], owed[1]) = (vault.creditOf(_account(0)), vault.creditOf(_account(1)));
        (owed[2], owed[3]) = (vault.potOf(_pot(0)), vault.potOf(_pot(1)));
        owed[4] = vault.burnPending();
    }

    /// @dev Whether the call went through.
    function _try(Move memory m) internal returns (bool) {
        try this.play(m) {
            return true;
        } catch {
            return false;
        }
    }

    /// @dev Solvency: a call changes what is held by just what it changes in what is owed.
    function _checkSolvency(Move memory m) internal {
        _enter();
        uint256 heldWei = token.balanceOf(address(vault));
        uint256[5] memory before = _owed();
        if (!_try(m)) return;
        uint256[5] memory owed = _owed();
        unchecked {
            uint256 changeWei = 0;
            for (uint256 i = 0; i < owed.length; ++i) {
                changeWei += owed[i] - before[i];
            }
            assert(token.balanceOf(address(vault)) - heldWei == changeWei);
        }
    }

    /// @dev Only modules move what lies in pots, and only they take from a credit but its owner.
    function _checkStrangers(Move memory m) internal {
        if (m.kind < TAKE || m.byModule) return;
        _enter();
        assert(!_try(m));
    }

    /// @dev A call takes no more from a pot or a credit than it names, and from no other.
    function _checkBounded(Move memory m) internal {
        _enter();
        uint256[5] memory before = _owed();
        if (!_try(m)) return;
        uint256[5] memory owed = _owed();
        for (uint8 i = 0; i < 2; ++i) {
            bool isPaying = i == m.account && (m.kind == TAKE || m.kind == WITHDRAW);
            if (owed[i] < before[i]) {
                assert(isPaying && (m.kind == WITHDRAW || before[i] - owed[i] == m.wei_));
            }
            bool isEmptied = i == m.from && m.kind >= GIVE;
            if (owed[2 + i] < before[2 + i]) assert(isEmptied && before[2 + i] - owed[2 + i] == m.wei_);
        }
        if (owed[4] < before[4]) assert(m.kind == BURN && owed[4] == 0);
    }
}
