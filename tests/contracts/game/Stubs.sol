// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.28;

import {TaskId} from "../../../contracts/Types.sol";
import {IQuestions} from "../../../contracts/game/interfaces/IQuestions.sol";
import {ITasks} from "../../../contracts/game/interfaces/ITasks.sol";
import {OpenCounts} from "../../../contracts/game/libraries/OpenCounts.sol";
import {Members} from "../../../contracts/game/libraries/Members.sol";
import {IRandomness} from "../../../contracts/interfaces/IRandomness.sol";

/// @title A module that calls what a test tells it to call.
contract ForwardStub {
    function forward(address target, bytes calldata data) external returns (bytes memory) {
        (bool isDone, bytes memory answer) = target.call(data);
        if (isDone) return answer;
        assembly ("memory-safe") {
            revert(add(answer, 32), mload(answer))
        }
    }
}

/// @title Asks or disputes: a test opens and ends them by number of round.
contract QuestionsStub is ForwardStub, IQuestions {
    ITasks private immutable _tasks;

    constructor(ITasks tasks) {
        _tasks = tasks;
    }

    function open(TaskId task, uint256 seat, uint256 round) external {
        _tasks.countQuestion(task, seat, round, true);
    }

    function end(TaskId task, uint256 seat, uint256 round) external {
        _tasks.countQuestion(task, seat, round, false);
    }

    /// @dev As asks; disputes are not asked.
    function openOn(TaskId task, uint256 seat) external view returns (uint256 counts) {
        counts = Members.load(_tasks, task, seat).asks;
    }
}

/// @title Contests of roots: likewise, as far as other modules ask it.
contract ContestsStub is ForwardStub {
    using OpenCounts for uint256;

    mapping(TaskId => uint256) public openOf;
    mapping(TaskId => uint256) public contestedUntil;

    function lose(TaskId task, uint256 untilBlock) external {
        contestedUntil[task] = untilBlock;
    }

    function open(TaskId task, uint256 round) external {
        openOf[task] = openOf[task].add(round);
    }

    function end(TaskId task, uint256 round) external {
        openOf[task] = openOf[task].remove(round);
    }
}

/// @title The randomness of a block: what a test set for it, else a hash of its number. Its proof is the word "proof".
contract RandomnessBook is IRandomness {
    mapping(uint256 => bytes32) private _values;

    function set(uint256 ofBlock, bytes32 value) external {
        _values[ofBlock] = value;
    }

    function valueAt(uint256 ofBlock) public view returns (bytes32) {
        return _values[ofBlock] == 0 ? keccak256(abi.encode("block", ofBlock)) : _values[ofBlock];
    }

    function read(uint256 ofBlock, bytes calldata proof) external view returns (bytes32) {
        if (block.number <= ofBlock) revert RandomnessPending(ofBlock, block.number);
        if (keccak256(proof) != keccak256("proof")) revert ProofTooShort(5, proof.length);
        return valueAt(ofBlock);
    }

    function drandRound(uint256) external pure returns (uint64) {
        return 0;
    }
}
