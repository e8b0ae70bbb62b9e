"""`touchstone policy`: makes the limits of a task from operators' measurements."""

from collections.abc import Sequence
from pathlib import Path

from touchstone.protocol.adapters.files.durable_files import replace_file
from touchstone.protocol.adapters.signed_profiles import read_profile
from touchstone.protocol.spec.calibration_profile import Profile
from touchstone.protocol.spec.calibration_rules import MARGIN, compute_maxima, merge_profiles
from touchstone.protocol.spec.params import TAU_FRACTION_BITS, UNIT_EXPONENT
from touchstone.protocol.spec.task_spec import Limits
from touchstone.scripts.documents.model_documents import PolicyDocument


def write_policy(paths: Sequence[Path], out: Path | None) -> PolicyDocument:
    """Merges signed profiles into limits in the form of a task file; prints them, and writes them to
    `out`."""
    profiles = [read_profile(path) for path in paths]
    limits = merge_profiles(profiles)
    text = render_policy(profiles, limits)
    if out is not None:
        replace_file(out, text.encode())
    print(text, end="")
    operators = [profile.operator for profile in profiles]
    return PolicyDocument(operators, {name: str(value) for name, value in vars(limits).items()})


def render_policy(profiles: list[Profile], limits: Limits) -> str:
    """Returns the table `[limits]` as text, preceded by the measurements that it rests on."""
    subject, lines = profiles[0].subject, []
    lines.append(f"# {MARGIN} times the largest honest distance of these profiles")
    lines.append(f"# training {subject.training}, {subject.numeric_format}, k = {subject.segment_steps}")
    for profile in profiles:
        maxima = ", ".join(f"{float(value):.3g}" for value in compute_maxima(profile))
        counts = f"{profile.segments} segments, {len(profile.configurations)} configurations"
        lines.append(f"# {profile.operator}: {counts}, maxima {maxima} ({profile.machine})")
    lines += ["", "[limits]", *_render_limits(limits)]
    return "\n".join(lines) + "\n"


def _render_limits(limits: Limits) -> list[str]:
    """Returns limits as integers in the units of docs/spec.md, section 6, so that nothing is rounded; a
    comment says how much each is. TOML's integers have 64 bits with the sign, but Python's reader takes any
    size."""
    return [
        f"{name} = {value}  # {value * 2.0 ** _get_unit(name):.3g}" for name, value in vars(limits).items()
    ]


def _get_unit(name: str) -> int:
    return -TAU_FRACTION_BITS if name.startswith("tau_") else UNIT_EXPONENT
