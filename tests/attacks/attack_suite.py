"""All attacks of a solver that are played one segment at a time."""

from tests.attacks import copies, data, hyperparameters, layers, precision, state, steps
from tests.attacks.frame import Attack

FAMILIES = {
    "steps": steps.ATTACKS,
    "data": data.ATTACKS,
    "precision": precision.ATTACKS,
    "layers": layers.ATTACKS,
    "hyperparameters": hyperparameters.ATTACKS,
    "state": state.ATTACKS,
    "copies": copies.ATTACKS,
}
ATTACKS: tuple[Attack, ...] = tuple(attack for family in FAMILIES.values() for attack in family)
