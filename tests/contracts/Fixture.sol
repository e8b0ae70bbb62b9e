// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.28;

import {Amounts, Limits, Role, TaskId, TaskTerms, Windows} from "../../contracts/Types.sol";
import {StakeVault} from "../../contracts/StakeVault.sol";
import {TaskRegistry} from "../../contracts/TaskRegistry.sol";
import {DevToken} from "../../contracts/devnet/DevToken.sol";
import {IRoundLedger} from "../../contracts/interfaces/IRoundLedger.sol";
import {LedgerMock} from "./LedgerMock.sol";
import {RandomnessStub} from "./Mocks.sol";
import {Test} from "./Test.sol";

/// @title A token, a vault and a registry, with a stand-in for the ledger, and a task that is in order.
abstract contract Fixture is Test {
    uint256 internal constant UNBONDING = 10_000;
    bytes internal constant TRAINING = "training";

    DevToken internal token;
    StakeVault internal vault;
    TaskRegistry internal registry;
    LedgerMock internal ledger;
    address internal submitter = actor("submitter");

    /// @param extraModules contracts that the test creates right after, as modules of the vault
    function deployCore(uint256 extraModules) internal {
        token = new DevToken();
        ledger = new LedgerMock();
        RandomnessStub randomness = new RandomnessStub();
        uint256 nonce = vm.getNonce(address(this));
        address[] memory modules = new address[](extraModules + 1);
        for (uint256 i = 0; i < modules.length; ++i) {
            modules[i] = vm.computeCreateAddress(address(this), nonce + 1 + i);
        }
        vault = new StakeVault(token, UNBONDING, modules);
        registry = new TaskRegistry(vault, IRoundLedger(address(ledger)), randomness);
    }

    function soundTerms() internal view returns (TaskTerms memory terms) {
        terms.submitter = submitter;
        terms.initialWeightsRoot = "weights";
        terms.zeroRoot = "zero";
        terms.scheduleRoot = "schedule";
        terms.stepRoot = "step";
        terms.parameterCount = 1000;
        (terms.rounds, terms.innerSteps, terms.segmentSteps) = (2, 20, 5);
        (terms.maxSolvers, terms.maxVerifiers, terms.maxWhistleblowers) = (2, 4, 1);
        (terms.segmentDraws, terms.leafDraws, terms.lateRate) = (2, 4, 32_768);
        (terms.outerLearningRate, terms.outerMomentum) = (0x3f333333, 0x3f666666);
        terms.windows = Windows(10, 2, 8, 20, 6, 10, 6, 6, 6, 10, 5, 5, 10);
        terms.amounts = soundAmounts();
        terms.accept = Limits(1, 2, 3, 4, 5, 6);
        terms.reject = Limits(1, 2, 3, 4, 5, 6);
    }

    function soundAmounts() internal pure returns (Amounts memory) {
        return Amounts({
            solverStake: 1000,
            auditStake: 500,
            enrolStake: 200,
            noShowFee: 50,
            solverPay: 100,
            auditPay: 10,
            latePay: 20,
            mergePay: 7,
            mergeBond: 300,
            disputeBond: 100,
            demandFee: 1,
            finderCap: 60
        });
    }

    function createTask(TaskTerms memory terms) internal returns (TaskId task) {
        uint256 escrowWei = registry.escrowFor(terms);
        token.mint(submitter, escrowWei);
        vm.startPrank(submitter);
        token.approve(address(vault), escrowWei);
        task = registry.createTask(terms, TRAINING);
        vm.stopPrank();
    }

    function stake(address account, uint256 amountWei) internal {
        token.mint(account, amountWei);
        vm.startPrank(account);
        token.approve(address(vault), amountWei);
        vault.deposit(amountWei);
        vm.stopPrank();
    }

    function enrol(TaskId task, uint32 round, Role role, string memory name)
        internal
        returns (address account)
    {
        account = actor(name);
        stake(account, 1000);
        vm.prank(account);
        registry.enrol(task, round, role);
    }
}
