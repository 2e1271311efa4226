// Requests to the server that this page comes from.

export const key = () => document.getElementById("key").value.trim();

const headers = (more = {}) => (key() ? { ...more, Authorization: `Bearer ${key()}` } : more);

async function answered(response) {
  if (response.ok) return response;
  const told = await response.json().catch(() => null);
  if (response.status === 401) document.getElementById("key-field").hidden = false;
  throw new Error(told?.error?.message ?? `status ${response.status}`);
}

export async function transcribe(blob, name) {
  const form = new FormData();
  form.append("file", blob, name);
  form.append("response_format", "verbose_json");
  return (await answered(await fetch("/v1/audio/transcriptions", { method: "POST", body: form, headers: headers() }))).json();
}

async function post(path, asked) {
  const body = JSON.stringify(asked);
  return answered(await fetch(path, { method: "POST", body, headers: headers({ "Content-Type": "application/json" }) }));
}

export const speak = async (input, voice) => (await post("/v1/audio/speech", { input, voice, response_format: "flac" })).blob();
export const wordsOf = async (input, voice) => (await (await post("/v1/audio/speech/words", { input, voice })).json()).words;

export const voices = async () => (await (await answered(await fetch("/v1/audio/voices", { headers: headers() }))).json()).data;

export function stream(sampleRate, told) {
  const scheme = location.protocol === "https:" ? "wss" : "ws";
  const protocols = key() ? [`key.${key()}`] : [];
  const socket = new WebSocket(`${scheme}://${location.host}/v1/audio/stream?sample_rate=${sampleRate}`, protocols);
  socket.binaryType = "arraybuffer";
  socket.onmessage = (event) => told(JSON.parse(event.data));
  return socket;
}
