// Blocks of the microphone's samples, a tenth of a second each.

class Blocks extends AudioWorkletProcessor {
  constructor() {
    super();
    this.parts = [];
    this.count = 0;
  }

  process([[channel]]) {
    if (!channel) return true;
    this.parts.push(channel.slice());
    this.count += channel.length;
    if (this.count >= sampleRate / 10) {
      const block = new Float32Array(this.count);
      let at = 0;
      for (const part of this.parts) { block.set(part, at); at += part.length; }
      this.port.postMessage(block, [block.buffer]);
      this.parts = [];
      this.count = 0;
    }
    return true;
  }
}

registerProcessor("blocks", Blocks);
