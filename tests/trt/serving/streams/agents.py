"""A client of agents: `python agents.py livekit|pipecat MODEL PORT RECORDING` tells the transcripts of a recording.

It runs in an environment of its own, where nothing of this repository is.
"""

import asyncio
import json
import sys
import wave

STEP = 480  # samples of 20 ms at 24 kHz
SPEED = 4  # times as fast as it is spoken


def pieces(path: str) -> list[bytes]:
    """The samples, 20 ms at a time."""
    with wave.open(path) as file:
        assert file.getframerate() == 24_000
        return [file.readframes(STEP) for _ in range(file.getnframes() // STEP)]


async def livekit(model: str, port: int, path: str) -> list[str]:
    """By LiveKit's plug-in."""
    import aiohttp
    from livekit import rtc
    from livekit.agents import stt
    from livekit.plugins import openai

    commits = model.startswith(("gpt-live", "gpt-realtime"))
    how = {"vad": None} if commits else {"turn_detection": {"type": "server_vad", "silence_duration_ms": 300}}
    found = []
    async with aiohttp.ClientSession() as session:
        client = openai.STT(
            model=model, base_url=f"http://127.0.0.1:{port}/v1", api_key="none", use_realtime=True, **how
        )
        client._session = session
        stream = client.stream()

        async def speak() -> None:
            for piece in pieces(path):
                stream.push_frame(rtc.AudioFrame(piece, 24_000, 1, STEP))
                await asyncio.sleep(0.02 / SPEED)
            stream.flush()
            await asyncio.sleep(0.5)
            if commits:
                await stream._ws.send_json({"type": "input_audio_buffer.commit"})

        speaking = asyncio.create_task(speak())
        async for event in stream:
            if event.type == stt.SpeechEventType.FINAL_TRANSCRIPT:
                found.append(event.alternatives[0].text)
                if len(found) == (1 if commits else 2):
                    break
        await speaking
        await stream.aclose()
        await client.aclose()
    return found


async def pipecat(model: str, port: int, path: str) -> list[str]:
    """By Pipecat's service, in a pipeline."""
    from pipecat.frames.frames import EndFrame, InputAudioRawFrame, TranscriptionFrame
    from pipecat.pipeline.pipeline import Pipeline
    from pipecat.pipeline.runner import PipelineRunner
    from pipecat.pipeline.task import PipelineParams, PipelineTask
    from pipecat.processors.frame_processor import FrameProcessor
    from pipecat.services.openai.stt import OpenAIRealtimeSTTService

    found, done = [], asyncio.Event()

    class Transcripts(FrameProcessor):
        async def process_frame(self, frame: object, direction: object) -> None:
            await super().process_frame(frame, direction)
            if isinstance(frame, TranscriptionFrame):
                found.append(frame.text)
                if len(found) == 2:
                    done.set()
            await self.push_frame(frame, direction)

    service = OpenAIRealtimeSTTService(
        api_key="none",
        base_url=f"ws://127.0.0.1:{port}/v1/realtime",
        turn_detection={"type": "server_vad", "silence_duration_ms": 300},
        settings=OpenAIRealtimeSTTService.Settings(model=model),
    )
    params = PipelineParams(audio_in_sample_rate=24_000)
    task = PipelineTask(Pipeline([service, Transcripts()]), params=params, idle_timeout_secs=None)

    async def speak() -> None:
        while not service._session_ready:
            await asyncio.sleep(0.05)
        for piece in pieces(path):
            await task.queue_frame(InputAudioRawFrame(piece, 24_000, 1))
            await asyncio.sleep(0.02 / SPEED)
        await done.wait()
        await task.queue_frame(EndFrame())

    await asyncio.gather(PipelineRunner(handle_sigint=False).run(task), speak())
    return found


if __name__ == "__main__":
    which, model, port, path = sys.argv[1:]
    heard = {"livekit": livekit, "pipecat": pipecat}[which](model, int(port), path)
    print(json.dumps(asyncio.run(asyncio.wait_for(heard, 60))))
