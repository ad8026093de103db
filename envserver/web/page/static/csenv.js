// Everything works without this script; it adds keys and copying.
"use strict";

// Buttons that copy the text of their data-copy.
document.addEventListener("click", async (event) => {
  const button = event.target.closest("[data-copy]");
  if (!button) return;
  await navigator.clipboard.writeText(button.dataset.copy);
  const label = button.firstChild.textContent;
  button.firstChild.textContent = "Copied";
  setTimeout(() => { button.firstChild.textContent = label; }, 1500);
});

const reveal = () => { for (const b of document.querySelectorAll("[data-copy][hidden]")) b.hidden = !navigator.clipboard; };
document.addEventListener("htmx:after:swap", reveal);
reveal();

// Arrow keys follow the links that name a key, unless somebody types.
document.addEventListener("keydown", (event) => {
  if (event.altKey || event.ctrlKey || event.metaKey || event.target.closest("input, select, textarea")) return;
  const link = document.querySelector(`a[data-key="${CSS.escape(event.key)}"]`);
  if (link) { event.preventDefault(); link.click(); }
});

// Up and down move between the rows of a list.
document.addEventListener("keydown", (event) => {
  const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
  if (!step || event.target.closest("input, select, textarea")) return;
  const rows = [...document.querySelectorAll("[data-row]")];
  const next = rows[rows.indexOf(document.activeElement) + step];
  if (next) { event.preventDefault(); next.focus(); }
});
