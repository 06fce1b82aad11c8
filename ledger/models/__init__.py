"""What is remembered, who wrote it and why it holds. Facts and readings of them, a module for each subject."""

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

__all__ = [
    "ContentState",
    "MemoryEntry",
    "MemoryScope",
    "MemoryWrite",
    "Merge",
    "MergeSource",
    "Observation",
    "ReadingCursor",
    "TaggedSource",
]
