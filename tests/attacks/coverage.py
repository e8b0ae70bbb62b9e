"""The list of attacks, and what plays each: an attack at the compute seam, a test of the contracts or of the
nodes, or a whole round on a real chain. `test_coverage.py` checks that all of it exists.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from tests.attacks.attack_suite import ATTACKS
from tests.attacks.outer import FORGERIES

MACHINE, CONTRACTS = "tests/protocol/spec/game", "tests/contracts/game"
ASKS = f"{CONTRACTS}/Queries.t.sol"
PLAYS = "tests/kit/plays"
QUERIES = f"{PLAYS}/queries.py"
PLAYED_CONVICTIONS = f"{PLAYS}/convictions.py"
EVIDENCE = f"{PLAYS}/evidence.py"
FALSE_VOTES = f"{PLAYS}/false_votes.py"
MOMENTS = f"{PLAYS}/moments.py"
PLAYED_DISPUTES = f"{PLAYS}/disputes.py"
PLAYED_STEPS = f"{PLAYS}/steps.py"
PLAYED_ROUNDS = f"{PLAYS}/rounds.py"
PLAYED_SEATS = f"{PLAYS}/seats.py"
PLAYED_SETTLEMENT = f"{PLAYS}/settlement.py"
PLAYED_SILENCE = f"{PLAYS}/silence.py"
PLAYED_VOTES = f"{PLAYS}/votes.py"
VAULT = f"{CONTRACTS}/Vault.t.sol"
TERMS = f"{CONTRACTS}/libraries/GameTermsCheck.t.sol"
VOTES = f"{CONTRACTS}/Votes.t.sol"
DECIDING = f"{MACHINE}/test_deciding.py"
FINDINGS = f"{MACHINE}/test_findings.py"
POSTING = f"{MACHINE}/test_posting.py"
QUESTIONS = f"{MACHINE}/test_disputes.py"
ROUNDS = f"{MACHINE}/test_rounds.py"
RULES = "tests/protocol/economics/test_money.py"
SEATS = f"{MACHINE}/test_seats.py"
SETTLING = f"{MACHINE}/test_settling.py"
HEARING = "tests/verifier/test_audit_votes.py"
JUDGING = "tests/verifier/test_judging.py"
REPLAY = "tests/verifier/test_replaying.py"
SERVE = "tests/node/serving/test_audit_serving.py"
JOINING = "tests/node/joining/test_joining.py"
CAST = "tests/e2e/test_disputes.py"
CONTEST = "tests/e2e/test_contest.py"
DRAW = "tests/protocol/spec/test_audit_draws.py"
SAMPLES = "tests/protocol/spec/test_uniform_draw.py"
LEARNED = "tests/attacks/test_learned.py"
MONEY = "tests/lab/benchmarks/test_earnings.py"
TREES = "tests/contracts/libraries/PositionalMerkle.t.sol"
WIRE = "tests/faults/test_wire_faults.py"
ADAPTIVE = "tests/attacks/test_adaptive.py"
BLOBS = "tests/protocol/adapters/store/test_blobs.py"
COMPARE = "tests/protocol/compute/tolerance/test_compare.py"
AUTH = "tests/protocol/adapters/wire/test_request_signing.py"
LOGS = "tests/protocol/adapters/chain/test_follower.py"
TRANSACTIONS = "tests/protocol/adapters/chain/test_transactions.py"
FACTS = "tests/protocol/compute/program/test_step_facts.py"
STEPS = "tests/node/joining/test_task_step.py"
FORM = "tests/protocol/compute/program/test_program_form.py"
NOISE = "tests/protocol/compute/bounds/test_live_parameters.py"
MERKLE = "tests/protocol/spec/test_merkle.py"
REHEARSAL = "tests/protocol/compute/bounds/test_rehearsal.py"
TORCH = "tests/assumptions/test_torch.py"
CALLS = "tests/architecture/test_forbidden_calls.py"
REFEREE = "tests/contracts/Referee.t.sol"
OPENINGS = "tests/contracts/libraries/Openings.t.sol"
NODES = "tests/contracts/libraries/StepNode.t.sol"
ADMIN = "tests/attacks/test_admin.py"


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


RIDING = "test_riders_are_accepted_and_drift_voids_the_round_but_no_step_of_it_stands_out"
CONVICTED = "test_one_honest_verifier_convicts_all_who_err_or_lie"
ENTRIES = (
    _entry("1", "fabricated states", REPLAY="test_a_wrong_end_is_rejected_with_its_worst_leaf"),
    _entry("2", "interpolation, tiny updates", LEARNED="test_a_tiny_update_is_measured_by_what_it_should_be"),
    _entry("3", "data made up to explain", PLAYED_STEPS="a_wrong_datum_convicts"),
    _entry("4", "honest big moves, the rest spoofed",
           DRAW="test_each_segment_is_equally_likely_at_each_draw"),
    _entry("5", "skipped steps", CAST=CONVICTED),
    _entry("6", "smaller batch, shorter sequence"),
    _entry("7", "swapped, relabelled, reordered, repeated data",
           PLAYED_STEPS="a_wrong_datum_convicts", LEARNED="test_every_byte_of_the_data_counts"),
    _entry("8", "seed grinding", DRAW="test_seeds_are_the_hashes_by_hand_and_kept_apart",
           SAMPLES="test_samples_leave_room_for_the_labels"),
    _entry("9", "lower precision"),
    _entry("10", "frozen, pruned, low-rank layers"),
    _entry("11", "other hyperparameters", PLAYED_STEPS="a_wrong_datum_convicts",
           LEARNED="test_no_hyperparameter_comes_from_the_prover"),
    _entry("12", "tampered m, v, step", LEARNED="test_the_optimizer_s_state_is_compared",
           EVIDENCE="a_wrong_start_is_proven",
           REPLAY="test_an_end_with_other_step_numbers_is_rejected",
           PLAYED_STEPS="a_state_of_other_steps_is_not_shown"),
    _entry("13", "riding the tolerance", ADAPTIVE=RIDING,
           RULES="test_drift_costs_a_claim_only_so_the_pay_must_deter_it"),
    _entry("14", "one large error in one coordinate",
           COMPARE="test_the_worst_element_decides_as_all_elements_would"),
    _entry("15", "another solver's work", EVIDENCE="a_wrong_start_is_proven",
           DECIDING="test_a_vote_names_its_claim_seed_and_segment"),
    _entry("16", "old work again, other task's work",
           EVIDENCE="a_wrong_start_is_proven", MOMENTS="carried_moments_are_right",
           PLAYED_ROUNDS="a_commitment_is_refused"),
    _entry("17", "several runs, best one kept", PLAYED_ROUNDS="a_commitment_is_refused"),
    _entry("18", "grinding the sample", LEARNED="test_no_claim_moves_its_own_draw",
           PLAYED_ROUNDS="a_draw_is_sealed_in_its_window",
           ROUNDS="test_the_pool_after_next_is_frozen_as_the_closing_block_leaves_it"),
    _entry("19", "withholding, serving one verifier and not another",
           PLAYED_SETTLEMENT="unserved_auditors_pay_too",
           REPLAY="test_who_serves_nothing_is_unserved_after_two_thirds_of_the_time "
           "test_who_would_owe_too_much_abstains", FINDINGS="test_c1_a_claim_without_data_is_not_accepted",
           MONEY="test_serving_only_one_s_own_verifiers_does_not_pay"),
    _entry("19b", "placing the discrepancy after each draw",
           SERVE="test_the_start_then_the_seal_then_the_end", ADAPTIVE=RIDING),
    _entry("19c", "adapting the trace inside the bounds", ADAPTIVE=RIDING,
           CAST="test_honest_statements_outlive_whoever_harasses_them"),
    _entry("20", "two roots", PLAYED_ROUNDS="a_commitment_is_refused",
           PLAYED_VOTES="the_first_of_two_votes_counts",
           FALSE_VOTES="two_votes_of_one_draw_convict two_seals_of_one_draw_convict"),
    _entry("21", "hostile payloads", CALLS="test_source_executes_no_data",
           WIRE="test_an_oversized_or_misshapen_blob_is_refused_by_its_length test_no_path_leads_outside",
           BLOBS="test_a_value_that_is_not_finite_is_told_with_its_place",
           COMPARE="test_claims_that_are_not_finite_are_infinitely_far"),
    _entry("22", "correct but poisonous updates", ADAPTIVE=RIDING),
    _entry("23", "wrong pseudo-gradient or outer step",
           EVIDENCE="a_wrong_delta_is_proven another_carried_root_is_proven",
           CONTEST="test_a_wrong_root_falls_and_its_signers_lose_their_seats"),
    _entry("24", "false hardware class", LEARNED="test_the_limits_know_no_hardware"),
    _entry("25", "accept without work", PLAYED_VOTES="an_opening_must_fit",
           QUERIES="an_accept_beyond_the_limits_is_convicted", CAST=CONVICTED,
           MONEY="test_what_pays_is_known"),
    _entry("26", "handing a root around", SERVE="test_another_auditors_seal_opens_nothing_for_this_one",
           FINDINGS="test_m2_nothing_is_opened_before_the_draw_is_decided", CAST=CONVICTED,
           MONEY="test_a_false_root_costs_whoever_hands_it_in_unless_the_claim_stands"),
    _entry("27", "bribery, collusion", MONEY="test_no_attack_pays_whoever_owns_half_of_the_verifiers"),
    _entry("28", "false accusation", CAST="test_honest_statements_outlive_whoever_harasses_them",
           PLAYED_DISPUTES="a_silent_opener_loses_its_bond",
           PLAYED_STEPS="nothing_of_an_honest_claim_is_proven"),
    _entry("29", "flooding and delay",
           QUERIES="the_kth_query_costs_k_bonds",
           QUESTIONS="test_a_dispute_lasts_three_answers_and_three_moves_between_at_most",
           HEARING="test_a_flood_of_offers_leaves_two_records", PLAYED_STEPS="leaves_are_demanded_once",
           WIRE="test_connections_that_say_nothing_are_closed_and_others_are_served"),
    _entry("30", "front-run proofs", FINDINGS="test_l_a_copied_seal_seals_nothing_and_a_seal_expires",
           EVIDENCE="a_proof_is_committed_by_who_brings_it"),
    _entry("31", "self-challenge, buying an acquittal", FINDINGS="test_h1_a_slow_dispute_shields_nobody "
           "test_h1_losing_on_purpose_acquits_of_nothing "
           "test_h2_a_full_self_challenge_loses_half_of_the_stake",
           MONEY="test_challenging_oneself_costs"),
    _entry("32", "rejecting honest work to void it", SETTLING="test_the_pay_of_a_rejected_claim_is_burned",
           QUERIES="a_false_reject_pays_the_solver_back"),
    _entry("33", "silence after the draw", PLAYED_SILENCE="a_verifier_missed_three_draws",
           PLAYED_VOTES="reserves_wait_for_the_primary"),
    _entry("33b", "a broken trace posted on purpose",
           PLAYED_DISPUTES="a_silent_claimant_is_convicted",
           QUESTIONS="test_a_convicted_claim_that_was_merged_stays_merged"),
    _entry("34", "many identities, reputation then defect",
           PLAYED_SEATS="a_smaller_stake_waits a_seat_is_refused",
           DRAW="test_auditors_are_three_and_nobody_audits_a_claim_twice",
           MONEY="test_no_attack_pays_whoever_owns_half_of_the_verifiers"),
    _entry("35", "early exit", PLAYED_SEATS="a_seat_leaves "
           "an_open_seat_comes_out_once_the_task_is_over",
           QUERIES="a_late_vote_is_answered_for_from_its_draw"),
    _entry("36", "reentrancy, rounding, reverting receivers",
           VAULT="test_depositAndBurn_callBack_revert test_withdraw_again_reverts "
           "test_deposit_tokenWithFee_reverts", FINDINGS="test_l_money_is_neither_made_nor_lost"),
    _entry("37", "censorship, reorg",
           PLAYED_ROUNDS="a_draw_is_missed a_round_opens_without_a_beacon a_beacon_never_comes",
           LOGS="test_a_reorg_is_noticed_and_read_again_from_the_fork",
           TRANSACTIONS="test_a_reorg_that_drops_a_transaction_blocks_no_later_one"),
    _entry("38", "oversized leaves", OPENINGS="test_judge_openingsOfAnotherLength_isRefused",
           NODES="test_read_tooManyTerms_isRefused", ASKS="test_answer_leafOfOtherLength_isRefused",
           EVIDENCE="a_wrong_delta_is_proven"),
    _entry("39", "Merkle second preimage, position", TREES="test_leafHash_nodeMessage_differs "
           "testFuzz_verify_anotherIndex_isRefused test_verify_paddingAsLeaf_isRefused",
           MERKLE="test_a_node_is_no_leaf test_padding_is_no_leaf"),
    _entry("40", "replayed signatures", AUTH="test_a_replay_is_refused "
           "test_a_signature_for_another_deployment_is_refused",
           QUERIES="another_vote_is_not_asked", FALSE_VOTES="a_vote_and_a_seal_of_one_draw_convict"),
    _entry("41", "admin keys", ADMIN="test_no_contract_has_a_call_for_an_owner"),
    _entry("42", "a cheating submitter", JOINING="test_what_could_hurt_is_refused_by_name",
           FACTS="test_another_task_needs_another_step_root",
           STEPS="test_a_program_that_breaks_a_rule_costs_no_constant",
           FORM="test_another_form_is_refused_by_its_node",
           NOISE="test_a_key_bias_is_noise_and_a_query_bias_is_not",
           TERMS="test_check_amounts_edges test_check_windowsBelowTheLeast_reverts",
           PLAYED_ROUNDS="a_halted_task_ends_with_its_round"),
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
