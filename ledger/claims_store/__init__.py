"""Claims, in writing: what writers say comes in, is settled, revised and decided. Every verb is here."""

from .actor import Actor, host_writer
from .intake import Taken, add
from .reviewing import Ask, Decided, decide_conflict, preview, undo_decision
from .revising import NotItsWriter, Revision, revise_claim, withdraw_subject
from .rules import (
    StaleWriter,
    TenantRules,
    WriterExists,
    change_writer,
    key_rows,
    register_writer,
    rule_of,
    rules_of,
    set_key_rule,
    set_key_rules,
    share_rules,
)

__all__ = [
    "Actor",
    "Ask",
    "Decided",
    "NotItsWriter",
    "Revision",
    "StaleWriter",
    "Taken",
    "TenantRules",
    "WriterExists",
    "add",
    "change_writer",
    "decide_conflict",
    "host_writer",
    "key_rows",
    "preview",
    "register_writer",
    "revise_claim",
    "rule_of",
    "rules_of",
    "set_key_rule",
    "set_key_rules",
    "share_rules",
    "undo_decision",
    "withdraw_subject",
]
