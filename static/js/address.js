// The page's address holds everything that a person would want to share.

export function param(name) {
  return new URLSearchParams(location.search).get(name);
}

/** Sets (or, with null, drops) parameters without a new history entry. */
export function setParams(changes) {
  const params = new URLSearchParams(location.search);
  for (const [name, value] of Object.entries(changes)) {
    if (value === null || value === "") params.delete(name);
    else params.set(name, value);
  }
  const query = params.toString();
  const next = location.pathname + (query ? `?${query}` : "") + location.hash;
  if (next !== location.pathname + location.search + location.hash) history.replaceState(history.state, "", next);
}
