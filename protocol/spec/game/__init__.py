"""The rounds of a task as a pure machine: calls make events, events make the state.

docs/decisions/0026-round-machine.md says why.

apply(state, call, sender, block) -> events    acts as the contract: events, or a refusal by name
fold(state, event, block) -> state             acts as a node that reads an event of the chain
list_upkeep(state, block), get_next_block      calls that any account may send now, and when to look again
"""
