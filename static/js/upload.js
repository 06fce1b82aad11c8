// Files are sent one after the other, each as the raw body of one request, with its progress; the server's receipt
// takes the place of the progress. Without this the form posts itself.

import { say } from "./copy.js";

const form = document.getElementById("upload");
const queue = [];
let sending = null;

const units = ["B", "KiB", "MiB", "GiB", "TiB"];

function bytes(size) {
  let unit = 0;
  while (size >= 1024 && unit < units.length - 1) {
    size /= 1024;
    unit++;
  }
  return unit ? `${size.toFixed(1)} ${units[unit]}` : `${size} B`;
}

function element(name, className, text = "") {
  const one = document.createElement(name);
  one.className = className;
  one.textContent = text;
  return one;
}

class Upload {
  constructor(file, host) {
    this.file = file;
    this.host = host;
    this.item = element("li", "");
    this.line = element("div", "line");
    this.name = element("bdi", "mono", file.name);
    this.words = element("span", "dim", `${bytes(file.size)}, waiting`);
    this.cancel = element("button", "btn quiet", "Cancel");
    this.cancel.type = "button";
    this.cancel.setAttribute("aria-label", `Cancel ${file.name}`);
    this.cancel.addEventListener("click", () => this.stop());
    this.bar = element("progress", "");
    this.bar.max = file.size || 1;
    this.bar.value = 0;
    this.bar.setAttribute("aria-label", file.name);
    this.line.append(this.name, this.words, this.cancel, this.bar);
    this.item.append(this.line);
    document.getElementById("uploads").append(this.item);
  }

  send() {
    const limit = Number(form.dataset.max);
    if (limit && this.file.size > limit) return this.end(`${bytes(this.file.size)} is more than the ${bytes(limit)} a file may have.`, "fail");
    this.started = performance.now();
    const request = (this.request = new XMLHttpRequest());
    const url = new URL(form.action);
    url.searchParams.set("host", this.host);
    url.searchParams.set("name", this.file.name);
    request.open("POST", url);
    request.setRequestHeader("Content-Type", "application/octet-stream");
    request.setRequestHeader("X-CSRFToken", form.elements.csrfmiddlewaretoken.value);
    request.setRequestHeader("HX-Request", "true");
    request.setRequestHeader("HX-Target", "receipt");
    request.upload.addEventListener("progress", (event) => this.progress(event.loaded));
    request.upload.addEventListener("load", () => this.storing());
    request.addEventListener("load", () => this.answered());
    request.addEventListener("error", () => this.end("The connection broke. What was acknowledged is stored; sending the file again changes nothing twice.", "fail", true));
    request.addEventListener("abort", () => this.end("Cancelled. Sending the file again changes nothing twice.", "faint", true));
    return new Promise((done) => {
      this.done = done;
      request.send(this.file);
    });
  }

  progress(loaded) {
    const seconds = (performance.now() - this.started) / 1000;
    const rate = seconds > 0.5 ? `, ${bytes(Math.round(loaded / seconds))}/s` : "";
    this.bar.value = loaded;
    this.words.textContent = `${bytes(loaded)} of ${bytes(this.file.size)}${rate}`;
  }

  storing() {
    this.bar.removeAttribute("value");
    this.words.textContent = `${bytes(this.file.size)} sent, being stored`;
  }

  /** The receipt is the server's own fragment; anything else is told in words. */
  answered() {
    const { request } = this;
    const receipt = new DOMParser().parseFromString(request.responseText, "text/html").getElementById("receipt");
    if (!receipt?.children.length || request.responseURL !== new URL(request.responseURL, location.href).href) {
      const reason = request.status === 413 ? "It is larger than the server takes." : request.status === 403 ? "You may not upload here, or the session ended: reload the page." : `The server answered with an error (${request.status}).`;
      return this.end(reason, "fail", request.status >= 500);
    }
    this.item.replaceChildren(...receipt.children);
    this.item.dispatchEvent(new CustomEvent("fragment:shown", { bubbles: true }));
    this.done?.();
  }

  end(words, className, canRetry = false) {
    this.bar.remove();
    this.words.textContent = words;
    this.words.className = className;
    this.cancel.remove();
    if (canRetry) {
      const again = element("button", "btn", "Send again");
      again.type = "button";
      again.addEventListener("click", () => {
        this.item.remove();
        add([this.file]);
      });
      this.line.append(again);
    }
    this.done?.();
  }

  stop() {
    if (this.request) return this.request.abort();
    queue.splice(queue.indexOf(this), 1);
    this.end("Cancelled before it was sent.", "faint", true);
  }
}

async function work() {
  if (sending) return;
  while ((sending = queue.shift())) await sending.send();
  sending = null;
}

function add(files) {
  const host = form.elements.host.value;
  if (!host) {
    form.elements.host.reportValidity();
    say("Choose the host first");
    return;
  }
  for (const file of files) queue.push(new Upload(file, host));
  work();
}

function start() {
  const drop = form.querySelector(".drop");
  const field = form.elements.file;
  field.required = false;
  field.addEventListener("change", () => {
    add([...field.files]);
    field.value = "";
  });
  form.addEventListener("submit", (event) => event.preventDefault());
  for (const name of ["dragenter", "dragover"]) {
    drop.addEventListener(name, (event) => {
      event.preventDefault();
      drop.classList.add("is-over");
    });
  }
  for (const name of ["dragleave", "drop"]) drop.addEventListener(name, () => drop.classList.remove("is-over"));
  drop.addEventListener("drop", (event) => {
    event.preventDefault();
    add([...event.dataTransfer.files]);
  });
  // A file that misses the zone must not replace the page.
  for (const name of ["dragover", "drop"]) addEventListener(name, (event) => event.preventDefault());
  addEventListener("beforeunload", (event) => sending && event.preventDefault());
}

if (form) start();
