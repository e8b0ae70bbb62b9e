"""The commands of touchstone: their words, options and examples."""

from pathlib import Path

from touchstone.protocol.spec.calibration_rules import DEFAULT_SEGMENTS
from touchstone.protocol.spec.params import FORMAT_ALIASES, OFFERED_FORMATS
from touchstone.protocol.spec.program import CHUNK_TERMS
from touchstone.scripts.command_line.command_form import (
    HOME,
    LOGS,
    PARTY,
    PASSWORD,
    TASK,
    YES,
    Command,
    Option,
)
from touchstone.scripts.command_line.shares_command_table import SHARES_COMMANDS
from touchstone.scripts.command_line.task_command_table import DATA_COMMANDS
from touchstone.scripts.command_line.typed_input import COUNT, NUMBER, PORT, read_path, whole

CHUNKS = tuple(map(str, CHUNK_TERMS))
OPTIMIZERS = ("adamw", "sgd", "lion", "muon")
FORMATS = (*OFFERED_FORMATS, *FORMAT_ALIASES)
GROUPS = {
    "data": "pack texts for a task: touchstone data --help",
    "shares": "who owns a task's model, its revenue, and the vote to halt it: touchstone shares --help",
    "task": "write, check, post, halt and close a task: touchstone task --help",
}
"""What is said of the commands that begin with the same word."""


STAKE = Option("--stake", "whole tokens to stake; left out: what the task asks for", {"metavar": "AMOUNT"})
WEIGHTS = Option(
    "--weights", "a folder with the weights that the task begins with: none are fetched", {"type": read_path}
)
EXECUTOR = Option(
    "--executor",
    "what runs replays: process, or ray (an extra); left out: as config.toml says",
    {"choices": ("process", "ray")},
)
RPC_URL = Option("--rpc-url", "JSON-RPC endpoint of the chain", {"default": "http://127.0.0.1:8545"})
DEPLOYMENT = Option(
    "--deployment",
    "file with the contracts' addresses",
    {"type": read_path, "default": Path("deployments/31337.json")},
)
NICE = Option("--nice", "nice level, 0 to 19; left out: as config.toml says", {"type": whole(0, 19)})
WHEN_IDLE = Option(
    "--when-idle",
    "join once nobody else uses this machine, pause while somebody does, and leave where that lasts",
    {"action": "store_true"},
)
FREE_HOME = "touchstone.scripts.home.home_lock:require_free_home"
"""Called first of commands that work with a home alone."""
SEAT = (TASK, STAKE, WEIGHTS, WHEN_IDLE, NICE, YES, *LOGS, *PARTY)

