"""Says what each key of `config.toml` is for, and writes the file with these words as comments.

docs/node.md has the same words in a table (`python -m tools.config_table`).
"""

import json
import textwrap
from collections.abc import Iterator, Mapping
from typing import Any

COMMENT_WIDTH = 100
KEYS: Mapping[str, str] = {
    "rpc_url": "JSON-RPC endpoint of the chain",
    "deployment": "file with the addresses of the contracts",
    "deployment_sha256": "digest of the deployment that init has checked; no other one is used",
    "account": "account of the keystore",
    "payout_address": "account to which `touchstone withdraw` sends on what it takes out; empty: none",
    "listen_host": "address of this machine at which peers fetch data; 0.0.0.0: all of them",
    "listen_port": "port for peers; 0: a free one at each start",
    "poll_seconds": "pause between two looks at the newest block, up to 2; 0: eight looks a block",
    "public_url": "https://HOST:PORT where other machines reach this node; empty: where it listens",
    "check_reach": "take no seat if peers answer and none of them reaches this node",
    "threads": "threads that compute a step; keep them until your rounds are settled",
    "device": "where steps are computed: cpu, cuda, cuda:1 ...; keep it until your rounds are settled",
    "memory_mb": "memory of this node in megabytes: large tensors lie in files beyond it; 0: no limit",
    "disk_mb": "most disk of this home in megabytes; 0: no limit",
    "nice": "nice level of the node and its processes: 0 is usual, 19 the lowest priority",
    "when_idle": "pause while somebody else uses this machine, and leave if that lasts",
    "idle_minutes": "minutes without use after which the machine counts as idle",
    "idle_cores": "processors that other programs may take while the machine counts as idle",
    "dataset_cache_mb": "most disk in megabytes for parts of datasets that need not stay",
    "whole_dataset": "fetch the whole dataset before a seat is taken",
    "replay_processes": "segments that an auditor replays at once",
    "executor": "what runs replays: process, or ray (an extra)",
    "ray_address": "address of the Ray to use; auto: the one that runs here; empty: the node starts one",
    "workers": "processes that train a solver's segment together, 1 to 64",
    "metrics_host": "address at which Prometheus reads metrics",
    "metrics_port": "port at which Prometheus reads metrics; 0: none",
    "tensorboard_dir": "folder into which a solver or submitter writes losses for TensorBoard; empty: none",
    "wandb_dir": "folder into which they write losses for Weights & Biases, offline; empty: none",
    "halt_when": "no better for N rounds: then a submitter's node halts its task; empty: never",
    "rpc_urls": "more endpoints of the same chain, for when one is silent; if two disagree, the node waits",
    "max_fee_gwei": "most that one gas may cost, in gwei; 0: any price",
    "password_file": "file with the password of the keystore, mode 0600; empty: it is asked for",
    "preset": "preset by which tasks are judged, for this chain's block time: 12s, 2s or local",
}
"""What each key is for, in the order of the file. An environment variable may stand for most keys."""
HEAD = (
    "Settings of a Touchstone home. Change a line and start the node again. Paths may begin with ~.",
    "Tables may follow at the end: [economics] (docs/task.md), [object_storage] (docs/operating.md).",
)


def render_config(values: Mapping[str, Any]) -> str:
    """Returns the text of `config.toml`: each key with its comment. Texts, numbers, lists and booleans of
    JSON are those of TOML."""
    lines = [f"# {line}" for line in HEAD]
    for name, value in values.items():
        lines += ["", *_list_comment(KEYS[name]), f"{name} = {json.dumps(value)}"]
    return "\n".join(lines) + "\n"


def _list_comment(text: str) -> Iterator[str]:
    for line in textwrap.wrap(text[:1].upper() + text[1:] + ".", COMMENT_WIDTH - len("# ")):
        yield f"# {line}"
