// Icons of the buttons on the image: paths of 24 by 24, drawn as lines.

export const ICONS = {
  reset: "M4 11 12 4l8 7M6 10v9h12v-9",
  link: "M10 14a4 4 0 0 0 6 0l3-3a4 4 0 0 0-6-6l-1 1M14 10a4 4 0 0 0-6 0l-3 3a4 4 0 0 0 6 6l1-1",
  scheme: "M12 3a9 9 0 1 0 0 18zM12 3a9 9 0 0 1 0 18",
  share: "M12 15V4M8 8l4-4 4 4M5 12v8h14v-8",
  close: "M5 5l14 14M19 5 5 19",
  help: "M9 9a3 3 0 1 1 4 3c-1 .5-1 1-1 2M12 18v.1",
  click: "M7 3v14l4-4 3 7 2.5-1-3-7H19z",
  object: "M12 3 20 7.5v9L12 21l-8-4.5v-9zM4 7.5 12 12l8-4.5M12 12v9",
  rectangle: "M4 6h3M10 6h4M17 6h3v3M20 12v1M20 16v2h-3M14 18h-4M7 18H4v-2M4 13v-1M4 9V6",
  lasso: "M12 15c-5 0-8-2-8-5s3-6 8-6 8 3 8 6-3 5-8 5zM9 15c-2 1-3 3-2 4s3 0 3-1M10 18c1 1 3 2 5 2",
  polygon: "M5 9 12 4l7 6-3 9H8zM5 9h.1M12 4h.1M19 10h.1M16 19h.1M8 19h.1",
  brush: "M20 4 11 13M11 13l-2-2 9-8M9 14c-3 0-3 4-6 5 3 2 8 1 8-3z",
  sphere: "M12 3a9 9 0 1 0 0 18 9 9 0 0 0 0-18zM3 12c0 2 4 3.5 9 3.5s9-1.5 9-3.5M12 3v0",
  box: "M4 8l10-3 6 3v9l-10 3-6-3zM4 8l6 3M10 11l10-3M10 11v9",
  plane: "M3 15 10 8l11 3-7 7zM12 11V4M9.5 6 12 3.5 14.500 6",
  range: "M4 19V9M9 19V5M14 19v-7M19 19V8M3 21h18",
  transform: "M12 3v18M3 12h18M12 3l-2.500 2.500M12 3l2.500 2.500M12 21l-2.500-2.500M12 21l2.500-2.500M3 12l2.500-2.500M3 12l2.500 2.500M21 12l-2.500-2.500M21 12l-2.500 2.500",
  ruler: "M4 16 16 4l4 4L8 20zM8 12l2 2M11 9l3 3M14 6l2 2",
  level: "M3 18h18M6 18v-3M18 18v-3M4 9h16v5H4zM9 11.500h6",
  inspect: "M12 3v5M12 16v5M3 12h5M16 12h5M12 11.900v.2",
  compare: "M12 3v18M4 6h5M4 18h5M4 6v12M15 6h5v12h-5",
  undo: "M8 5 4 9l4 4M4 9h10a6 6 0 0 1 0 11h-3",
  redo: "M16 5l4 4-4 4M20 9H10a6 6 0 0 0 0 11h3",
  show: "M2 12s4-7 10-7 10 7 10 7-4 7-10 7S2 12 2 12zM12 9a3 3 0 1 0 0 6 3 3 0 0 0 0-6z",
};

// A button with an icon, in `parent`; `title` is its name and what a mouse shows.
export function iconButton(icon, title, action, parent) {
  const button = document.createElement("button");
  button.type = "button";
  button.title = title;
  button.setAttribute("aria-label", title);
  button.innerHTML = `<svg viewBox="0 0 24 24" aria-hidden="true"><path d="${ICONS[icon]}"/></svg>`;
  button.addEventListener("click", () => action());
  parent.append(button);
  return button;
}
