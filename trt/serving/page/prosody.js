// Pitch, duration and loudness of every word of a text, to be dragged; and the SSML that says so.

const PIXELS = 260, TOP = 30, BOTTOM = 140, FLOOR = 200, LABEL = 214; // per second; rows of the drawing
const MOST_DB = 12, ROW = 15; // and the height of a row of words
const LIMITS = { shift: [-300, 800], stretch: [0.3, 4], db: [-MOST_DB, MOST_DB] };
const NAMES = { shift: "pitch in hertz", stretch: "duration as a factor", db: "loudness in decibels" };
const STEPS = { shift: 5, stretch: 0.05, db: 1 }; // of an arrow key
const UNIT = 46, NUMBER = 26; // widths of a word in which its pitch has room, with its unit and without
const tag = (name, attributes) => {
  const element = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  return element;
};

export class Prosody {
  constructor(svg, changed) {
    this.svg = svg;
    this.changed = changed;
    this.words = [];
  }

  // `words` as the server plans them for `text` without edits.
  show(text, words) {
    this.words = words.map((word) => ({ ...word, shift: 0, stretch: 1, db: 0 }));
    this.tokens = spelled(text, words);
    const pitches = words.map((word) => word.pitch_hz).filter((hz) => hz > 0);
    this.low = Math.min(60, ...pitches) - 20;
    this.high = Math.max(300, ...pitches) + 60;
    this.draw();
  }

  get isEdited() {
    return this.words.some(edited);
  }

  ssml() {
    const said = this.words.map((word, i) => (edited(word) ? `<prosody${attributes(word)}>${escaped(this.tokens[i])}</prosody>` : escaped(this.tokens[i])));
    return `<speak>${said.join(" ")}</speak>`;
  }

  reset() {
    this.words.forEach((word) => Object.assign(word, { shift: 0, stretch: 1, db: 0 }));
    this.draw();
    this.changed();
  }

  y(hz) {
    return BOTTOM - ((hz - this.low) / (this.high - this.low)) * (BOTTOM - TOP);
  }

  draw() {
    const parts = [], points = [], names = [];
    const { word: focused, what } = this.svg.contains(document.activeElement) ? document.activeElement.dataset : {};
    let x = 4;
    for (const [i, word] of this.words.entries()) {
      const width = Math.max(14, (word.end - word.start) * word.stretch * PIXELS), y = this.y(word.pitch_hz + word.shift);
      const loud = 30 + (word.db / MOST_DB) * 25;
      parts.push(tag("rect", { class: edited(word) ? "box edited" : "box", x, y: 8, width: width - 2, height: FLOOR - 8, rx: 4 }));
      parts.push(this.handle(tag("rect", { class: "energy", x: x + 3, y: FLOOR - loud, width: Math.max(6, width - 12), height: loud }), i, "db"));
      parts.push(this.handle(tag("rect", { class: "edge", x: x + width - 6, y: 8, width: 5, height: FLOOR - 8 }), i, "stretch"));
      if (word.pitch_hz > 0) {
        points.push(`${x + width / 2},${y}`);
        parts.push(this.handle(tag("circle", { class: "pitch", cx: x + width / 2, cy: y, r: 7 }), i, "shift"));
      }
      const name = tag("text", { x: x + 4 });
      name.textContent = word.text;
      const value = tag("text", { class: "value", x: x + 4, y: 20 });
      const hz = Math.round(word.pitch_hz + word.shift);
      value.textContent = width >= UNIT ? `${hz} Hz` : width >= NUMBER ? hz : "";
      names.push(name);
      parts.push(name, value);
      x += width + 3;
    }
    this.svg.setAttribute("width", x + 8);
    this.svg.replaceChildren(tag("polyline", { class: "curve", points: points.join(" ") }), ...parts);
    this.place(names);
    if (what) this.svg.querySelector(`[data-word="${focused}"][data-what="${what}"]`)?.focus();
  }

  // Each word under its box, in the first row where it does not lie on the word before.
  place(names) {
    const ends = [];
    for (const name of names) {
      const left = Number(name.getAttribute("x")), free = ends.findIndex((end) => end <= left);
      const row = free < 0 ? ends.length : free;
      ends[row] = left + name.getComputedTextLength() + 5;
      name.setAttribute("y", LABEL + row * ROW);
    }
    this.svg.setAttribute("height", LABEL + Math.max(1, ends.length) * ROW - 8);
  }

  // What is heard of a word stays within limits; the pitch above 40 Hz.
  set(word, what, value) {
    const [low, high] = LIMITS[what];
    word[what] = clamp(value, what === "shift" ? 40 - word.pitch_hz : low, high);
    this.draw();
  }

  handle(element, i, what) {
    const own = this.words[i], value = Math.round(own[what] * 100) / 100;
    const [least, most] = LIMITS[what];
    Object.assign(element.dataset, { word: i, what });
    const told = { role: "slider", tabindex: 0, "aria-label": `${own.text}: ${NAMES[what]}`, "aria-valuenow": value, "aria-valuemin": least, "aria-valuemax": most };
    for (const [key, text] of Object.entries(told)) element.setAttribute(key, text);
    element.onkeydown = (event) => {
      const sign = { ArrowUp: 1, ArrowRight: 1, ArrowDown: -1, ArrowLeft: -1 }[event.key];
      if (!sign) return;
      event.preventDefault();
      this.set(own, what, own[what] + sign * STEPS[what]);
      this.changed();
    };
    element.onpointerdown = (down) => {
      down.preventDefault();
      const word = this.words[i], before = { ...word }, width = (word.end - word.start) * PIXELS;
      const move = (event) => {
        const dx = event.clientX - down.clientX, dy = down.clientY - event.clientY;
        const moved = { shift: (dy * (this.high - this.low)) / (BOTTOM - TOP), stretch: dx / width, db: (dy / 25) * MOST_DB };
        this.set(word, what, before[what] + moved[what]);
      };
      const up = () => {
        removeEventListener("pointermove", move);
        removeEventListener("pointerup", up);
        this.changed();
      };
      addEventListener("pointermove", move);
      addEventListener("pointerup", up);
    };
    return element;
  }
}

const clamp = (value, low, high) => Math.max(low, Math.min(high, value));
const edited = (word) => Math.abs(word.shift) >= 1 || Math.abs(word.stretch - 1) >= 0.02 || Math.abs(word.db) >= 0.2;
const signed = (value) => `${value < 0 ? "-" : "+"}${Math.abs(value)}`;
const escaped = (text) => text.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;");

function attributes(word) {
  let text = "";
  if (Math.abs(word.shift) >= 1) text += ` pitch="${signed(Math.round(word.shift))}Hz"`;
  if (Math.abs(word.stretch - 1) >= 0.02) text += ` rate="${Math.round(100 / word.stretch)}%"`;
  if (Math.abs(word.db) >= 0.2) text += ` volume="${signed(Math.round(word.db * 10) / 10)}dB"`;
  return text;
}

// The words as they are written, with their punctuation, where each is said as one word; else as they are said.
function spelled(text, words) {
  const tokens = text.split(/\s+/).filter((token) => /[\p{L}\p{N}]/u.test(token));
  const bare = (token) => token.toLowerCase().replace(/[^\p{L}\p{N}']/gu, "");
  const same = tokens.length === words.length && tokens.every((token, i) => bare(token) === bare(words[i].text));
  return same ? tokens : words.map((word) => word.text);
}
