"""Opens the audit room of a party, and lets its server answer in the room's name."""

from functools import partial

from protocol.actions.audit.audits import BODY_BYTES, Audits
from protocol.actions.audit.book import AuditBook
from protocol.actions.audit.room import AuditRoom, read_audit_task
from protocol.actions.merge.bases import BaseModels
from protocol.actions.merge.opening import OwnClaims
from protocol.actions.merge.work import find_work
from protocol.actions.runtime.party import Party
from protocol.adapters.blobs import BlobKind
from protocol.adapters.messages import Message
from protocol.adapters.signing import recover_signer, sign_statement
from protocol.adapters.wire.desk import Desk
from protocol.compute.data import Corpus
from protocol.spec.containers import TaskSpec
from protocol.spec.errors import EnvironmentFault
from protocol.spec.statements import Statement


class KnownModels(BaseModels):
    """What claims have to start from, as the merge room knows it."""

    async def find_carried(self, index: int, slot: int) -> bytes:
        """The carried root in the work leaf of a merged claim, from whoever shows it."""
        game_round = self._party.game.rounds[index]
        return (await find_work(self._party, game_round, game_round.claims[slot])).carried_root


def open_audits(party: Party, task: bytes, spec: TaskSpec, corpus: Corpus) -> Audits:
    """The audits of a task that the party is about to join: what its journal has of them."""
    return Audits(
        AuditRoom(
            account=party.account,
            about=read_audit_task(task, spec, corpus),
            book=AuditBook(party.journal, task),
            store=party.store,
            client=party.client,
            claims=OwnClaims(party),
            models=KnownModels(party),
            get_game=lambda: party.game,
            get_head=lambda: party.state.head_block,
            find_peer=lambda account: party.state.network.find(account),
            wait_for_block=partial(_wait, party),
            sign=partial(_sign, party),
            recover=partial(_recover, party),
            say=party.say,
        )
    )


def make_desks(party: Party) -> dict[str, Desk]:
    """The desks of this room, by name. They answer once a task is joined."""
    return {name: Desk(most, partial(_answer, party, name)) for name, most in BODY_BYTES.items()}


def may_read(party: Party, account: str, kind: BlobKind, root: bytes) -> bool:
    """Whether a blob was shown to this account in an audit."""
    return party.joined is not None and party.task.audits.may_read(account, kind, root)


async def _answer(party: Party, desk: str, account: str, body: bytes) -> Message:
    if party.joined is None:
        raise EnvironmentFault(
            what="this node has joined no task yet",
            expected="a joined task",
            actual="none",
            remedy="Ask again.",
        )
    return await party.task.audits.answer(desk, account, body)


async def _wait(party: Party, block: int) -> int:
    return (await party.chain.wait_for_block(block)).number


def _sign(party: Party, statement: Statement) -> bytes:
    return sign_statement(party.config.key, statement, party.signing)


def _recover(party: Party, statement: Statement, signature: bytes, source: str) -> str:
    return recover_signer(statement, signature, party.signing, source)
