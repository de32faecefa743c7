// Runs before anything is drawn, so that the page never flashes in the wrong colours.
(() => {
  const root = document.documentElement;
  let chosen = "auto";
  try {
    chosen = localStorage.getItem("hellinger.theme") ?? "auto";
  } catch {
    // storage may be forbidden; the system's preference then decides
  }
  if (chosen === "light" || chosen === "dark") root.dataset.theme = chosen;
})();
