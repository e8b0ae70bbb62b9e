// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.28;

import {TaskId} from "../../../../contracts/Types.sol";
import {IRefusals} from "../../../../contracts/game/interfaces/IRefusals.sol";
import {ISeats} from "../../../../contracts/game/interfaces/ISeats.sol";
import {Voters} from "../../../../contracts/game/libraries/Voters.sol";
import {Test} from "../../Test.sol";

/// @dev The account of a seat is its number and the task's; seat 9 is refused.
contract VotersStub {
    function voterAccounts(TaskId task, uint256[] calldata seats)
        external
        pure
        returns (address[] memory accounts)
    {
        accounts = new address[](seats.length);
        for (uint256 i = 0; i < seats.length; ++i) {
            if (seats[i] == 9) revert IRefusals.SeatUnknown(9);
            if (seats[i] != 0) accounts[i] = address(uint160(uint256(TaskId.unwrap(task)) + seats[i]));
        }
    }
}

/// @title Accounts of seats, in the order asked for.
contract VotersTest is Test {
    TaskId private constant TASK = TaskId.wrap(bytes32(uint256(1000)));

    function load(ISeats tasks, uint256[] memory seats) external view returns (uint256[] memory) {
        return Voters.load(tasks, TASK, seats);
    }

    function test_load_seats_keepTheirOrder() public {
        ISeats stub = ISeats(address(new VotersStub()));
        uint256[] memory seats = new uint256[](3);
        (seats[0], seats[1], seats[2]) = (7, 0, 3);
        uint256[] memory accounts = Voters.load(stub, TASK, seats);
        bytes memory behind = hex"ffffffffffffffff";
        assertEq(accounts.length, 3, "as many");
        assertEq(accounts[0], 1007, "the first");
        assertEq(accounts[1], 0, "nobody");
        assertEq(accounts[2], 1003, "the last");
        assertEq(behind.length, 8, "what was made later");
        assertEq(Voters.load(stub, TASK, new uint256[](0)).length, 0, "none asked for");
    }

    function test_load_refused_revertsAsTasks() public {
        ISeats stub = ISeats(address(new VotersStub()));
        uint256[] memory seats = new uint256[](2);
        (seats[0], seats[1]) = (7, 9);
        vm.expectRevert(abi.encodeWithSelector(IRefusals.SeatUnknown.selector, 9));
        this.load(stub, seats);
    }
}
