"""What events of the memory family say, and what is read from ones that say it oddly."""

from __future__ import annotations

import json
from typing import Any

import pytest

from ledger.domain.reading import Address, Merged, Written, compacted_from, entry_id, read_fact, scope_id

NOTE = {"memoryRef": "notes", "memoryId": "m1"}


def written(payload: Any, **members: Any) -> Written:
    fact = read_fact("memory.written", json.dumps({"payload": payload} | members))
    assert isinstance(fact, Written)
    return fact


def merged(type: str, payload: Any) -> Merged:
    fact = read_fact(type, json.dumps({"payload": payload}))
    assert isinstance(fact, Merged)
    return fact


def test_a_write_names_its_entry_node_agent_and_tags() -> None:
    assert written(NOTE | {"nodeId": "sum", "agentId": "writer", "tags": ["a", "b"]}) == Written(
        address=Address("notes", "m1"), node_id="sum", agent_id="writer", tags=("a", "b"), tagged_sources=()
    )


def test_other_types_are_no_facts() -> None:
    assert read_fact("node.completed", json.dumps({"payload": NOTE})) is None
    assert read_fact("x-host-acme-memory-written", json.dumps({"payload": NOTE})) is None


@pytest.mark.parametrize(
    "in_payload, in_envelope, expected",
    [
        ("inner", None, "inner"),
        (None, "outer", "outer"),
        ("inner", "outer", "inner"),
        ("", "outer", "outer"),
        (7, "outer", "outer"),
        (None, None, None),
        ("", "", None),
        ("x" * 513, "outer", "outer"),
        ("x" * 512, "outer", "x" * 512),
    ],
)
def test_the_node_is_that_of_the_payload_before_that_of_the_envelope(
    in_payload: Any, in_envelope: Any, expected: str | None
) -> None:
    assert written(NOTE | {"nodeId": in_payload}, nodeId=in_envelope).node_id == expected


@pytest.mark.parametrize(
    "payload",
    [
        {},
        {"memoryRef": "notes"},
        {"memoryId": "m1"},
        {"memoryRef": "", "memoryId": "m1"},
        {"memoryRef": "notes", "memoryId": ""},
        {"memoryRef": "notes", "memoryId": 1},
        {"memoryRef": ["notes"], "memoryId": "m1"},
        {"memoryRef": None, "memoryId": None},
        {"memoryRef": "notes", "memoryId": "m" * 2049},
        None,
        "m1",
        [NOTE],
        7,
    ],
)
def test_a_write_without_a_whole_address_is_a_write_of_no_known_entry(payload: Any) -> None:
    fact = written(payload, nodeId="sum")
    assert fact.address is None
    assert fact.node_id == "sum"


def test_the_longest_id_that_is_an_address() -> None:
    assert written({"memoryRef": "r" * 2048, "memoryId": "m" * 2048}).address == Address("r" * 2048, "m" * 2048)


@pytest.mark.parametrize(
    "tags, expected",
    [
        (["a", "a", "b"], ("a", "a", "b")),
        (["a", 1, None, ["b"], {"c": 1}, ""], ("a", "")),
        ("a", ()),
        (None, ()),
        ({"a": 1}, ()),
    ],
)
def test_tags_are_the_strings_of_a_list(tags: Any, expected: tuple[str, ...]) -> None:
    assert written(NOTE | {"tags": tags}).tags == expected


@pytest.mark.parametrize("agent", [None, "", 5, ["writer"], "x" * 513])
def test_an_agent_that_is_no_name_is_unknown(agent: Any) -> None:
    assert written(NOTE | {"agentId": agent}).agent_id is None


def test_the_other_spelling_of_the_payload() -> None:
    fact = read_fact("memory.written", json.dumps({"data": NOTE, "seq": 4}))
    assert isinstance(fact, Written) and fact.address == Address("notes", "m1")
    fact = read_fact("memory.written", json.dumps({"payload": None, "data": NOTE}))
    assert isinstance(fact, Written) and fact.address == Address("notes", "m1")


def test_numbers_that_no_parser_can_hold_do_not_end_the_reading() -> None:
    body = '{"payload":{"memoryRef":"notes","memoryId":"m1","size":' + "9" * 5000 + ',"rate":1e999}}'
    fact = read_fact("memory.written", body)
    assert isinstance(fact, Written) and fact.address == Address("notes", "m1")


