// Wires the page: recordings to transcripts, the microphone to captions, sentences to sound.

import { Prosody } from "./prosody.js";
import * as server from "./server.js";
import { context, decoded, microphone, toInt16, wav } from "./sound.js";
import { draw } from "./transcript.js";

const at = (id) => document.getElementById(id);

function tell(message, isError = false) {
  at("status").textContent = message;
  at("status").classList.toggle("error", isError);
}

// Runs `work` and shows what it does, or what went wrong.
async function doing(message, work) {
  tell(message);
  try {
    await work();
    tell("");
  } catch (error) {
    tell(error.message, true);
  }
}

function link(place, ...files) {
  place.replaceChildren(...files.map(([name, blob]) => {
    const anchor = document.createElement("a");
    Object.assign(anchor, { href: URL.createObjectURL(blob), download: name, textContent: `Keep ${name}` });
    return anchor;
  }));
}

// --- recordings

async function read(blob, name) {
  await doing(`Transcribing ${name} …`, async () => {
    let sound = null;
    try {
      sound = await decoded(blob);
    } catch {
      throw new Error(`${name}: this browser cannot read it; expected a recording`);
    }
    const content = wav(sound), found = await server.transcribe(content, "recording.wav");
    draw(sound, found);
    link(at("downloads"), ["words.json", new Blob([JSON.stringify(found, null, 1)])], ["recording.wav", content]);
  });
}

at("file").onchange = (event) => event.target.files[0] && read(event.target.files[0], event.target.files[0].name);
const drop = at("recording");
drop.ondragover = (event) => { event.preventDefault(); drop.classList.add("over"); };
drop.ondragleave = () => drop.classList.remove("over");
drop.ondrop = (event) => {
  event.preventDefault();
  drop.classList.remove("over");
  if (event.dataTransfer.files[0]) read(event.dataTransfer.files[0], event.dataTransfer.files[0].name);
};

let recording = null;
at("record").onclick = () => doing("", async () => {
  if (recording) {
    const { source, blocks } = recording;
    recording = null;
    at("record").textContent = "Record";
    at("record").classList.remove("on");
    await source.stop();
    const samples = new Float32Array(blocks.reduce((sum, block) => sum + block.length, 0));
    blocks.reduce((place, block) => { samples.set(block, place); return place + block.length; }, 0);
    if (samples.length) await read(wav({ samples, rate: source.rate }), "recording.wav");
    return;
  }
  const blocks = [];
  recording = { source: await microphone((block) => blocks.push(block)), blocks };
  at("record").textContent = "Stop";
  at("record").classList.add("on");
});

// --- live captions

let listening = null;

function stopListening() {
  listening?.source.stop();
  if (listening?.socket.readyState === WebSocket.OPEN) listening.socket.send(JSON.stringify({ type: "end" }));
  listening = null;
  at("listen").textContent = "Listen";
  at("listen").classList.remove("on");
}

at("listen").onclick = () => doing("", async () => {
  if (listening) return stopListening();
  const state = {};
  at("final").textContent = at("partial").textContent = "";
  let seconds = 0;
  state.source = await microphone((block) => {
    seconds += block.length / state.source.rate;
    at("heard").textContent = `${seconds.toFixed(1)} s`;
    if (state.socket?.readyState === WebSocket.OPEN) state.socket.send(toInt16(block));
  });
  state.socket = server.stream(state.source.rate, (told) => {
    if (told.type === "partial") at("partial").textContent = told.text;
    if (told.type === "final") { at("final").textContent += ` ${told.text}`; at("partial").textContent = ""; }
    if (told.type === "done") { at("final").textContent = told.text; at("partial").textContent = ""; at("captions").dataset.done = told.duration; }
    if (told.type === "error") tell(told.message, true);
  });
  state.socket.onclose = () => listening === state && stopListening();
  listening = state;
  at("listen").textContent = "Stop";
  at("listen").classList.add("on");
});

// --- speech

const prosody = new Prosody(at("prosody"), () => {
  at("ssml").value = prosody.ssml();
  at("again").disabled = at("reset").disabled = !prosody.isEdited;
});

// The voices that the server has, once it lets this page ask.
async function fill() {
  const options = (await server.voices()).map((voice) => new Option(`Speaker ${voice.name}`, voice.id));
  if (options.length) at("voice").replaceChildren(...options);
}

at("key").onchange = () => doing("", fill);
fill().catch(() => {}); // without a voice, or without a key yet, which the first request asks for

async function say(text) {
  await context().resume();
  const sound = await server.speak(text, at("voice").value);
  at("player").src = URL.createObjectURL(sound);
  at("player").dataset.bytes = sound.size;
  at("player").play().catch(() => {}); // a browser may want a click of its own
  link(at("kept"), ["speech.flac", sound], ["speech.ssml", new Blob([at("ssml").value || text])]);
}

at("speak").onclick = () => doing("Speaking …", async () => {
  const text = at("input").value;
  prosody.show(text, await server.wordsOf(text, at("voice").value));
  at("ssml").value = prosody.ssml();
  at("again").disabled = at("reset").disabled = true;
  await say(text);
});
at("again").onclick = () => doing("Speaking …", () => say(at("ssml").value));
at("reset").onclick = () => prosody.reset();
