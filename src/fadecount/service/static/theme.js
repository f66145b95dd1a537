// Colours: as the system has them, or as chosen with the button. The choice is remembered.
const THEMES = { auto: ["light", "Colours: as the system has it"], light: ["dark", "Colours: light"], dark: ["auto", "Colours: dark"] };
const STORED = "fadecount-theme";
const button = document.getElementById("theme");

function theme(chosen) {
  document.documentElement.dataset.theme = chosen;
  localStorage.setItem(STORED, chosen);
  button.setAttribute("aria-label", THEMES[chosen][1]);
  button.querySelector("span").textContent = chosen;
}

theme(localStorage.getItem(STORED) in THEMES ? localStorage.getItem(STORED) : "auto");
button.addEventListener("click", () => theme(THEMES[document.documentElement.dataset.theme][0]));
