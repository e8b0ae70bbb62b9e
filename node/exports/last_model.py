"""Keeps a task's last model in a submitter's home."""

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass

from touchstone.node.exports.model_choice import Choice, choose_newest
from touchstone.node.kit.party import Party
from touchstone.node.kit.peers import list_peers
from touchstone.node.kit.view import View
from touchstone.node.models.global_model import load_outer
from touchstone.node.records.claim_records import OuterShown
from touchstone.protocol.adapters.store.blobs import BlobRef, refer_tensor
from touchstone.protocol.spec.game.timing import get_live_round, is_start_alive
from touchstone.protocol.spec.state_headers import OuterHeader


@dataclass(frozen=True)
class KeepModel:
    """Fetch a model, and once its bytes survive a power cut write down what stands behind its root: the
    journal tells that it is kept."""

    choice: Choice

    async def perform(self, party: Party) -> None:
        """Raises EnvironmentFault or ProtocolFault where no peer serves the model now, or the disk does not
        take it."""
        claims, task = party.task.claims, party.task.task
        header = await load_outer(party, self.choice.root)
        ref = _refer(party.view, header)
        await party.client.fetch_from_any(list_peers(party, task), ref)
        await asyncio.to_thread(party.store.flush, ref.key)
        if self.choice.root not in claims.kept:
            claims.write(OuterShown(task, header.weights_root, header.momentum_root))
        party.say(f"kept {self.choice} in this home: touchstone export 0x{task.hex()}")


def list_duties(party: Party, block: int) -> Iterator[KeepModel]:
    """The newest model, while no round runs and no start is asked for, as long as this home lacks it."""
    game, choice = party.game, choose_newest(party.game)
    is_standing = get_live_round(game) is None and not is_start_alive(game, block)
    if is_standing and choice.after >= 0 and not _is_kept(party, choice):
        yield KeepModel(choice)


def _is_kept(party: Party, choice: Choice) -> bool:
    claims = party.task.claims
    return choice.root in claims.kept and party.store.has(_refer(party.view, claims.outer[choice.root]))


def _refer(view: View, header: OuterHeader) -> BlobRef:
    return refer_tensor(header.weights_root, view.spec.terms.parameter_count)
