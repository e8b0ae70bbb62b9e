"""The rounds of a task as a pure machine: calls make events, events make the state.

docs/decisions/0026-round-machine.md says why.

apply(state, call, sender, block) -> events    what the contract does, or a refusal by name
fold(state, event, block) -> state             what a node does with an event of the chain
list_upkeep(state, block), get_next_block      what any account may send now, and when to look again
"""
