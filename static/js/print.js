// Paper is light. What was painted for a dark screen is marked before it is printed, so that print.css can turn it round.

const dark = matchMedia("(prefers-color-scheme: dark)");

function isDark() {
  const theme = document.documentElement.dataset.theme;
  return theme ? theme === "dark" : dark.matches;
}

addEventListener("beforeprint", () => {
  if (isDark()) document.documentElement.dataset.printed = "dark";
});
addEventListener("afterprint", () => delete document.documentElement.dataset.printed);
document.addEventListener("click", (event) => {
  if (event.target.closest?.("[data-print]")) print();
});
