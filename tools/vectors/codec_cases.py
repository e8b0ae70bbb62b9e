"""Makes the cases of tests/vectors/codec.json."""

from tools.vectors.fixed_values import ACCOUNT, word
from tools.vectors.table import Table
from touchstone.protocol.spec import commitments
from touchstone.protocol.spec.state_headers import OuterHeader, StateHeader
from touchstone.protocol.spec.task_spec import StepFacts

REGISTRY = "0x" + "0b" * 20


def codec_tables() -> dict[str, Table]:
    """Returns domains, roots and leaves."""
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
    """Returns facts with a different number in every field, and all at their largest."""
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
