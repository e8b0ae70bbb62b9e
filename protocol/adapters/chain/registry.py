"""Proxy of TaskRegistry: tasks, peers, enrolment, beacons. `contracts/interfaces/ITaskRegistry.sol` is the
manual."""

from typing import NamedTuple

from protocol.adapters.chain.proxy import Proxy, Receipt
from protocol.spec.containers import TaskTerms
from protocol.spec.statuses import Role, RoundStatus


class RoundInfo(NamedTuple):
    """A round as the registry sees it; the last three are counts of enrolled accounts."""

    status: RoundStatus
    start_block: int
    beacon: bytes
    solvers: int
    verifiers: int
    whistleblowers: int


class Peer(NamedTuple):
    """Where an account serves blobs; the hash is of its TLS certificate (DER)."""

    url: str
    certificate_sha256: bytes


class TaskRegistry(Proxy):
    """Tasks, peers, enrolment and the beacon of each round."""

    contract = "TaskRegistry"

    async def announce(self, url: str, certificate_sha256: bytes) -> Receipt:
        """Publish where one serves blobs and the SHA-256 of one's TLS certificate (DER)."""
        return await self._send("announce", url, certificate_sha256)

    async def create_task(self, terms: TaskTerms, training: bytes) -> Receipt:
        """Post a task and start its round 0; the vault must be approved for `escrow_for(terms)`. The task's
        id is in the event `TaskCreated` of the receipt."""
        return await self._send("createTask", terms, training)

    async def enrol(self, task: bytes, round: int, role: Role) -> Receipt:
        """Enrol in the current round; exposes the role's stake."""
        return await self._send("enrol", task, round, role)

    async def seal_beacon(self, task: bytes, round: int, proof: bytes) -> Receipt:
        """Fix the beacon; `proof` is `Randomness.prove` of its block. Anybody may."""
        return await self._send("sealBeacon", task, round, proof)

    async def advance(self, task: bytes) -> Receipt:
        """Start the next round once the last one is merged or empty. Anybody may."""
        return await self._send("advance", task)

    async def close_task(self, task: bytes) -> Receipt:
        """Refund what is left of the escrow: at once when all is settled, an unbonding time after the last
        round when not, at expiry in any case. Anybody may."""
        return await self._send("closeTask", task)

    async def domain_of(self, task: bytes) -> bytes:
        """The task's domain (docs/spec.md, section 3)."""
        return await self._read(bytes, "domainOf", task)

    async def terms_of(self, task: bytes) -> TaskTerms:
        """The terms that the task was created with."""
        return await self._read(TaskTerms, "termsOf", task)

    async def expiry_block(self, task: bytes) -> int:
        """Block after which the task can be closed whatever happened."""
        return await self._read(int, "expiryBlock", task)

    async def escrow_for(self, terms: TaskTerms) -> int:
        """What a task of these terms costs its submitter at most, in wei."""
        return await self._read(int, "escrowFor", terms)

    async def current_round(self, task: bytes) -> int:
        """Number of the round that runs, from 0."""
        return await self._read(int, "currentRound", task)

    async def round_of(self, task: bytes, round: int) -> RoundInfo:
        """Status, start block, beacon and counts of one round."""
        return await self._read(RoundInfo, "roundOf", task, round)

    async def enrolled_at(self, task: bytes, round: int, role: Role, index: int) -> str:
        """The account at a place (a solver's slot) of a role."""
        return await self._read(str, "enrolledAt", task, round, role, index)

    async def index_of(self, task: bytes, round: int, role: Role, account: str) -> int:
        """Place of an account in a role plus 1, or 0 where it is not enrolled."""
        return await self._read(int, "indexOf", task, round, role, account)

    async def shard_of(self, task: bytes, round: int, slot: int) -> int:
        """The shard that the beacon dealt to a solver."""
        return await self._read(int, "shardOf", task, round, slot)

    async def peer_of(self, account: str) -> Peer:
        """Where an account serves; the url is empty where it never announced."""
        return await self._read(Peer, "peerOf", account)
