// The items: which there are, how each stands with every algorithm, and one item's history.

import { get, Refused } from "./api.js";
import { draw, HOVER_DAY, HOVER_TIME, stepLabel } from "./charts.js";
import { $, choice, fill, h, interval, state, text } from "./dom.js";
import { ago, count, known, label, longLabel, moment, percent, plural } from "./format.js";
import { showPositions } from "./positions.js";

const SIZE = 25;
const REFRESH = 5000;
const TYPING = 250;
const SHOW = {
  all: { label: "All", sort: "impressions", note: "" },
  newest: { label: "Newest", sort: "newest", state: "shown", note: "Items that are shown, the latest first." },
  rising: { label: "Rising", sort: "rising", note: "" },
  graduated: { label: "Graduated", sort: "newest", state: "graduated", note: "Items that left an algorithm’s pool because they have been shown often enough." },
  retired: { label: "Retired", sort: "newest", state: "outclassed", note: "Items that left an algorithm’s pool because they can no longer be among the best." },
  hidden: { label: "Hidden", sort: "newest", state: "hidden", note: "Items that were taken out of every ranking, and may come back." },
  expired: { label: "Expired", sort: "newest", state: "expired", note: "Items whose time is over." },
};
const LEFT = { graduated: "graduated", outclassed: "retired" };
const MARKS = {
  added: "Added",
  changed: "Described anew",
  hidden: "Hidden",
  shown: "Shown again",
  expired: "Expired",
  graduated: "Graduated",
  outclassed: "Retired",
};

export class Pool {
  constructor(app) {
    this.app = app;
    this.show = "all";
    this.sort = SHOW.all.sort;
    this.reverse = false;
    this.search = "";
    this.cursors = [null];
    choice($("show"), Object.entries(SHOW).map(([name, { label }]) => [name, label]), "all", (name) => {
      this.show = name;
      this.sort = SHOW[name].sort;
      this.reverse = false;
      this.first();
    });
    $("search").addEventListener("input", (event) => {
      clearTimeout(this.typing);
      this.typing = setTimeout(() => {
        this.search = event.target.value.trim();
        this.first();
      }, TYPING);
    });
    $("pool-bar").addEventListener("submit", (event) => event.preventDefault());
    $("before").addEventListener("click", () => {
      this.cursors.pop();
      this.load();
    });
    $("after").addEventListener("click", () => {
      this.cursors.push(this.page.next);
      this.load();
    });
    $("drawer-close").addEventListener("click", () => $("drawer").close());
    $("drawer").addEventListener("close", () => {
      if (location.hash.startsWith("#/pool/")) this.app.go("#/pool");
    });
    $("drawer").addEventListener("click", (event) => {
      if (event.target === $("drawer")) $("drawer").close();
    });
    $("pool-scroll").addEventListener("click", (event) => {
      const link = event.target.closest("tr")?.querySelector("a");
      if (link && !event.target.closest("a, button")) link.click();
    });
  }

  enter() {
    this.load();
    this.timer = setInterval(() => {
      if (!document.hidden && !$("drawer").open) this.load({ quiet: true });
    }, REFRESH);
  }

  leave() {
    clearInterval(this.timer);
    if ($("drawer").open) $("drawer").close();
  }

  first() {
    this.cursors = [null];
    this.load();
  }

  async load({ quiet = false } = {}) {
    this.loading?.abort();
    const loading = (this.loading = new AbortController());
    if (!this.page && !quiet) state($("pool-state"), "loading", "Loading items…");
    $("pool-scroll").setAttribute("aria-busy", String(!quiet));
    try {
      const page = await get(
        "/v1/items",
        { limit: SIZE, cursor: this.cursors.at(-1), sort: this.sort, reverse: this.reverse || null, state: SHOW[this.show].state, search: this.search },
        loading.signal,
      );
      this.page = page;
      this.render();
      await showPositions(loading.signal);
    } catch (error) {
      if (error.name === "AbortError") return;
      if (error instanceof Refused && error.status === 401) return this.app.trouble(error);
      if (!quiet) state($("pool-state"), "error", "The items could not be loaded.", h("p", {}, error.message), h("button", { type: "button", onclick: () => this.load() }, "Try again"));
    } finally {
      if (this.loading === loading) $("pool-scroll").removeAttribute("aria-busy");
    }
  }

  // The table ---------------------------------------------------------------------------------------

  render() {
    const { items, total } = this.page;
    const start = (this.cursors.length - 1) * SIZE;
    const variants = Object.keys(this.app.played?.variants ?? {});
    const rising = this.show === "rising";
    const since = this.page.since;
    text($("show-note"), rising ? `At least 20 impressions since ${moment(since)} (${ago(since)}), and a rate since then that is surely above that of all items together; the surest first.` : SHOW[this.show].note);
    text($("pages"), total ? `${count(start + 1)}–${count(start + items.length)} of ${count(total)}` : "None");
    $("before").disabled = this.cursors.length === 1;
    $("after").disabled = !this.page.next;
    $("pool-scroll").hidden = !items.length;
    if (items.length) state($("pool-state"), null);
    else state($("pool-state"), "empty", this.empty());
    this.head(variants, rising);
    const most = Math.max(...items.map((item) => Math.min(item.high, 4 * (item.estimate ?? 0) + 0.02)), 0.01);
    fill($("pool-table").tBodies[0], items.map((item) => this.row(item, variants, most, rising)));
  }

