"""Every constant of the protocol: type, formula, value, reason.

Changing any of them needs another PROTOCOL_VERSION.
"""

PROTOCOL_VERSION = 3
"""The protocol's version. Nodes refuse a task of another version before they stake."""

# Trees (docs/spec.md, section 1).
LEAF_BYTES = 1024
"""The bytes of a data leaf. Smaller leaves cost a hash call each (half a microsecond), larger ones 16 gas for
each opened byte."""
LEAF_ELEMENTS = LEAF_BYTES // 4
"""The float32 elements of a state leaf, 256."""
LEAF_PREFIX = b"\x00"
"""The byte before a leaf's data, so that leaves and nodes never hash the same message (RFC 6962, section
2.1)."""
NODE_PREFIX = b"\x01"
ZERO_WORD = bytes(32)
"""Stands for a missing leaf. No SHA-256 preimage of it is known, so it is never a valid leaf."""

# Pseudo-gradient (section 5).
BLOCK_ELEMENTS = 64
"""The elements that share one power-of-two scale. The number divides LEAF_ELEMENTS, so an element is judged
from one leaf of each kind."""
BLOCKS_PER_LEAF = LEAF_ELEMENTS // BLOCK_ELEMENTS
DELTA_BLOCK_BYTES = 1 + BLOCK_ELEMENTS
DELTA_LEAF_BYTES = BLOCKS_PER_LEAF * DELTA_BLOCK_BYTES
"""The bytes of a leaf of a pseudo-gradient: 260 = 4 * (1 + 64)."""
SCALE_EXPONENT_BIAS = 149
SCALE_EXPONENT_MIN = -149
"""The least exponent e of a scale. 2^-149 is the least positive float32, so every q * 2^e is a float32."""
SCALE_BYTE_MAX = 220
"""The largest e + 149 of an encoding. Then all values are integers of at most 227 bits in the least unit of
64 claims, so their sum fits a word of the chain, whatever was committed. A block with a larger scale byte is
read as zeros."""
SCALE_EXPONENT_MAX = SCALE_BYTE_MAX - SCALE_EXPONENT_BIAS
"""The largest exponent e of a scale, 71: 127 * 2^71 * 64 claims stays far below overflow (2^128)."""
QUANTUM_MAX = 127

# Limits (section 6).
UNIT_EXPONENT = -149
"""The exponent of the unit in which values are counted: every finite float32 is an integer times 2^-149."""
TAU_FRACTION_BITS = 64
LEARNING_RATE_FRACTION_BITS = 64
MAGNITUDE_LIMIT_UNITS = 1 << (64 + 149)
"""The magnitude to which values are cut before they are compared: 2^64, in units of 2^-149. No trained weight
comes near, and products stay below 2^256."""
SQRT_SHIFT_BITS = 43
"""The bits k by which v' is shifted before its root is taken: v' < 2^213 units, so v' * 2^43 < 2^256. 43 +
149 is even, so the root has the exact unit 2^-96."""
LEARNING_RATE_SUM_MAX = (1 << 128) - 1
"""The cap of a sum of learning rates, 2^64 in value, so that no hostile schedule leaf makes a comparison
overflow and revert."""

# Sizes of a task.
MAX_SHARDS = 64
"""The most solvers of a round, because partial sums of at most 64 claims fit into one transaction."""
MAX_SEGMENT_STEPS = 20
"""The most steps k of a segment: in longer ones, a cheat in a single step fades below the noise
(measured)."""
LATE_RATE_ONE = 1 << 16
"""The denominator of late_chance."""
MAX_SEGMENT_DRAWS = 20
"""The most draws q of a claim. If every seat is silent, settling a claim of 20 draws costs 14.6 M gas; with
23 draws it fits into no transaction."""
MAX_TASK_SEGMENTS = 1 << 16
"""The most segments of a task (rounds * H/k), because every node computes the schedule tree over them before
it stakes."""
MIN_TAU = 1 << 44
"""The least limit, 2^-20: smaller ones, of a few roundings of float32 (2^-24), would reject honest
hardware."""
CHEAT_VERIFIER_SHARE_PERCENT = 50
"""The share s of verifiers that a cheat may own: serving only these still does not pay."""
SPOT_QUERIES = 64
"""Honest nodes query one in this many opened ACCEPTs whose signer's end differs from the claim's."""
MAX_PARAMETERS = 1 << 31
"""The most elements of W; leaf indices and byte counts stay far inside 64 bits (`GameTermsCheck.sol`)."""
MAX_CONSTANT_BYTES = 1 << 36
"""The most bytes of all constants of a program: a frozen base of 16 billion parameters."""
MAX_CONSTANTS = 1 << 12
"""The most constants. Each is fetched and mapped by itself. The largest published decoders without experts
have 1,200 tensors."""
MAX_SEQUENCE_TOKENS = 1 << 13
"""The most tokens of a row. The causal mask, a constant of the program, has the square of it: 256 MiB."""
MAX_VOCABULARY = (1 << 32) - 1
"""The most tokens of a vocabulary, because `StepFacts` writes their number in 32 bits."""
MAX_DATASET_BYTES = 1 << 37
"""The most bytes of a dataset, held-out part included. A node holds its chunk roots, a thousandth of it."""

# Tags: one word of ASCII each, so that no hash can stand for another.
TAG_STATE = "touchstone.state"
TAG_OUTER = "touchstone.outer"
TAG_DOMAIN = "touchstone.domain"
TAG_BOUNDARY = "touchstone.boundary"
TAG_SCHEDULE = "touchstone.schedule"
TAG_STEP = "touchstone.step"
TAG_UNIFORM = "touchstone.uniform"
TAG_SLOT = "touchstone.slot"
TAG_SAMPLE = "touchstone.sample"

# Registries: code is never sent, only these names.
PRODUCT_BITS = {"exact8": 8, "exact15": 15, "exact20": 20}
"""The exact formats, with the bits of quantized products."""
FORMAT_ALIASES = {"exact": "exact15"}
"""Short names of formats that a task file may use."""
EXACT_FORMAT = 1
"""The number of the exact formats, whose tasks need no limits."""
FORMAT_NUMBERS = {"float32": 0, **dict.fromkeys(PRODUCT_BITS, EXACT_FORMAT)}
"""The numbers of the formats in `StepFacts` and terms. The bits of exact products are in the program
itself."""
NUMERIC_FORMATS = tuple(FORMAT_NUMBERS)
"""The formats that a task may compute in."""
OFFERED_FORMATS = tuple(name for name in NUMERIC_FORMATS if name != "exact8")
"""The formats that a task file may ask for. With 8 bits a small model learned worse
(docs/decisions/0038-exact.md)."""
DECAY_SHAPES = ("linear",)
GIVEN_START = (1 << 64) - 1
"""Stands for a seed if the first weights are given under `initial_weights_root`."""

TOKEN_WEI = 10**18
"""The wei of one whole token, as in most ERC-20 tokens."""
