// Changing an experiment: small dialogs that say in words what will happen, for keys with the role admin.

import { post } from "./api.js";
import { inWords, sharesOf, trafficOf } from "./experiments.js";
import { $, h, text } from "./dom.js";
import { label, part, plural } from "./format.js";

const POLICIES = ["cold-start", "hellinger-ucb", "kl-ucb", "ucb1", "thompson", "imed", "uniform", "fixed"];

export class Change {
  constructor(app) {
    this.app = app;
    $("ask-form").addEventListener("submit", (event) => this.send(event));
    $("ask-form").addEventListener("input", () => this.describe());
    $("ask-cancel").addEventListener("click", () => $("ask").close());
  }

  /** The buttons that make sense for an experiment. */
  buttons(name) {
    if (!this.app.experiments.admin) return [];
    const { state, variants, shadows } = this.app.experiments.find(name);
    const several = Object.keys(variants).length > 1;
    const running = state === "running";
    return [
      running && several && ["Change shares", () => this.ramp(name)],
      running && ["Add an algorithm", () => this.add(name)],
      running && ["Add a shadow", () => this.shadow(name)],
      running && Object.keys(shadows).length > 0 && ["Stop a shadow", () => this.unshadow(name)],
      running && several && ["Stop an algorithm", () => this.stop(name)],
      running && several && ["Promote an algorithm", () => this.promote(name)],
      running && name !== "main" && ["End the experiment", () => this.end(name)],
      ["New experiment", () => this.begin()],
    ]
      .filter(Boolean)
      .map(([words, onclick]) => h("button", { type: "button", onclick, "data-key": words }, words));
  }

  // What can be asked for ---------------------------------------------------------------------------

  ramp(name) {
    const now = sharesOf(this.app.experiments.find(name));
    const fields = Object.entries(now).map(([variant, share]) => percentField(variant, label(variant), share, { min: 0 }));
    this.ask(name, "Change shares", "Change shares", fields, (form) => {
      const weights = Object.fromEntries(Object.keys(now).map((variant) => [variant, Number(form.get(variant))]));
      const whole = Object.values(weights).reduce((a, b) => a + b, 0);
      if (!whole) return { words: "One algorithm at least needs a share." };
      const other = Object.entries(weights).filter(([variant, weight]) => !weight || Math.abs(weight / whole - now[variant]) > 5e-4);
      if (!other.length) return { words: "Nothing changes yet: give an algorithm another share. One with 0 stops." };
      const parts = other.map(([variant, weight]) => (weight ? `${label(variant)} ${part(now[variant])} → ${part(weight / whole)}` : `${label(variant)} stops`));
      return { words: `From now on: ${parts.join(", ")}. What was learned stays.`, body: { weights } };
    });
  }

  add(name) {
    const now = sharesOf(this.app.experiments.find(name));
    const fields = [
      field("policy", "Algorithm", { list: "policies", required: true, placeholder: "hellinger-ucb(c=0.3)" }),
      field("variant", "Name", { placeholder: "as the algorithm", maxlength: 64 }),
      percentField("share", "Share of the traffic", 1 / (1 + Object.keys(now).length), { min: 0.1, max: 99.9 }),
      choiceField("begin", "It begins", [["empty", "with no counts"], ["common", "with the counts of all algorithms together"]]),
    ];
    this.ask(name, "Add an algorithm", "Add it", fields, (form) => {
      const policy = form.get("policy").trim();
      const variant = form.get("variant").trim() || policy;
      if (!policy) return { words: "Which algorithm?" };
      const share = Number(form.get("share")) / 100;
      const weights = { ...Object.fromEntries(Object.entries(now).map(([each, was]) => [each, was * (1 - share)])), [variant]: share };
      if (variant in now) return { words: `There is an algorithm of the name ${variant} already: give this one another name.` };
      return { words: `${variant} joins: from now on ${inWords({ weights })}. The others keep what they have learned.`, body: { variants: { [variant]: policy }, weights, begin: form.get("begin") } };
    });
  }

