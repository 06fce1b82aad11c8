// One socket per page. It says only that there is more; the page asks for what it lacks.
// A message about a topic becomes an event on the body: live:runs, live:ledger, live:hosts, live:run.

const LEAST_BETWEEN = 100; // ms between two events of one topic, the last one never dropped
const QUIET_BEFORE_STALE = 4000; // ms without a connection before the page says so
const OFFLINE_AFTER = 3; // attempts; what the browser itself says of the network is only a hint
const FIRST_RETRY = 500;
const LONGEST_RETRY = 10_000;
const READY_WITHIN = 8000;
const FIRST_AFTER = 800; // ms for which the first questions of a page wait, so that it paints itself before
const EVERYWHERE = "conflicts"; // the bar of every page counts them

const WORDS = {
  connecting: ["connecting", "unknown"],
  live: ["live", "live"],
  reconnecting: ["reconnecting", "unknown"],
  offline: ["offline", "open"],
};
const SHAPES = {
  live: '<circle cx="5" cy="5" r="4"/>',
  unknown: '<circle class="l" cx="5" cy="5" r="3.6" stroke-dasharray="1.8 1.4"/>',
  open: '<circle class="l" cx="5" cy="5" r="3.6"/>',
};

const latest = new Map(); // topic → highest `through` heard of

/** How far a run is known to reach, from the socket. */
export const throughOf = (topic) => latest.get(topic) ?? -1;

const nameOf = (topic) => `live:${topic.split(":", 1)[0]}`;

class Announcer {
  #waiting = new Map(); // topic → {timer, message}
  #last = new Map();

  tell(topic, message) {
    if (typeof message.through === "number") latest.set(topic, Math.max(throughOf(topic), message.through));
    const waiting = this.#waiting.get(topic);
    if (waiting) {
      waiting.message = message;
      return;
    }
    const pause = Math.max(0, LEAST_BETWEEN - (performance.now() - (this.#last.get(topic) ?? -Infinity)));
    const entry = { message };
    this.#waiting.set(topic, entry);
    entry.timer = setTimeout(() => this.#fire(topic), pause);
  }

  /** A hidden page keeps what it heard and tells it once when it is looked at again. */
  #fire(topic) {
    const entry = this.#waiting.get(topic);
    if (!entry || document.hidden) return;
    if (document.querySelector(`.htmx-request[hx-trigger*="${nameOf(topic)}"]`)) {
      // A region that is being asked is replaced by its answer, and what it is told meanwhile would go with it.
      entry.timer = setTimeout(() => this.#fire(topic), 50);
      return;
    }
    this.#waiting.delete(topic);
    this.#last.set(topic, performance.now());
    document.body.dispatchEvent(new CustomEvent(nameOf(topic), { detail: entry.message }));
  }

  release() {
    for (const topic of [...this.#waiting.keys()]) this.#fire(topic);
  }
}

class Connection {
  #socket = null;
  #retry = 0;
  #retryTimer;
  #readyTimer;
  #staleTimer;
  #lastHeard = Date.now();
  #wasReady = false;

  constructor(tenant, topics) {
    this.tenant = tenant;
    this.topics = topics;
    this.announcer = new Announcer();
  }

  open() {
    clearTimeout(this.#retryTimer);
    this.#close();
    const scheme = location.protocol === "https:" ? "wss:" : "ws:";
    const socket = new WebSocket(`${scheme}//${location.host}/ws/`);
    this.#socket = socket;
    socket.addEventListener("open", () => this.subscribe());
    socket.addEventListener("message", (event) => this.#hear(event.data));
    socket.addEventListener("close", () => this.#socket === socket && this.#lost());
    this.#expectReady();
  }

  /** May be sent again on an open socket: the answer proves that the other end is there. */
  subscribe() {
    if (this.#socket?.readyState !== WebSocket.OPEN) return this.open();
    this.#socket.send(JSON.stringify({ tenant: this.tenant, topics: this.topics }));
    this.#expectReady();
  }

  catchUp() {
    for (const topic of this.topics) this.announcer.tell(topic, { topic, catchUp: true });
  }

  drop() {
    this.#close();
    this.#lost();
  }

  #expectReady() {
    clearTimeout(this.#readyTimer);
    this.#readyTimer = setTimeout(() => this.drop(), READY_WITHIN);
  }

  #hear(data) {
    let message;
    try {
      message = JSON.parse(data);
    } catch {
      return;
    }
    this.#lastHeard = Date.now();
    if (message.ready) return this.#ready();
    if (typeof message.topic === "string" && this.topics.includes(message.topic)) this.announcer.tell(message.topic, message);
  }

  #ready() {
    clearTimeout(this.#readyTimer);
    this.#retry = 0;
    this.#show("live");
    // What came between the page and its socket is little and rare: it is asked for when the page is done.
    if (this.#wasReady) return this.catchUp();
    this.#wasReady = true;
    setTimeout(() => this.catchUp(), FIRST_AFTER);
  }

  #lost() {
    clearTimeout(this.#readyTimer);
    clearTimeout(this.#retryTimer);
    this.#socket = null;
    this.#show(this.#retry < OFFLINE_AFTER && navigator.onLine ? "reconnecting" : "offline");
    const longest = Math.min(LONGEST_RETRY, FIRST_RETRY * 2 ** this.#retry++);
    this.#retryTimer = setTimeout(() => this.open(), longest / 2 + Math.random() * (longest / 2));
  }

  #close() {
    const socket = this.#socket;
    this.#socket = null;
    socket?.close();
  }

  #show(state) {
    document.body.dataset.live = state;
    const pill = document.getElementById("live");
    if (pill && pill.dataset.state !== state) {
      const [word, shape] = WORDS[state];
      pill.dataset.state = state;
      pill.querySelector("svg").innerHTML = SHAPES[shape];
      pill.querySelector("span").textContent = word;
    }
    this.#showStale(state);
  }

  #showStale(state) {
    const banner = document.getElementById("stale");
    if (!banner) return;
    if (state === "live") {
      clearTimeout(this.#staleTimer);
      this.#staleTimer = null;
      banner.hidden = true;
      return;
    }
    this.#staleTimer ??= setTimeout(() => {
      const time = banner.querySelector("time");
      time.dateTime = new Date(this.#lastHeard).toISOString();
      time.dataset.t = "";
      banner.hidden = false;
      banner.dispatchEvent(new CustomEvent("fragment:shown", { bubbles: true }));
    }, QUIET_BEFORE_STALE);
  }
}

export function startLive() {
  const { tenant, topics } = document.body.dataset;
  const wanted = (topics ?? "").split(" ").filter(Boolean);
  if (!tenant || !wanted.length) return;
  const connection = new Connection(tenant, [...new Set([...wanted, EVERYWHERE])]);
  document.addEventListener("visibilitychange", () => {
    if (document.hidden) return;
    connection.subscribe(); // answers "ready" and with it every live event once
    connection.announcer.release();
  });
  addEventListener("online", () => connection.open());
  addEventListener("offline", () => connection.drop());
  addEventListener("pageshow", (event) => event.persisted && connection.open());
  document.querySelector("[data-refresh]")?.addEventListener("click", () => {
    connection.catchUp();
    connection.open();
  });
  connection.open();
}
