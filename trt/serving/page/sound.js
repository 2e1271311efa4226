// Sound in the browser: any file to samples, samples to WAV, the microphone as samples.

let shared = null;
export const context = () => (shared ??= new AudioContext());

export async function decoded(blob) {
  const buffer = await context().decodeAudioData(await blob.arrayBuffer());
  const mono = new Float32Array(buffer.length);
  for (let c = 0; c < buffer.numberOfChannels; c++) {
    const channel = buffer.getChannelData(c);
    for (let i = 0; i < mono.length; i++) mono[i] += channel[i] / buffer.numberOfChannels;
  }
  return { samples: mono, rate: buffer.sampleRate };
}

export function toInt16(samples) {
  const values = new Int16Array(samples.length);
  for (let i = 0; i < samples.length; i++) values[i] = Math.max(-32768, Math.min(32767, Math.round(samples[i] * 32767)));
  return values;
}

export function wav({ samples, rate }) {
  const header = new DataView(new ArrayBuffer(44));
  const text = (at, letters) => [...letters].forEach((letter, i) => header.setUint8(at + i, letter.charCodeAt(0)));
  const size = samples.length * 2;
  text(0, "RIFF"); header.setUint32(4, 36 + size, true); text(8, "WAVEfmt ");
  header.setUint32(16, 16, true); header.setUint16(20, 1, true); header.setUint16(22, 1, true);
  header.setUint32(24, rate, true); header.setUint32(28, rate * 2, true); header.setUint16(32, 2, true);
  header.setUint16(34, 16, true); text(36, "data"); header.setUint32(40, size, true);
  return new Blob([header, toInt16(samples)], { type: "audio/wav" });
}

let playing = null;
export function play({ samples, rate }, start = 0, end = samples.length / rate) {
  playing?.stop();
  const buffer = context().createBuffer(1, samples.length, rate);
  buffer.copyToChannel(samples, 0);
  const source = context().createBufferSource();
  source.buffer = buffer;
  source.connect(context().destination);
  context().resume();
  source.start(0, start, Math.max(0.05, end - start));
  playing = source;
  return source;
}

// Gives `take` every block of samples of the microphone; the result stops it.
export async function microphone(take) {
  const media = await navigator.mediaDevices.getUserMedia({ audio: { channelCount: 1 } });
  const own = new AudioContext();
  await own.audioWorklet.addModule("/page/worklet.js");
  const node = new AudioWorkletNode(own, "blocks");
  node.port.onmessage = (event) => take(event.data);
  own.createMediaStreamSource(media).connect(node);
  return { rate: own.sampleRate, stop: () => { media.getTracks().forEach((track) => track.stop()); return own.close(); } };
}
