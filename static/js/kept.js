// What the browser keeps for a person: a few words in localStorage, which may be forbidden or full.

export function recall(name) {
  try {
    return localStorage.getItem(name);
  } catch {
    return null;
  }
}

export function keep(name, value) {
  try {
    if (value === null) localStorage.removeItem(name);
    else localStorage.setItem(name, value);
  } catch {
    // Then it lasts as long as the page.
  }
}
