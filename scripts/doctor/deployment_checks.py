"""Checks what chain and deployment require of the home: bounds, and the fee."""

from touchstone.protocol.spec.errors import InvalidInput
from touchstone.protocol.spec.game.presets import BOUNDS
from touchstone.scripts.doctor.patient import Patient
from touchstone.scripts.home.home_config import GWEI
from touchstone.scripts.tasks.terms_checks import describe_other_bounds, refuse_other_bounds


async def check_limits(patient: Patient) -> str:
    """Checks that the home judges tasks by the bounds of the deployment."""
    chain, config = patient.get_chain(), patient.get_config()
    refuse_other_bounds(chain.bounds, BOUNDS[config.preset])
    if said := describe_other_bounds(chain.bounds, config.preset):
        return f"WARNING: {said}"
    return f"{config.preset}, as the deployment's"


async def check_fee(patient: Patient) -> str:
    """Checks that the home's fee limit allows the present price of gas."""
    chain, config = patient.get_chain(), patient.get_config()
    if not config.max_fee_gwei:
        return "max_fee_gwei is 0: the node pays what the chain asks for"
    base_wei = (await chain.head()).base_fee_wei
    asked = f"one gas costs {base_wei / GWEI:.3g} gwei now, max_fee_gwei allows {config.max_fee_gwei:.3g}"
    if config.max_fee_wei < base_wei:
        raise InvalidInput(
            what="one gas costs more than this home allows: nothing it sends is mined",
            expected=f"max_fee_gwei = {2 * base_wei / GWEI:.3g} or more, twice the base fee",
            actual=f"max_fee_gwei = {config.max_fee_gwei:.3g}",
            where="max_fee_gwei in config.toml",
            remedy="Raise it, or set it to 0: then the node pays what the chain asks for.",
        )
    if config.max_fee_wei < 2 * base_wei:
        return f"WARNING: {asked}: if gas costs twice as much, transactions wait and deadlines pass"
    return asked
