// Saved views: the menu asks for its list when it is opened, and what is shown now is what is saved.

function start(menu) {
  menu.addEventListener("toggle", () => {
    const list = menu.querySelector("#views");
    if (menu.open && list) window.htmx.trigger(list, "views:wanted");
  });
  document.body.addEventListener("htmx:configRequest", ({ detail }) => {
    if (detail.elt.matches?.("[data-save-view]")) detail.parameters.query = location.search.slice(1);
  });
  document.body.addEventListener("htmx:afterRequest", ({ detail }) => {
    if (detail.successful && detail.elt.matches?.("[data-save-view]")) detail.elt.reset();
  });
}

const menu = document.querySelector("[data-views]");
if (menu) start(menu);
