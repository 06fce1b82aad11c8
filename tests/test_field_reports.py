"""What users of comparable products complain about, each complaint with the tests that decide it here.

The table is read as the one of the contract is: a row without a test, or one whose test is not there, fails.

Timelines
=========
collapsing a lane of 80,000 events freezes
    browser/test_timeline.py::test_the_busiest_lane_collapses_at_once
a long history is fetched whole before anything shows
    browser/test_timeline.py::test_the_first_paint_takes_two_requests_and_less_than_a_megabyte
    runs/test_timeline.py::test_an_answer_stays_small_whatever_the_run
filtering by one node still loads the whole log
    browser/test_timeline.py::test_a_filter_loads_what_it_admits_and_counts_what_the_api_has
    runs/test_timeline.py::test_a_filter_counts_its_matches_lane_by_lane
only the first thousand are shown and the rest looks lost
    browser/test_timeline.py::test_the_first_paint_takes_two_requests_and_less_than_a_megabyte
    browser/test_timeline.py::test_a_filter_loads_what_it_admits_and_counts_what_the_api_has
some types are hidden even with every filter on
    browser/test_timeline.py::test_what_only_looks_hidden_is_counted_and_marked
    runs/test_timeline.py::test_every_event_is_in_one_lane_and_one_cell
    runs/test_timeline.py::test_bookkeeping_is_not_relevant_and_what_nobody_knows_is
a slow subscriber loses messages
    browser/test_live.py::test_a_page_that_slept_catches_up
    browser/test_timeline.py::test_a_late_event_is_there_when_a_hidden_tab_is_looked_at_again
a completed run flips back to running
    runs/domain/test_folding.py::test_terminal_never_goes_back
    browser/test_timeline.py::test_the_page_is_the_same_whatever_the_order_of_arrival
children are hidden until their parent ends
    browser/test_timeline.py::test_what_only_looks_hidden_is_counted_and_marked
the zone is set and the axis does not follow
    browser/test_timeline.py::test_every_place_shows_times_in_the_chosen_zone
clocks are corrected in silence
    browser/test_timeline.py::test_what_only_looks_hidden_is_counted_and_marked
    runs/test_timeline.py::test_reversals_and_gaps_are_told_as_reported
integers of 64 bits are rounded in the payload
    browser/test_run.py::test_hostile_strings_are_inert_everywhere
    openwop_ui/test_api_push.py::test_what_the_database_can_not_hold_as_it_is_is_stored_without_loss
ids with odd characters are not found
    openwop_ui/test_api_push.py::test_a_run_of_any_id_has_one_address_that_its_answers_name
    browser/test_timeline.py::test_hostile_strings_are_inert_in_lanes_tips_and_popovers
"""

from __future__ import annotations

import pytest

from tests.test_contract_rows import defined_in, rows_of

ROWS = rows_of(__doc__ or "")


@pytest.mark.parametrize(("row", "tests"), ROWS.items(), ids=[row for _, row in ROWS])
def test_each_complaint_is_decided_by_tests_that_exist(row: tuple[str, str], tests: list[str]) -> None:
    assert tests, "nothing decides this row"
    assert [test for test in tests if test.partition("::")[2] not in defined_in(test.partition("::")[0])] == []
