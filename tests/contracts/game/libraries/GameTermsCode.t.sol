// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.28;

import {TaskId} from "../../../../contracts/Types.sol";
import {GameTerms} from "../../../../contracts/game/GameTypes.sol";
import {IRefusals} from "../../../../contracts/game/interfaces/IRefusals.sol";
import {ITasks} from "../../../../contracts/game/interfaces/ITasks.sol";
import {GameTermsCode} from "../../../../contracts/game/libraries/GameTermsCode.sol";
import {Test} from "../../Test.sol";

contract GameTermsCodeTest is Test {
    bytes private _encoded;
    bool private _isUnknown;

    /// @dev In the place of `Tasks`.
    function termsOf(TaskId task) external view returns (GameTerms memory) {
        if (_isUnknown) revert IRefusals.TaskUnknown(TaskId.unwrap(task));
        bytes memory encoded = _encoded;
        assembly ("memory-safe") {
            return(add(encoded, 32), mload(encoded))
        }
    }

    function load(TaskId task) external view returns (GameTerms memory) {
        return GameTermsCode.load(ITasks(address(this)), task);
    }

    function decode(bytes memory encoded) external pure returns (GameTerms memory) {
        return GameTermsCode.decode(encoded);
    }

    /// @dev 47 different words that fit the address in the first.
    function _numbered() private pure returns (bytes memory encoded) {
        for (uint256 i = 1; i <= 47; ++i) {
            encoded = bytes.concat(encoded, bytes32(i));
        }
    }

    function test_decode_words_areInTheirFields() public view {
        GameTerms memory terms = this.decode(_numbered());
        assertEq(abi.encode(terms), _numbered(), "all words");
        assertEq(terms.submitter, address(1), "the first");
        assertEq(terms.outerMomentum, 21, "the last of its own");
        assertEq(terms.windows.delay, 22, "windows");
        assertEq(terms.windows.ask, 30, "their last");
        assertEq(terms.amounts.solverStake, 31, "amounts");
        assertEq(terms.amounts.finderCap, 41, "their last");
        assertEq(terms.limits.tauM, 42, "limits");
        assertEq(terms.limits.tauR, 47, "their last");
    }

    function test_load_answer_isTheSame() public {
        _encoded = _numbered();
        assertEq(abi.encode(this.load(TaskId.wrap("task"))), _numbered(), "all words");
    }

    function test_load_refusal_isPassedOn() public {
        _isUnknown = true;
        vm.expectRevert(abi.encodeWithSelector(IRefusals.TaskUnknown.selector, bytes32("task")));
        this.load(TaskId.wrap("task"));
    }

    function test_load_otherBytes_reverts() public {
        _encoded = bytes.concat(_numbered(), bytes32(0));
        vm.expectRevert(abi.encodeWithSelector(GameTermsCode.WrongTermsBytes.selector, 1504, 1536));
        this.load(TaskId.wrap("task"));
        _encoded = new bytes(1503);
        vm.expectRevert(abi.encodeWithSelector(GameTermsCode.WrongTermsBytes.selector, 1504, 1503));
        this.load(TaskId.wrap("task"));
    }

    function test_decode_otherBytes_reverts() public {
        vm.expectRevert(abi.encodeWithSelector(GameTermsCode.WrongTermsBytes.selector, 1504, 1472));
        this.decode(new bytes(1472));
    }

    /// @dev What follows in memory is not written over.
    function test_decode_twice_keepsBoth() public pure {
        GameTerms memory one = GameTermsCode.decode(_numbered());
        GameTerms memory other = GameTermsCode.decode(new bytes(1504));
        assertEq(abi.encode(one), _numbered(), "the first");
        assertEq(abi.encode(other), new bytes(1504), "the second");
        other.windows.delay = 5;
        assertEq(one.windows.delay, 22, "apart");
    }
}
