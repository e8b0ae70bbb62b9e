"""Runs a program: plans memory once, prepares a kernel for each node, then runs the nodes in order.

There are two ways to run. For training, a tensor's memory is reused as soon as no later node reads it. On a
CPU, runs of elementwise nodes are computed tile by tile, so that intermediate values stay in its cache, and
the optimizer's update runs as compiled loops (`fused_update.py`). For a trace, every tensor is kept until its
last reader is done, and is shown to the caller. Both ways give the same bits: copies that only make a sum's
terms contiguous are made for traces alone, and no kernel reads them (`fold`).
"""

from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import torch
from torch import Tensor

from touchstone.protocol.compute.determinism import get_device
from touchstone.protocol.compute.program.card_choice import choose_kernels
from touchstone.protocol.compute.program.exact.device_kernels import DeviceKernels
from touchstone.protocol.compute.program.exact.exact_kernels import ExactKernels
from touchstone.protocol.compute.program.kernels.fused_update import (
    find_successors,
    make_update,
    match_update,
)
from touchstone.protocol.compute.program.kernels.kernel import Kernel
from touchstone.protocol.compute.program.kernels.plain_kernels import make_kernel
from touchstone.protocol.compute.program.planning.arena import (
    EXTERNAL,
    OWN_INPUTS,
    cut_arena,
    lay_out_apart,
    list_external,
    list_internal,
    plan_memory,
)
from touchstone.protocol.compute.program.planning.copy_folding import fold
from touchstone.protocol.compute.program.planning.flat_runs import TILE_ELEMENTS, FlatRun, find_flat_runs
from touchstone.protocol.compute.program.planning.lifetimes import (
    Lifetime,
    compute_lifetimes,
    join_lifetimes,
    list_written,
)
from touchstone.protocol.compute.program.planning.node_parts import cut_long, cut_node
from touchstone.protocol.compute.program.planning.node_views import MakeView, look
from touchstone.protocol.compute.program.tensor_allocator import allocate, allocate_vector, relax
from touchstone.protocol.spec.errors import InvalidInput
from touchstone.protocol.spec.params import PRODUCT_BITS
from touchstone.protocol.spec.program import INDEX_ROLES, INTEGER_ROLES, Access, Buffer, Node, Program, Role
from touchstone.protocol.spec.program_operations import Operation

_WHOLE = frozenset({Operation.SCALE_OF, Operation.QUANTIZE, Operation.QUANTIZED_PRODUCT_SUM})
"""Operations whose kernels work row by row, and need no extra memory."""
Keep = Callable[[int, Tensor], None]
"""Called with (buffer, its flat values) when the whole buffer is computed. The memory is reused, so copy what
you keep."""
Vectors = tuple[Tensor, Tensor, Tensor]
"""W, m and v, flat float32."""


@dataclass(frozen=True)
class _Shown(Mapping[int, Tensor]):
    """Buffers in the form of trees. Each is converted when it is asked for, because all buffers of a step
    would not fit into memory."""

    storages: Mapping[int, Tensor]
    show: Callable[[int], Tensor]

    def __getitem__(self, number: int) -> Tensor:
        return self.show(number)

    def __iter__(self) -> Iterator[int]:
        return iter(self.storages)

    def __len__(self) -> int:
        return len(self.storages)


class StepResult(NamedTuple):
    """The result of a step: new W, m, v (flat float32) and the loss before the step (float32 scalar)."""

    weights: Tensor
    first_moment: Tensor
    second_moment: Tensor
    loss: Tensor


