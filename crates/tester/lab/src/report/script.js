// Saves figures. Plots are drawn in the colours of paper whatever the screen
// shows, since the style sheet of the page does not go with them.
"use strict";

const source = (figure) => new XMLSerializer().serializeToString(figure.querySelector("svg"));

// The plot as a picture of twice its size, on white, as a data URL.
const picture = (figure) => new Promise((resolve, reject) => {
  const { width, height } = figure.querySelector("svg").viewBox.baseVal;
  const image = new Image();
  image.onerror = () => reject(new Error("the plot cannot be drawn"));
  image.onload = () => {
    const canvas = document.createElement("canvas");
    canvas.width = 2 * width;
    canvas.height = 2 * height;
    const context = canvas.getContext("2d");
    context.fillStyle = "#ffffff";
    context.fillRect(0, 0, canvas.width, canvas.height);
    context.drawImage(image, 0, 0, canvas.width, canvas.height);
    resolve(canvas.toDataURL("image/png"));
  };
  image.src = "data:image/svg+xml;charset=utf-8," + encodeURIComponent(source(figure));
});

const save = (name, address) => {
  const link = document.createElement("a");
  link.download = name;
  link.href = address;
  link.click();
};

const text = (kind, content) => URL.createObjectURL(new Blob([content], { type: kind }));

document.addEventListener("click", async (event) => {
  const form = event.target.dataset.save;
  if (!form) return;
  const figure = event.target.closest("figure");
  const name = `${figure.dataset.name}.${form}`;
  if (form === "svg") save(name, text("image/svg+xml", source(figure)));
  if (form === "csv") save(name, text("text/csv", figure.querySelector("script").textContent));
  if (form === "png") save(name, await picture(figure));
});
