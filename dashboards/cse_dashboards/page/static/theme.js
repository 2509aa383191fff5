"use strict";
// Before anything is drawn: the theme that was chosen last time.
const chosenTheme = localStorage.getItem("theme");
if (chosenTheme) document.documentElement.dataset.theme = chosenTheme;