class Interpreter:
    """Runs one program many times. Runs share memory, so do not use it in several threads at once."""

    def __init__(
        self,
        program: Program,
        constants: Mapping[int, Tensor],
        is_traced: bool = False,
        keeps_all: bool = False,
        numeric_format: str = "float32",
        device: str | None = None,
        by_tensors: bool = False,
        after: Mapping[int, Callable[[Tensor], None]] | None = None,
    ) -> None:
        """Prepares a program. `constants` are flat float32 by buffer. `is_traced` computes whole tensors, so
        that `run` can show them. `keeps_all` gives each its own memory, so that `tensors` is the whole trace
        until the next run. `numeric_format` is one of `kernels.ROUNDINGS`, or an exact one. `device` is
        PyTorch's name, by default this process's device. `by_tensors` uses `device_kernels.py` on the CPU
        too. `after` maps a buffer to a function that is called with its flat values once its only node has
        written them, and may change them; it is not for traces."""
        self.program = program
        self.is_traced = is_traced or keeps_all
        self._keeps_all = keeps_all
        self._format = numeric_format
        self._device, self._by_tensors = torch.device(device or get_device()), by_tensors
        self._folded = fold(program, keeps_copies=self.is_traced)
        """The program that is run."""
        self._external = list_external(program)
        is_whole = self.is_traced or self._device.type != "cpu"
        self._flat_runs = {} if is_whole else dict(find_flat_runs(self._folded))
        self._updates = self._find_updates()
        self._successors = {
            new: old
            for number, found in self._updates.items()
            for new, old in find_successors(self._folded, number, self._flat_runs[number], found).items()
        }
        self._storages = {number: tensor.to(self._device) for number, tensor in constants.items()}
        self._bindings: dict[int, list[tuple[Tensor, int, tuple[int, ...], tuple[int, ...]]]] = {
            buffer: [] for buffer in self._external
        }
        self._maker = self._choose_maker()
        self._index_limits = _find_index_limits(program)
        self._allocate()
        self._kernels: list[tuple[int, Kernel]] = []
        self._after = after or {}

    def _find_updates(self) -> dict[int, Mapping[str, Access]]:
        """Returns the runs of nodes that compiled loops compute, by their first node."""
        if self._device.type != "cpu" or self._by_tensors:
            return {}
        found = ((number, match_update(self._folded, run)) for number, run in self._flat_runs.items())
        return {number: update for number, update in found if update is not None}

    def _allocate(self) -> None:
        self._lifetimes = lifetimes = self._compute_lifetimes()
        for number, buffer in enumerate(self.program.buffers):
            if buffer.role in OWN_INPUTS:
                dtype = torch.int64 if buffer.role in INDEX_ROLES else torch.float32
                self._storages[number] = torch.zeros(buffer.size, dtype=dtype, device=self._device)
        if self._keeps_all:
            offsets, total = lay_out_apart(self.program, list_internal(self.program, lifetimes))
        else:
            offsets, total = _plan_arena(self._folded, self._flat_runs, lifetimes)
        arena = allocate(total, device=self._device)
        for number, offset in offsets.items():
            self._storages[number] = cut_arena(arena, offset, self.program.buffers[number])
        self.arena_bytes = 4 * total

    def _compute_lifetimes(self) -> dict[int, Lifetime]:
        """Returns the lifetimes of computed tensors. If each node is shown to a caller, all tensors that the
        node reads by the program stay, whatever its kernel reads."""
        if self.is_traced:
            return join_lifetimes(self.program, self._folded)
        return compute_lifetimes(self._folded)

    @property
    def memory(self) -> Mapping[int, Tensor]:
        """Returns values as `tensors` does, but as the device's own memory: changing it has an effect."""
        return self._storages

    @property
    def tensors(self) -> Mapping[int, Tensor]:
        """Returns flat values by buffer, inputs and constants included: the whole trace of the last run if
        `keeps_all`. Quantized values are in the form of trees; values of other devices are copied to the
        host."""
        is_shown = self.program.is_exact or self._device.type != "cpu"
        return _Shown(self._storages, self._show) if is_shown else self._storages

    def _view(self, access: Access, sizes: Sequence[int], strides: Sequence[int]) -> Tensor:
        storage = self._storages[access.buffer]
        view = look(storage, access.offset, sizes, strides)
        if access.buffer in self._external:
            # A separate view, which is pointed at the tensors of each run.
            view = torch.empty(0, device=self._device).set_(
                storage.untyped_storage(), view.storage_offset(), view.shape, view.stride()
            )
            self._bindings[access.buffer].append((view, access.offset, tuple(view.shape), view.stride()))
        return view

    def _bind(self, tensors: Mapping[int, Tensor]) -> None:
        for buffer, tensor in tensors.items():
            self._storages[buffer] = tensor
            storage, start = tensor.untyped_storage(), tensor.storage_offset()
            for view, offset, shape, stride in self._bindings[buffer]:
                view.set_(storage, start + offset, shape, stride)

    def _prepare(self) -> None:
        """Makes all kernels, after external tensors are bound."""
        number = 0
        nodes = self._folded.nodes
        while number < len(nodes):
            run = self._flat_runs.get(number)
            if run is None:
                self._kernels += [(number, kernel) for kernel in self._make_kernels(nodes[number])]
                number += 1
            else:
                update = self._updates.get(number)
                pieces = (make_update(run, update, self._view),) if update else self._make_tiles(run)
                self._kernels += [(number, kernel) for kernel in pieces]
                number += len(run.nodes)

    def _make_kernels(self, node: Node) -> Iterator[Kernel]:
        """Makes the kernels of one node, and the calls that follow the node."""
        yield from (self._maker(part, self._view) for part in self._cut(node))
        buffer = node.output.buffer
        if buffer in self._after:
            yield partial(self._after[buffer], self._storages[buffer])

    def _show(self, buffer: int) -> Tensor:
        """Returns the values of a buffer, flat, in the form of trees, on the host."""
        is_quantized, memory = self.program.buffers[buffer].role in INTEGER_ROLES, self._storages[buffer]
        return (self._exact.show(buffer, memory) if is_quantized else memory).cpu()

    def _choose_maker(self) -> Callable[[Node, MakeView], Kernel]:
        if self._format not in PRODUCT_BITS:
            return partial(make_kernel, numeric_format=self._format)
        is_compiled = self._device.type == "cpu" and not self._by_tensors
        kinds = ExactKernels if is_compiled else choose_kernels(self._device)
        self._exact: ExactKernels | DeviceKernels = kinds(self._folded)
        return self._exact.make

    def _cut(self, node: Node) -> Iterator[Node]:
        if self._format in PRODUCT_BITS and node.operation in _WHOLE:
            return iter((node,))
        return cut_long(node)

    def _make_tiles(self, run: FlatRun) -> Iterator[Kernel]:
        offsets, total = plan_memory(
            self._folded, sorted(run.hidden), TILE_ELEMENTS, lifetimes=self._lifetimes
        )
        scratch = torch.empty(total, device=self._device)

        def view(access: Access, sizes: Sequence[int], strides: Sequence[int]) -> Tensor:
            """Returns the tensor of an access; hidden buffers are in the scratch memory."""
            if access.buffer in offsets:
                return scratch[offsets[access.buffer] :][: sizes[0]]
            return self._view(access, sizes, strides)

        for start in range(0, run.size, TILE_ELEMENTS):
            length = min(TILE_ELEMENTS, run.size - start)
            for node in run.nodes:
                yield self._maker(cut_node(node, start, length), view)

    def run(
        self,
        vectors: Vectors,
        tokens_BT: Tensor,
        labels_BT: Tensor,
        scalars: Tensor,
        keep: Keep | None = None,
        overwrites: bool = False,
    ) -> StepResult:
        """Computes one step: new W, m, v and the loss. `vectors` are W, m, v, flat float32; tokens and labels
        are int64 of the program's batch; scalars are float32 [3]. `overwrites` says that nobody reads
        `vectors` any more, so the new ones may use their memory; else they get new memory. Raises
        InvalidInput if a shape or an index does not fit."""
        if keep is None:
            self._load(vectors, tokens_BT, labels_BT, scalars, overwrites)
            self.launch()
            return self._read_results()
        written = list_written(self.program)
        for number in self.iterate(vectors, tokens_BT, labels_BT, scalars):
            for buffer in written.get(number, ()):
                keep(buffer, self._show(buffer))
        return self._read_results()

    def launch(self) -> None:
        """Computes all nodes on the present contents of the buffers."""
        for _, kernel in self._kernels:
            kernel()
            relax()

    def make_static(self) -> None:
        """Fixes memory: W, m, v before and after a step get memory of their own. From then on, use `put` for
        inputs, then `launch`, and read `memory`; `run` no longer works."""
        self._bind({n: allocate(self.program.buffers[n].size, device=self._device) for n in self._external})
        self._prepare()

    def put(self, number: int, tensor: Tensor, send: Callable[[Tensor, Tensor], object]) -> None:
        """Copies input `number` into its buffer by `send` (source, target). The input is as in `run`."""
        tensor = tensor.reshape(-1)
        _require_input(tensor, self.program.buffers[number], self._index_limits.get(number))
        send(tensor, self._storages[number])

    def iterate(
        self,
        vectors: Vectors,
        tokens_BT: Tensor,
        labels_BT: Tensor,
        scalars: Tensor,
        only: Container[int] | None = None,
    ) -> Iterator[int]:
        """Runs a step node by node, and yields the number of each computed node. Until the caller goes on,
        `tensors` holds what this node read and wrote; later nodes read what the caller writes to `memory`
        meanwhile. `only` are the nodes to compute; others are yielded too, with any values. Only for
        traces."""
        if not self.is_traced:
            raise InvalidInput(
                what="this interpreter reuses memory within a step",
                expected="Interpreter(..., is_traced=True)",
                actual="is_traced=False",
                remedy="Make one for traces.",
            )
        self._load(vectors, tokens_BT, labels_BT, scalars)
        for place, (number, kernel) in enumerate(self._kernels):
            if only is None or number in only:
                kernel()
                relax()
            if place + 1 == len(self._kernels) or self._kernels[place + 1][0] != number:
                yield number

    def _read_results(self) -> StepResult:
        outputs = self.program.outputs
        results = (outputs.weights, outputs.first_moment, outputs.second_moment)
        loss = self._storages[outputs.loss].clone().view(())
        weights, first, second = (self._storages[buffer] for buffer in results)
        return StepResult(weights, first, second, loss)

    def _load(
        self, vectors: Vectors, tokens: Tensor, labels: Tensor, scalars: Tensor, overwrites: bool = False
    ) -> None:
        given = {
            Role.WEIGHTS: vectors[0], Role.FIRST_MOMENT: vectors[1], Role.SECOND_MOMENT: vectors[2],
            Role.TOKENS: tokens, Role.LABELS: labels, Role.SCALARS: scalars,
        }  # fmt: skip
        bound = {}
        for number, buffer in enumerate(self.program.buffers):
            if buffer.role in given:
                tensor = given[buffer.role].reshape(-1)
                _require_input(tensor, buffer, self._index_limits.get(number))
                if buffer.role in EXTERNAL:
                    bound[number] = tensor.to(self._device).contiguous()
                else:
                    self._storages[number].copy_(tensor)
            elif number in self._external:
                old = self._successors.get(number) if overwrites else None
                bound[number] = allocate_vector(buffer.size, self._device) if old is None else bound[old]
        self._bind(bound)
        if not self._kernels:
            self._prepare()


