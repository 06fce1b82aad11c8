"""The names of event types. The second major renamed 36 of the first one's; inside, the first one's are used."""

import re
from functools import lru_cache
from types import MappingProxyType

# Second major's spelling → first major's. The other registered names are the same in both.
FIRST_MAJOR_NAMES = MappingProxyType(
    {
        "agent.invocation-completed": "agent.invocation.completed",
        "agent.invocation-started": "agent.invocation.started",
        "agent.memory-consolidated": "agent.memory.consolidated",
        "agent.prompt-resolved": "agent.promptResolved",
        "agent.reasoning-delta": "agent.reasoning.delta",
        "agent.tool-called": "agent.toolCalled",
        "agent.tool-returned": "agent.toolReturned",
        "budget.threshold-crossed": "budget.threshold.crossed",
        "compensation.manual-intervention-required": "compensation.manual_intervention_required",
        "connector.auth-expired": "connector.auth_expired",
        "deployment.canary-adjusted": "deployment.canary.adjusted",
        "deployment.state-changed": "deployment.state.changed",
        "dispatch.fanned-out": "core.dispatch.fanOut",
        "dispatch.joined": "core.dispatch.join",
        "envelope.nl-to-format-engaged": "envelope.nlToFormat.engaged",
        "envelope.recovery-applied": "envelope.recovery.applied",
        "envelope.retry-attempted": "envelope.retry.attempted",
        "envelope.retry-exhausted": "envelope.retry.exhausted",
        "model.capability-insufficient": "model.capability.insufficient",
        "model.capability-substituted": "model.capability.substituted",
        "orchestrator.decided": "runOrchestrator.decided",
        "replay.diverged-at-refusal": "replay.divergedAtRefusal",
        "roster.run-initiated": "roster.run.initiated",
        "run.dead-lettered": "run.dead_lettered",
        "run.resume-started": "run.resuming",
        "tool.session-closed": "tool.session.closed",
        "tool.session-opened": "tool.session.opened",
        "trigger.delivery-attempted": "trigger.delivery.attempted",
        "trigger.subscription-state-changed": "trigger.subscription.state.changed",
        "voice.barge-in": "voice.barge_in",
        "voice.endpoint-candidate": "voice.endpoint_candidate",
        "voice.speech-start": "voice.speech_start",
        "voice.synthesis-chunk": "voice.synthesis_chunk",
        "voice.turn-commit": "voice.turn_commit",
        "workflow-chain.confidence-escalated": "core.workflowChain.confidence-escalated",
        "workflow-chain.event": "core.workflowChain.event",
    }
)

# Vendors mirror the memory events under names of their own, such as `x-host-acme-memory-written`.
_ABOUT_MEMORY = re.compile(r"memory[._-]?(?:written|compacted|consolidated)|commitment[._-]?fired", re.IGNORECASE)


def canonical(reported: str) -> str:
    """The first major's spelling; an unknown name, a vendor's included, is left alone."""
    return FIRST_MAJOR_NAMES.get(reported, reported)


@lru_cache(1024)
def is_about_memory(name: str) -> bool:
    """Whether events of this type announce what memory holds, and so must not carry it (RFC 0057, 0012, 0068)."""
    return _ABOUT_MEMORY.search(name) is not None
