"""What is remembered, who wrote it and why it holds. Facts and readings of them, a module for each subject."""

from .claims import ClaimRevision, ClaimRow, ClaimState, Holding, SubjectKey
from .conflicts import Conflict, ConflictChange, ConflictClaim, Decision
from .own_memory import OwnDelete, OwnPut, RunSecret, RunSnapshot
from .policies import LedgerSettings
from .readings import (
    ContentState,
    MemoryEntry,
    MemoryScope,
    MemoryWrite,
    Merge,
    MergeSource,
    Observation,
    ReadingCursor,
    TaggedSource,
)
from .receipts import MemoryTools, Receipt, ReceiptReading
from .retention import ErasedItem, Erasure, WithheldRun
from .sources import IdempotentAnswer, Job, SourceEvent, UnreadEntry
from .writers import ClaimKey, ServiceWriter

__all__ = [
    "ClaimKey",
    "ClaimRevision",
    "ClaimRow",
    "ClaimState",
    "Conflict",
    "ConflictChange",
    "ConflictClaim",
    "ContentState",
    "Decision",
    "ErasedItem",
    "Erasure",
    "Holding",
    "IdempotentAnswer",
    "Job",
    "LedgerSettings",
    "MemoryEntry",
    "MemoryScope",
    "MemoryTools",
    "MemoryWrite",
    "Merge",
    "MergeSource",
    "Observation",
    "OwnDelete",
    "OwnPut",
    "ReadingCursor",
    "Receipt",
    "ReceiptReading",
    "RunSecret",
    "RunSnapshot",
    "ServiceWriter",
    "SourceEvent",
    "SubjectKey",
    "TaggedSource",
    "UnreadEntry",
    "WithheldRun",
]
