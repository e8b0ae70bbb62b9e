"""The commands of touchstone about the shares of a task: their words, options and examples."""

from touchstone.scripts.command_line.command_form import PARTY, TASK, Command, Option

AMOUNT = Option("amount", "whole tokens", {"metavar": "AMOUNT"})
VOTES = Option("amount", "shares that vote: all, none, or a number", {"metavar": "AMOUNT"})


def _shares(verb: str, summary: str, words: str = "", *options: Option) -> Command:
    example = f"touchstone shares {verb} 0x3fa9{words} --home ~/alice"
    run = f"touchstone.scripts.money.shares_commands:run_shares_{verb}"
    return Command(f"shares {verb}", summary, example, run, (TASK, *options, *PARTY))


SHARES_COMMANDS = (
    _shares("show", "tell how many shares a task has, this account's, and how the vote to halt it stands"),
    _shares("pay", "pay revenue for all who hold shares of a task now", " 250", AMOUNT),
    _shares("claim", "turn the revenue that this account's shares have earned into credit"),
    _shares("vote", "vote for a task's halt; shares that vote cannot be transferred", " all", VOTES),
    _shares("halt", "halt a task for the majority of its shares: the round that runs is the last"),
)
