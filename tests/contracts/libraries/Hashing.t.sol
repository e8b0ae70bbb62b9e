// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.28;

import {StateHeader, StepFacts, TaskId} from "../../../contracts/Types.sol";
import {Hashing} from "../../../contracts/libraries/Hashing.sol";
import {VectorFile} from "../VectorFile.sol";

/// @title The hashes of docs/spec.md, sections 2 and 3.
contract HashingVectors is VectorFile {
    function setUp() public {
        open("codec");
    }

    function test_states() public view {
        string[] memory name = names(".states");
        for (uint256 i = 0; i < name.length; ++i) {
            assertEq(Hashing.stateRoot(_header(i)), words(".states.root")[i], name[i]);
        }
    }

    function _header(uint256 i) private view returns (StateHeader memory) {
        return StateHeader(
            words(".states.weightsRoot")[i],
            words(".states.firstMomentRoot")[i],
            words(".states.secondMomentRoot")[i],
            uint32(numbers(".states.localStep")[i]),
            uint32(numbers(".states.globalStep")[i])
        );
    }

    function test_outers() public view {
        string[] memory name = names(".outers");
        for (uint256 i = 0; i < name.length; ++i) {
            bytes32 root =
                Hashing.outerRoot(words(".outers.weightsRoot")[i], words(".outers.momentumRoot")[i]);
            assertEq(root, words(".outers.root")[i], name[i]);
        }
    }

    function test_domains() public view {
        string[] memory name = names(".domains");
        for (uint256 i = 0; i < name.length; ++i) {
            bytes32 domain = Hashing.domain(
                numbers(".domains.chainId")[i],
                addresses(".domains.registry")[i],
                TaskId.wrap(words(".domains.taskId")[i])
            );
            assertEq(domain, words(".domains.domain")[i], name[i]);
        }
    }

    function test_boundaries() public view {
        string[] memory name = names(".boundaries");
        for (uint256 i = 0; i < name.length; ++i) {
            bytes32 leaf = Hashing.boundaryLeaf(
                words(".boundaries.domain")[i],
                uint32(numbers(".boundaries.round")[i]),
                addresses(".boundaries.solver")[i],
                uint32(numbers(".boundaries.boundary")[i]),
                words(".boundaries.salt")[i],
                words(".boundaries.stateRoot")[i]
            );
            assertEq(leaf, words(".boundaries.leaf")[i], name[i]);
        }
    }

    function test_schedule() public view {
        string[] memory name = names(".schedule");
        for (uint256 i = 0; i < name.length; ++i) {
            bytes32 leaf = Hashing.scheduleLeaf(numbers(".schedule.segment")[i], numbers(".schedule.sum")[i]);
            assertEq(leaf, words(".schedule.leaf")[i], name[i]);
        }
    }

    function test_steps() public view {
        string[] memory name = names(".steps");
        for (uint256 i = 0; i < name.length; ++i) {
            assertEq(Hashing.stepRoot(_facts(i)), words(".steps.root")[i], name[i]);
        }
    }

    function _facts(uint256 i) private view returns (StepFacts memory facts) {
        facts.programRoot = words(".steps.programRoot")[i];
        facts.datasetRoot = words(".steps.datasetRoot")[i];
        facts.scalarsRoot = words(".steps.scalarsRoot")[i];
        facts.programNodes = uint32(numbers(".steps.programNodes")[i]);
        facts.programBuffers = uint32(numbers(".steps.programBuffers")[i]);
        facts.numericFormat = uint32(numbers(".steps.numericFormat")[i]);
        facts.sequencesPerStep = uint32(numbers(".steps.sequencesPerStep")[i]);
        facts.sequenceTokens = uint32(numbers(".steps.sequenceTokens")[i]);
        facts.tokenBytes = uint32(numbers(".steps.tokenBytes")[i]);
        facts.tokenCount = uint64(numbers(".steps.tokenCount")[i]);
        facts.datasetBytes = uint64(numbers(".steps.datasetBytes")[i]);
        facts.scalarCount = uint32(numbers(".steps.scalarCount")[i]);
        facts.vocabularySize = uint32(numbers(".steps.vocabularySize")[i]);
    }
}