  shadow(name) {
    const { variants, shadows } = this.app.experiments.find(name);
    const fields = [
      field("policy", "Algorithm", { list: "policies", required: true, placeholder: "hellinger-ucb(c=0.3)" }),
      field("variant", "Name", { placeholder: "as the algorithm", maxlength: 64 }),
    ];
    this.ask(name, "Add a shadow", "Add it", fields, (form) => {
      const policy = form.get("policy").trim();
      const shadow = form.get("variant").trim() || policy;
      if (!policy) return { words: "Which algorithm?" };
      if ([...Object.keys(variants), ...Object.keys(shadows)].map(label).includes(shadow)) return { words: `There is an algorithm of the name ${shadow} already: give this one another name.` };
      return { words: `${shadow} ranks what the others rank, unseen: nobody is shown anything else. It learns from what they show.`, body: { shadows: { [shadow]: policy } } };
    });
  }

  unshadow(name) {
    const { shadows } = this.app.experiments.find(name);
    this.ask(name, "Stop a shadow", "Stop it", [variantField(shadows)], (form) => {
      const chosen = form.get("variant");
      return { words: `${label(chosen)} ranks no more. Its figures are no longer shown; the log keeps them.`, body: { shadows: { [chosen]: null } } };
    });
  }

  /** Make a shadow a variant: with a share of the traffic, or all of it. */
  show(name, shadow) {
    const now = sharesOf(this.app.experiments.find(name));
    this.ask(name, `Promote ${label(shadow)}`, "Promote it", [percentField("share", "Share of the traffic", 1, { min: 0.1, max: 100 })], (form) => {
      const share = Number(form.get("share")) / 100;
      if (!(share > 0)) return { words: "Which share of the traffic?" };
      const others = Object.entries(now).map(([each, was]) => [each, was * (1 - share)]).filter(([, weight]) => weight > 0);
      const weights = { ...Object.fromEntries(others), [shadow]: share };
      return { words: `From now on ${inWords({ weights })}. ${label(shadow)} keeps what it has learned.`, body: { weights } };
    });
  }

  stop(name) {
    const { weights } = this.app.experiments.find(name);
    this.ask(name, "Stop an algorithm", "Stop it", [variantField(weights)], (form) => {
      const { [form.get("variant")]: own, ...others } = weights;
      return { words: `${label(form.get("variant"))} stops. The others have its traffic from now on: ${inWords({ weights: others })}. Its figures stay, and it can come back.`, body: { weights: others } };
    });
  }

  promote(name) {
    const { weights } = this.app.experiments.find(name);
    this.ask(name, "Promote an algorithm", "Promote it", [variantField(weights)], (form) => {
      const chosen = form.get("variant");
      const others = Object.keys(weights).filter((each) => each !== chosen).map(label);
      return { words: `${label(chosen)} ranks all traffic of this experiment from now on. ${others.join(", ")} ${others.length === 1 ? "stops" : "stop"}; what was learned stays.`, body: { weights: { [chosen]: 1 } } };
    });
  }

  end(name) {
    const words = `${name} ends for good: its traffic (${trafficOf(this.app.experiments.find(name))}) goes back to main. Its figures stay readable.`;
    this.ask(name, `End ${name}`, "End it", [], () => ({ words, body: {}, path: `/v1/experiments/${name}/end` }));
  }

  begin() {
    const fields = [
      field("name", "Name", { required: true, maxlength: 32, pattern: "[a-z0-9][a-z0-9_\\-]*", placeholder: "sidebar", title: "Small letters, digits, - and _" }),
      field("policies", "Algorithms, one a line; a number in front is its weight", { rows: 3, required: true, placeholder: "9 cold-start\n1 mine = kl-ucb(c=3)" }),
      field("control", "Others are compared with", { placeholder: "the last one", maxlength: 64 }),
      percentField("share", "Share of the traffic", 0.1, { min: 0.1, max: 100 }),
      field("placement", "Only rankings with this placement", { placeholder: "all", maxlength: 64 }),
      choiceField("split", "Split", [["random", "each request draws its algorithm"], ["sticky", "each user stays with one algorithm"]]),
      field("guardrail", "Guardrail: a kind of feedback to watch", { placeholder: "none", maxlength: 64 }),
      choiceField("holdout", "Holdout: a part of the traffic without learning", [["", "none"], ["uniform", "in random order"], ["fixed", "in the order in which items were added"]]),
      percentField("holdout_share", "Share of the holdout", 0.05, { min: 0.1, max: 99 }),
      choiceField("begin", "Algorithms begin", [["empty", "with no counts"], ["common", "with the counts of all algorithms so far"]]),
    ];
    this.ask(null, "New experiment", "Start it", fields, (form) => {
      const given = (name) => form.get(name).trim() || null;
      const lines = form.get("policies").split("\n").map(weighted).filter(Boolean);
      const variants = Object.fromEntries(lines.map(([name, policy]) => [name, policy]));
      const weights = Object.fromEntries(lines.map(([name, , weight]) => [name, weight]));
      const holdout = given("holdout");
      const body = { name: given("name"), variants, weights, control: given("control"), share: Number(form.get("share")) / 100, placement: given("placement"), guardrail: given("guardrail"), split: form.get("split"), begin: form.get("begin"), ...(holdout && { holdout, holdout_share: Number(form.get("holdout_share")) / 100 }) };
      const names = Object.keys(variants);
      if (!body.name || !names.length) return { words: "Which name, and which algorithms?" };
      if (Object.values(weights).some((weight) => !(weight > 0))) return { words: "A weight is a number above 0." };
      if (body.control && !names.includes(body.control)) return { words: `Compared with ${body.control}? It is none of ${names.join(", ")}.` };
      const where = trafficOf({ ...body, traffic: body.share });
      const even = new Set(Object.values(weights)).size === 1;
      const shared = even ? `shared evenly by ${plural(names.length, "algorithm")}: ${names.join(", ")}` : `shared as ${inWords({ weights })}`;
      const held = holdout ? ` Before that ${part(body.holdout_share)} are a holdout, ${holdout === "uniform" ? "in random order" : "in the order in which items were added"}.` : "";
      return { words: `${body.name} starts with ${where}, ${shared}.${held} Others are compared with ${body.control ?? names.at(-1)}; main has the rest.`, body, path: "/v1/experiments" };
    });
  }

