// The theme switch, menus that close when one looks elsewhere, the help dialog.

import { keep, recall } from "./kept.js";

const THEMES = ["system", "light", "dark"];

function paintTheme(theme) {
  const root = document.documentElement;
  if (theme === "system") delete root.dataset.theme;
  else root.dataset.theme = theme;
  const button = document.getElementById("theme");
  if (button) {
    button.setAttribute("aria-label", `Theme: ${theme}`);
    button.title = `Theme: ${theme}`;
  }
  document.dispatchEvent(new CustomEvent("theme:change"));
}

function nextTheme() {
  const now = recall("theme") ?? document.documentElement.dataset.theme ?? "system";
  const next = THEMES[(THEMES.indexOf(now) + 1) % THEMES.length];
  keep("theme", next === "system" ? null : next);
  paintTheme(next);
}

/** True when there was one to close. */
export function closeMenus(except) {
  const open = [...document.querySelectorAll("details.menu[open]")].filter((menu) => menu !== except);
  for (const menu of open) {
    if (menu.contains(document.activeElement)) menu.querySelector("summary").focus();
    menu.open = false;
  }
  return open.length > 0;
}

export function showHelp() {
  const help = document.getElementById("help");
  if (help && !help.open) help.showModal();
}

export function startLook() {
  paintTheme(document.documentElement.dataset.theme ?? "system");
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () =>
    document.dispatchEvent(new CustomEvent("theme:change")),
  );
  document.addEventListener("click", (event) => {
    closeMenus(event.target.closest?.("details.menu"));
    if (event.target.closest?.("#theme")) nextTheme();
    if (event.target.closest?.("[data-help]")) showHelp();
    const dialog = event.target.closest?.("dialog");
    if (dialog && (event.target === dialog || event.target.closest("[data-close]"))) dialog.close();
  });
}
