"""The documents about a home, this machine, a network, and a failed command."""

from enum import StrEnum
from typing import Literal, TypeAlias

from touchstone.scripts.documents.document_fields import Account, Count, Document


class InitDocument(Document, frozen=True):
    """A home that was made, or given money."""

    account: Account
    home: str


class KeysPasswordDocument(Document, frozen=True):
    """A keystore that has a new password."""

    account: Account
    keystore: str


class KeysExportDocument(Document, frozen=True):
    """The keystore that has the key of an account; the key itself is in no document."""

    account: Account
    keystore: str


class ErrorFacts(Document, frozen=True):
    """What went wrong, where, and what to do."""

    what: str
    where: str
    expected: str
    actual: str
    remedy: str


FailedStatus: TypeAlias = Literal[1, 2, 3, 70, 130]
"""The exit status of a command that failed (docs/commands.md)."""


class ErrorDocument(Document, frozen=True):
    """What a failed command writes."""

    error: ErrorFacts
    exit_status: FailedStatus


class CheckResult(StrEnum):
    """The result of a check."""

    OK = "ok"
    FAULT = "fault"
    NOT_TESTED = "not tested"


class CheckDocument(Document, frozen=True):
    """One check; error says what to do if the check found a fault."""

    check: str
    result: CheckResult
    said: str
    error: ErrorFacts | None


class DoctorDocument(Document, frozen=True):
    """The result of each check of a home."""

    faults: Count
    checks: list[CheckDocument]


Shell: TypeAlias = Literal["bash", "zsh", "fish"]
"""The shells that complete commands."""


class CompletionDocument(Document, frozen=True):
    """A script with which a shell completes commands."""

    shell: Shell
    script: str


class DemoDocument(Document, frozen=True):
    """Whether a demo went as it must, its report with all figures (JSON), and its page (HTML)."""

    all_holds: bool
    report: str
    page: str


class HelpDocument(Document, frozen=True):
    """The help of a command."""

    command: str
    text: str


class VersionDocument(Document, frozen=True):
    """The installed version of Touchstone, and of the protocol that the version speaks."""

    version: str
    protocol: Count


class DevnetDocument(Document, frozen=True):
    """A test network, written once it is up."""

    chain_id: Count
    rpc_url: str
    deployment: str


class ExplorerDocument(Document, frozen=True):
    """The explorer's address, written once it is up."""

    url: str
    index: str
    chain_id: Count