def measure_arena_bytes(program: Program) -> int:
    """Returns the bytes of the tensors of a step on a processor, for training or tracing, whichever needs
    more. It leaves states out and computes nothing."""
    folded, traced = fold(program, keeps_copies=False), fold(program, keeps_copies=True)
    trained = _plan_arena(folded, dict(find_flat_runs(folded)), compute_lifetimes(folded))[1]
    return 4 * max(trained, _plan_arena(traced, {}, join_lifetimes(program, traced))[1])


def _plan_arena(
    program: Program, runs: Mapping[int, FlatRun], lifetimes: Mapping[int, Lifetime]
) -> tuple[dict[int, int], int]:
    """Plans memory as `plan_memory`. `program` is the program that is run."""
    hidden = {buffer for run in runs.values() for buffer in run.hidden}
    blocks = [range(start, start + len(run.nodes)) for start, run in runs.items()]
    return plan_memory(program, list_internal(program, lifetimes, hidden), blocks=blocks, lifetimes=lifetimes)


def _find_index_limits(program: Program) -> dict[int, int]:
    """Returns, for each buffer of indices, how many rows its indices choose from, if a node tells. A GATHER
    beyond the last row would read other data without an error."""
    limits: dict[int, int] = {}
    for node in program.nodes:
        if node.operation in (Operation.SELECTED_SUM, Operation.EQUAL_SELECT):
            rows, buffer = node.sizes[node.selected], node.operands[0].buffer
            limits[buffer] = min(rows, limits.get(buffer, rows))
    return limits


def _require_input(tensor: Tensor, buffer: Buffer, rows: int | None) -> None:
    dtype = torch.int64 if buffer.role in INDEX_ROLES else torch.float32
    if tensor.numel() != buffer.size or tensor.dtype != dtype:
        raise InvalidInput(
            what="an input does not fit the program",
            expected=f"{buffer.size} elements, {dtype}",
            actual=f"{tensor.numel()}, {tensor.dtype}",
            where=buffer.role.name.lower(),
            remedy="Check that state, batch and task belong together.",
        )
    if rows is not None and not 0 <= int(tensor.min()) <= int(tensor.max()) < rows:
        raise InvalidInput(
            what="an index is out of range",
            expected=f"0 to {rows - 1}",
            actual=f"{int(tensor.min())} to {int(tensor.max())}",
            where=buffer.role.name.lower(),
            remedy="Check that data and model belong together.",
        )
