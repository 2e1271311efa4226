"""A server in a process of its own under attack: it stays up, its memory returns, and retries lose nothing."""

import resource
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

from benchmarks import serving_soak
from benchmarks.serving_attacks import ATTACKS
from benchmarks.serving_soak import running
from tests.timing import until
from trt.client.asking import Server, ServerError
from trt.runtime.recognizer import Recognizer

REPOSITORY = Path(__file__).parents[4]


def test_memory_returns_after_every_attack_and_honest_clients_get_their_answers(model, clips):
    content, expected = clips[2].read_bytes(), next(Recognizer(model).stream([clips[2]])).text
    with running("--asr", str(model), "--client_seconds", "1", "--threads", "1") as server:
        client = Server(server.url)

        def attacked(huge_mb):
            for kind, statuses in ATTACKS.items():
                assert kind(server.port, huge_mb) in statuses, kind
                assert client.transcribe(content, "a.flac", style="text").strip() == expected

        for _ in range(2):
            attacked(110)  # above the limit of a body
        time.sleep(1)
        before = server.memory_mb()
        for _ in range(2):
            attacked(300)
        until(lambda: server.memory_mb() < 1.05 * before)
        assert server.process.poll() is None


def test_a_server_that_ends_and_starts_again_under_load_loses_nothing(model, clips):
    texts = {clip: one.text for clip, one in zip(clips, Recognizer(model).stream(clips), strict=True)}
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "trt.serve", "--asr", str(model), "--port", str(port), "--threads", "1"]
    stops, wrong, answered = threading.Event(), [], []

    def ask(first):
        client, i = Server(f"http://127.0.0.1:{port}", waits=(0.2,) * 600), first
        while not stops.is_set():
            clip = clips[i % len(clips)]
            try:
                found = client.transcribe(clip.read_bytes(), clip.name, style="text").strip()
            except ServerError as error:
                wrong.append(str(error))
            else:
                answered.append(time.monotonic())
                if found != texts[clip]:
                    wrong.append(found)
            i += 1

    processes = [subprocess.Popen(command, cwd=REPOSITORY)]
    threads = [threading.Thread(target=ask, args=(i,)) for i in range(4)]
    try:
        for thread in threads:
            thread.start()
        for end in (signal.SIGTERM, signal.SIGKILL):
            began = len(answered)
            while len(answered) < began + 20:
                time.sleep(0.05)
            processes[-1].send_signal(end)
            status = processes[-1].wait()
            assert status == (0 if end == signal.SIGTERM else -signal.SIGKILL)
            processes.append(subprocess.Popen(command, cwd=REPOSITORY))
        began = len(answered)
        while len(answered) < began + 20:
            time.sleep(0.05)
    finally:
        stops.set()
        for thread in threads:
            thread.join()
        processes[-1].kill()
        processes[-1].wait()
    assert wrong == []


def test_a_full_disk_is_nothing_to_a_server(model, clips, tmp_path):
    """Nothing that it does writes files; what it says goes to a device without room."""

    with running("--asr", str(model)) as server:
        resource.prlimit(server.process.pid, resource.RLIMIT_FSIZE, (0, 0))
        client = Server(server.url)
        for clip, expected in zip(clips, Recognizer(model).stream(clips), strict=True):
            assert client.transcribe(clip.read_bytes(), clip.name, style="text").strip() == expected.text
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    with Path("/dev/full").open("w") as full:
        command = [sys.executable, "-m", "trt.serve", "--asr", str(model), "--port", str(port)]
        process = subprocess.Popen(command, cwd=REPOSITORY, stdout=full, stderr=full)
        try:
            client = Server(f"http://127.0.0.1:{port}", waits=(0.5,) * 240)
            assert client.transcribe(clips[0].read_bytes(), "a.wav", style="json").startswith("{")
            process.send_signal(signal.SIGTERM)
            assert process.wait() in (0, 120)  # Python's own for a message that it could not write
        finally:
            process.kill()


def test_a_client_whose_disk_is_full_says_so_in_one_line(server, clips):
    command = [sys.executable, "-m", "trt.client", "transcribe", str(clips[0]), "--url", server.url]
    done = subprocess.run(
        [*command, "--output", "/dev/full"], cwd=REPOSITORY, capture_output=True, text=True, check=False
    )
    assert done.returncode == 2
    assert done.stderr.strip().splitlines()[-1].startswith("error: ")
    assert "No space left on device" in done.stderr
    assert "Traceback" not in done.stderr


def test_the_soak_reports_answers_attacks_and_memory(model, clips, capsys, monkeypatch):
    for name, seconds in (("REST", 2), ("WARM_UP", 2), ("ELSEWHERE", 2), ("PATIENCE", 1)):
        monkeypatch.setattr(serving_soak, name, seconds)
    cfg = serving_soak.ServingSoakConfig(
        model=model, inputs=(clips[0].parent,), minutes=0.1, clients=2, attackers=1, huge_mb=110
    )
    serving_soak.main(cfg)
    told = capsys.readouterr().out
    assert "0 errors, 0 wrong" in told
    assert "/health of an idle server in ms" in told
    assert "MB before" in told
    assert "!" not in told