  empty() {
    if (this.search) return `No item here has “${this.search}” in its id.`;
    return {
      all: "There are no items yet.",
      newest: "There are no items yet.",
      rising: `Nothing stands out since ${moment(this.page.since)}.`,
      graduated: "No item has graduated.",
      retired: "No item has been retired.",
      hidden: "No item is hidden.",
      expired: "No item has expired.",
    }[this.show];
  }

  head(variants, rising) {
    const made = JSON.stringify([variants, rising, this.sort, this.reverse]);
    if (made === this.headMade) return;
    this.headMade = made;
    const sortable = (label, sort, kind) => {
      if (rising) return h("th", { scope: "col", rowspan: 2, class: kind }, label);
      const own = this.sort === sort;
      const direction = own ? (this.reverse ? "ascending" : "descending") : undefined;
      const press = () => {
        this.reverse = own ? !this.reverse : false;
        this.sort = sort;
        this.first();
      };
      return h("th", { scope: "col", rowspan: 2, class: kind, "aria-sort": direction }, h("button", { type: "button", class: "sort", "data-key": `sort-${sort}`, onclick: press }, label));
    };
    fill(
      $("pool-table").tHead,
      h(
        "tr",
        {},
        h("th", { scope: "col", rowspan: 2 }, "Item"),
        sortable("Added", "newest", "when"),
        rising ? h("th", { scope: "col", rowspan: 2, class: "num" }, "Rate of late") : null,
        sortable("Impressions", "impressions", "num"),
        sortable("Reward", "rewards", "num"),
        sortable("Rate", "estimate", "num"),
        h("th", { scope: "col", rowspan: 2, class: "band" }, "95 % interval"),
        h("th", { scope: "colgroup", colspan: variants.length || 1, class: "group" }, this.app.played?.name === "main" ? "Index" : `Index in ${this.app.played?.name}`),
      ),
      h("tr", {}, variants.map((name) => h("th", { scope: "col", class: "num index" }, h("span", { class: "swatch", style: { background: this.app.colours()[name] } }), label(name)))),
    );
  }

  row(item, variants, most, rising) {
    const { recent } = item;
    return h(
      "tr",
      {},
      h(
        "th",
        { scope: "row" },
        h("a", { href: `#/pool/${encodeURIComponent(item.id)}`, "data-key": `item-${item.id}` }, item.id),
        item.tags.length || item.state !== "shown" ? h("span", { class: "tags" }, item.state !== "shown" ? h("span", { class: "tag strong" }, item.state) : null, item.tags.map((tag) => h("span", { class: "tag" }, tag))) : null,
      ),
      h("td", { class: "when" }, ago(item.added_at)),
      rising ? h("td", { class: "num strong" }, recent ? percent(recent.rewards / recent.impressions) : "–") : null,
      h("td", { class: "num" }, count(item.impressions)),
      h("td", { class: "num" }, count(item.rewards)),
      h("td", { class: "num strong" }, percent(item.estimate)),
      h("td", { class: "band" }, item.impressions ? [interval(item.low, item.high, item.estimate, [0, most]), h("span", { class: "ends" }, `${percent(item.low, 1)} to ${percent(item.high, 1)}`)] : "–"),
      variants.map((name) => h("td", { class: "num index" }, index(item.variants[name]))),
    );
  }

  // One item -------------------------------------------------------------------------------------

  async open(id) {
    const drawer = $("drawer");
    text($("drawer-title"), id);
    const body = $("drawer-body");
    body.replaceChildren(h("p", { class: "state" }, "Loading…"));
    if (!drawer.open) drawer.showModal();
    try {
      const item = await get(`/v1/items/${id.split("/").map(encodeURIComponent).join("/")}`);
      if ($("drawer-title").textContent !== id) return;
      const section = h("section", {}, h("h3", {}, "History"), h("p", { class: "soft" }, "Reading the log…"));
      body.replaceChildren(this.about(item), this.standing(item), section);
      const history = await get("/v1/history", { item: id });
      if ($("drawer-title").textContent === id) this.showHistory(section, history);
    } catch (error) {
      if (error instanceof Refused && error.status === 401) return this.app.trouble(error);
      if ($("drawer-title").textContent !== id) return;
      body.querySelector(".state")?.remove();
      const gone = error instanceof Refused && error.status === 404;
      const words = gone ? "There is no such item. It may have been deleted, or have expired days ago." : `This could not be loaded: ${error.message}`;
      body.append(h("p", { class: gone ? "soft" : "error", role: "alert" }, words));
    }
  }

