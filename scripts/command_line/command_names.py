"""What people type who do not know the commands yet, as data: headings of the help, aliases, meanings."""

from collections.abc import Mapping

SECTIONS: Mapping[str, tuple[str, ...]] = {
    "Start": ("demo", "devnet", "init", "doctor"),
    "Work": ("tasks", "solve", "verify", "watch", "leave"),
    "Money": ("stake", "withdraw", "shares"),
    "Have a model trained": ("data", "task", "export", "eval", "sample"),
    "Look": ("status", "top", "explorer"),
    "Expert": ("keys", "replay", "calibrate", "policy", "completion", "help", "version"),
}
"""The commands by heading, in the order of the help."""
ALIASES: Mapping[str, tuple[str, str]] = {
    "balance": ("status", ""),
    "run": ("solve", "Other roles: touchstone verify, touchstone watch"),
    "unstake": ("leave", "Afterwards: touchstone withdraw"),
    "challenge": ("watch", "One segment, without a seat: touchstone replay"),
    "download": ("export", ""),
}
"""Another name of a command -> the command, and what else could be meant."""
ANSWERS: Mapping[str, tuple[str, ...]] = {
    "Money of an account: touchstone status": (
        "wallet", "account", "accounts", "earnings", "rewards", "funds", "money", "credit", "income",
        "account balance", "wallet balance",
    ),
    "A new password, or the key for another program: touchstone keys password, touchstone keys export": (
        "key", "password", "passwd", "keystore", "private-key", "keys list", "keys show", "keys change",
        "wallet export", "account export",
    ),
    "A home makes its key, or takes one with --import-key: touchstone init": (
        "import", "keys new", "keys create", "keys import", "keys generate",
    ),
    "Address of an account: touchstone status": ("address", "whoami", "account address", "wallet address"),
    "Coin and tokens of a test network: touchstone init --devnet": ("faucet", "fund", "mint"),
    "Pay becomes credit by itself. Take it out: touchstone withdraw": (
        "claim", "payout", "cashout", "redeem", "collect",
    ),
    "Tokens go to the account by a plain transfer. A larger stake of a seat: touchstone stake": (
        "deposit", "bond", "lock",
    ),
    "A plain transfer by any wallet sends tokens on. Take out credit: touchstone withdraw": (
        "transfer", "send",
    ),
    "A larger stake of a seat, or none any more: touchstone stake, touchstone leave": (
        "seat", "seats", "staking",
    ),
    "Shares of this account: touchstone shares show": (
        "shares balance", "shares list", "shares status", "shares info",
    ),
    "Take a seat in a task, by role: touchstone solve, touchstone verify, touchstone watch": (
        "join", "start", "work", "node", "train", "mine", "register", "up", "serve", "node start",
        "node run", "task join", "task run", "task start", "task solve",
    ),
    "Ctrl-C stops a node. Give up its seat: touchstone leave": (
        "stop", "down", "exit", "quit", "node stop", "task leave",
    ),
    "A node disputes by itself what is wrong: touchstone watch": ("dispute", "contest", "query", "report"),
    "Audit with a seat, or one segment without: touchstone verify, touchstone replay": (
        "audit", "check", "vote", "validate", "prove",
    ),
    "Settings stand in config.toml of the home. Look for faults in it: touchstone doctor": (
        "config", "settings", "set", "configure", "config show", "config set",
    ),
    "A command with --log-file FILE keeps what it says. What a node says of itself: touchstone status": (
        "logs", "log", "node logs",
    ),
    "There is no login: the key in a home signs. Make a home: touchstone init": (
        "login", "logout", "setup", "signup", "auth", "new", "connect", "wallet create", "account create",
    ),
    "Whether peers reach this node: touchstone doctor": ("peers", "ping", "net", "network", "test"),
    "What a node says of itself, and all tasks: touchstone status": (
        "ps", "info", "show", "monitor", "health", "metrics", "node status",
    ),
    "Rounds of a task, and what each gave and took: touchstone status TASK": (
        "history", "rounds", "round", "task status", "task show", "task info", "task rounds", "task get",
    ),
    "A web page of tasks, rounds and disputes: touchstone explorer": ("web", "ui", "dashboard", "browse"),
    "git pull and ./dev setup install an update. The version that is installed: touchstone version": (
        "update", "upgrade", "install",
    ),
    "All tasks of the deployment: touchstone tasks": (
        "jobs", "list", "ls", "offers", "market", "task list", "task ls", "task search", "task find",
    ),
    "Post a task: touchstone task create": (
        "post", "submit", "create", "upload", "task post", "task submit", "task new", "task publish",
        "task deploy",
    ),
    "End an own task: touchstone task halt": (
        "halt", "cancel", "task cancel", "task stop", "task delete", "task remove", "task rm", "task end",
    ),
    "Turn texts into tokens of a task: touchstone data pack": (
        "pack", "tokenize", "dataset", "datasets", "prepare", "data tokenize", "data prepare",
        "data create", "data add", "data upload", "data import",
    ),
    "A packed dataset is a folder of yours. Make one: touchstone data pack": ("data list", "data show"),
    "Let a model go on with a text: touchstone sample": (
        "generate", "chat", "infer", "inference", "predict", "complete", "prompt", "model run",
        "model generate", "model chat",
    ),
    "Write the trained model into a folder: touchstone export": (
        "model", "models", "weights", "fetch", "pull", "save", "model download", "model export", "model get",
        "task download", "task export",
    ),
    "Loss of a model: touchstone eval": ("evaluate", "loss", "score", "benchmark", "model eval"),
}  # fmt: skip
"""What is meant by names that no command has. Each answer ends with its commands."""
MEANINGS: Mapping[str, str] = {name: answer for answer, names in ANSWERS.items() for name in names}
