// The service as the page sees it: answers, and messages that keep coming. One way in, with a key or without.

const STORE = "hellinger.key";

export class Refused extends Error {
  constructor(status, message) {
    super(message);
    this.status = status;
  }
}

export const key = {
  get: () => sessionStorage.getItem(STORE),
  set: (value) => sessionStorage.setItem(STORE, value),
  forget: () => sessionStorage.removeItem(STORE),
};

async function ask(path, options = {}) {
  const token = key.get();
  const headers = { ...options.headers, ...(token && { Authorization: `Bearer ${token}` }) };
  const answer = await fetch(path, { ...options, headers, cache: "no-store", credentials: "omit" });
  if (answer.ok) return answer;
  const body = await answer.json().catch(() => null);
  throw new Refused(answer.status, body?.error?.message ?? `the service answered ${answer.status}`);
}

function addressOf(path, parameters) {
  const given = Object.entries(parameters).filter(([, value]) => value !== null && value !== undefined && value !== "");
  const query = new URLSearchParams(given).toString();
  return query ? `${path}?${query}` : path;
}

export async function get(path, parameters = {}, signal) {
  return (await ask(addressOf(path, parameters), { signal })).json();
}

export async function post(path, body) {
  return (await ask(path, { method: "POST", body: JSON.stringify(body), headers: { "Content-Type": "application/json" } })).json();
}

const SILENCE = 6000;
const FIRST = 1000;
const LONGEST = 15000;

/** Follow /v1/stream for as long as the page is seen; calls back with messages, and with how the connection is. */
export class Follower {
  constructor({ onmessage, onstate }) {
    this.onmessage = onmessage;
    this.onstate = onstate;
    this.running = false;
    this.parameters = {};
    document.addEventListener("visibilitychange", () => {
      if (!this.wanted) return;
      if (document.hidden) this.hiding = setTimeout(() => this.pause(), 60000);
      else {
        clearTimeout(this.hiding);
        this.start();
      }
    });
  }

  start() {
    this.wanted = true;
    if (this.running) return;
    this.running = true;
    this.run();
  }

  /** Follow another experiment, or compare with another control, from now on. */
  follow(parameters) {
    this.parameters = parameters;
    if (!this.running) return;
    this.again = true;
    this.abort?.abort();
  }

  pause() {
    this.running = false;
    this.abort?.abort();
  }

  stop() {
    this.wanted = false;
    this.pause();
  }

  async run() {
    let wait = FIRST;
    while (this.running) {
      try {
        this.onstate("connecting");
        await this.read(() => {
          wait = FIRST;
        });
      } catch (error) {
        if (!this.running) return;
        if (this.again) {
          this.again = false;
          continue;
        }
        if (error instanceof Refused && (error.status === 401 || error.status === 403)) {
          this.running = false;
          this.onstate("refused", error);
          return;
        }
        this.onstate("lost", error instanceof Refused ? error : null);
      }
      if (!this.running) return;
      await new Promise((done) => setTimeout(done, wait * (0.8 + 0.4 * Math.random())));
      wait = Math.min(LONGEST, 2 * wait);
    }
  }

  async read(arrived) {
    const abort = (this.abort = new AbortController());
    let watch = setTimeout(() => abort.abort(), SILENCE);
    try {
      const answer = await ask(addressOf("/v1/stream", this.parameters), { signal: abort.signal });
      const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
      let unread = "";
      for (;;) {
        const { value, done } = await reader.read();
        if (done) throw new Error("the stream has ended");
        clearTimeout(watch);
        watch = setTimeout(() => abort.abort(), SILENCE);
        unread += value;
        let end;
        while ((end = unread.indexOf("\n\n")) >= 0) {
          const message = parse(unread.slice(0, end));
          unread = unread.slice(end + 2);
          if (message) {
            arrived();
            this.onstate("live");
            this.onmessage(message);
          }
        }
      }
    } finally {
      clearTimeout(watch);
      abort.abort();
    }
  }
}

function parse(block) {
  let data = "";
  for (const line of block.split("\n")) if (line.startsWith("data: ")) data += line.slice(6);
  return data ? JSON.parse(data) : null;
}
