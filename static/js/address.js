// The page's address holds everything that a person would want to share.

export function param(name) {
  return new URLSearchParams(location.search).get(name);
}

export function params(name) {
  return new URLSearchParams(location.search).getAll(name);
}

/** Sets (or, with null, drops) parameters without a new history entry; a list is one parameter several times. */
export function setParams(changes) {
  const params = new URLSearchParams(location.search);
  for (const [name, value] of Object.entries(changes)) {
    if (Array.isArray(value)) {
      params.delete(name);
      for (const one of value) params.append(name, one);
    } else if (value === null || value === "") params.delete(name);
    else params.set(name, value);
  }
  const query = params.toString();
  const next = location.pathname + (query ? `?${query}` : "") + location.hash;
  if (next !== location.pathname + location.search + location.hash) history.replaceState(history.state, "", next);
}
