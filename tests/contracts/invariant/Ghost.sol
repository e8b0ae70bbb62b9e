// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.28;

/// @title What an invariant run counts: calls, moves that went through, and every end that something of the protocol came to.
abstract contract Ghost {
    /// @notice A property does not hold; `expected` and `actual` are what it is about.
    error Broken(string property, uint256 expected, uint256 actual);
    /// @notice A move that is due was refused.
    error Hindered(string move, bytes reason);

    string[] private _names;
    mapping(string => uint256) private _countPlusOne;

    function countOf(string memory name) public view returns (uint256) {
        uint256 found = _countPlusOne[name];
        return found == 0 ? 0 : found - 1;
    }

    function _count(string memory name) internal {
        _add(name, 1);
    }

    function _add(string memory name, uint256 amount) internal {
        uint256 found = _countPlusOne[name];
        if (found == 0) {
            _names.push(name);
            found = 1;
        }
        _countPlusOne[name] = found + amount;
    }

    /// @dev All counts as one line of JSON; `text` makes text of a number.
    function _countsLine(function(uint256) external pure returns (string memory) text)
        internal
        view
        returns (string memory line)
    {
        for (uint256 i = 0; i < _names.length; ++i) {
            line = string.concat(
                line, i == 0 ? '{"' : ', "', _names[i], '": ', text(_countPlusOne[_names[i]] - 1)
            );
        }
        return string.concat(line, _names.length == 0 ? "{}" : "}");
    }

    function _require(bool holds, string memory property, uint256 expected, uint256 actual) internal pure {
        if (!holds) revert Broken(property, expected, actual);
    }

    function _requireEqual(uint256 actual, uint256 expected, string memory property) internal pure {
        if (actual != expected) revert Broken(property, expected, actual);
    }
}