COMMANDS = (
    Command(
        "devnet",
        "run a test network: Anvil, the contracts, money from a tap, a clock that skips idle time",
        "touchstone devnet --port 8545 --parties 9",
        "touchstone.scripts.network.devnet_command:run_devnet",
        (
            Option(
                "--port", "port of the JSON-RPC endpoint; 0 takes a free one", {"type": PORT, "default": 0}
            ),
            Option("--out", "deployment file to write", {"type": read_path}),
            Option(
                "--fund",
                "address to give coin and tokens (may be repeated)",
                {"action": "append", "default": []},
            ),
            Option(
                "--parties",
                "skip idle time once so many have announced themselves, the submitter among them",
                {"type": COUNT, "default": 1},
            ),
            Option("--no-skip", "two blocks a second, always", {"action": "store_true"}),
            *LOGS,
        ),
    ),
    Command(
        "init",
        "make a home: keystore, TLS certificate, configuration",
        "touchstone init --home ~/alice --deployment deployments/31337.json --devnet",
        "touchstone.scripts.home.init_command:run_init",
        (
            HOME,
            PASSWORD,
            Option(
                "--import-key",
                "file of mode 0600 with the key to use: a keystore, or 64 hexadecimal digits; else a new one",
                {"type": read_path, "metavar": "FILE"},
            ),
            RPC_URL,
            DEPLOYMENT,
            Option(
                "--listen-host",
                "address of this machine to serve blobs on; 0.0.0.0 (all of them) needs --public-url",
                {"default": "127.0.0.1"},
            ),
            Option(
                "--listen-port",
                "port to serve blobs on; 0 takes a free one at each start",
                {"type": PORT, "default": 0},
            ),
            Option(
                "--public-url",
                "https://HOST:PORT where other machines reach this node, if not where it listens",
                {"default": ""},
            ),
            Option("--threads", "threads to train with", {"type": COUNT, "default": 1}),
            Option("--device", "where to compute steps: cpu, cuda, cuda:1 ...", {"default": "cpu"}),
            Option("--memory-mb", "memory to use, 0: as it comes", {"type": NUMBER, "default": 0}),
            Option(
                "--limits",
                "preset for this chain's time of a block, by which tasks are judged; with --devnet: local",
                {"choices": ("12s", "2s", "local")},
            ),
            Option(
                "--devnet",
                "quick keystore, and coin and tokens from the test network's tap",
                {"action": "store_true"},
            ),
        ),
    ),
    Command(
        "stake",
        "add to the stake of a seat that this account has in a task",
        "touchstone stake 0x3fa9 100 --home ~/alice",
        "touchstone.scripts.money.stake_commands:run_stake",
        (TASK, Option("amount", "whole tokens, decimals allowed", {"metavar": "AMOUNT"}), YES, *PARTY),
    ),
    Command(
        "leave",
        "give up a seat; its stake becomes credit once nothing holds it",
        "touchstone leave 0x3fa9 --home ~/alice",
        "touchstone.scripts.money.stake_commands:run_leave",
        (TASK, YES, *PARTY),
    ),
    Command(
        "withdraw",
        "take out all credit (pay, stakes that were given back, bonds, escrow), paying out own seats first",
        "touchstone withdraw --wait --home ~/alice",
        "touchstone.scripts.money.withdraw_command:run_withdraw",
        (
            Option(
                "--wait",
                "wait for the stakes of seats that have left, or whose task is over",
                {"action": "store_true"},
            ),
            *PARTY,
        ),
    ),
    *DATA_COMMANDS,
    Command(
        "task create",
        "post a task with its escrow and serve its dataset until it is closed",
        "touchstone task create --config task.toml --home ~/submitter",
        "touchstone.scripts.tasks.task_creation:run_task_create",
        (
            Option(
                "--config",
                "task file (TOML): dataset, model, schedule, windows, amounts",
                {"type": read_path, "required": True},
            ),
            YES,
            *LOGS,
            *PARTY,
        ),
        FREE_HOME,
    ),
    Command(
        "task example",
        "write a task file to begin with, and a small corpus for it",
        "touchstone task example --out example",
        "touchstone.scripts.tasks.task_example:run_task_example",
        (
            Option(
                "--out",
                "folder for task.toml and corpus.bin",
                {"type": read_path, "default": Path("example")},
            ),
        ),
    ),
    Command(
        "task record",
        "record a training step of a model of Hugging Face, for a task file to name",
        "touchstone task record folder --out build/step --weights --sequences 8 --tokens 512 --format exact",
        "touchstone.scripts.tasks.recording:run_task_record",
        (
            Option("model", "folder of a model, or its config.json", {"type": read_path, "metavar": "MODEL"}),
            Option("--out", "folder to write", {"type": read_path, "required": True}),
            Option("--weights", "begin with the weights of the folder", {"action": "store_true"}),
            Option("--seed", "of fresh weights", {"type": NUMBER, "default": 0}),
            Option("--sequences", "rows of a step", {"type": COUNT, "default": 8}),
            Option("--tokens", "tokens of a row", {"type": COUNT, "default": 128}),
            Option("--format", "numeric format", {"choices": FORMATS, "default": "exact"}),
            Option("--chunk-terms", "longest sum", {"choices": CHUNKS, "default": "512"}),
            Option("--optimizer", "what moves weights", {"choices": OPTIMIZERS, "default": "adamw"}),
            Option(
                "--freeze",
                "name, or pattern of names, of parameters that stay as they are (may be repeated)",
                {"action": "append", "default": []},
            ),
            Option("--lora", "train adapters of this rank alone (LoRA)", {"type": COUNT, "metavar": "RANK"}),
            Option("--lora-alpha", "of adapters; twice the rank where it is not given", {"type": COUNT}),
            Option(
                "--lora-targets",
                "layers with adapters, as q_proj,v_proj; all linear ones but the last where none is given",
                {"default": "", "metavar": "NAMES"},
            ),
        ),
    ),
    Command(
        "task close",
        "pay out all seats of a task that is over, and close it; the rest of its escrow becomes credit",
        "touchstone task close 0x3fa9 --home ~/submitter",
        "touchstone.scripts.tasks.closing_commands:run_close",
        (TASK, *PARTY),
    ),
    Command(
        "task halt",
        "end an own task: the round that runs is finished, none follows",
        "touchstone task halt 0x3fa9 --home ~/submitter",
        "touchstone.scripts.tasks.closing_commands:run_halt",
        (TASK, YES, *PARTY),
    ),
    *SHARES_COMMANDS,
    Command(
        "calibrate",
        "measure how far this machine's kernels differ on a task, and sign the result",
        "touchstone calibrate task.toml --out profile.json --home ~/alice",
        "touchstone.scripts.calibration.calibrate_command:run_calibrate",
        (
            Option("task", "a task file (TOML), or the id of a posted task", {"metavar": "TASK"}),
            Option("--out", "profile to write", {"type": read_path, "required": True}),
            Option(
                "--segments", "start states to replay, at least", {"type": COUNT, "default": DEFAULT_SEGMENTS}
            ),
            Option("--rounds", "rounds of the task to train; 0: all", {"type": NUMBER, "default": 0}),
            *PARTY,
        ),
    ),
    Command(
        "policy",
        "merge signed profiles of several operators into the limits of a task",
        "touchstone policy alice.json bob.json carol.json",
        "touchstone.scripts.calibration.limit_policy:run_policy",
        (
            Option(
                "profiles",
                "files that `touchstone calibrate` wrote",
                {"type": read_path, "nargs": "+", "metavar": "PROFILES"},
            ),
            Option("--out", "file to write the tables to as well", {"type": read_path}),
        ),
    ),
    Command(
        "solve",
        "train in every round of a task, claim the results, answer disputes",
        "touchstone solve 0x3fa9 --home ~/alice",
        "touchstone.scripts.seats.role_commands:run_solve",
        SEAT,
        FREE_HOME,
    ),
    Command(
        "verify",
        "replay drawn segments of a task blind and vote",
        "touchstone verify 0x3fa9 --home ~/bob",
        "touchstone.scripts.seats.role_commands:run_verify",
        (*SEAT, EXECUTOR),
        FREE_HOME,
    ),
    Command(
        "watch",
        "audit a task late, check its roots, dispute what is wrong",
        "touchstone watch 0x3fa9 --home ~/carol",
        "touchstone.scripts.seats.role_commands:run_watch",
        (*SEAT, EXECUTOR),
        FREE_HOME,
    ),
    Command(
        "replay",
        "audit one segment of a claim without a seat; status 1 where its end lies beyond the limits",
        "touchstone replay 0x3fa9 3 0 2 --home ~/alice",
        "touchstone.scripts.models.replay_command:run_replay",
        (
            TASK,
            Option("round", "number of the round", {"type": NUMBER, "metavar": "ROUND"}),
            Option("solver", "slot of the claim, or its solver's account", {"metavar": "SOLVER"}),
            Option("segment", "number of the segment, from 0", {"type": NUMBER, "metavar": "SEGMENT"}),
            *PARTY,
        ),
    ),
    Command(
        "status",
        "show tasks and rounds, seats and credit, and what can be taken out when; or one task in detail",
        "touchstone status --home ~/alice",
        "touchstone.scripts.status.status_command:run_status",
        (
            Option("task", f"{TASK.help}; left out: all tasks", {"metavar": "TASK", "nargs": "?"}),
            HOME,
        ),
    ),
    Command(
        "explorer",
        "serve a web page of what the chain tells and nodes report: tasks, rounds, losses, disputes",
        "touchstone explorer --deployment deployments/31337.json --open",
        "touchstone.scripts.network.explorer_command:run_explorer",
        (
            RPC_URL,
            DEPLOYMENT,
            Option("--index", "file to keep the events in; left out: in ~/.cache", {"type": read_path}),
            Option("--host", "address of this machine to serve on", {"default": "127.0.0.1"}),
            Option("--port", "port to serve on; 0 takes a free one", {"type": PORT, "default": 8600}),
            Option("--open", "open it in the browser", {"action": "store_true"}),
            Option("--chain-only", "ask no node what it reports", {"action": "store_true"}),
            Option(
                "--private-peers",
                "ask also nodes at addresses of this machine and of private networks; on a test network they "
                "are asked anyhow",
                {"action": "store_true"},
            ),
            *LOGS,
        ),
    ),
    Command(
        "doctor",
        "look for what is wrong with a home, its machine, its chain and its seats; status 1 if anything is",
        "touchstone doctor ~/alice 0x3fa9",
        "touchstone.scripts.doctor.examination:run_doctor",
        (
            Option(
                "home",
                "folder of key, certificate, journal and blobs",
                {"type": read_path, "metavar": "HOME"},
            ),
            Option("task", f"{TASK.help}; left out: what needs no task", {"metavar": "TASK", "nargs": "?"}),
            PASSWORD,
        ),
    ),
    Command(
        "completion",
        "write a script by which bash or zsh completes commands and options",
        "touchstone completion bash",
        "touchstone.scripts.command_line.completion:run_completion",
        (Option("shell", "whose script", {"choices": ("bash", "zsh"), "metavar": "SHELL"}),),
    ),
    Command(
        "export",
        "write the trained model as a folder that transformers loads",
        "touchstone export 0x3fa9 --out build/model --home ~/alice",
        "touchstone.scripts.models.export_command:run_export",
        (
            TASK,
            Option("--out", "folder to write", {"type": read_path, "required": True}),
            Option("--tokenizer", "the task's tokenizer.json, or a folder with it", {"type": read_path}),
            *PARTY,
        ),
    ),
)
