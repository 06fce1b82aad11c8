// A click on an id, a command or a link button copies it, and says so.

let hiding;

export function say(text) {
  const toast = document.getElementById("toast");
  if (!toast) return;
  toast.textContent = text;
  toast.hidden = false;
  clearTimeout(hiding);
  hiding = setTimeout(() => (toast.hidden = true), 1800);
}

/** Plain http has no clipboard of its own, so the old way is kept beside the new. */
export async function copyText(text) {
  try {
    if (navigator.clipboard) await navigator.clipboard.writeText(text);
    else copyBySelection(text);
    say("Copied");
    return true;
  } catch {
    say("The browser does not allow copying");
    return false;
  }
}

function copyBySelection(text) {
  const field = document.createElement("textarea");
  const before = document.activeElement;
  field.value = text;
  field.className = "unseen";
  (document.querySelector("dialog[open]") ?? document.body).append(field);
  field.select();
  const done = document.execCommand("copy");
  field.remove();
  before?.focus();
  if (!done) throw new Error("refused");
}

function textOf(button) {
  if (button.dataset.copyJson !== undefined) return JSON.parse(button.dataset.copyJson);
  if (button.dataset.copy !== undefined) return button.dataset.copy;
  if (button.dataset.copyBefore !== undefined) return button.previousElementSibling.textContent;
  return location.href;
}

export function startCopying() {
  document.addEventListener("click", async (event) => {
    const button = event.target.closest?.("[data-copy], [data-copy-json], [data-copy-before], [data-copy-link]");
    if (!button) return;
    event.stopPropagation();
    if (await copyText(textOf(button))) {
      button.classList.add("copied");
      setTimeout(() => button.classList.remove("copied"), 900);
    }
  });
}
