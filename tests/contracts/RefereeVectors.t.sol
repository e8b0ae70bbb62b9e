// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.28;

import {Judge, Run} from "../../contracts/libraries/Judge.sol";
import {VectorFile} from "./VectorFile.sol";

/// @dev Section 9: the contract's verdicts are Python's.
contract RefereeVectors is VectorFile {
    /// @dev The list columns; claim k of case i is claimed[claimedStart[i] + k].
    struct Lists {
        BytesLists data;
        uint256[] first;
        bool[] repeats;
        NumberLists claimed;
        bool[] fault;
    }

    function setUp() public {
        open("referee");
    }

    function test_operations() public view {
        string[] memory name = names(".operations");
        uint256[] memory operation = numbers(".operations.operation");
        uint256[] memory numericFormat = numbers(".operations.numericFormat");
        uint256[] memory terms = numbers(".operations.terms");
        Lists memory lists = Lists(
            blobLists(".operations.data"),
            numbers(".operations.first"),
            flags(".operations.repeats"),
            numberLists(".operations.claimed"),
            flags(".operations.fault")
        );
        for (uint256 i = 0; i < name.length; ++i) {
            Run[] memory runs = _runs(lists, i);
            for (uint256 k = lists.claimed.start[i]; k < lists.claimed.start[i + 1]; ++k) {
                uint32 claimed = uint32(lists.claimed.values[k]);
                bool fault =
                    Judge.isFault(uint8(operation[i]), runs, terms[i], claimed, uint32(numericFormat[i]));
                assertEq(fault, lists.fault[k], string.concat(name[i], ", claim ", vm.toString(claimed)));
            }
        }
    }

    function _runs(Lists memory lists, uint256 i) private pure returns (Run[] memory runs) {
        bytes[] memory data = pick(lists.data, i);
        runs = new Run[](data.length);
        for (uint256 j = 0; j < data.length; ++j) {
            uint256 place = lists.data.start[i] + j;
            runs[j] = Run(data[j], lists.first[place], lists.repeats[place]);
        }
    }
}