  about(item) {
    const facts = [
      ["State", item.state],
      ["Added", moment(item.added_at)],
      ["Expires", item.expires_at ? moment(item.expires_at) : "never"],
      ["Tags", item.tags.join(", ") || "none"],
      ["Impressions", count(item.impressions)],
      ["Reward", count(item.rewards)],
    ];
    for (const [name, value] of Object.entries(item.metadata ?? {}).slice(0, 12)) {
      facts.push([name, typeof value === "string" ? value : JSON.stringify(value)]);
    }
    return h("dl", { class: "about" }, facts.map(([name, value]) => h("div", {}, h("dt", {}, name), h("dd", {}, value))));
  }

  standing(item) {
    const rows = Object.entries(item.variants);
    const most = Math.max(...rows.map(([, row]) => Math.min(row.high, 4 * (row.estimate ?? 0) + 0.02)), 0.01);
    return h(
      "section",
      {},
      h("h3", {}, "With each algorithm"),
      h(
        "div",
        { class: "scroll", tabindex: 0, role: "region", "aria-label": "Standing with each algorithm" },
        h(
          "table",
          {},
          h("thead", {}, h("tr", {}, h("th", { scope: "col" }, "Algorithm"), ["Impressions", "Reward", "Rate"].map((name) => h("th", { scope: "col", class: "num" }, name)), h("th", { scope: "col" }, "95 % interval"), h("th", { scope: "col", class: "num" }, "Index"))),
          h(
            "tbody",
            {},
            rows.map(([name, row]) => {
              const colour = this.app.colours()[name];
              return h(
                "tr",
                {},
                h("th", { scope: "row" }, h("span", { class: "name" }, h("span", { class: "swatch", style: { background: colour } }), longLabel(name))),
                h("td", { class: "num" }, count(row.impressions)),
                h("td", { class: "num" }, count(row.rewards)),
                h("td", { class: "num strong" }, percent(row.estimate)),
                h("td", { class: "band" }, row.impressions ? [interval(row.low, row.high, row.estimate, [0, most], { colour }), h("span", { class: "ends" }, `${percent(row.low, 1)} to ${percent(row.high, 1)}`)] : "–"),
                h("td", { class: "num" }, index({ ...row, score: row.index })),
              );
            }),
          ),
        ),
      ),
    );
  }

  showHistory(section, history) {
    const days = history.resolution === "day";
    const chart = h("div", { class: "chart short", role: "img" });
    const shown = Object.values(history.variants).reduce((sum, { impressions }) => sum + impressions.reduce((a, b) => a + b, 0), 0);
    const reached = history.complete
      ? `From all ${plural(history.events_read, "event")} of the log since it was added.`
      : `From the newest ${plural(history.events_read, "event")} of the log; what was before is in the counts above, but not here.`;
    section.replaceChildren(
      h("h3", {}, "History"),
      shown ? h("p", { class: "soft" }, `Impressions by ${history.resolution}`) : h("p", { class: "soft" }, "Not shown in this time."),
      ...(shown ? [chart] : []),
      h("ol", { class: "marks" }, history.marks.map((mark) => h("li", {}, h("time", { datetime: mark.at }, moment(mark.at)), h("span", {}, MARKS[mark.what] ?? mark.what, mark.variant ? ` from ${longLabel(mark.variant)}` : "")))),
      h("p", { class: "note" }, reached),
    );
    if (!shown) return;
    const x = history.steps.map((step) => stepLabel(step, history.resolution));
    const names = [...Object.keys(this.app.colours()).filter((name) => history.variants[name]), ...Object.keys(history.variants).filter((name) => !(name in this.app.colours()))];
    const traces = names.map((name) => {
      const { impressions, reward } = history.variants[name];
      return {
        type: "bar",
        name: longLabel(name) || "brought in",
        x,
        y: impressions,
        customdata: reward,
        marker: { color: this.app.colours()[name] ?? "#8a8f96" },
        hovertemplate: "%{y:,.0f} shown, %{customdata:,.4~f} reward",
      };
    });
    chart.setAttribute("aria-label", `Bar chart of impressions by ${history.resolution} and algorithm: ${names.map((name) => `${longLabel(name) || "brought in"} ${count(history.variants[name].impressions.reduce((a, b) => a + b, 0))}`).join(", ")}.`);
    draw(chart, traces, { barmode: "stack", bargap: 0.15, x: { hoverformat: days ? HOVER_DAY : HOVER_TIME, type: "date" } });
  }
}

function index(standing) {
  if (!standing) return "–";
  if (standing.left) return h("span", { class: "soft" }, LEFT[standing.left.reason] ?? standing.left.reason);
  if (known(standing.score)) return standing.score.toFixed(3);
  return h("span", { class: "soft", title: "Not in this pool, or not shown yet: it comes first" }, standing.impressions ? "–" : "new");
}
