"""The commands of touchstone about data, task files and models: their words, options and examples."""

from pathlib import Path

from touchstone.scripts.command_line.command_form import PARTY, Command, Option
from touchstone.scripts.command_line.typed_input import COUNT, NUMBER, decimal, read_path

DATA_COMMANDS = (
    Command(
        "data pack",
        "turn text files, JSONL or Parquet into a folder with the tokens of a task",
        "touchstone data pack texts.jsonl --tokenizer tokenizer.json --end-of-text '</s>' --out corpus",
        "touchstone.scripts.data.data_pack:run_data_pack",
        (
            Option(
                "inputs",
                "text files, *.jsonl, *.parquet, and folders of them",
                {"type": read_path, "nargs": "+", "metavar": "INPUTS"},
            ),
            Option("--out", "folder to make", {"type": read_path, "required": True}),
            Option("--field", "field of a line of JSONL that is the text", {"default": "text"}),
            Option("--column", "column of Parquet that is the text", {"default": "text"}),
            Option(
                "--tokenizer",
                "tokenizer.json of Hugging Face, or a folder with it; left out: bytes are tokens",
                {"type": read_path},
            ),
            Option(
                "--end-of-text", "token that is put behind each document; left out: none", {"default": ""}
            ),
            Option(
                "--heldout", "share of the tokens that only measure", {"type": decimal(0, 1), "default": 0.01}
            ),
        ),
    ),
    Command(
        "task init",
        "write a commented task file from a few answers; each question has an option",
        "touchstone task init --dataset corpus --size small --rounds 4 --pay 10 --preset local",
        "touchstone.scripts.tasks.task_init:run_task_init",
        (
            Option("--dataset", "folder of `touchstone data pack`, or a raw file of one byte a token"),
            Option("--size", "tiny, small, medium or large; small if not said"),
            Option(
                "--step",
                "folder of a recorded step, in the place of --size: touchstone task record",
                {"type": read_path, "metavar": "FOLDER"},
            ),
            Option("--rounds", "how many; 4 if not said"),
            Option("--pay", "of a solver's round, in whole tokens; 10 if not said"),
            Option("--preset", "time of a block of the chain: 12s, 2s or local; local if not said"),
            Option("--out", "file to write", {"type": read_path, "default": Path("task.toml")}),
        ),
    ),
    Command(
        "task check",
        "say whether a task file can be posted, and why its amounts are what they are",
        "touchstone task check --config task.toml",
        "touchstone.scripts.tasks.task_check:run_task_check",
        (
            Option("--config", "task file (TOML)", {"type": read_path, "required": True}),
            Option(
                "--limits",
                "preset of the chain that it is for; left out: the one that the file names",
                {"choices": ("12s", "2s", "local")},
            ),
        ),
    ),
    Command(
        "eval",
        "measure a model: loss and perplexity on held-out tokens or on a text",
        "touchstone eval build/model --dataset corpus",
        "touchstone.scripts.models.eval_command:run_eval",
        (
            Option(
                "model",
                "folder of an exported model or of one of Hugging Face; or the id of a task, for its newest",
                {"metavar": "MODEL"},
            ),
            Option("--dataset", "packed folder whose held-out tokens measure", {"type": read_path}),
            Option("--text", "text file that measures instead", {"type": read_path}),
            Option("--tokens", "tokens to measure on, at most", {"type": COUNT, "default": 100_000}),
            Option(
                "--step",
                "folder of the recorded step, for the export of a module of one's own",
                {"type": read_path},
            ),
            *PARTY,
        ),
    ),
    Command(
        "sample",
        "let a model go on with a text",
        "touchstone sample build/model --prompt Once --tokens 100 --temperature 0.8 --top-k 40",
        "touchstone.scripts.models.sample_command:run_sample",
        (
            Option(
                "model",
                "folder of an exported model, or of one of Hugging Face",
                {"type": read_path, "metavar": "FOLDER"},
            ),
            Option("--prompt", "text to go on with", {"required": True}),
            Option("--tokens", "tokens to write", {"type": COUNT, "default": 100}),
            Option(
                "--temperature", "0 takes the likeliest token", {"type": decimal(0, 1000), "default": 1.0}
            ),
            Option("--top-k", "of so many of the likeliest; 0: of all", {"type": NUMBER, "default": 0}),
            Option("--seed", "the same one writes the same text", {"type": NUMBER, "default": 0}),
        ),
    ),
)
"""In the order of `--help`."""
