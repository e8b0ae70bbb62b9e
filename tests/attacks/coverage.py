"""The list of attacks, and what plays each: an attack at the compute seam, a test of the contracts or of the
nodes, or a whole round on a real chain. `test_coverage.py` checks that all of it exists.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from tests.attacks.menagerie import ATTACKS
from tests.attacks.outer import FORGERIES

AUDITS = "tests/contracts/AuditBook.t.sol"
DISPUTES = "tests/contracts/DisputeGame.t.sol"
DRAW = "tests/protocol/spec/test_draw.py"
LEDGER = "tests/contracts/RoundLedger.t.sol"
LEARNED = "tests/attacks/test_learned.py"
MONEY = "tests/attacks/test_money.py"
REGISTRY = "tests/contracts/TaskRegistry.t.sol"
TREES = "tests/contracts/libraries/PositionalMerkle.t.sol"
VAULT = "tests/contracts/StakeVault.t.sol"
WIRE = "tests/faults/test_wire_faults.py"
ADAPTIVE = "tests/attacks/adaptive.py"


@dataclass(frozen=True)
class Entry:
    """One number of the list. tests: by file; a file without names has its adversary as functions."""

    number: str
    what: str
    tests: Mapping[str, tuple[str, ...]]

    @property
    def seam(self) -> tuple[str, ...]:
        """The attacks of this number that are judged segment by segment."""
        played = [attack.name for attack in ATTACKS if attack.number == self.number]
        return (*played, *(forgery.name for forgery in FORGERIES if forgery.number == self.number))


def _entry(number: str, what: str, **tests: str) -> Entry:
    """tests: names, separated by spaces, by the file's name above."""
    return Entry(number, what, {globals()[file]: tuple(names.split()) for file, names in tests.items()})


ACCOMPLICES = "tests/e2e/test_accomplices.py"
CONTEST = "tests/e2e/test_contest.py"
ROUND = "tests/e2e/test_round.py"
CONVICTION = "tests/e2e/test_conviction.py"
HONEST_DISPUTES = "tests/e2e/test_disputes_honest.py"
WITHHOLDING = "tests/e2e/test_withholding.py"
ODDS = "tests/e2e/test_odds.py"
BLOBS = "tests/protocol/adapters/test_blobs.py"
COMPARE = "tests/protocol/compute/test_compare.py"
CODEC = "tests/protocol/spec/test_codec.py"
AUTH = "tests/protocol/adapters/wire/test_auth.py"
LOGS = "tests/protocol/adapters/chain/test_logs.py"
TRANSACTIONS = "tests/protocol/adapters/chain/test_transactions.py"
RULES = "tests/protocol/spec/test_task_rules.py"
FACTS = "tests/protocol/compute/test_facts.py"
MERKLE = "tests/protocol/spec/test_merkle.py"
REHEARSAL = "tests/protocol/compute/test_rehearsal.py"
TORCH = "tests/assumptions/test_torch.py"
CALLS = "tests/architecture/test_forbidden_calls.py"
REFEREE = "tests/contracts/Referee.t.sol"
NODES = "tests/contracts/libraries/StepNode.t.sol"
ADMIN = "tests/attacks/test_admin.py"

