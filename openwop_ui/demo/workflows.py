"""The demo's workflows: small, believable, and each showing something else in a timeline."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from .script import (
    AwaitChild,
    Compact,
    Consolidate,
    Failure,
    Inputs,
    Pause,
    Payload,
    Recall,
    Remember,
    Script,
    StartChild,
    Tell,
    Together,
)

TEAM = "team:support"
RESEARCH = "team:research"
POLICY = "policy:refunds"


@dataclass(frozen=True, slots=True)
class Customer:
    key: str
    name: str
    topic: str
    wishes: tuple[str, ...]


CUSTOMERS = (
    Customer(
        "2041",
        "Amara Okafor",
        "invoice in the wrong currency",
        (
            "Amara Okafor wants invoices in EUR.",
            "Amara Okafor prefers e-mail; calls only after 14:00 UTC.",
            "Amara Okafor now wants invoices in USD, from the next billing period on.",
        ),
    ),
    Customer(
        "2077",
        "Jonas Lindqvist",
        "single sign-on fails after the domain changed",
        (
            "Jonas Lindqvist administers the tenant lindqvist-bygg.",
            "The sign-on domain of lindqvist-bygg changed to bygg.example.",
            "Jonas Lindqvist has the backup codes; recovery contact is Maja Lindqvist.",
        ),
    ),
    Customer(
        "2093",
        "陈思远",
        "导出的报表缺少最后一天",
        (
            "陈思远 reads replies in Chinese; English is fine for attachments.",
            "Reports of this account close at midnight in Asia/Shanghai.",
            "陈思远 不喜欢自动提醒。",
        ),
    ),
    Customer(
        "2110",
        "Mariam Haddad",
        "wants to move the workspace to another region",
        (
            "Mariam Haddad asked for the workspace to be in eu-central.",
            "The move of workspace haddad-labs is planned for Sunday 06:00 UTC.",
            "The CRM entry was opened with the token [REDACTED:crm-token].",
        ),
    ),
)

QUESTIONS = (
    (
        "retention of audit logs in the EU",
        ("seven years for invoices", "six months for access logs", "no rule for traces"),
    ),
    ("vector index recall at a million entries", ("0.97 with ef 200", "0.91 with ef 60", "memory grows by a third")),
    ("passkeys on shared devices", ("one profile per person", "platform keys are not shared", "security keys work")),
)


def _node(node: str, type_id: str, work: Script, *, attempt: int = 1) -> Script:
    """A node from start to completion. What `work` returns are its outputs."""
    yield Tell("node.started", node, {"nodeId": node, "typeId": type_id, "attempt": attempt})
    outputs = yield from work
    yield Tell("node.completed", node, {"nodeId": node, "outputs": outputs or {}})
    return outputs


def _step(inputs: Inputs, least: float, most: float, outputs: Payload | None = None) -> Script:
    yield inputs.work(least, most)
    return dict(outputs or {})


def _call(inputs: Inputs, node: str, agent: str, tool: str, asked: Payload, outcome: Payload) -> Script:
    """A tool call and its return, paired by callId and by cause."""
    call_id = f"call-{inputs.chance.getrandbits(40):010x}"
    named = {"agentId": agent, "toolName": tool, "callId": call_id}
    called = yield Tell("agent.toolCalled", node, {**named, "inputs": asked, "transport": "mcp"})
    took = inputs.work(0.4, 2.2)
    yield took
    returned = {**named, "status": "ok", "outcome": outcome, "durationMs": round(took.seconds * 1000)}
    yield Tell("agent.toolReturned", node, returned, cause=called)


def _remember(inputs: Inputs, node: str, agent: str, key: str, customer: Customer, wish: str) -> Script:
    """An agent asks for a memory to be written. Most of it is; now and then a person is to decide, or there is no room.

    What is to be remembered is not told: events announce memory and do not carry it.
    """
    ref, tags = f"customer:{customer.key}", ("customer", f"account:{customer.key}")
    asked = {"key": key, "scope": {"type": "customer", "id": customer.key}, "agentIdentity": agent}
    call_id = f"call-{inputs.chance.getrandbits(40):010x}"
    named = {"agentId": agent, "toolName": "remember", "callId": call_id}
    called = yield Tell("agent.toolCalled", node, {**named, "inputs": asked, "transport": "mcp"})
    took = inputs.work(0.3, 1.0)
    yield took
    told: Payload = {"status": "ok", "outcome": {"entry": asked, "needsDecision": True}}
    fate = inputs.chance.random()
    if fate < 0.1:
        error = {"code": "quota_exceeded", "message": "this scope holds as many entries as it may"}
        told = {"status": "error", "outcome": {"error": error}}
    elif fate > 0.2:
        memory_id = yield Remember(ref, wish, tags, node, agent)
        told = {"status": "ok", "outcome": {"entry": {**asked, "id": memory_id}, "needsDecision": False}}
    returned = {**named, **told, "durationMs": round(took.seconds * 1000)}
    yield Tell("agent.toolReturned", node, returned, cause=called)


def _agent(inputs: Inputs, node: str, agent: str, work: Script) -> Script:
    invocation = {"invocationId": f"inv-{inputs.chance.getrandbits(40):010x}", "agentId": agent}
    started = yield Tell("agent.invocation.started", node, {**invocation, "source": "workflow"})
    outputs = yield from work
    yield Tell("agent.invocation.completed", node, {**invocation, "outcome": "completed"}, cause=started)
    return outputs


def summarise_thread(inputs: Inputs) -> Script:
    """An agent reads a support thread, looks up what is known, and remembers what is new."""
    customer = inputs.chance.choice(CUSTOMERS)
    ref, agent = f"customer:{customer.key}", "support.summariser"
    messages = inputs.chance.randint(4, 17)
    yield from _node("fetch-thread", "core.http.request", _step(inputs, 0.8, 2.0, {"messages": messages}))

    def triage() -> Script:
        known = yield Recall(ref)
        yield from _call(inputs, "triage", agent, "list_memories", {"memoryRef": ref}, {"memoryIds": known})
        yield from _call(
            inputs, "triage", agent, "crm.lookup", {"account": customer.key}, {"name": customer.name, "plan": "team"}
        )
        confidence = round(inputs.chance.uniform(0.7, 0.99), 2)
        decided = {"agentId": agent, "decision": {"topic": customer.topic}, "confidence": confidence}
        yield Tell("agent.decided", "triage", decided)
        return {"topic": customer.topic}

    yield from _node("triage", "core.agent.invoke", _agent(inputs, "triage", agent, triage()))

    def summarise() -> Script:
        yield inputs.work(2.0, 5.0)
        for wish in inputs.chance.sample(customer.wishes, inputs.chance.randint(1, 2)):
            key = f"wishes.{customer.wishes.index(wish)}"
            yield from _remember(inputs, "summarise", agent, key, customer, wish)
            yield inputs.work(0.3, 1.2)
        return {"sentences": inputs.chance.randint(2, 4)}

    yield from _node("summarise", "core.agent.invoke", _agent(inputs, "summarise", agent, summarise()))
    yield from _node("notify", "core.message.send", _step(inputs, 0.4, 1.2, {"channel": "support"}))
    return {"account": customer.key, "topic": customer.topic}


def compact_nightly(inputs: Inputs) -> Script:
    """The host folds old entries into one, and now and then merges long-term ones."""
    customer = inputs.chance.choice(CUSTOMERS)
    refs = [f"customer:{customer.key}", TEAM, RESEARCH]
    yield from _node("select", "core.memory.select", _step(inputs, 1.0, 2.5, {"refs": len(refs)}))

    def distil() -> Script:
        folded = 0
        for ref in refs:
            yield inputs.work(1.5, 4.0)
            sources = yield Compact(ref, "distil")
            folded += len(sources)
        return {"folded": folded}

    yield from _node("distil", "core.memory.compact", distil())
    if inputs.chance.random() < 0.4:

        def consolidate() -> Script:
            yield inputs.work(1.0, 3.0)
            yield Consolidate("run-summaries", "consolidate")

        yield from _node("consolidate", "core.memory.consolidate", consolidate())
    return {"refs": refs}


def sync_accounts(inputs: Inputs) -> Script:
    """A node fails once or twice before it succeeds."""
    node, failures = "pull-changes", inputs.chance.randint(1, 2)
    yield from _node("plan", "core.flow.plan", _step(inputs, 0.5, 1.5, {"pages": 3}))
    for attempt in range(1, failures + 1):
        yield Tell("node.started", node, {"nodeId": node, "typeId": "core.http.request", "attempt": attempt})
        yield inputs.work(2.0, 4.0)
        error = {"code": "upstream_timeout", "message": "crm.example did not answer within 2 s"}
        yield Tell("node.failed", node, {"nodeId": node, "error": error, "attempt": attempt})
        pause = Pause(1.0 * 2**attempt)
        delay = round(pause.seconds * 1000)
        yield Tell("node.retried", node, {"nodeId": node, "attempt": attempt + 1, "delayMs": delay})
        yield pause
    yield from _node(node, "core.http.request", _step(inputs, 1.0, 2.5, {"changed": 12}), attempt=failures + 1)

    def keep() -> Script:
        yield inputs.work(0.5, 1.5)
        yield Remember(TEAM, f"The account sync needed {failures + 1} attempts.", ("sync",), "remember", keep=600)

    yield from _node("remember", "core.memory.write", keep())
    return {"changed": 12}


def approve_refund(inputs: Inputs) -> Script:
    """Waits for a person, who decides after some seconds."""
    customer = inputs.chance.choice(CUSTOMERS)
    amount = inputs.chance.choice((19, 49, 120, 480))
    agent, node = "billing.assistant", "approve"
    yield from _node("draft", "core.agent.invoke", _agent(inputs, "draft", agent, _step(inputs, 1.5, 3.5)))
    yield Tell("node.started", node, {"nodeId": node, "typeId": "core.interrupt.approval", "attempt": 1})
    asked = yield Tell(
        "approval.requested",
        node,
        {"nodeId": node, "kind": "approval", "prompt": f"Refund {amount} EUR to {customer.name}?"},
    )
    yield Tell("node.suspended", node, {"nodeId": node, "kind": "approval"})
    yield inputs.between(6.5, 9.5)
    decision = "approved" if inputs.chance.random() < 0.8 else "rejected"
    yield Tell(
        "approval.received",
        node,
        {"nodeId": node, "decision": decision, "decidedBy": "user:mara"},
        cause=asked,
    )
    yield Tell("node.completed", node, {"nodeId": node, "outputs": {"decision": decision}})

    def keep() -> Script:
        yield inputs.work(0.5, 1.5)
        outcome = f"A refund of {amount} EUR to {customer.name} was {decision}."
        yield Remember(POLICY, outcome, ("refund", decision), "remember", agent)

    if decision == "approved":
        yield from _node("pay", "core.http.request", _step(inputs, 1.0, 2.5, {"paid": amount}))
    yield from _node("remember", "core.memory.write", keep())
    return {"decision": decision}


def research(inputs: Inputs) -> Script:
    """Three searches beside each other, then one answer."""
    question, findings = inputs.chance.choice(QUESTIONS)
    planner = "research.planner"
    yield from _node("plan", "core.agent.invoke", _agent(inputs, "plan", planner, _step(inputs, 1.5, 3.0)))
    branches = ("search-docs", "search-papers", "search-forum")
    yield Tell("core.dispatch.fanOut", "plan", {"nodeId": "plan", "branches": list(branches), "joinMode": "wait-all"})

    def search(node: str, finding: str) -> Script:
        agent = f"research.{node.removeprefix('search-')}"

        def work() -> Script:
            for turn in range(inputs.chance.randint(2, 4)):
                yield inputs.work(0.6, 2.4)
                asked = {"query": question, "page": turn + 1}
                yield from _call(inputs, node, agent, "web.search", asked, {"results": inputs.chance.randint(0, 10)})
            yield Remember(RESEARCH, f"{question}: {finding}.", ("finding",), node, agent)
            return {"finding": finding}

        yield from _node(node, "core.agent.invoke", _agent(inputs, node, agent, work()))

    pairs = zip(branches, findings, strict=True)
    yield Together(tuple(search(node, finding) for node, finding in pairs))
    yield Tell("core.dispatch.join", "plan", {"nodeId": "plan", "completed": len(branches), "failed": 0})

    def synthesise() -> Script:
        yield inputs.work(2.0, 5.0)
        known = yield Recall(RESEARCH, 3)
        yield Remember(
            RESEARCH,
            f"Answer on {question}: {'; '.join(findings)}.",
            ("answer", *(f"based-on:{memory_id}" for memory_id in known)),
            "synthesise",
            planner,
        )
        return {"sources": len(known)}

    yield from _node("synthesise", "core.agent.invoke", _agent(inputs, "synthesise", planner, synthesise()))
    return {"question": question}


def import_invoices(inputs: Inputs) -> Script:
    """Fails for good, after it has remembered something."""
    yield from _node("download", "core.http.request", _step(inputs, 1.0, 3.0, {"files": 4}))

    def keep() -> Script:
        yield inputs.work(0.5, 1.5)
        yield Remember(TEAM, "Invoices of the scanner come as PDF/A-3 with XML inside.", ("invoices",), "learn-format")

    yield from _node("learn-format", "core.memory.write", keep())
    node = "parse"
    yield Tell("node.started", node, {"nodeId": node, "typeId": "core.document.parse", "attempt": 1})
    yield inputs.work(2.0, 5.0)
    raise Failure(node, "schema_mismatch", "invoice 3 of 4: the total is not the sum of its lines")


def onboard(inputs: Inputs) -> Script:
    """A sub-workflow: the child remembers under its own run."""
    customer = inputs.chance.choice(CUSTOMERS)
    yield from _node("create-account", "core.http.request", _step(inputs, 1.0, 2.5, {"account": customer.key}))
    node = "build-profile"
    yield Tell("node.started", node, {"nodeId": node, "typeId": "core.subWorkflow", "attempt": 1})
    child = yield StartChild("onboarding.profile", node, {"account": customer.key})
    status = yield AwaitChild(child)
    yield Tell("node.completed", node, {"nodeId": node, "outputs": {"childRunId": child, "status": status}})
    yield from _node("welcome", "core.message.send", _step(inputs, 0.5, 1.5))
    return {"account": customer.key}


def build_profile(inputs: Inputs) -> Script:
    key = inputs.given.get("account")
    customer = next((one for one in CUSTOMERS if one.key == key), CUSTOMERS[0])
    agent = "onboarding.profiler"

    def profile() -> Script:
        yield from _call(inputs, "profile", agent, "crm.lookup", {"account": customer.key}, {"name": customer.name})
        yield inputs.work(1.5, 4.0)
        yield from _remember(inputs, "profile", agent, "wishes.0", customer, customer.wishes[0])

    yield from _node("profile", "core.agent.invoke", _agent(inputs, "profile", agent, profile()))
    return {"account": customer.key}


Workflow = Callable[[Inputs], Script]

WORKFLOWS: Mapping[str, Workflow] = MappingProxyType(
    {
        "support.summarise-thread": summarise_thread,
        "research.fan-out": research,
        "billing.approve-refund": approve_refund,
        "crm.sync-accounts": sync_accounts,
        "memory.compact-nightly": compact_nightly,
        "onboarding.customer": onboard,
        "onboarding.profile": build_profile,
        "billing.import-invoices": import_invoices,
    }
)

OFTEN: Mapping[str, int] = MappingProxyType(
    {
        "support.summarise-thread": 5,
        "research.fan-out": 3,
        "billing.approve-refund": 2,
        "crm.sync-accounts": 2,
        "memory.compact-nightly": 2,
        "onboarding.customer": 2,
        "billing.import-invoices": 1,
    }
)
"""How often the host starts each by itself, relative to the others."""

OPENING = (
    "support.summarise-thread",
    "research.fan-out",
    "billing.approve-refund",
    "crm.sync-accounts",
    "onboarding.customer",
    "support.summarise-thread",
    "memory.compact-nightly",
    "billing.import-invoices",
)
"""What the host starts first: a fresh one soon shows each kind, and compacts when there is something to compact."""
