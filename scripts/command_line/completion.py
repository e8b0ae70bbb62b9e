"""`touchstone completion`: a script by which bash or zsh completes commands, options and their choices.

It is made of the table of this version's commands; nothing runs while somebody types.
"""

import argparse
import shlex
import sys
from collections.abc import Iterator

from touchstone.scripts.command_line.command_form import Command
from touchstone.scripts.command_line.command_results import Document
from touchstone.scripts.command_line.command_table import COMMANDS

SHARED = ("--json", "--debug", "--help")
"""Options of every command."""
HEADS = {
    "bash": '# Put into ~/.bashrc: eval "$(touchstone completion bash)"\n',
    "zsh": '# Put into ~/.zshrc: eval "$(touchstone completion zsh)"\n'
    "autoload -U +X bashcompinit && bashcompinit\n",
}
BODY = """\
_touchstone() {
    local word="${COMP_WORDS[COMP_CWORD]}" before="${COMP_WORDS[COMP_CWORD-1]}" words=""
    case "${COMP_WORDS[1]} ${COMP_WORDS[2]}" in
COMMANDS
    esac
    [ "$COMP_CWORD" -gt 1 ] || words=FIRST
    case "$before" in
CHOICES
    esac
    COMPREPLY=($(compgen -W "$words" -- "$word"))
    case "${#COMPREPLY[@]}$word" in
        0-*) ;;
        0*) COMPREPLY=($(compgen -f -- "$word")) ;;
    esac
}
complete -o filenames -F _touchstone touchstone
"""


def run_completion(options: argparse.Namespace) -> Document:
    """Write the script to standard output."""
    script = render(options.shell)
    sys.stdout.write(script)
    return {"shell": options.shell, "script": script}


def render(shell: str) -> str:
    """The script for `bash` or `zsh`."""
    first = dict.fromkeys(command.words.split()[0] for command in COMMANDS)
    body = BODY.replace("COMMANDS", "\n".join(_list_cases())).replace("CHOICES", "\n".join(_list_choices()))
    return HEADS[shell] + body.replace("FIRST", shlex.quote(" ".join([*first, "--version", "--help"])))


def _list_cases() -> Iterator[str]:
    """What may follow a command: its options; after the first word of several, the second ones."""
    groups: dict[str, list[str]] = {}
    for command in COMMANDS:
        group, _, name = command.words.rpartition(" ")
        if group:
            groups.setdefault(group, []).append(name)
            yield _case(shlex.quote(command.words), _list_words(command))
    for group, names in groups.items():
        yield _case(f"{shlex.quote(group + ' ')}*", names)
    for command in COMMANDS:
        if " " not in command.words:
            yield _case(f"{shlex.quote(command.words + ' ')}*", _list_words(command))


def _list_words(command: Command) -> list[str]:
    """Options of a command, and the choices of its first argument."""
    places = [one for one in command.options if not one.name.startswith("-")]
    named = [one.name for one in command.options if one.name.startswith("-")]
    return [*(choice for place in places for choice in place.settings.get("choices", ())), *named, *SHARED]


def _list_choices() -> Iterator[str]:
    """What may follow an option that has choices."""
    found: dict[str, dict[str, None]] = {}
    for option in (option for command in COMMANDS for option in command.options):
        if option.name.startswith("-") and "choices" in option.settings:
            found.setdefault(option.name, {}).update(dict.fromkeys(option.settings["choices"]))
    for name, choices in found.items():
        yield _case(name, list(choices))


def _case(pattern: str, words: list[str]) -> str:
    return f"        {pattern}) words={shlex.quote(' '.join(words))} ;;"
