// Elements from plain calls. Text is always set as text: what clients named their items is never read as HTML.

export const $ = (id) => document.getElementById(id);

export function h(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === undefined || value === null || value === false) continue;
    if (name === "style") for (const [key, x] of Object.entries(value)) element.style.setProperty(key, x);
    else if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children.flat().filter((child) => child !== null && child !== undefined && child !== false));
  return element;
}

export function text(element, value) {
  if (element.textContent !== value) element.textContent = value;
}

/** Fill an element anew, keeping the focus on what bears the same data-key. */
export function fill(element, ...children) {
  const key = element.contains(document.activeElement) ? document.activeElement.dataset.key : undefined;
  element.replaceChildren(...children.flat().filter(Boolean));
  if (key !== undefined) element.querySelector(`[data-key="${CSS.escape(key)}"]`)?.focus({ preventScroll: true });
}

/** A row of radio buttons that looks like one control. */
export function choice(fieldset, options, chosen, onchange) {
  const name = fieldset.id;
  fieldset.append(
    ...options.map(([value, label]) =>
      h("label", {}, h("input", { type: "radio", name, value, checked: value === chosen }), h("span", {}, label)),
    ),
  );
  fieldset.addEventListener("change", (event) => onchange(event.target.value));
}

/** A message instead of content: loading, empty, wrong. */
export function state(element, kind, title, ...more) {
  element.hidden = kind === null;
  if (kind === null) return;
  element.dataset.kind = kind;
  element.replaceChildren(h("p", { class: "state-title" }, title), ...more);
  element.setAttribute("role", kind === "error" ? "alert" : "status");
}

/** An interval on a scale that several share, with its estimate. */
export function interval(low, high, at, [from, to], { colour, zero } = {}) {
  const place = (x) => `${(100 * Math.min(1, Math.max(0, (x - from) / (to - from || 1)))).toFixed(2)}%`;
  const width = `${(100 * Math.max(0, Math.min(high, to) - Math.max(low, from))) / (to - from || 1)}%`;
  return h(
    "span",
    { class: "interval", "aria-hidden": "true" },
    zero !== undefined && from < zero && zero < to ? h("span", { class: "zero", style: { left: place(zero) } }) : null,
    h("span", { class: "span", style: { left: place(low), width, background: colour } }),
    at === null || at === undefined ? null : h("span", { class: "point", style: { left: place(at), background: colour } }),
  );
}
