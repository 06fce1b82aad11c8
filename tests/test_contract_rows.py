"""What the protocol promises and what real hosts did instead, row by row, with the tests that decide each row.

The table below is read: a row without a test, or one whose test is not there, fails. Files are named from here.

Invariants
==========
memory attribution holds ids and never content
    runs/domain/test_attribution.py::test_recorded_writes
    runs/domain/test_quarantine.py::test_content_is_replaced_by_its_digest_and_length
    runs/test_intake.py::test_leaked_content_never_reaches_the_disk
memory attribution is emitted on write, or its absence is classified
    runs/domain/test_attribution.py::test_h_memory_attribution_emits_on_write
    runs/domain/test_attribution.py::test_every_class_is_reached
memory attribution is bound to run and tenant
    runs/domain/test_bundle.py::test_h_memory_attribution_tenant_scoped_event_of_another_run
    runs/domain/test_webhooks.py::test_h_memory_attribution_tenant_scoped_wrapper_of_another_run
    runs/test_imports.py::test_an_event_of_another_run_in_a_followed_stream_is_refused_and_told_once
    ledger/test_queries.py::test_no_read_sees_another_tenant
memory attribution is stable under replay
    runs/domain/test_attribution.py::test_h_memory_attribution_replay_stable
    runs/domain/test_attribution.py::test_recorded_forks
redaction markers of agent memory are shown and counted
    runs/domain/test_memory_read.py::test_redaction_markers_are_counted_and_shown_as_they_are
    ledger/domain/test_observing.py::test_markers_are_set_apart_from_the_text
    ledger/test_run_secrets.py::test_h_agent_memory_redaction_contract
    ledger/test_run_secrets.py::test_the_canary_is_nowhere
agent memory expires
    runs/domain/test_memory_read.py::test_an_entry_past_its_time_is_not_shown
    ledger/test_observations.py::test_an_entry_expires_to_the_millisecond
    ledger/test_observations.py::test_content_that_was_put_comes_out_again_until_its_time_is_past
    ledger/test_memory_api.py::test_h_agent_memory_ttl_expiry
agent memory is isolated between tenants
    runs/domain/test_memory_read.py::test_h_agent_memory_cross_tenant_isolation_control_then_nothing
    ledger/test_observations.py::test_another_tenant_sees_nothing_of_it
    ledger/test_observations.py::test_row_security_keeps_tenants_apart
    ledger/test_memory_api.py::test_h_agent_memory_cross_tenant_isolation
memory compaction keeps its lineage and brings no secret back
    ledger/test_queries.py::test_a_compaction_that_names_its_sources
    ledger/test_queries.py::test_tags_say_what_the_event_of_the_same_run_does_not
    ledger/test_queries.py::test_a_compaction_that_names_none_and_nothing_else_does
    runs/domain/test_quarantine.py::test_every_type_that_announces_memory_is_searched
webhooks are signed, by a known algorithm, in time
    runs/domain/test_webhooks.py::test_signature_table
    runs/domain/test_webhooks.py::test_unknown_algorithm_is_refused_in_every_family
    runs/test_hooks.py::test_a_delivery_is_good_for_five_minutes_both_ways
    runs/test_hooks.py::test_recorded_deliveries_are_accepted_once
    runs/test_hooks.py::test_recorded_deliveries_with_one_byte_flipped_are_refused
    runs/test_hooks.py::test_recorded_deliveries_301_seconds_later_are_refused
    runs/test_hooks.py::test_an_unknown_algorithm_is_refused
webhooks are isolated between tenants
    runs/test_hooks.py::test_a_run_of_another_tenant_than_the_subscriptions_own_id_is_refused
    runs/test_hooks.py::test_a_run_of_another_tenant_than_the_first_delivered_one_is_refused
    runs/test_hooks.py::test_a_run_of_another_tenant_in_the_wrapper_alone_is_refused
a webhook that was removed delivers no more
    runs/domain/test_webhooks.py::test_h_webhook_unregister_stops_delivery
    runs/test_hooks.py::test_after_its_end_an_address_answers_as_one_that_never_was
webhook delivery is durable: at least once, in any order
    runs/test_hooks.py::test_five_times_and_out_of_order_is_one_row_each
    runs/test_hooks.py::test_a_gap_shows_and_closes
    runs/domain/test_contradictions.py::test_h_v2_webhook_durable_delivery_gap_flagged_then_closed
a dead letter carries no payload and is filled from the host
    runs/follower/test_dead_letters.py::test_h_dead_letter_read_carries_no_payload_shapes
    runs/follower/test_dead_letters.py::test_a_run_that_only_a_dead_letter_names_is_read
    runs/test_dead_letters.py::test_they_are_counted_once_and_their_runs_are_read
    runs/test_hooks.py::test_what_came_without_its_payload_is_read_from_the_host
    runs/test_hooks.py::test_what_came_without_its_payload_is_completed_by_a_later_delivery
what a replay delivers again fires nothing twice
    runs/test_contract_rows.py::test_what_a_replay_delivers_again_is_the_forks_and_alerts_nobody
    ledger/test_queries.py::test_forks_write_the_entries_of_their_source_again
a stream resumes behind the last event id
    runs/follower/test_follow_run.py::test_a_frame_cut_anywhere_moves_no_cursor
    runs/follower/test_follow_run.py::test_resumes_behind_what_is_committed
    runs/follower/test_follow_run.py::test_a_finished_run_is_found_finished
    runs/domain/test_sse.py::test_cut_anywhere_an_unfinished_frame_neither_appears_nor_moves_the_cursor
stream modes, mixed and buffered
    runs/domain/test_sse.py::test_events_of_a_frame_come_as_they_are
    runs/domain/test_sse.py::test_frame_without_events_says_why
    runs/domain/test_sse.py::test_recorded_stream_tells_what_the_log_tells
events are ordered by sequence, appended, and gaps are seen
    runs/test_intake.py::test_any_order_and_any_batches_give_the_same_rows
    runs/domain/test_contradictions.py::test_table
    runs/test_watch.py::test_a_gap_is_an_incident_once_nothing_has_come_at_its_ends_for_a_while
debug bundles, whole and truncated
    runs/domain/test_bundle.py::test_shape_table
    runs/test_imports.py::test_a_recorded_bundle_is_imported_once_with_its_facts
    runs/test_imports.py::test_a_cut_bundle_is_told_in_words_and_mended_by_the_whole_one
    runs/test_imports.py::test_a_count_that_is_smaller_contradicts_the_bundle
secrets leak through no payload, bundle or credential
    test_nothing_secret_is_kept.py::test_content_secrets_and_tokens_in_any_field_are_found_nowhere
    test_nothing_secret_is_kept.py::test_the_looks_find_what_is_there
    runs/domain/test_quarantine.py::test_keys_go_from_every_event_wherever_they_stand
    runs/test_imports.py::test_what_may_not_be_stored_is_found_nowhere
    runs/test_imports.py::test_the_scan_for_what_may_not_be_stored_finds_what_is
    runs/domain/test_bundle.py::test_h_secret_leakage_debug_bundle_nothing_secret_around_the_events
    runs/domain/test_quarantine.py::test_credentials_go_from_every_event
    openwop_ui/launch/test_logs.py::test_credentials_are_left_out
annotations take no place in a log and stay inert
    runs/domain/test_webhooks.py::test_h_annotation_delivery_is_no_event_of_a_log
    runs/test_hooks.py::test_a_live_notification_takes_no_place_in_a_log
    runs/test_contract_rows.py::test_an_annotations_note_is_kept_nowhere
forks have their source's prefix, ancestry and effects
    runs/domain/test_snapshots.py::test_parent_table
    runs/domain/test_snapshots.py::test_other_places_that_tell
    runs/domain/test_snapshots.py::test_recorded_parents
    runs/domain/test_attribution.py::test_recorded_forks
    runs/domain/test_normalise.py::test_digest_does_not_change_with_how_it_was_told
    runs/test_watch.py::test_a_branch_from_the_end_has_the_copied_end_in_its_middle
ids keep their grammar and are projected onto paths once
    runs/domain/test_projection.py::test_identifier_has_one_segment
    runs/domain/test_projection.py::test_every_identifier_comes_back
    runs/domain/test_webhooks.py::test_tenant_of_a_run
    openwop_ui/test_api_push.py::test_a_run_of_any_id_has_one_address_that_its_answers_name
a projection carries what it does not know or fails
    runs/domain/test_normalise.py::test_unknown_types_and_members_are_kept
    runs/domain/test_normalise.py::test_body_is_the_text_that_came
    runs/follower/test_follow_run.py::test_an_unprojectable_log_stops_although_it_is_a_500
a proposal is inert until it is applied, and no export holds credentials
    runs/test_contract_rows.py::test_a_proposal_is_told_and_writes_nothing_until_it_is_applied
    runs/domain/test_quarantine.py::test_credentials_go_from_every_event

Irregularities
==============
data for payload, seq for sequence, or both
    runs/domain/test_normalise.py::test_sequence_in_either_spelling
    runs/domain/test_normalise.py::test_payload_in_either_spelling
    runs/domain/test_normalise.py::test_payload_counts_where_the_data_differ
    runs/test_contract_rows.py::test_a_payload_of_null_completes_what_came_without_one
bundle events without event id
    runs/domain/test_bundle.py::test_i2_events_get_the_bundles_run_and_nothing_else
    runs/domain/test_bundle.py::test_recorded_bundle_holds_the_events_of_its_log
event ids of any form
    runs/domain/test_normalise.py::test_label_that_cannot_be_kept_costs_nothing_but_itself
    runs/domain/test_normalise.py::test_recorded_log_is_taken_as_it_is
logs that begin at one
    runs/domain/test_bundle.py::test_a_log_may_begin_at_either
    runs/follower/test_follow_run.py::test_a_log_that_counts_from_one_has_no_gap
    runs/test_watch.py::test_a_log_may_begin_at_either_of_two_sequences
polls that skip one event a page
    runs/follower/test_recorded_hosts.py::test_every_page_of_the_app_is_whole
    runs/follower/test_recorded_hosts.py::test_ends_equal_to_what_the_host_polled
    runs/follower/test_follow_run.py::test_one_late_event_behind_a_poll_that_skips_it
backlogs lost between two reads, streams that never close
    runs/follower/test_follow_run.py::test_ends_equal_to_the_hosts_log
    runs/follower/test_follow_run.py::test_a_gap_in_the_stream_is_filled_by_polling
a terminal status before its event
    runs/follower/test_follow_run.py::test_a_status_ahead_of_the_log_ends_nothing
    runs/test_imports.py::test_an_end_by_the_hosts_word_alone_is_told_until_the_log_says_so_too
batches without id, queries refused, no signs of life
    runs/domain/test_sse.py::test_cursor_stays_behind_a_frame_without_id_and_moves_with_one_without_data
    runs/follower/test_follow_run.py::test_the_queries_are_given_up_one_after_the_other
    runs/follower/test_follow_run.py::test_ends_equal_to_the_hosts_log
poll bodies in three shapes
    runs/domain/test_poll.py::test_body_in_every_spelling
    runs/domain/test_poll.py::test_recorded_answers
a cause that one channel names and another leaves out
    runs/test_richer_copies.py::test_labels_that_one_channel_leaves_out_are_shown_from_the_other
    runs/test_contract_rows.py::test_a_copy_that_names_no_cause_is_the_same_event
    runs/test_contract_rows.py::test_a_recorded_stream_that_names_fewer_causes_contradicts_nothing
divergences of replays in three shapes
    runs/test_contract_rows.py::test_a_divergence_is_taken_in_every_shape
    runs/domain/test_snapshots.py::test_other_places_that_tell
results in output, outputs or nowhere, errors that are a code
    runs/test_contract_rows.py::test_a_failure_is_told_by_its_code_in_every_shape
    runs/test_contract_rows.py::test_a_failure_without_a_code_is_a_failure
    runs/test_contract_rows.py::test_a_result_in_any_shape_ends_its_node
    runs/domain/test_snapshots.py::test_error_code
a node in the envelope, in the payload or nowhere
    runs/test_richer_copies.py::test_a_node_that_one_channel_leaves_out_attributes_the_write
    runs/domain/test_normalise.py::test_node_of_the_envelope_comes_first
    runs/domain/test_attribution.py::test_node_coverage
    ledger/domain/test_reading.py::test_the_node_is_that_of_the_payload_before_that_of_the_envelope
a vendor's twin of a memory event
    runs/domain/test_contradictions.py::test_table
    runs/domain/test_contradictions.py::test_twins_are_near
    runs/domain/test_attribution.py::test_what_counts_as_announced
engine versions as number or text
    runs/domain/test_normalise.py::test_event_of_the_first_major
    runs/domain/test_snapshots.py::test_members_of_both_majors
bundle versions, statuses, ends and counts of other forms
    runs/domain/test_bundle.py::test_shape_table
    runs/domain/test_bundle.py::test_snapshot_of_either_shape
    runs/domain/test_snapshots.py::test_end_has_two_spellings
a truncation that keeps head and tail
    runs/domain/test_bundle.py::test_i17_holes_are_named_and_counted
    runs/test_imports.py::test_a_hole_in_the_middle_is_marked_and_what_is_around_it_is_kept
events without schema version, registrations without secret
    runs/domain/test_normalise.py::test_event_of_the_first_major
    runs/test_webhook_registration.py::test_a_host_that_tells_no_secret_waits_for_it
    runs/test_webhook_registration.py::test_a_host_that_makes_its_own_secret_signs_with_that_one
names of types in either schema's index
    runs/domain/test_normalise.py::test_all_renamed_types_are_known_and_no_name_means_two_things
    schemas/test_schemas.py::test_renamed_types_fit_the_second_major
error codes that no registry has
    runs/follower/test_client.py::test_a_refusal_in_no_known_shape_is_still_one
    runs/follower/test_follow_run.py::test_some_answers_stop_the_following_and_say_why
    runs/domain/test_bundle.py::test_error_bodies
a workspace that is not named
    runs/domain/test_webhooks.py::test_delivery_table
    runs/test_hooks.py::test_wrapped_bodies_with_and_without_a_workspace
long-term and longTerm
    runs/domain/test_capabilities.py::test_long_term_memory_has_two_spellings
memory written after the run completed
    runs/domain/test_contradictions.py::test_table
    runs/test_hooks.py::test_a_memory_write_after_the_end_is_stored

Incidents
=========
the cursor became exclusive
    openwop_ui/demo/test_host.py::test_the_cursor_is_exclusive
    runs/follower/test_follow_run.py::test_resumes_behind_what_is_committed
    runs/follower/test_follow_run.py::test_a_finished_run_is_found_finished
a proxy held frames back
    runs/follower/test_follow_run.py::test_ends_equal_to_the_hosts_log
    runs/follower/test_client.py::test_silence_is_given_up_on
subscribed events were not delivered
    runs/test_hooks.py::test_a_gap_shows_and_closes
    runs/test_watch.py::test_a_gap_is_an_incident_once_nothing_has_come_at_its_ends_for_a_while
events fanned out after the terminal one
    runs/domain/test_contradictions.py::test_table
    runs/test_hooks.py::test_a_memory_write_after_the_end_is_stored
the rule for the workspace changed
    runs/domain/test_webhooks.py::test_delivery_table
    runs/test_hooks.py::test_wrapped_bodies_with_and_without_a_workspace
deliveries crossed tenants, or came after removal
    runs/test_hooks.py::test_a_run_of_another_tenant_than_the_hosts_runs_is_refused
    runs/test_hooks.py::test_after_its_end_an_address_answers_as_one_that_never_was
dead letters without content
    runs/test_dead_letters.py::test_an_event_that_is_here_needs_no_reading
    runs/follower/test_dead_letters.py::test_a_webhook_that_is_gone_holds_nothing_up
    runs/test_hooks.py::test_what_came_without_its_payload_is_read_from_the_host
    runs/follower/test_follow_run.py::test_copies_without_payload_are_completed_at_the_end
an owner of the first major on the second
    runs/domain/test_snapshots.py::test_parent_table
a projection dropped members
    runs/domain/test_webhooks.py::test_j9_event_of_a_delivery_is_verbatim
    runs/domain/test_normalise.py::test_unknown_types_and_members_are_kept
only the payload diverged
    runs/domain/test_normalise.py::test_digest_changes_with_what_happened
    runs/test_intake.py::test_a_changed_event_leaves_the_first_in_place_and_is_kept_beside_it
the parent of a fork is no caller
    runs/domain/test_snapshots.py::test_parent_table
    runs/domain/test_snapshots.py::test_what_a_relation_was_read_from
a pause starts its node again
    runs/domain/test_folding.py::test_pause_of_the_run_explains_a_second_start
    runs/domain/test_folding.py::test_start_again_after_a_suspension_is_the_same_attempt
    runs/domain/test_contradictions.py::test_table
bare ids, and ids projected twice
    runs/test_aliases.py::test_the_second_name_adds_to_the_run_of_the_first
    runs/test_aliases.py::test_every_door_and_link_takes_either
    runs/domain/test_webhooks.py::test_a_run_that_the_event_spells_longer
    runs/domain/test_projection.py::test_every_identifier_comes_back
    runs/follower/test_follow_run.py::test_a_run_of_the_first_major_goes_on_under_its_bound_id
the first major ended: redirected, then gone
    runs/follower/test_client.py::test_redirects_within_the_origin_are_followed_with_the_credential
    runs/follower/test_client.py::test_redirects_elsewhere_are_not_followed
    runs/follower/test_follow_run.py::test_the_credential_goes_to_no_other_origin
    runs/follower/test_follow_run.py::test_some_answers_stop_the_following_and_say_why
forks that suppress or regenerate fail
    runs/domain/test_attribution.py::test_h_memory_attribution_replay_stable
    runs/domain/test_attribution.py::test_recorded_app_with_its_replay
header names that nobody had agreed on
    runs/domain/test_webhooks.py::test_each_dialect_verifies_its_own_and_nothing_else
    runs/domain/test_webhooks.py::test_recorded_delivery_verifies_with_its_secret_at_its_time
    runs/test_hooks.py::test_a_delivery_in_another_dialect_is_not_tried
memory written behind the end broke the order
    runs/domain/test_contradictions.py::test_table
    runs/follower/test_follow_run.py::test_a_late_event_begins_the_checks_anew
    runs/test_watch.py::test_a_cancelled_run_that_goes_on_is_told_exactly
the status raced its event
    runs/follower/test_follow_run.py::test_a_status_ahead_of_the_log_ends_nothing
a probe of isolation passed on nothing
    runs/domain/test_memory_read.py::test_h_agent_memory_cross_tenant_isolation_control_then_nothing
    openwop_ui/tenancy/test_every_address.py::test_a_member_finds_the_canary_so_the_walk_would
    runs/domain/test_attribution.py::test_only_unproven_rests_on_nothing
a failed node with nothing but a code
    runs/test_contract_rows.py::test_a_failure_is_told_by_its_code_in_every_shape
capabilities at the root, in a wrapper or both
    runs/domain/test_capabilities.py::test_root_is_read_before_the_wrapper
    runs/domain/test_capabilities.py::test_families_of_the_root_and_the_wrapper
the tenant is named to remove a webhook, and signatures lost a prefix
    runs/test_webhook_registration.py::test_on_the_app_with_the_tenant_that_the_first_major_wants_to_hear
    runs/test_webhook_registration.py::test_on_an_example_host_of_the_first_major
    runs/domain/test_webhooks.py::test_signature_table
"""

