// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.28;

import {Enclosure} from "../../contracts/libraries/Enclosure.sol";
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
                bool fault = Judge.isFault(uint8(operation[i]), runs, terms[i], claimed);
                assertEq(fault, lists.fault[k], string.concat(name[i], ", claim ", vm.toString(claimed)));
            }
        }
    }

    /// @dev The same numbers to the last place, though no verdict may hang on it.
    function test_enclosures() public view {
        string[] memory name = names(".enclosures");
        uint256[] memory operation = numbers(".enclosures.operation");
        uint256[] memory bits = numbers(".enclosures.bits");
        int256[] memory low = integers(".enclosures.low");
        int256[] memory high = integers(".enclosures.high");
        int256[] memory exponent = integers(".enclosures.exponent");
        for (uint256 i = 0; i < name.length; ++i) {
            (int256 least, int256 most, int256 unit) = _enclose(uint8(operation[i]), uint32(bits[i]));
            // Ours is the finer unit, but where both ends are 0.
            uint256 places = least == most ? 0 : uint256(exponent[i] - unit);
            assertEq(uint256(least), uint256(low[i] << places), name[i]);
            assertEq(uint256(most), uint256(high[i] << places), name[i]);
        }
    }

    function _enclose(uint8 operation, uint32 bits) private pure returns (int256, int256, int256) {
        if (operation == Judge.EXPONENTIAL) return Enclosure.exponential(bits);
        if (operation == Judge.SIGMOID) return Enclosure.sigmoid(bits);
        return operation == Judge.LOGARITHM ? Enclosure.logarithm(bits) : Enclosure.reciprocalRoot(bits);
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
