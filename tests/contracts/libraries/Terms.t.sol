// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.28;

import {TaskId, TaskTerms} from "../../../contracts/Types.sol";
import {ITaskRegistry} from "../../../contracts/interfaces/ITaskRegistry.sol";
import {Terms} from "../../../contracts/libraries/Terms.sol";
import {World} from "../World.sol";

/// @title Answers everything with one word.
contract TerseRegistry {
    fallback() external {
        assembly ("memory-safe") {
            mstore(0, 1)
            return(0, 32)
        }
    }
}

/// @title Terms are read without a look at each word: what is not as long as terms are is no terms.
contract TermsTest is World {
    function decode(bytes memory encoded) external pure returns (TaskTerms memory) {
        return Terms.decode(encoded);
    }

    function load(ITaskRegistry from) external view returns (TaskTerms memory) {
        return Terms.load(from, task);
    }

    function test_decode_encodedTerms_areTheSame() public view {
        bytes memory encoded = abi.encode(terms);
        assertEq(keccak256(abi.encode(this.decode(encoded))), keccak256(encoded), "decoded");
        assertEq(keccak256(abi.encode(this.load(registry))), keccak256(encoded), "loaded");
    }

    function test_decode_otherLength_reverts() public {
        uint256 expected = abi.encode(terms).length;
        vm.expectRevert(abi.encodeWithSelector(Terms.WrongTermsBytes.selector, expected, expected - 1));
        this.decode(new bytes(expected - 1));
        vm.expectRevert(abi.encodeWithSelector(Terms.WrongTermsBytes.selector, expected, expected + 1));
        this.decode(new bytes(expected + 1));
    }

    function test_load_otherLength_reverts() public {
        uint256 expected = abi.encode(terms).length;
        ITaskRegistry terse = ITaskRegistry(address(new TerseRegistry()));
        vm.expectRevert(abi.encodeWithSelector(Terms.WrongTermsBytes.selector, expected, 32));
        this.load(terse);
    }
}
