// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.28;

import {TaskId} from "../Types.sol";
import {IRandomness} from "../interfaces/IRandomness.sol";
import {IGame} from "./interfaces/IGame.sol";
import {IVault} from "./interfaces/IVault.sol";
import {IRefusals} from "./interfaces/IRefusals.sol";
import {IShares} from "./interfaces/IShares.sol";
import {Hashing} from "../libraries/Hashing.sol";
import {FixedPointMathLib} from "solady/utils/FixedPointMathLib.sol";

/// @notice The contracts of one deployment. They name one another, so their addresses are computed before the first is created.
struct Modules {
    IVault vault;
    address game;
    IShares shares;
    IRandomness randomness;
}

/// @title What the parts of `Game`, and `Shares`, share: the addresses of the deployment, and the domain of what members sign.
abstract contract Module {
    /// @dev EIP-712. Signatures name `Game`, whichever part reads them.
    bytes32 private constant DOMAIN_TYPE =
        keccak256("EIP712Domain(string name,string version,uint256 chainId,address verifyingContract)");
    bytes32 private constant NAME_HASH = keccak256("Touchstone");
    /// @dev `PROTOCOL_VERSION` of `protocol/spec/params.py`, in decimal: signatures under another version are not good here.
    bytes32 private constant VERSION_HASH = keccak256("3");

    IVault internal immutable vault;
    // The next six are `Game`, each as the interface of one part: `Game` finds the part that has the code of a call.
    /// @dev `Game` itself: a call to it runs the code of the part that has the call.
    IGame internal immutable game;
    IShares internal immutable shares;
    IRandomness internal immutable randomness;
    uint256 private immutable _chainId;
    bytes32 private immutable _ownSeparator;

    constructor(Modules memory modules) {
        (vault, shares, randomness) = (modules.vault, modules.shares, modules.randomness);
        game = IGame(modules.game);
        (_chainId, _ownSeparator) = (block.chainid, _separate(modules.game));
    }

    /// @dev For calls that come from `Game`, whichever part makes them.
    modifier onlyGame() {
        if (msg.sender != address(game)) revert IRefusals.NotModule(msg.sender);
        _;
    }

    /// @dev As `ITasks.domainOf`.
    function _domain(TaskId task) internal view returns (bytes32) {
        return Hashing.domain(block.chainid, address(game), task);
    }

    /// @dev What is signed, of the hash of a statement.
    function _digest(bytes32 structHash) internal view returns (bytes32) {
        return keccak256(abi.encodePacked(hex"1901", _separator(), structHash));
    }

    /// @dev Another one on a chain that has split off.
    function _separator() private view returns (bytes32) {
        return block.chainid == _chainId ? _ownSeparator : _separate(address(game));
    }

    function _separate(address contract_) private view returns (bytes32) {
        return keccak256(abi.encode(DOMAIN_TYPE, NAME_HASH, VERSION_HASH, block.chainid, contract_));
    }

    function _requireWindow(uint256 firstBlock, uint256 lastBlock) internal view {
        if (block.number < firstBlock || block.number > lastBlock) {
            revert IRefusals.OutsideWindow(firstBlock, lastBlock, block.number);
        }
    }

    function _min(uint256 a, uint256 b) internal pure returns (uint256) {
        return FixedPointMathLib.min(a, b);
    }

    function _max(uint256 a, uint256 b) internal pure returns (uint256) {
        return FixedPointMathLib.max(a, b);
    }
}
