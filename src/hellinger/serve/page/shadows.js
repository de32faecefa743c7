// Candidates that rank unseen: what each would have shown and earned, and whether it is safe to promote it.

import { $, fill, h, interval } from "./dom.js";
import { change, count, known, label, part, percent } from "./format.js";

const NAMES = { ips: "by its chances alone", items: "by what its items earned elsewhere" };

/** Show a card for each shadow; `promote` asks about one, where the key may. */
export function showShadows({ shadows }, promote) {
  $("shadows").hidden = !shadows.length;
  fill($("shadows-body"), shadows.map((shadow) => card(shadow, promote)));
}

function card(row, promote) {
  const answered = known(row.rate);
  const top = Math.max(row.logged ?? 0, answered ? Math.min(row.high, 3 * row.rate) : 0) * 1.1 || 1;
  return h(
    "div",
    { class: "model" },
    h("h3", {}, h("span", { class: "name" }, label(row.shadow)), " ", h("span", { class: "spec" }, row.policy)),
    h("p", { class: row.safe ? "strong" : null }, row.sentence),
    h(
      "dl",
      { class: "facts-list" },
      figure("Rankings that it ranked too", `${count(row.requests)}${known(row.share) ? `, ${part(row.share)} of all` : ""}`),
      figure("Of what was shown, it would have shown too", known(row.same) ? `${part(row.same)} (${part(row.same_place)} in the same place)` : "–"),
      figure("Of what it would show, nobody showed", known(row.unsupported) ? part(row.unsupported) : "–"),
      figure("Rate of what was shown", percent(row.logged)),
      figure(
        "Rate that it would have had",
        ...(answered
          ? [h("strong", {}, percent(row.rate)), " ", interval(row.low, row.high, row.rate, [0, top], { colour: "var(--link)", zero: row.logged }), h("span", { class: "ends" }, `${percent(row.low)} to ${percent(row.high)}`)]
          : ["no answer"]),
      ),
    ),
    row.settled_requests ? h("p", { class: "note" }, `${answered ? `It rests on: ${row.assumption}. ` : ""}${row.estimates.map(inWords).join(" ")}`) : null,
    promote ? h("p", {}, h("button", { type: "button", "data-key": `promote ${row.shadow}`, onclick: () => promote(row.shadow) }, `Promote ${label(row.shadow)}`)) : null,
  );
}

const figure = (words, ...value) => h("div", {}, h("dt", {}, words), h("dd", {}, ...value));

function inWords(each) {
  if (each.refusal) return `Estimated ${NAMES[each.estimator]}: no answer, ${each.refusal}.`;
  return `Estimated ${NAMES[each.estimator]}: ${percent(each.value)}, at least ${change(each.lift_low)} against what was shown.`;
}
