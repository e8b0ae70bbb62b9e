"""Cases of tests/vectors/codec.json."""

from protocol.spec import codec
from protocol.spec.containers import OuterHeader, StateHeader, StepFacts
from protocol.spec.errors import InvalidInput
from protocol.spec.params import DEVNET, MAINNET
from scripts.vectors.sample import ACCOUNT, sample_task
from scripts.vectors.table import Table, word

REGISTRY = "0x" + "0b" * 20


def codec_tables() -> dict[str, Table]:
    """Identities, roots and commitments, and bytes that a decoder must refuse."""
    states, outers, domains = Table(), Table(), Table()
    for local, step in [(0, 0), (5, 500), (2**32 - 1, 2**32 - 1)]:
        roots = [word(f"state/{local}/{i}") for i in range(3)]
        root = codec.compute_state_root(StateHeader(roots[0], roots[1], roots[2], local, step))
        names = ("weightsRoot", "firstMomentRoot", "secondMomentRoot")
        cells = dict(zip(names, roots, strict=True))
        states.add(f"steps {local}, {step}", **cells, localStep=local, globalStep=step, root=root)
    weights, momentum = word("outer/w"), word("outer/m")
    root = codec.compute_outer_root(OuterHeader(weights, momentum))
    outers.add("outer", weightsRoot=weights, momentumRoot=momentum, root=root)
    for chain_id in (1, 31_337, 2**64):
        task_id = word(f"task/{chain_id}")
        domain = codec.compute_domain(chain_id, REGISTRY, task_id)
        domains.add(f"chain {chain_id}", chainId=chain_id, registry=REGISTRY, taskId=task_id, domain=domain)
    refused_terms, refused_training = _refused()
    return {
        "states": states,
        "outers": outers,
        "domains": domains,
        "boundaries": _boundaries(),
        "audits": _audits(),
        "schedule": _schedule(),
        "steps": _steps(),
        "tasks": _tasks(),
        "refusedTerms": refused_terms,
        "refusedTraining": refused_training,
    }


def _boundaries() -> Table:
    table, domain = Table(), word("domain")
    for round_number, boundary in [(0, 0), (3, 6), (2**32 - 1, 1000)]:
        salt, state_root = word(f"salt/{boundary}"), word(f"root/{boundary}")
        leaf = codec.compute_boundary_leaf(domain, round_number, ACCOUNT, boundary, salt, state_root)
        cells = {"boundary": boundary, "salt": salt, "stateRoot": state_root, "leaf": leaf}
        table.add(f"boundary {boundary}", domain=domain, round=round_number, solver=ACCOUNT, **cells)
    return table


def _audits() -> Table:
    table, domain, end, salt = Table(), word("domain"), word("end"), word("audit salt")
    for slot, index, rank in [(0, 0, 0), (7, 1, 2), (63, 20, 0)]:
        commitment = codec.compute_audit_commitment(domain, 4, slot, index, rank, ACCOUNT, end, salt)
        place = {"domain": domain, "round": 4, "slot": slot, "draw": index, "rank": rank, "auditor": ACCOUNT}
        table.add(f"slot {slot}, rank {rank}", **place, endStateRoot=end, salt=salt, commitment=commitment)
    return table


def _schedule() -> Table:
    table = Table()
    for segment, total in [(0, 0), (1, 2**64), (7, 36_893_488_147_419_103), (2**32 - 1, 2**128 - 1)]:
        table.add(
            f"segment {segment}", segment=segment, sum=total, leaf=codec.compute_schedule_leaf(segment, total)
        )
    return table


def _steps() -> Table:
    """Facts with every field another number, and all at their largest."""
    table = Table()
    roots = (word("step/program"), word("step/dataset"), word("step/scalars"))
    plain = StepFacts(*roots, 1_500, 900, 0, 8, 128, 1, 3_900_000, 4_000_000, 160)
    small, large = 2**32 - 1, 2**64 - 1
    largest = StepFacts(*roots, small, small, 2, small, small, 4, large, large, small)
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
            root=codec.compute_step_root(facts),
        )
    return table


def _tasks() -> Table:
    table = Table()
    for preset in (DEVNET, MAINNET):
        spec = sample_task(preset)
        table.add(
            preset.name,
            terms=codec.encode_terms(spec.terms),
            training=codec.encode_training(spec.training),
            taskId=codec.compute_task_id(spec),
            parameterCount=spec.terms.parameter_count,
            lateRate=spec.terms.late_rate,
            trainBlocks=spec.terms.windows.train,
            finderCap=spec.terms.amounts.finder_cap,
            rejectTauR=spec.terms.reject.tau_r,
        )
    return table


def _refused() -> tuple[Table, Table]:
    terms, training = codec.encode_terms(sample_task().terms), codec.encode_training(sample_task().training)
    header = len(codec.TRAINING_HEADER)
    bad_terms, bad_training = Table(), Table()
    for name, data in [
        ("empty", b""),
        ("one byte short", terms[:-1]),
        ("one word more", terms + bytes(32)),
        ("dirty address", b"\1" + terms[1:]),
        ("uint32 too large", terms[: 6 * 32] + b"\0" * 27 + b"\1" + terms[7 * 32 - 4 :]),
    ]:
        bad_terms.add(name, data=data)
    for name, data in [
        ("empty", b""),
        ("another version", codec.TRAINING_HEADER[:-1] + b"\2" + training[header:]),
        ("one byte short", training[:-1]),
        ("one byte more", training + b"\0"),
        ("another kind", training[:header] + b"\2" + training[header + 1 :]),
        ("a long integer", training[:header] + b"\1\0\0\0\x09\0" + training[header + 5 :]),
        ("upper case name", training.replace(b"llama", b"LLAMA")),
        ("negative zero", _replace_once(training, b"\2\0\0\0\4" + bytes(4), b"\2\0\0\0\4\x80\0\0\0")),
        ("a NaN", _replace_once(training, b"\2\0\0\0\4" + bytes(4), b"\2\0\0\0\4\x7f\xc0\0\0")),
        ("a length beyond the end", training[: header + 1] + b"\xff\xff\xff\xff" + training[header + 5 :]),
    ]:
        bad_training.add(name, data=data)
    return bad_terms, bad_training


def _replace_once(data: bytes, old: bytes, new: bytes) -> bytes:
    if old not in data:
        raise InvalidInput(
            what="nothing to spoil", expected=old, actual="absent", remedy="Adapt the sample task."
        )
    return data.replace(old, new, 1)