def test_lone_surrogates_and_nul_are_kept() -> None:
    fact = read_fact("memory.written", r'{"payload":{"memoryRef":"a\u0000b","memoryId":"\ud800"}}')
    assert isinstance(fact, Written) and fact.address == Address("a\0b", "\ud800")


def test_a_compaction_names_its_output_and_sources() -> None:
    told = {
        "memoryRef": "notes",
        "outputId": "all",
        "sourceCount": 3,
        "sourceIds": ["m1", "m2", "m1", "", 4],
        "byteSize": 120,
        "trigger": "host-managed",
    }
    assert merged("memory.compacted", told) == Merged(
        kind="compaction",
        memory_ref="notes",
        output=Address("notes", "all"),
        sources=(Address("notes", "m1"), Address("notes", "m2")),
        sources_named=True,
        source_count=3,
        output_count=1,
        byte_size=120,
        trigger="host-managed",
    )


def test_a_compaction_may_leave_its_sources_out() -> None:
    fact = merged("memory.compacted", {"memoryRef": "notes", "outputId": "all", "sourceCount": 412})
    assert (fact.sources, fact.sources_named, fact.source_count) == ((), False, 412)


@pytest.mark.parametrize("payload", [None, [], {"outputId": "all"}, {"memoryRef": 5, "sourceIds": ["m1"]}])
def test_a_merge_of_an_unknown_ref_names_no_entries(payload: Any) -> None:
    fact = merged("memory.compacted", payload)
    assert (fact.memory_ref, fact.output, fact.sources, fact.trigger) == ("", None, (), "")


def test_a_consolidation_names_what_was_merged_and_never_an_output() -> None:
    told = {"memoryRef": "notes", "inputCount": 9, "outputCount": 4, "mergedIds": ["m1", "m2"], "trigger": "scheduled"}
    assert merged("agent.memory.consolidated", told) == Merged(
        kind="consolidation",
        memory_ref="notes",
        output=None,
        sources=(Address("notes", "m1"), Address("notes", "m2")),
        sources_named=True,
        source_count=9,
        output_count=4,
        byte_size=None,
        trigger="scheduled",
    )


@pytest.mark.parametrize("count", [True, -1, 1.5, "3", None, 2**63, 10**30])
def test_a_count_that_is_none_is_unknown(count: Any) -> None:
    assert merged("memory.compacted", {"memoryRef": "notes", "sourceCount": count}).source_count is None


def test_tags_may_name_sources() -> None:
    assert compacted_from(["a", "compacted-from:m1", "compacted-from:", "compacted-from:m1", "compacted-from:x:y"]) == (
        "m1",
        "x:y",
    )
    fact = written(NOTE | {"tags": ["compacted-from:m0"]})
    assert fact.tagged_sources == (Address("notes", "m0"),)
    assert written({"memoryRef": "notes", "tags": ["compacted-from:m0"]}).tagged_sources == ()


def test_ids_of_entries_tell_every_two_addresses_apart() -> None:
    addresses = [(1, "a", "bc"), (1, "ab", "c"), (11, "a", "bc"), (1, "1:a", "bc"), (1, "a", "1:bc"), (1, "a:1", "bc")]
    assert len({entry_id(host, Address(ref, memory_id)) for host, ref, memory_id in addresses}) == len(addresses)
    assert entry_id(1, Address("a", "b")) == entry_id(1, Address("a", "b"))
    assert len({scope_id(1, "1:a"), scope_id(11, ":a"), scope_id(1, "a"), scope_id(11, "a")}) == 4


@pytest.mark.parametrize("body", ["[1]", "7", "null", '"text"'])
def test_a_body_that_is_no_object_names_no_entry(body: str) -> None:
    assert read_fact("memory.written", body) == Written(None, None, None, (), ())


def test_counts_beside_what_the_fast_parser_refuses() -> None:
    body = r'{"payload":{"memoryRef":"\ud800","sourceCount":9223372036854775807,"byteSize":9223372036854775808}}'
    fact = read_fact("memory.compacted", body)
    assert isinstance(fact, Merged)
    assert (fact.source_count, fact.byte_size) == (2**63 - 1, None)


def test_nothing_is_a_count() -> None:
    assert merged("memory.compacted", {"memoryRef": "notes", "sourceCount": 0}).source_count == 0


def test_a_consolidation_that_says_nothing() -> None:
    assert merged("agent.memory.consolidated", {}) == Merged(
        kind="consolidation",
        memory_ref="",
        output=None,
        sources=(),
        sources_named=False,
        source_count=None,
        output_count=None,
        byte_size=None,
        trigger="",
    )
