// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.28;

import {IRandomness} from "../../../contracts/interfaces/IRandomness.sol";
import {BlockRandomness} from "../../../contracts/randomness/BlockRandomness.sol";
import {HistoryStub, RandomnessWorld} from "../RandomnessWorld.sol";

/// @title The prevrandao of a block whose header is proven.
contract BlockRandomnessTest is RandomnessWorld {
    address private constant HISTORY = 0x0000F90827F1C53a10cb7A02335B175320002935;
    BlockRandomness private plain = new BlockRandomness();

    // Headers
    function test_read_provenHeader_givesItsPrevrandao() public view {
        assertEq(plain.read(1, header), prevrandao, "prevrandao");
        assertEq(plain.drandRound(1_692_806_304), 0, "no drand needed");
    }

    function testFuzz_read_anyOtherHeader_reverts(uint256 at, uint8 change) public {
        bytes memory forged = header;
        at %= forged.length;
        forged[at] = bytes1(uint8(forged[at]) ^ (change == 0 ? 1 : change));
        vm.expectRevert(
            abi.encodeWithSelector(IRandomness.WrongHeader.selector, keccak256(header), keccak256(forged))
        );
        plain.read(1, forged);
    }

    function test_read_blockNotBehind_reverts() public {
        vm.expectRevert(abi.encodeWithSelector(IRandomness.RandomnessPending.selector, 2, 2));
        plain.read(2, header);
        vm.expectRevert(abi.encodeWithSelector(IRandomness.RandomnessPending.selector, 3, 2));
        plain.read(3, header);
    }

    function test_read_forgottenHash_isFoundInHistoryWhereThereIsOne() public {
        vm.roll(258);
        vm.expectRevert(abi.encodeWithSelector(IRandomness.RandomnessGone.selector, 1));
        plain.read(1, header);
        vm.etch(HISTORY, address(new HistoryStub()).code);
        assertEq(plain.read(1, header), prevrandao, "by EIP-2935");
    }
}
