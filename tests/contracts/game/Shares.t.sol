// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.28;

import {TaskId} from "../../../contracts/Types.sol";
import {SeatRole} from "../../../contracts/game/GameTypes.sol";
import {ITaskShares} from "../../../contracts/game/interfaces/IShares.sol";
import {ISharesToken, SharesWorld} from "./SharesWorld.sol";

/// @title What no play can say of shares: the token's form, amounts that nobody has, and gas.
contract SharesTest is SharesWorld {
    /// @dev Of at most 16.7 million that a transaction may take.
    uint256 private constant HALT_GAS = 6_500_000;

    function test_sharesOf_newTask_isAToken() public {
        postTask(soundTerms());
        ISharesToken found = sharesToken();
        assertEq(found.task(), TaskId.unwrap(task), "its task");
        assertEq(bytes(found.name()).length, bytes("Touchstone task 01234567").length, "name");
        assertEq(bytes(found.symbol()).length, bytes("TASK-01234567").length, "symbol");
        assertEq(found.decimals(), 18, "decimals");
        assertEq(found.totalSupply(), 0, "nobody has worked");
        // The token's own permits, and no contract that may move shares without one.
        assertEq(found.allowance(submitter, 0x000000000022D473030F116dDEE9F6B43aC78BA3), 0, "Permit2");
    }

    function test_payRevenue_greatest() public {
        settleEpoch();
        payRevenue(1);
        uint256 greatest = type(uint128).max - 1;
        give(stranger, greatest + 1);
        vm.expectRevert(abi.encodeWithSelector(ITaskShares.RevenueTooLarge.selector, greatest, greatest + 1));
        vm.prank(stranger);
        shares.payRevenue(task, greatest + 1);
        vm.prank(stranger);
        shares.payRevenue(task, greatest);
        uint256 sumWei = claimable();
        assertTrue(sumWei <= type(uint128).max && sumWei + people.length > type(uint128).max, "all of it");
    }

    /// @dev Every number of a seat may be taken: the halt still fits a transaction.
    function test_haltByVote_allSeatsTaken_fitsATransaction() public {
        settleEpoch();
        for (uint256 i = 0; i < 1021; ++i) {
            join(SeatRole.VERIFIER, string.concat("v", vm.toString(i)), terms.amounts.auditorStake);
            join(SeatRole.WHISTLEBLOWER, string.concat("w", vm.toString(i)), terms.amounts.auditorStake);
        }
        for (uint256 i = 0; i < 62; ++i) {
            join(SeatRole.SOLVER, string.concat("s", vm.toString(i)), terms.amounts.solverStake + 1 + i);
        }
        voteAllShares();
        (, uint256 began,) = sharesToken().haltVote();
        roll(began + terms.windows.dispute);
        shares.haltByVote(task);
        uint256 gas_ = vm.lastCallGas().gasTotalUsed;
        assertTrue(gas_ < HALT_GAS, vm.toString(gas_));
    }
}
