"""A false step is found, whatever it is, with little fetched, on equal kernels and on others."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace

import pytest
import torch
from torch import Tensor

from tests.protocol.compute.bounds.claimed_step import (
    Change,
    Claimant,
    add_noise,
    find,
    is_convicted,
    list_node_of_each_kind,
    make_claimant,
    scale,
    spoil,
)
from touchstone.protocol.compute.batches import Corpus
from touchstone.protocol.compute.bounds import fault_finder
from touchstone.protocol.compute.bounds.fault_proof import (
    ClaimedLeaf,
    ClaimedTrace,
    InputFault,
    OperationFault,
)
from touchstone.protocol.compute.bounds.trace_layers import ROUNDED_FREELY
from touchstone.protocol.compute.bounds.trace_tree import TraceTree, build_buffer_tree
from touchstone.protocol.compute.digest import ByteTree
from touchstone.protocol.compute.program.built_program import BuiltProgram
from touchstone.protocol.compute.program.interpreter import Interpreter
from touchstone.protocol.compute.program.training_state import Batch, TrainingState
from touchstone.protocol.spec.errors import EnvironmentFault, InvalidInput
from touchstone.protocol.spec.merkle import compute_levels, hash_leaf, verify_path
from touchstone.protocol.spec.program import Node, Program, leaf_bytes
from touchstone.protocol.spec.program_operations import Operation
from touchstone.protocol.spec.task_spec import TrainingSpec


@pytest.fixture
def claimant(state: TrainingState, corpus: Corpus, spec: TrainingSpec) -> Claimant:
    return make_claimant(state, corpus, spec)


def test_find_of_an_honest_step_finds_nothing_and_fetches_nothing(claimant: Claimant) -> None:
    claimed, _ = claimant.claim()
    assert find(claimant, claimed) is None
    assert not claimant.fetched


def test_find_names_the_element_of_any_kind_and_fetches_little(claimant: Claimant) -> None:
    program = claimant.built.program
    for number in list_node_of_each_kind(claimant.built):
        claimant.fetched.clear()
        claimed, tree = claimant.claim(spoil(claimant.built, number))
        fault, node = find(claimant, claimed), program.nodes[number]
        assert isinstance(fault, OperationFault), node.operation
        assert (fault.node.number, fault.element) == (number, node.elements - 1), node.operation
        # A tensor that later nodes go on writing may be another already.
        assert claimant.fetched[-1] == node.output.buffer and len(claimant.fetched) <= 3, node.operation
        assert is_convicted(claimant.built, tree, fault), node.operation


def test_find_names_the_first_of_two_faults(claimant: Claimant) -> None:
    first, second = sorted(list_node_of_each_kind(claimant.built))[:2]
    changes = [spoil(claimant.built, number) for number in (first, second)]

    def change(number: int, tensors: dict[int, Tensor]) -> None:
        for one in changes:
            one(number, tensors)

    claimed, _ = claimant.claim(change)
    fault = find(claimant, claimed)
    assert isinstance(fault, OperationFault) and fault.node.number == first


def test_find_of_other_kernels_judges_and_acquits(claimant: Claimant) -> None:
    # A noise that honest machines have: nothing of it is a fault, and all that differs is looked at.
    program = claimant.built.program
    number = next(n for n, node in enumerate(program.nodes) if node.operation is Operation.PRODUCT_SUM)
    node = program.nodes[number]

    def change(done: int, tensors: dict[int, Tensor]) -> None:
        if done == number:
            output = tensors[node.output.buffer]
            output.copy_(torch.nextafter(output, torch.full_like(output, torch.inf)))

    claimed, _ = claimant.claim(change)
    assert find(claimant, claimed) is None
    assert node.output.buffer in claimant.fetched


@pytest.mark.parametrize(("buffer", "element"), [(3, 5), (4, 0), (5, 2)])
def test_find_names_an_input_that_the_task_does_not_give(
    claimant: Claimant, buffer: int, element: int
) -> None:
    tokens, labels, scalars = (values.clone() for values in (*claimant.batch, claimant.scalars))
    values = (tokens, labels, scalars)[buffer - 3].view(-1)
    values[element] = (values[element] + 1) % 5 if buffer < 5 else values[element] * 2
    cheat = Claimant(claimant.built, claimant.vectors, Batch(tokens, labels), scalars)
    claimed, tree = cheat.claim()
    fault = find(claimant, claimed)
    assert isinstance(fault, InputFault)
    assert (fault.buffer, fault.element) == (buffer, element)
    opening, size = fault.opening, leaf_bytes(tree.program, buffer)
    leaves = -(-4 * tree.program.buffers[buffer].size // size)
    verify_path(opening.root, hash_leaf(opening.leaves), 4 * element // size, leaves, opening.path)
    assert opening.root == tree.roots[buffer]
    verify_path(tree.root, opening.root, buffer, len(tree.roots), opening.root_path)
    assert cheat.fetched == [buffer]


def test_find_of_another_state_raises(claimant: Claimant) -> None:
    weights, first, second = claimant.vectors
    other = Claimant(claimant.built, (weights + 1, first, second), claimant.batch, claimant.scalars)
    with pytest.raises(InvalidInput, match="another state"):
        find(claimant, other.claim()[0])


def test_find_of_another_program_raises(claimant: Claimant) -> None:
    claimed, _ = claimant.claim()
    with pytest.raises(InvalidInput, match="another program"):
        find(claimant, ClaimedTrace(claimed.roots[:-1], claimed.fetch))


# Other kernels


def measure_share(claimant: Claimant) -> float:
    """Of the bytes of the trace, what was fetched, every tensor counted once."""
    buffers = claimant.built.program.buffers
    return sum(buffers[number].size for number in {*claimant.fetched}) / sum(one.size for one in buffers)


def test_find_on_other_kernels_convicts_each_kind_and_fetches_little(claimant: Claimant) -> None:
    shares = {}
    for number in list_node_of_each_kind(claimant.built):
        claimant.fetched.clear()
        claimed, tree = claimant.claim(add_noise(claimant.built, scale(claimant.built, number)))
        fault, node = find(claimant, claimed), claimant.built.program.nodes[number]
        assert isinstance(fault, OperationFault), node.operation
        assert fault.node.number == number and is_convicted(claimant.built, tree, fault), node.operation
        shares[node.operation] = measure_share(claimant)
    assert sum(shares.values()) / len(shares) < 0.1
    assert max(shares.values()) < 0.2


def test_find_on_other_kernels_acquits_and_fetches_what_can_differ(claimant: Claimant) -> None:
    program = claimant.built.program
    claimed, _ = claimant.claim(add_noise(claimant.built))
    assert find(claimant, claimed) is None
    free = sum(node.elements for node in program.nodes if node.operation in ROUNDED_FREELY)
    written_by_many = sum(
        program.buffers[number].size
        for number, count in Counter(node.output.buffer for node in program.nodes).items()
        if count > 1
    )
    fetched = sum(program.buffers[number].size for number in {*claimant.fetched})
    assert 0 < fetched <= free + written_by_many < sum(one.size for one in program.buffers) / 2


def test_find_needs_no_cut_that_is_withheld(claimant: Claimant) -> None:
    number = list(list_node_of_each_kind(claimant.built))[-1]
    claimed, tree = claimant.claim(add_noise(claimant.built, scale(claimant.built, number)))
    asked = []

    def withhold(buffer: int) -> Tensor:
        asked.append(buffer)
        raise EnvironmentFault(what="withheld", expected="a tensor", actual="nothing", remedy="Ask again.")

    fault = find(claimant, replace(claimed, fetch_cut=withhold))
    assert isinstance(fault, OperationFault) and is_convicted(claimant.built, tree, fault)
    assert len(asked) == 1, "who withholds one cut is not asked for others"
    with pytest.raises(EnvironmentFault, match="withheld"):
        find(claimant, ClaimedTrace(claimed.roots, withhold))


def test_find_sees_a_fault_that_the_next_node_takes_back(claimant: Claimant) -> None:
    """No cut shows it: behind the readers of the false tensor all is as it should be."""
    program, honest = claimant.built.program, dict[int, Tensor]()
    number = _find_single_chain(program)
    readers = [n for n, node in enumerate(program.nodes) if _reads(node, program.nodes[number].output.buffer)]

    def keep(done: int, tensors: dict[int, Tensor]) -> None:
        honest.update({n: tensors[program.nodes[n].output.buffer].clone() for n in readers if n == done})

    claimant.claim(add_noise(claimant.built, keep))
    lie = scale(claimant.built, number)

    def change(done: int, tensors: dict[int, Tensor]) -> None:
        lie(done, tensors)
        if done in honest:
            tensors[program.nodes[done].output.buffer].copy_(honest[done])

    claimed, tree = claimant.claim(add_noise(claimant.built, change))
    fault = find(claimant, claimed)
    assert isinstance(fault, OperationFault) and fault.node.number in (number, *readers)
    assert is_convicted(claimant.built, tree, fault)


def _reads(node: Node, buffer: int) -> bool:
    return any(one.buffer == buffer for one in node.operands)


def _find_single_chain(program: Program) -> int:
    """A multiplication in the middle whose tensor, and whose readers' tensors, one node each writes."""
    writers = Counter(node.output.buffer for node in program.nodes)
    for number, node in enumerate(program.nodes[len(program.nodes) // 3 :], len(program.nodes) // 3):
        readers = [one for one in program.nodes if _reads(one, node.output.buffer)]
        is_alone = all(writers[one.output.buffer] == 1 for one in (node, *readers))
        if node.operation is Operation.MULTIPLY and is_alone and len(readers) == 1:
            return number
    raise AssertionError("no such node")


@pytest.mark.parametrize("garbage", [float("nan"), float("inf"), 3e38])
def test_find_on_other_kernels_convicts_what_is_no_number(claimant: Claimant, garbage: float) -> None:
    number = next(reversed([*list_node_of_each_kind(claimant.built)][:8]))

    def change(done: int, tensors: dict[int, Tensor]) -> None:
        if done == number:
            tensors[claimant.built.program.nodes[number].output.buffer].fill_(garbage)

    claimed, tree = claimant.claim(add_noise(claimant.built, change))
    fault = find(claimant, claimed)
    assert isinstance(fault, OperationFault) and is_convicted(claimant.built, tree, fault)


def test_find_on_other_kernels_sees_one_bit_in_one_element(claimant: Claimant) -> None:
    """Far below what any cut shows."""
    program = claimant.built.program
    number = max(n for n, node in enumerate(program.nodes) if node.operation is Operation.SUBTRACT)

    def change(done: int, tensors: dict[int, Tensor]) -> None:
        if done == number:
            values = tensors[program.nodes[number].output.buffer]
            values[3] = torch.nextafter(values[3], torch.tensor(torch.inf))

    claimed, tree = claimant.claim(add_noise(claimant.built, change))
    fault = find(claimant, claimed)
    assert isinstance(fault, OperationFault) and (fault.node.number, fault.element) == (number, 3)
    assert is_convicted(claimant.built, tree, fault)


# One leaf instead of a tensor
def find_last_subtraction(program: Program) -> int:
    """It writes new weights."""
    return max(n for n, node in enumerate(program.nodes) if node.operation is Operation.SUBTRACT)


def test_find_proves_what_follows_bit_by_bit_from_one_leaf(claimant: Claimant) -> None:
    claimant.shows_leaves = True
    nodes = claimant.built.program.nodes
    writers, told = Counter(node.output.buffer for node in nodes), 0
    for number in list_node_of_each_kind(claimant.built):
        claimant.fetched.clear()
        claimant.shown.clear()
        claimed, tree = claimant.claim(add_noise(claimant.built, scale(claimant.built, number)))
        fault, node = find(claimant, claimed), nodes[number]
        assert isinstance(fault, OperationFault) and fault.node.number == number, node.operation
        assert is_convicted(claimant.built, tree, fault), node.operation
        if writers[node.output.buffer] == 1 and node.operation not in ROUNDED_FREELY:
            told += 1
            assert claimant.shown == [node.output.buffer], node.operation
            assert node.output.buffer not in claimant.fetched, node.operation
    assert told > 5


def test_find_fetches_the_tensor_where_the_shown_leaf_proves_nothing(claimant: Claimant) -> None:
    """A leaf may differ by what a bound allows, as 0 for a subnormal number, and a later one be false."""
    number = find_last_subtraction(claimant.built.program)
    claimed, tree = claimant.claim(spoil(claimant.built, number))

    def show_first(buffer: int, own: ByteTree) -> ClaimedLeaf:
        return ClaimedLeaf(0, *own.open_leaf(0))

    fault, node = find(claimant, replace(claimed, try_leaf=show_first)), claimant.built.program.nodes[number]
    assert isinstance(fault, OperationFault) and fault.element == node.elements - 1
    assert is_convicted(claimant.built, tree, fault) and node.output.buffer in claimant.fetched


def test_find_fetches_the_tensor_of_which_no_leaf_is_shown(claimant: Claimant) -> None:
    number = find_last_subtraction(claimant.built.program)
    claimed, tree = claimant.claim(spoil(claimant.built, number))

    def withhold(buffer: int, own: ByteTree) -> ClaimedLeaf:
        raise EnvironmentFault(what="withheld", expected="a leaf", actual="nothing", remedy="Ask again.")

    fault = find(claimant, replace(claimed, try_leaf=withhold))
    assert isinstance(fault, OperationFault) and is_convicted(claimant.built, tree, fault)


def deny_zeros(built: BuiltProgram) -> Change:
    """-0 stands for each 0 in all tensors of which honest machines have the same bits: those differ, and none
    of them is false."""
    writers = Counter(node.output.buffer for node in built.program.nodes)

    def change(done: int, tensors: dict[int, Tensor]) -> None:
        node = built.program.nodes[done]
        if node.operation not in ROUNDED_FREELY and writers[node.output.buffer] == 1:
            values = tensors[node.output.buffer]
            values[values == 0] = -0.0

    return change


def test_find_asks_for_no_leaf_twice(claimant: Claimant) -> None:
    """Leaves that differ and prove nothing cost one leaf a tensor, however often it is looked through."""
    claimant.shows_leaves = True
    claimed, _ = claimant.claim(add_noise(claimant.built, deny_zeros(claimant.built)))
    assert find(claimant, claimed) is None
    assert len(claimant.shown) > 5 and max(Counter(claimant.shown).values()) == 1


def test_find_asks_who_withholds_one_leaf_for_no_other(claimant: Claimant) -> None:
    claimed, _ = claimant.claim(add_noise(claimant.built, deny_zeros(claimant.built)))
    asked = []

    def withhold(buffer: int, own: ByteTree) -> ClaimedLeaf:
        asked.append(buffer)
        raise EnvironmentFault(what="withheld", expected="a leaf", actual="nothing", remedy="Ask again.")

    assert find(claimant, replace(claimed, try_leaf=withhold)) is None
    assert len(asked) == 1


class FromDevice(Interpreter):
    """One whose tensors are copies, as those of a card are: what is written to them no later node reads."""

    @property
    def tensors(self) -> Mapping[int, Tensor]:
        return {number: values.clone() for number, values in self.memory.items()}


@pytest.mark.parametrize("shows_leaves", [False, True])
def test_find_on_a_card_goes_on_from_the_claimants_values(
    claimant: Claimant, monkeypatch: pytest.MonkeyPatch, shows_leaves: bool
) -> None:
    claimant.shows_leaves = shows_leaves
    monkeypatch.setattr(fault_finder, "Interpreter", FromDevice)
    claimed, _ = claimant.claim(add_noise(claimant.built))
    assert find(claimant, claimed) is None
    number = list(list_node_of_each_kind(claimant.built))[-1]
    claimed, tree = claimant.claim(add_noise(claimant.built, scale(claimant.built, number)))
    fault = find(claimant, claimed)
    assert isinstance(fault, OperationFault) and fault.node.number == number
    assert is_convicted(claimant.built, tree, fault)


def _hash_as_shown(program: Program, claimed: ClaimedTrace) -> tuple[ClaimedTrace, TraceTree]:
    """A trace whose claimant has hashed each NaN with the bits that it has."""
    numbers = range(len(program.buffers))
    roots = [build_buffer_tree(program, claimed.fetch, one, is_shown=True).root for one in numbers]
    return ClaimedTrace(roots, claimed.fetch), TraceTree(program, compute_levels(roots), claimed.fetch)


@pytest.mark.parametrize("bits", [0x7FC12345, -0x3FFFFF, 0x7F800001])
def test_find_convicts_a_nan_of_any_bits(claimant: Claimant, bits: int) -> None:
    """Own trees have one NaN, those of a claimant whatever it likes. That must not keep a proof from being
    made."""
    program = claimant.built.program
    for number in [*list_node_of_each_kind(claimant.built)][::4]:

        def change(done: int, tensors: dict[int, Tensor], last: int = number) -> None:
            if done == last:
                place = program.nodes[last].output
                tensors[place.buffer].view(torch.int32)[place.offset] = bits

        for around in (change, add_noise(claimant.built, change)):
            claimed, tree = _hash_as_shown(program, claimant.claim(around)[0])
            fault = find(claimant, claimed)
            assert isinstance(fault, OperationFault) and fault.node.number == number
            assert is_convicted(claimant.built, tree, fault)


def test_find_names_a_scalar_that_is_a_nan_of_any_bits(claimant: Claimant) -> None:
    scalars = claimant.scalars.clone()
    scalars.view(torch.int32)[1] = 0x7FC12345
    cheat = Claimant(claimant.built, claimant.vectors, claimant.batch, scalars)
    claimed, _ = _hash_as_shown(claimant.built.program, cheat.claim()[0])
    fault = find(claimant, claimed)
    assert isinstance(fault, InputFault) and (fault.buffer, fault.element) == (5, 1)
