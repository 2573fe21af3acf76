// What the pages do more with JavaScript: forms show their answer without a new page, and the slider moves through time.
// Everything works without it, too: each form is a plain form, and the slider stands beside a date and a button.

let latest = 0; // of several answers under way only the last one is shown

async function swap(form, submitter) {
  const target = document.getElementById(form.dataset.swap);
  const method = (submitter?.getAttribute("formmethod") || form.method).toLowerCase();
  const fields = new URLSearchParams(new FormData(form));
  const address = new URL(form.action);
  if (method === "get") address.search = fields;
  const own = ++latest;
  target.setAttribute("aria-busy", "true");
  try {
    const answer = await fetch(address, method === "get" ? {} : { method: "POST", body: fields });
    const page = new DOMParser().parseFromString(await answer.text(), "text/html");
    if (own !== latest) return;
    const found = page.getElementById(target.id);
    if (!found && !page.querySelector("main")) return tell(target, `The server answered with an error (${answer.status}). Load the page again.`);
    target.replaceChildren(...(found || page.querySelector("main")).childNodes);
    if (method === "get") history.replaceState(null, "", address);
    document.title = page.title;
  } catch {
    if (own !== latest) return;
    tell(target, "The server did not answer. Is `slowwave serve` still running?");
  }
  target.setAttribute("aria-busy", "false");
}

function tell(target, words) {
  const note = document.createElement("p");
  note.className = "note";
  note.textContent = words;
  target.replaceChildren(note);
  target.setAttribute("aria-busy", "false");
}

for (const form of document.querySelectorAll("form[data-swap]")) {
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    swap(form, event.submitter);
  });
  form.querySelector("select")?.addEventListener("change", () => form.requestSubmit());
}

const slider = document.getElementById("slider");
if (slider) {
  const days = slider.dataset.days.split(" ");
  const date = document.getElementById(slider.dataset.for);
  const last = days.length - 1;
  const name = (place) => (place === last ? "now" : days[place]);
  const follow = () => {
    const place = date.value ? days.findLastIndex((day) => day <= date.value) : last;
    slider.value = Math.max(place, 0);
    slider.setAttribute("aria-valuetext", date.value || "now");
  };
  let waiting;
  slider.addEventListener("input", () => {
    const place = Number(slider.value);
    date.value = place === last ? "" : days[place];
    slider.setAttribute("aria-valuetext", name(place));
    clearTimeout(waiting);
    waiting = setTimeout(() => swap(slider.form), 120);
  });
  date.addEventListener("change", follow);
  document.querySelector("[data-now]").addEventListener("click", (event) => {
    event.preventDefault();
    date.value = "";
    follow();
    swap(slider.form);
  });
  follow();
  slider.parentElement.hidden = false;
}
