// Walking a provenance chain: the arrow keys go from memory to memory, Enter goes one deeper.

const links = () => [...document.querySelectorAll("[data-chain]")];

document.addEventListener("keydown", (event) => {
  const all = links();
  const at = all.indexOf(document.activeElement);
  if (at < 0 || !["ArrowDown", "ArrowUp"].includes(event.key)) return;
  event.preventDefault();
  all[at + (event.key === "ArrowDown" ? 1 : -1)]?.focus();
});