  // The dialog --------------------------------------------------------------------------------------

  /** Ask what is to change; `read` makes of the form what will happen, in words and as the service is asked. */
  ask(name, title, act, fields, read) {
    this.read = read;
    this.path = `/v1/experiments/${name}/phases`;
    this.after = name === null ? null : this.app.experiments.find(name).phase;
    text($("ask-title"), title);
    text($("ask-act"), act);
    text($("ask-error"), "");
    $("ask-fields").replaceChildren(...fields, field("why", "Why (a note for whoever reads this later)", { maxlength: 1000 }), h("datalist", { id: "policies" }, POLICIES.map((value) => h("option", { value }))));
    this.describe();
    $("ask").showModal();
  }

  describe() {
    const { words, body } = this.read(new FormData($("ask-form")));
    text($("ask-words"), words);
    $("ask-act").disabled = !body;
  }

  async send(event) {
    event.preventDefault();
    const form = new FormData($("ask-form"));
    const { body, path = this.path } = this.read(form);
    $("ask-act").disabled = true;
    text($("ask-error"), "");
    try {
      await post(path, { ...body, why: form.get("why"), ...(this.after !== null && { after: this.after }) });
      $("ask").close();
    } catch (error) {
      text($("ask-error"), `It was not done: ${error.message}.`);
    } finally {
      $("ask-act").disabled = false;
    }
    this.app.refresh().catch(() => {});
  }
}

function field(name, words, { rows, ...attributes } = {}) {
  const given = { name, id: `ask-${name}`, autocomplete: "off", spellcheck: "false", ...attributes };
  return h("p", { class: "asked" }, h("label", { for: given.id }, words), rows ? h("textarea", { ...given, rows }) : h("input", given));
}

function percentField(name, words, share, limits) {
  return field(name, `${words}, %`, { type: "number", step: "any", required: true, max: 100, value: Number((100 * share).toPrecision(4)), ...limits });
}

function choiceField(name, words, options) {
  return h("p", { class: "asked" }, h("label", { for: `ask-${name}` }, words), h("select", { name, id: `ask-${name}` }, options.map(([value, caption]) => h("option", { value }, caption))));
}

const variantField = (weights) => choiceField("variant", "Algorithm", Object.keys(weights).map((name) => [name, label(name)]));

/** A line "weight name = policy", whose weight is 1 where it has none: name, policy, weight. */
function weighted(line) {
  const [, weight, rest] = line.trim().match(/^(?:([0-9.]+)\s+)?(.*)$/);
  const found = named(rest);
  return found && [...found, weight === undefined ? 1 : Number(weight)];
}

/** A line "name = policy", or a policy that is its own name; an "=" in parentheses belongs to the policy. */
function named(line) {
  const given = line.trim();
  const at = given.split("(")[0].indexOf("=");
  if (!given) return null;
  return at < 0 ? [given, given] : [given.slice(0, at).trim(), given.slice(at + 1).trim()];
}
