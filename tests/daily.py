"""Which tests `./dev test` runs each day, in some minutes; all others run with `./dev test --all`."""

PLAYS = (
    "tests/e2e/test_contest.py",
    "tests/e2e/test_happy_path.py",
    "tests/e2e/test_attacks.py",
    "tests/faults/test_journal_faults.py",
)
"""Of the long ones those that are played each day."""
LONG = (
    "tests/attacks/",
    "tests/demo/test_demo.py",
    "tests/demo/test_parts.py",
    "tests/e2e/",
    "tests/architecture/test_site_search.py",
    "tests/explorer/test_browser.py",
    "tests/explorer/test_questions.py",
    "tests/faults/",
    "tests/lab/",
    "tests/node/exports/test_config_fields.py",
    "tests/node/exports/test_published_model.py",
    "tests/node/exports/test_rotary_positions.py",
    "tests/node/exports/test_tensor_names.py",
    "tests/node/exports/test_written_model.py",
    "tests/node/training/test_replay_pool.py",
    "tests/node/training/test_worker_team.py",
    "tests/protocol/adapters/files/test_direct_writes.py",
    "tests/protocol/compute/audit/test_limits.py",
    "tests/protocol/compute/bounds/test_fault_finder.py",
    "tests/protocol/compute/bounds/test_live_parameters.py",
    "tests/protocol/compute/outer/test_outer_tensors.py",
    "tests/protocol/compute/program/test_adamw.py",
    "tests/protocol/compute/program/test_card_kernels.py",
    "tests/protocol/compute/program/test_cutting.py",
    "tests/protocol/compute/program/test_numpy_exact.py",
    "tests/protocol/compute/program/test_recorded_programs.py",
    "tests/protocol/compute/program/test_spare_vectors.py",
    "tests/protocol/spec/game/test_every_silence.py",
    "tests/rounds/test_money.py",
    "tests/rounds/test_silence.py",
    "tests/rounds/test_twin.py",
    "tests/scripts/test_endpoint_checks.py",
    "tests/scripts/test_money_commands.py",
    "tests/scripts/test_needed_nodes.py",
    "tests/scripts/test_node_watch.py",
    "tests/scripts/test_own_contracts.py",
    "tests/scripts/test_role_commands.py",
    "tests/scripts/test_seat_needs.py",
    "tests/scripts/test_walled_node.py",
    "tests/tools/test_wheel.py",
    "tests/scripts/tasks/",
    "tests/scripts/test_task_file.py",
    "tests/tools/test_compile.py",
    "tests/tools/test_storage.py",
    "tests/touchstone/step/test_idle_parts.py",
    "tests/touchstone/step/test_transformers.py",
)
"""Folders and files whose tests take long, or measure."""


def is_daily(name: str) -> bool:
    """Tells whether a test runs each day. name: as pytest has it."""
    return name.startswith(PLAYS) or not name.startswith(LONG)
