// The page: which view is seen, whether it is live, and who may look.

import { Follower, get, key, Refused } from "./api.js";
import { Change } from "./change.js";
import { $, fill, h, state, text } from "./dom.js";
import { Experiments } from "./experiments.js";
import { longLabel, time } from "./format.js";
import { Health } from "./health.js";
import { Overview } from "./overview.js";
import { Pool } from "./pool.js";

const VIEWS = ["overview", "pool", "health"];
const LOST_AFTER = 2500;

/** What an address says; where that is not encoded as it should be, as it stands: it is then nobody's name. */
function decoded(part) {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

class App {
  constructor() {
    this.experiments = new Experiments();
    this.change = new Change(this);
    this.views = { overview: new Overview(this), pool: new Pool(this), health: new Health(this) };
    this.follower = new Follower({ onmessage: (message) => this.take(message), onstate: (name, error) => this.connection(name, error) });
    this.view = null;
    this.at = null;
    addEventListener("hashchange", () => this.route());
    $("gate-form").addEventListener("submit", (event) => this.unlock(event));
    $("forget").addEventListener("click", () => {
      key.forget();
      this.ask();
    });
    this.prepareTheme();
    this.start();
  }

  async start() {
    await this.choose(this.named().experiment ?? "main");
    $("forget").hidden = !key.get();
    this.route();
  }

  // Experiments -------------------------------------------------------------------------------------

  colours() {
    return this.experiments.colours();
  }

  /** The experiment that was looked at last, or the main one where that has ended. */
  get played() {
    const found = this.experiments.find(this.views.overview.name);
    return found?.state === "running" ? found : this.experiments.find("main");
  }

  /** Look anew at what experiments there are, and at the one that is shown. */
  async refresh() {
    await this.experiments.load();
    this.showExperiments();
    await this.views.overview.load();
  }

  showExperiments() {
    const { name } = this.views.overview;
    this.experiments.showTimeline(name);
    this.experiments.showChanges(name);
    this.experiments.showPast();
    fill($("actions"), this.change.buttons(name));
  }

  /** Show an experiment from now on. */
  async choose(name) {
    try {
      await this.experiments.load();
      await this.views.overview.open(name);
      this.showExperiments();
      this.follower.start();
    } catch (error) {
      if (error instanceof Refused && (error.status === 401 || error.status === 403)) return this.trouble(error);
      if (error instanceof Refused && error.status === 404) {
        text($("sentence"), "There is no such experiment.");
        state($("overview-state"), "error", error.message, h("p", {}, h("a", { href: "#/" }, "The main experiment")));
        return;
      }
      state($("overview-state"), "error", "The service could not be reached.", h("p", {}, error.message), h("button", { type: "button", onclick: () => this.start() }, "Try again"));
      this.connection("lost");
    }
  }

  // Views -------------------------------------------------------------------------------------------

  go(hash) {
    if (location.hash !== hash) history.pushState(null, "", hash);
    this.route();
  }

  /** What the address names: a view, with an item or an experiment. */
  named() {
    const [, name = "", ...rest] = location.hash.split("/");
    const what = rest.length ? decoded(rest.join("/")) : null;
    if (name === "experiment") return { view: "overview", experiment: what };
    const view = VIEWS.includes(name) ? name : "overview";
    return view === "overview" ? { view, experiment: "main" } : { view, id: what };
  }

  route() {
    if (!$("gate").hidden) return;
    const { view, experiment, id } = this.named();
    if (view !== this.view) {
      this.views[this.view]?.leave?.();
      for (const each of VIEWS) $(each).hidden = each !== view;
      for (const link of document.querySelectorAll("nav [data-view]")) {
        if (link.dataset.view === view) link.setAttribute("aria-current", "page");
        else link.removeAttribute("aria-current");
      }
      const first = this.view === null;
      this.view = view;
      this.views[view].enter?.();
      if (view === "overview") this.views.overview.drawCharts();
      if (!first) {
        scrollTo(0, 0);
        $("main").focus({ preventScroll: true });
      }
    }
    if (experiment && experiment !== this.views.overview.name) this.choose(experiment);
    if (view === "pool") {
      if (id) this.views.pool.open(id);
      else if ($("drawer").open) $("drawer").close();
    }
  }

  // Live --------------------------------------------------------------------------------------------

  take(message) {
    this.at = message.at;
    this.views.overview.take(message);
    this.views.health.take(message);
    const { experiment, health } = message;
    const phases = [experiment.name, experiment.phase, ...Object.keys(health.pools)].join();
    if (phases !== this.phases) {
      if (this.phases?.startsWith(`${experiment.name},`)) this.refresh().catch(() => {});
      this.phases = phases;
    }
    const sizes = Object.entries(health.pools).map(([name, size]) => `${size.toLocaleString("en")} with ${longLabel(name)}`);
    text($("pool-facts"), `${experiment.items.toLocaleString("en")} items, ${health.shown.toLocaleString("en")} shown; in the pools: ${sizes.join(", ")}`);
  }

  connection(name, error) {
    const words = { connecting: "Connecting", live: "Live", lost: "Disconnected", refused: "Locked" };
    if (name === "connecting" && $("status").dataset.state === "lost") return;
    $("status").dataset.state = name;
    text($("status").querySelector(".text"), words[name]);
    if (name === "live") {
      clearTimeout(this.losing);
      this.losing = null;
      $("lost").hidden = true;
      if (this.missed) {
        this.missed = false;
        this.refresh().catch(() => {});
      }
    } else if (name === "lost") {
      this.missed = true;
      this.losing ??= setTimeout(() => {
        const since = this.at ? ` What you see is as of ${time(this.at)}.` : "";
        text($("lost"), `${error?.message ? `The service says: ${error.message}.` : "The connection is lost."}${since} Trying again…`);
        $("lost").hidden = false;
      }, LOST_AFTER);
    } else if (name === "refused") this.trouble(error);
  }

  // Who may look ------------------------------------------------------------------------------------

  trouble(error) {
    if (error instanceof Refused && (error.status === 401 || error.status === 403)) {
      const had = key.get();
      key.forget();
      this.ask(had ? (error.status === 403 ? `This key may not read: ${error.message}.` : "This key is not in force. Check for a missing character, or ask for a new one.") : "");
    }
  }

  ask(message = "") {
    this.follower.stop();
    this.views[this.view]?.leave?.();
    this.view = null;
    for (const each of VIEWS) $(each).hidden = true;
    document.querySelector("header nav").hidden = true;
    $("forget").hidden = true;
    $("lost").hidden = true;
    $("degraded").hidden = true;
    $("gate").hidden = false;
    $("status").dataset.state = "refused";
    text($("status").querySelector(".text"), "Locked");
    text($("gate-error"), message);
    $("gate-key").value = "";
    $("gate-key").toggleAttribute("aria-invalid", Boolean(message));
    $("gate-key").focus();
  }

  async unlock(event) {
    event.preventDefault();
    const given = $("gate-key").value.trim();
    if (!/^[\x21-\x7e]+$/.test(given)) {
      text($("gate-error"), "A key has no spaces and only plain characters.");
      return;
    }
    key.set(given);
    try {
      await get("/v1/experiments");
    } catch (error) {
      if (error instanceof Refused) this.trouble(error);
      else text($("gate-error"), "The service could not be reached. Try again.");
      return;
    }
    $("gate").hidden = true;
    document.querySelector("header nav").hidden = false;
    this.start();
  }

  // Light and dark ----------------------------------------------------------------------------------

  prepareTheme() {
    const root = document.documentElement;
    const names = { auto: "as the system", light: "light", dark: "dark" };
    const next = { auto: "light", light: "dark", dark: "auto" };
    const label = () => $("theme").setAttribute("aria-label", `Colours: ${names[root.dataset.theme ?? "auto"]}`);
    label();
    $("theme").addEventListener("click", () => {
      const chosen = next[root.dataset.theme ?? "auto"];
      if (chosen === "auto") delete root.dataset.theme;
      else root.dataset.theme = chosen;
      try {
        localStorage.setItem("hellinger.theme", chosen);
      } catch {
        // storage may be forbidden: the choice then lasts as long as the page
      }
      label();
      this.recolour();
    });
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.recolour());
  }

  recolour() {
    const { overview, pool, health } = this.views;
    if (overview.readout) {
      overview.show(overview.readout);
      overview.groups.show();
      overview.models.show();
      overview.selfCheck.show();
      this.showExperiments();
    }
    if (this.view === "overview") overview.drawCharts();
    if (this.view === "health") health.drawCharts();
    if (this.view === "pool" && pool.page) {
      pool.headMade = null;
      pool.render();
    }
  }
}

new App();
