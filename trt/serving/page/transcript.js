// A recording with its words in time: click one to hear it.

import { context, play } from "./sound.js";

const PIXELS = 110, ROWS = 5, ROW = 1.6; // pixels per second; rows of words at most, and the height of each in rem

export function draw(sound, found) {
  const seconds = sound.samples.length / sound.rate;
  const timeline = document.getElementById("timeline");
  const width = Math.min(30000, Math.max(timeline.parentElement.clientWidth, Math.ceil(seconds * PIXELS)));
  timeline.style.width = `${width}px`;
  waveform(document.getElementById("wave"), sound.samples, width);
  const place = document.getElementById("words");
  const chips = found.words.map((word) => chip(word, width / seconds, sound));
  place.replaceChildren(...chips);
  inRows(place, chips);
  document.getElementById("wave").onclick = (event) => heard(sound, (event.offsetX * seconds) / width, seconds, width / seconds);
  document.getElementById("text").textContent = found.text || "No speech was found.";
}

// Each word in the first row that has room for it; all are measured before any is moved.
function inRows(place, chips) {
  const spans = chips.map((chip) => [chip.offsetLeft, chip.offsetLeft + chip.offsetWidth + 2]), ends = [0, 0];
  for (const [i, [left, right]] of spans.entries()) {
    let row = ends.findIndex((end) => end <= left);
    if (row < 0) row = ends.length < ROWS ? ends.length : ends.indexOf(Math.min(...ends));
    ends[row] = right;
    chips[i].style.top = `${row * ROW}rem`;
  }
  place.style.height = `${ends.length * ROW + 0.2}rem`;
}

function chip(word, scale, sound) {
  const element = document.createElement("button");
  element.className = "word";
  element.textContent = word.word;
  element.title = `${word.start.toFixed(2)} to ${word.end.toFixed(2)} s, confidence ${word.confidence.toFixed(2)}`;
  element.style.left = `${word.start * scale}px`;
  element.style.minWidth = `${Math.max(6, (word.end - word.start) * scale)}px`;
  element.style.opacity = 0.45 + 0.55 * word.confidence;
  element.onclick = () => {
    element.classList.add("said");
    heard(sound, word.start, word.end, scale).then(() => element.classList.remove("said"));
    document.body.dataset.played = `${word.start}-${word.end}`;
  };
  return element;
}

// Plays from `start` to `end`, with a line on the waveform at the place that is heard; done when that has ended.
function heard(sound, start, end, scale) {
  const head = document.getElementById("playhead"), source = play(sound, start, end), begun = context().currentTime;
  const number = (head.dataset.number = 1 + Number(head.dataset.number ?? 0)); // the newest moves the line
  const move = () => {
    if (Number(head.dataset.number) !== number) return;
    head.style.left = `${Math.min(end, start + context().currentTime - begun) * scale}px`;
    requestAnimationFrame(move);
  };
  head.hidden = false;
  move();
  return new Promise((done) => {
    source.onended = () => {
      if (Number(head.dataset.number) === number) { head.hidden = true; head.dataset.number = number + 1; }
      done();
    };
  });
}

export function waveform(canvas, samples, width) {
  canvas.width = width;
  const pen = canvas.getContext("2d"), middle = canvas.height / 2, step = samples.length / width;
  pen.fillStyle = getComputedStyle(document.documentElement).getPropertyValue("--accent");
  for (let x = 0; x < width; x++) {
    let loudest = 0;
    const end = Math.min(samples.length, Math.ceil((x + 1) * step));
    for (let i = Math.floor(x * step); i < end; i++) loudest = Math.max(loudest, Math.abs(samples[i]));
    const height = Math.max(1, loudest * middle);
    pen.fillRect(x, middle - height, 1, 2 * height);
  }
}