from __future__ import annotations

import ast
from functools import cache
from itertools import pairwise
from pathlib import Path

import pytest

TESTS = Path(__file__).parent

Rows = dict[tuple[str, str], list[str]]
DEFINITION = ast.FunctionDef | ast.AsyncFunctionDef


def rows_of(table: str) -> Rows:
    """(group, row) → its tests. A group is underlined, a row begins its line, tests are indented below it."""
    rows: Rows = {}
    group = ""
    for line, below in pairwise([*table.splitlines(), ""]):
        if below.startswith("=="):
            group = line
        elif line.startswith("    "):
            rows[next(reversed(rows))].append(line.strip())
        elif group and line and not line.startswith("=="):
            assert (group, line) not in rows, f"{line!r} is there twice"
            rows[group, line] = []
    return rows


ROWS = rows_of(__doc__ or "")


@cache
def defined_in(file: str) -> frozenset[str]:
    """The tests that a module defines, without importing it."""
    path = TESTS / file
    if not (path.name.startswith("test_") and path.is_file()):
        return frozenset()
    functions = (node for node in ast.parse(path.read_text()).body if isinstance(node, DEFINITION))
    return frozenset(function.name for function in functions if function.name.startswith("test_"))


@pytest.mark.parametrize(("row", "tests"), ROWS.items(), ids=[" - ".join(row) for row in ROWS])
def test_each_row_is_decided_by_tests_that_exist(row: tuple[str, str], tests: list[str]) -> None:
    assert tests, "nothing decides this row"
    missing = [test for test in tests if test.partition("::")[2] not in defined_in(test.partition("::")[0])]
    assert missing == []
    assert len(set(tests)) == len(tests)


def test_every_row_is_in_the_table() -> None:
    groups = [group for group, _ in ROWS]
    assert {group: groups.count(group) for group in groups} == {"Invariants": 24, "Irregularities": 23, "Incidents": 22}


def test_a_test_that_is_not_there_is_noticed() -> None:
    assert "test_a_test_that_is_not_there_is_noticed" in defined_in("test_contract_rows.py")
    assert "rows_of" not in defined_in("test_contract_rows.py")
    assert defined_in("test_of_nothing.py") == frozenset()
    assert rows_of("Group\n=====\na row\n    a.py::test_b\nanother\n") == {
        ("Group", "a row"): ["a.py::test_b"],
        ("Group", "another"): [],
    }
