"""Cases of tests/vectors/codec.json, draw.json and float32.json."""

from collections.abc import Iterable

from tools.vectors.fixed_values import ACCOUNT, bits, number, word
from tools.vectors.table import Table
from touchstone.protocol.spec import commitments, float32, shard_draws, tolerance, uniform_draw
from touchstone.protocol.spec.hashing import hash_words
from touchstone.protocol.spec.params import TAG_UNIFORM
from touchstone.protocol.spec.state_headers import OuterHeader, StateHeader
from touchstone.protocol.spec.task_spec import StepFacts

REGISTRY = "0x" + "0b" * 20


def codec_tables() -> dict[str, Table]:
    """Domains, roots and leaves."""
    states, outers, domains = Table(), Table(), Table()
    for local, step in [(0, 0), (5, 500), (2**32 - 1, 2**32 - 1)]:
        roots = [word(f"state/{local}/{i}") for i in range(3)]
        root = commitments.compute_state_root(StateHeader(roots[0], roots[1], roots[2], local, step))
        names = ("weightsRoot", "firstMomentRoot", "secondMomentRoot")
        cells = dict(zip(names, roots, strict=True))
        states.add(f"steps {local}, {step}", **cells, localStep=local, globalStep=step, root=root)
    weights, momentum = word("outer/w"), word("outer/m")
    root = commitments.compute_outer_root(OuterHeader(weights, momentum))
    outers.add("outer", weightsRoot=weights, momentumRoot=momentum, root=root)
    for chain_id in (1, 31_337, 2**64):
        task_id = word(f"task/{chain_id}")
        domain = commitments.compute_domain(chain_id, REGISTRY, task_id)
        domains.add(f"chain {chain_id}", chainId=chain_id, registry=REGISTRY, taskId=task_id, domain=domain)
    return {
        "states": states,
        "outers": outers,
        "domains": domains,
        "boundaries": _boundaries(),
        "schedule": _schedule(),
        "steps": _steps(),
    }


def _boundaries() -> Table:
    table, domain = Table(), word("domain")
    for round_number, boundary in [(0, 0), (3, 6), (2**32 - 1, 1000)]:
        salt, state_root = word(f"salt/{boundary}"), word(f"root/{boundary}")
        leaf = commitments.compute_boundary_leaf(domain, round_number, ACCOUNT, boundary, salt, state_root)
        cells = {"boundary": boundary, "salt": salt, "stateRoot": state_root, "leaf": leaf}
        table.add(f"boundary {boundary}", domain=domain, round=round_number, solver=ACCOUNT, **cells)
    return table


def _schedule() -> Table:
    table = Table()
    for segment, total in [(0, 0), (1, 2**64), (7, 36_893_488_147_419_103), (2**32 - 1, 2**128 - 1)]:
        table.add(
            f"segment {segment}",
            segment=segment,
            sum=total,
            leaf=commitments.compute_schedule_leaf(segment, total),
        )
    return table


def _steps() -> Table:
    """Facts with every field another number, and all at their largest."""
    table = Table()
    roots = (word("step/program"), word("step/dataset"), word("step/scalars"))
    plain = StepFacts(*roots, 1_500, 900, 0, 8, 128, 1, 3_900_000, 4_000_000, 160, 50_257)
    small, large = 2**32 - 1, 2**64 - 1
    largest = StepFacts(*roots, small, small, 2, small, small, 4, large, large, small, small)
    for name, facts in (("plain", plain), ("largest", largest)):
        table.add(
            name,
            programRoot=facts.program_root,
            datasetRoot=facts.dataset_root,
            scalarsRoot=facts.scalars_root,
            programNodes=facts.program_nodes,
            programBuffers=facts.program_buffers,
            numericFormat=facts.numeric_format,
            sequencesPerStep=facts.sequences_per_step,
            sequenceTokens=facts.sequence_tokens,
            tokenBytes=facts.token_bytes,
            tokenCount=facts.token_count,
            datasetBytes=facts.dataset_bytes,
            scalarCount=facts.scalar_count,
            vocabularySize=facts.vocabulary_size,
            root=commitments.compute_step_root(facts),
        )
    return table