ENTRIES = (
    _entry("1", "fabricated states", ROUND="test_cheats_lose_and_the_honest_do_not"),
    _entry("2", "interpolation, tiny updates", LEARNED="test_a_tiny_update_is_measured_by_what_it_should_be"),
    _entry("3", "data made up to explain", DISPUTES="test_proveToken_wrongToken_convicts_succeeds"),
    _entry("4", "honest big moves, the rest spoofed", DRAW="test_segments_are_uniform_over_the_allowed_sets"),
    _entry("5", "skipped steps", CONVICTION="test_a_lie_that_is_defended_is_computed"),
    _entry("6", "smaller batch, shorter sequence"),
    _entry("7", "swapped, relabelled, reordered, repeated data",
           DISPUTES="test_proveToken_wrongLabel_convicts_succeeds",
           LEARNED="test_every_byte_of_the_data_counts"),
    _entry("8", "seed grinding",
           DRAW="test_samples_leave_room_for_the_labels test_seeds_are_kept_apart"),
    _entry("9", "lower precision"),
    _entry("10", "frozen, pruned, low-rank layers"),
    _entry("11", "other hyperparameters", DISPUTES="test_proveScalar_wrongScalar_convicts_succeeds",
           LEARNED="test_no_hyperparameter_comes_from_the_prover"),
    _entry("12", "tampered m, v, step", LEARNED="test_the_optimizer_s_state_is_compared",
           LEDGER="test_commit_otherStart_reverts", AUDITS="test_openEnd_wrongSteps_reverts"),
    _entry("13", "riding the tolerance", ADAPTIVE=""),
    _entry("14", "one large error in one coordinate",
           COMPARE="test_the_worst_element_decides_as_all_elements_would"),
    _entry("15", "another solver's work", LEDGER="test_commit_boundaryOfAnother_reverts",
           CODEC="test_every_hash_depends_on_every_field"),
    _entry("16", "old work again, other task's work", LEDGER="test_commit_otherStart_reverts",
           CODEC="test_every_hash_depends_on_every_field"),
    _entry("17", "several runs, best one kept", LEDGER="test_commit_twice_reverts"),
    _entry("18", "grinding the sample", LEARNED="test_no_claim_moves_its_own_draw",
           ODDS="test_ledger_draws_as_published", LEDGER="test_judge_drawUnsealed_succeeds"),
    _entry("19", "withholding, serving one verifier and not another",
           WITHHOLDING="test_a_withheld_end_state_costs_no_auditor_its_stake",
           LEDGER="test_judge_startMissing_succeeds test_judge_unservedByTwoOfThree_succeeds",
           MONEY="test_serving_only_one_s_own_verifiers_does_not_pay"),
    _entry("19b", "placing the discrepancy after each draw", ADAPTIVE=""),
    _entry("19c", "adapting the trace inside the bounds", ADAPTIVE="",
           CONVICTION="test_every_kind_of_fault_ends_in_a_conviction"),
    _entry("20", "two roots", LEDGER="test_commit_twice_reverts",
           AUDITS="test_commitReplay_twice_reverts", DISPUTES="test_postTrace_twice_reverts"),
    _entry("21", "hostile payloads", CALLS="test_source_executes_no_data",
           WIRE="test_an_oversized_or_misshapen_blob_is_refused_by_its_length test_no_path_leads_outside",
           BLOBS="test_a_value_that_is_not_finite_is_told_with_its_place",
           COMPARE="test_unsound_claims_are_infinitely_far_and_rejected"),
    _entry("22", "correct but poisonous updates", ADAPTIVE=""),
    _entry("23", "wrong pseudo-gradient or outer step",
           CONTEST="test_a_wrong_outer_root_and_a_wrong_pseudo_gradient_are_computed_on_chain"),
    _entry("24", "false hardware class", LEARNED="test_the_limits_know_no_hardware"),
    _entry("25", "accept without work", ROUND="test_cheats_lose_and_the_honest_do_not",
           AUDITS="test_commitReplay_startNotOpened_reverts",
           MONEY="test_a_verifier_that_invents_its_result_does_not_gain"),
    _entry("26", "handing a root around", AUDITS="test_reveal_copiedCommitment_reverts",
           ACCOMPLICES="test_who_hands_in_a_false_root_falls_with_its_claim"),
    _entry("27", "bribery, collusion", MONEY="test_no_attack_pays_whoever_owns_half_of_the_verifiers"),
    _entry("28", "false accusation", HONEST_DISPUTES="test_honest_parties_stand_every_kind_of_harassment",
           DISPUTES="test_timeout_proveOver_closes_succeeds test_proveOperation_withinBound_reverts"),
    _entry("29", "flooding and delay", DISPUTES="test_openDispute_queue_bondDoubles_succeeds "
           "test_demandLeaf_ninth_reverts test_demandLeaf_crowd_reverts",
           WIRE="test_connections_that_say_nothing_are_closed_and_others_are_served"),
    _entry("30", "front-run proofs", DISPUTES="test_openDispute_frontRun_reverts "
           "test_proveOperation_frontRun_paysOpener_succeeds"),
    _entry("31", "self-challenge, buying an acquittal", DISPUTES="test_openDispute_ownClaim_reverts "
           "test_proveOperation_afterClose_succeeds", VAULT="testFuzz_slash_anySplit_burnsAtLeastHalf",
           MONEY="test_challenging_oneself_costs"),
    _entry("32", "rejecting honest work to void it", LEDGER="test_judge_reservesAccept_succeeds "
           "test_settleClaim_lateRejects_paysSolver_succeeds"),
    _entry("33", "silence after the draw",
           LEDGER="test_judge_noReplay_succeeds test_judge_noReveal_succeeds"),
    _entry("33b", "a broken trace posted on purpose",
           AUDITS="test_convictAuditor_ofAcceptedAudit_keepsVerdict_succeeds",
           LEDGER="test_convictSolver_afterMerge_staysIncluded_succeeds"),
    _entry("34", "many identities, reputation then defect", REGISTRY="test_enrol_withoutStake_reverts "
           "test_enrol_secondRole_reverts", DRAW="test_auditors_are_three_different_verifiers",
           MONEY="test_no_attack_pays_whoever_owns_half_of_the_verifiers"),
    _entry("35", "early exit", VAULT="testFuzz_withdraw_early_reverts "
           "testFuzz_withdraw_exposedStake_cannotLeave testFuzz_slash_unbondingStake_staysSlashable"),
    _entry("36", "reentrancy, rounding, reverting receivers", VAULT="test_claim_reentrant_paysOnce "
           "test_withdraw_reentrant_paysOnce test_deposit_reentrant_countsOnce "
           "testFuzz_slash_anySplit_burnsAtLeastHalf"),
    _entry("37", "censorship, reorg", LEDGER="test_settleClaim_beaconUnsealed_succeeds "
           "test_judge_leafDrawUnsealed_succeeds",
           LOGS="test_a_reorg_is_noticed_and_read_again_from_the_fork",
           TRANSACTIONS="test_a_reorg_that_drops_a_transaction_blocks_no_later_one"),
    _entry("38", "oversized leaves", REFEREE="test_judge_openingsOfAnotherLength_isRefused",
           NODES="test_read_tooManyTerms_isRefused", DISPUTES="test_answerDemand_otherLength_reverts"),
    _entry("39", "Merkle second preimage, position", TREES="test_leafHash_nodeMessage_differs "
           "testFuzz_verify_anotherIndex_isRefused test_verify_paddingAsLeaf_isRefused",
           MERKLE="test_a_node_is_no_leaf test_padding_is_no_leaf"),
    _entry("40", "replayed signatures", AUTH="test_a_replay_is_refused "
           "test_a_signature_for_another_deployment_is_refused",
           VAULT="testFuzz_depositWithPermit_frontRun_stillDeposits"),
    _entry("41", "admin keys", ADMIN="test_no_contract_has_a_call_for_an_owner"),
    _entry("42", "a cheating submitter", RULES="test_each_trap_is_refused_by_name",
           FACTS="test_another_task_needs_another_step_root",
           REGISTRY="test_createTask_badAmounts_reverts test_createTask_acceptBeyondReject_reverts"),
    _entry("43", "a library upgrade that breaks honest replay",
           REHEARSAL="test_rehearse_refuses_kernels_that_err_in_any_kind",
           TORCH="test_a_square_root_through_float64_is_correctly_rounded"),
)  # fmt: skip
LISTED = (
    *map(str, range(1, 20)),
    "19b",
    "19c",
    *map(str, range(20, 34)),
    "33b",
    *map(str, range(34, 44)),
)
"""All numbers of the list."""


def list_places() -> Iterator[tuple[str, str, str]]:
    """(number, file, name of the test or nothing) of everything that plays an attack outside the seam."""
    for entry in ENTRIES:
        for file, names in entry.tests.items():
            yield from ((entry.number, file, name) for name in names or ("",))
