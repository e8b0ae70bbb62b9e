"""Writes tests/vectors/round.json and dispute.json, or with --check compares them.

`./dev vectors` runs this after `scripts.vectors`, which may not import the tests. The files hold scripts of
calls with what must come of them: made with the Python twin, played against the contracts on a chain by
`tests/e2e/test_twin.py`.
"""

import json
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

from tests.protocol.spec.dispute_play import play_dispute
from tests.protocol.spec.dispute_scripts import SCRIPTS
from tests.protocol.spec.play import to_json
from tests.protocol.spec.plots import PLOTS, play_plot
from tests.protocol.spec.simulator import make_terms

FOLDER = Path(__file__).parents[2] / "vectors"
ROUND_FORMAT = [
    "A script is round 0 of a task with `world`'s terms. Blocks count from the round's start block; steps of",
    "one block are sent in this order and mined together. Whoever is not in a step is silent.",
    "Senders: solver:i, verifier:i, whistleblower:i by order of enrolment; auditor:slot.draw.rank is whom",
    "the draw gave that audit (draw 1 is the late audit); keeper and outsider are not enrolled.",
    "`results` says what an auditor's replay gives: equal to the solver's end state (also where not named),",
    "near: different but inside the accept limits, far: beyond the reject limits in every leaf.",
    "Arguments that are not listed (segments, boundaries, leaf indices, proofs, roots) follow from the draw",
    "and are right. error: the refusal's name, null: accepted; events: names of the round's logs, in any",
    "order; penalties: FEE (F burned of the enrolment exposure) or STAKE (the audit's exposure slashed).",
    "outer: none, empty (merged by the last verdict), posted. An audit that is not listed is NONE.",
]
DISPUTE_FORMAT = [
    "A script is played on the committed claim of solver:0, segment 1 (bySolver), or on the revealed claim",
    "of the primary auditor (then `claimant` is that auditor). `a` and `b` are two disputes with different",
    "salts; blocks count from any block from which the whole script fits before disputeEnd. Steps of one",
    "block are sent in order and mined together. `facts` lists what is not as it should be in a call: make",
    "such a proof; is_fault false: of a place that is right; is_disputable false: a segment beyond the last.",
    "The trace of a script that proves a fault has that fault, and no other; where a proof that fails says",
    "are_steps_right false, the state before the named step has a wrong local step.",
]


def build_round_vectors() -> dict[str, Any]:
    """All rounds."""
    terms = asdict(make_terms())
    names = ("parameter_count", "rounds", "inner_steps", "segment_steps", "segment_draws", "leaf_draws")
    world = {name: terms[name] for name in (*names, "late_rate", "carry_moments", "windows")}
    return {
        "format": ROUND_FORMAT,
        "world": world,
        "scripts": [to_json(play_plot(plot.name)) for plot in PLOTS],
    }


def build_dispute_vectors() -> dict[str, Any]:
    """All disputes."""
    return {"format": DISPUTE_FORMAT, "scripts": [play_dispute(script) for script in SCRIPTS]}


def render(document: dict[str, Any]) -> str:
    """JSON with one step a line."""
    scripts = ",\n".join(_render_script(script) for script in document["scripts"])
    head = {name: value for name, value in document.items() if name != "scripts"}
    return json.dumps(head, indent=1)[:-2] + ',\n "scripts": [\n' + scripts + "\n ]\n}\n"


def _render_script(script: dict[str, Any]) -> str:
    rest = {name: value for name, value in script.items() if name != "steps"}
    steps = ",\n".join("   " + json.dumps(step) for step in script["steps"])
    return "  " + json.dumps(rest)[:-1] + ', "steps": [\n' + steps + "\n  ]}"


FILES = {"round.json": build_round_vectors, "dispute.json": build_dispute_vectors}


def main(arguments: list[str]) -> int:
    """Writes the files, or with --check compares them; the exit status."""
    stale, is_check = [], "--check" in arguments
    for name, build in FILES.items():
        text, path = render(build()), FOLDER / name
        if path.is_file() and path.read_text() == text:
            continue
        stale.append(name)
        if not is_check:
            path.write_text(text)
    print(f"{'differ' if is_check else 'written'}: {', '.join(stale) or 'none'}")
    return 1 if is_check and stale else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