def draw_tables() -> dict[str, Table]:
    """Every draw, with sizes at their edges and bounds that force rejected attempts."""
    return {
        "uniform": _uniform(),
        "shards": _shards(),
        "samples": _samples(),
    }


def _uniform() -> Table:
    table = Table()
    bounds = [1, 2, 3, 7, 64, 1000, 2**32, 2**128 + 1, 2**255, 2**255 + 1, 2**256 - 1, 2**256 // 3 + 1]
    cases = [(n, counter) for n in bounds for counter in (0, 1)] + [(2**255 + 1, c) for c in range(2, 10)]
    for i, (n, counter) in enumerate(cases):
        seed, value = word(f"uniform/{i}"), uniform_draw.draw_uniform(word(f"uniform/{i}"), counter, n)
        attempts = 0
        while int.from_bytes(hash_words(TAG_UNIFORM, seed, counter, attempts), "big") >= 2**256 - 2**256 % n:
            attempts += 1
        name = f"case {i}, {attempts} rejected"
        table.add(name, seed=seed, counter=counter, n=n, attempts=attempts, value=value)
    return table


def _shards() -> Table:
    table = Table()
    for slot, count in [(0, 1), (0, 5), (4, 5), (63, 64), (2, 3)]:
        beacon = word(f"shard/{count}")
        shard = shard_draws.draw_shard(beacon, slot, count)
        table.add(f"slot {slot} of {count}", beacon=beacon, slot=slot, solverCount=count, shard=shard)
    return table


def _samples() -> Table:
    table = Table()
    for i, (shard, step, row, tokens, length) in enumerate(
        [(0, 0, 0, 2, 1), (3, 7, 5, 1 << 20, 128), (63, 499, 31, 10**9, 1024)]
    ):
        beacon = word(f"sample/{i}")
        start = shard_draws.draw_sample_start(beacon, shard, step, row, tokens, length)
        cells = {"shard": shard, "step": step, "row": row, "tokenCount": tokens, "sequenceTokens": length}
        table.add(f"sample {i}", beacon=beacon, **cells, start=start)
    return table


MAX_FINITE = 0x7F7FFFFF
SPECIAL = [
    0x00000000, 0x80000000, 0x00000001, 0x80000001, 0x00000003, 0x007FFFFF, 0x00800000, 0x00800001,
    0x3F800000, 0x3F800001, 0xBF800000, 0x33800000, 0x33800001, 0x3F000000, 0x3F333333, 0x40400000,
    0x4B800000, 0x4B800001, 0x1A000000, 0x73000000, 0x7F000000, MAX_FINITE, 0xFF7FFFFF,
]  # fmt: skip


def _pairs() -> Iterable[tuple[str, int, int]]:
    for i, a in enumerate(SPECIAL):
        yield from ((f"special {i} {j}", a, b) for j, b in enumerate(SPECIAL))
    for i in range(64):
        a = number(f"float/a/{i}", 0x7F800000) | (number(f"sign/a/{i}", 2) << 31)
        near = a ^ number(f"near/{i}", 1 << 24) ^ (1 << 31)  # nearly cancels
        b = near if i % 2 and float32.is_finite(near) else number(f"float/b/{i}", 0x7F800000)
        yield f"random {i}", a, b


def float32_tables() -> dict[str, Table]:
    """The four operations over special and random operands, and values in units of 2^-149."""
    tables = {name: Table() for name in ("add", "subtract", "multiply", "divide")}
    for name, a, b in _pairs():
        for operation, table in tables.items():
            if operation == "divide" and b & 0x7FFFFFFF == 0:
                continue
            table.add(name, a=a, b=b, result=getattr(float32, operation)(a, b))
    return {**tables, "units": _units()}


def _units() -> Table:
    table = Table()
    edge = bits(2.0**64)
    for pattern in (*SPECIAL, edge - 1, edge, edge + 1, edge | 1 << 31, edge + 1 | 1 << 31):
        units = tolerance.to_cut_units(pattern)
        table.add(f"{pattern:#010x}", bits=pattern, negative=units < 0, magnitude=abs(units))
    return table
