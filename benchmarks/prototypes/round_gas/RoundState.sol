// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.28;

/// @title What a round keeps, but for claims, votes and pay: where those lie is the layouts'.
abstract contract RoundState {
    uint256 internal constant SOLVER = 0;
    uint256 internal constant VERIFIER = 1;
    uint256 internal constant WHISTLEBLOWER = 2;
    uint256 internal constant DRAWS = 2;
    uint256 internal constant LATE = 2; // the late draw stands behind the two of the round
    uint256 internal constant EPOCH = 64; // rounds whose pay adds up
    uint256 private constant PAY = 1e15;
    // A draw has nine bits, three for each rank: NONE, ACCEPT, REJECT, UNSERVED, ABSTAIN; PAID is added to ACCEPT and REJECT.
    uint256 internal constant PAID = 4;

    struct Config {
        uint16 segments;
        uint16 ring; // rounds until storage is used again
        uint8 delay;
        uint8 grid;
        uint24 trainMin;
        uint24 trainMax;
        uint24 auditMax;
        uint24 lateRate; // of 2^16
        uint32 current;
        uint16 version; // of the pools of auditors
        uint64 seated; // solver seats that are open now
        bool isExact;
    }

    struct Frame {
        uint64 committed;
        uint64 pool;
        uint32 openBlock;
        uint32 enoughBlock; // in which two thirds had committed
        uint32 closeBlock; // see _closeOf
        uint16 version;
        bool isSealed;
    }

    /// @dev In both: accepted too late to be merged; in `refused` alone: VOID. `round` says whether another lap of the ring wrote this.
    struct Result {
        uint64 accepted;
        uint64 refused;
        uint64 signers;
        uint32 round;
    }

    struct State {
        Config config;
        mapping(address => uint256) seatOf; // number + 1
        mapping(uint256 => address) seats; // by kind << 16 | number
        mapping(uint256 => uint256) pools; // by version << 16 | kind << 8: members << 16 | span, then bitmaps
        mapping(uint256 => Frame) frames;
        mapping(uint256 => Result) results;
        mapping(uint256 => bytes32) roots;
        mapping(uint256 => bytes32) seeds;
        mapping(uint256 => bytes32) claims;
        mapping(uint256 => uint256) votes;
        mapping(uint256 => uint256) pays;
        mapping(address => uint256) claimable;
    }

    /// @dev What the votes of one call share; then the claim, the vote and the word of storage at hand.
    struct Run {
        Config config;
        Frame frame;
        Result result;
        bytes32 domain;
        uint256 round;
        uint256 at; // round modulo ring
        uint256 kind; // of who votes
        bytes32 seed;
        bytes32 drawnBy; // the seed, of a late draw the next round's
        uint256[] order;
        uint256 step;
        bytes32[64] brought;
        uint256 slot;
        uint256 index;
        bytes32 claimRoot;
        uint256[3] segments;
        uint256 draw;
        uint256 rank;
        uint256 word;
        uint256 seat;
        uint256 key;
        uint256 kept;
        uint256 votes;
    }

    event Committed(bytes32 indexed task, uint256 indexed round, uint256 slot, bytes32 claimRoot);
    event Sealed(bytes32 indexed task, uint256 indexed round, bytes32 seed);
    event Counted(bytes32 indexed task, uint256 indexed round, uint64 accepted, uint64 refused);
    event Posted(bytes32 indexed task, uint256 indexed round, bytes32 root, uint64 signers);

    error Refused(uint256 check);

    mapping(bytes32 => State) internal _states;

    // Storage, as the layouts have it ------------------------------------------------------------------------------
    function _keepClaim(State storage s, uint256 at, uint256 before, uint256 slot, bytes32 root) internal virtual;
    function _claimOf(State storage s, Run memory x, uint256 slot) internal view virtual returns (bytes32);
    function _bring(State storage, Run memory, bytes calldata) internal view virtual {}
    function _placeOf(Run memory x, uint256 draw) internal pure virtual returns (uint256 key, uint256 shift);
    function _addPay(State storage s, uint256 kind, uint256 round, uint256 seat) internal virtual;

    function _isSigned(bytes32 digest, bytes calldata signature, address account) internal pure returns (bool) {
        (bytes32 r, uint256 vs) = abi.decode(signature, (bytes32, uint256));
        return account != address(0) && account == ecrecover(digest, uint8(27 + (vs >> 255)), r, bytes32(vs << 1 >> 1));
    }

    // Helpers --------------------------------------------------------------------------------------------------------------
    function claimableOf(bytes32 task, address account) external view returns (uint256) {
        return _states[task].claimable[account] / PAY;
    }

    function _credit(State storage s, uint256 kind, uint256 seat, uint256 count) internal {
        if (count != 0) s.claimable[s.seats[kind << 16 | seat]] += count * PAY;
    }

    function _domain(bytes32 task) internal view returns (bytes32) {
        return sha256(abi.encode(bytes32("touchstone.domain"), block.chainid, address(this), task));
    }

    function _mark() internal pure returns (uint256 mark) {
        assembly ("memory-safe") {
            mark := mload(0x40)
        }
    }

    function _release(uint256 mark) internal pure {
        assembly ("memory-safe") {
            mstore(0x40, mark)
        }
    }
}
