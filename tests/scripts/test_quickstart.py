"""The quickstart at toy size: the same steps in seconds."""

import importlib.util
import os
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from common.config import ConfigError
from common.data.synthetic import SyntheticConfig
from common.runs import checkpoint
from tests.jasper.tiny import run
from tests.test_readme import README, commands

REPOSITORY = Path(__file__).resolve().parents[2]
pytestmark = pytest.mark.slow  # the trainings take a quarter of a minute


@pytest.fixture(scope="module")
def quickstart():
    """The script as a module."""
    spec = importlib.util.spec_from_file_location("quickstart", REPOSITORY / "scripts/quickstart.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules["quickstart"] = module
    sys.path.insert(0, str(REPOSITORY / "scripts"))  # as `python scripts/quickstart.py` has it
    spec.loader.exec_module(module)
    yield module
    sys.path.remove(str(REPOSITORY / "scripts"))


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    return tmp_path_factory.mktemp("quickstart")


@pytest.fixture(scope="module")
def first(folder) -> subprocess.CompletedProcess:
    """One run of the command, in this interpreter's environment."""
    environment = {**os.environ, "SPEECH_PYTHON": sys.executable, "QUICKSTART_SIZE": "toy", "OMP_NUM_THREADS": "1"}
    command = ["bash", "scripts/quickstart.sh", "--data-dir", folder / "data", "--run-dir", folder / "runs"]
    return subprocess.run(command, cwd=REPOSITORY, env=environment, capture_output=True, text=True, check=True)


@pytest.fixture
def again(first, folder, quickstart):
    """The settings of that run."""
    return quickstart.Quickstart(size="toy", data_dir=folder / "data", run_dir=folder / "runs")


def test_one_command_trains_evaluates_transcribes_and_reports(first, folder):
    run = folder / "runs" / "quickstart-toy"
    for line in ("24 clips to train on, 8 to validate, 8 to test", "epoch    2 | dev ema |", "WER ", "CER ", "In all "):
        assert line in first.stdout
    assert first.stdout.count("   said  ") == 5
    assert first.stdout.count("   to be said  ") == 2
    assert first.stdout.count("   recognised  ") == 7
    assert f"Report   {run / 'report.html'}" in first.stdout
    assert (run / "report.html").stat().st_size > 100_000
    voice = folder / "runs" / "quickstart-toy-voice"
    assert "16 clips of one voice" in first.stdout
    assert f"Report   {voice / 'report.html'}" in first.stdout
    assert len(list((voice / "spoken").glob("*.wav"))) == 2


def test_the_second_time_nothing_is_trained(again, quickstart, folder, capsys):
    weights = (folder / "runs" / "quickstart-toy" / "jasper_best.pt").read_bytes()
    assert quickstart.main(again) == 0
    said = capsys.readouterr().out
    assert "quickstart-toy: trained before (2 epochs); --fresh trains it anew" in said
    assert "quickstart-toy-vocoder: trained before (1 epochs); --fresh trains it anew" in said
    assert "epoch    1" not in said
    assert (folder / "runs" / "quickstart-toy" / "jasper_best.pt").read_bytes() == weights


def test_the_second_half_can_be_left_out(again, quickstart, capsys):
    assert quickstart.main(replace(again, skip_tts=True)) == 0
    assert "one voice" not in capsys.readouterr().out


def test_what_is_recognised_is_what_was_held_out(first, folder):
    tested = [line.strip() for line in first.stdout.splitlines() if line.endswith(".flac")]
    assert len(set(tested)) == 5
    assert all("/test-clean/" in path for path in tested)


def test_the_first_commands_of_the_readme_run_with_what_it_left(first, folder, tmp_path, monkeypatch, capsys):
    for name in ("data/quickstart", "runs/quickstart", "runs/quickstart-voice"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).symlink_to(folder / name.replace("quickstart", "quickstart-toy"))
    monkeypatch.chdir(tmp_path)
    used = [command for command in commands(README) if command[0] == "speech" and command[1] != "serve"]
    assert {command[1] for command in used} == {"info", "transcribe", "evaluate", "speak", "train", "export"}
    for command in used:
        said = run(capsys, *command)
        assert said.status == 0, (command, said.err)
    assert sorted(path.name for path in Path("subtitles").iterdir()) == ["audio_0.srt"]


def test_a_run_of_other_settings_is_not_taken_for_this_one(again, quickstart, folder):
    corpus = folder / "data" / "quickstart-toy" / "LibriSpeech"
    other = replace(quickstart.configuration(again, corpus), seed=1)
    with pytest.raises(ConfigError, match="quickstart-toy: a run with other settings; --fresh trains anew"):
        quickstart.trained(other, fresh=False)


def test_a_stopped_run_goes_on_and_a_fresh_one_starts_at_the_beginning(again, quickstart, folder, capsys):
    corpus = folder / "data" / "quickstart-toy" / "LibriSpeech"
    run = replace(quickstart.configuration(again, corpus), output_dir=folder / "stopped", epochs_this_job=1)
    assert not quickstart.trained(run, fresh=False)
    assert "stopped in epoch 2 of 2; the same command goes on from there" in capsys.readouterr().out
    assert quickstart.trained(run, fresh=False)
    said = capsys.readouterr().out
    assert "resumed at step 6, epoch 2" in said
    assert "epoch    1 | iter" not in said
    assert not quickstart.trained(run, fresh=True)
    assert "epoch    1 | iter    1/6" in capsys.readouterr().out


def test_the_full_size_is_the_corpus_and_the_configuration_of_the_readme(quickstart):
    full = quickstart.configuration(quickstart.Quickstart(), Path("corpus"))
    assert full.output_dir == Path("runs/quickstart")
    assert full.data.validation == ("dev-clean",)
    assert quickstart.CORPUS["full"] == SyntheticConfig()


def test_flags_stand_alone_and_a_wrong_one_is_one_line(quickstart):
    def given(*words: str):
        return quickstart.config.parse_flags(quickstart.Quickstart, None, words, description="")

    assert given("--fresh", "--skip-tts", "--size", "toy", "--language", "de") == quickstart.Quickstart(
        fresh=True, skip_tts=True, size="toy", language="de"
    )
    for words, told in (
        (["--langauge", "de"], "there is no --langauge; did you mean --language"),
        (["--language", "fr"], "invalid choice 'fr' for argument '--language'"),
        (["toys"], "toys"),
    ):
        with pytest.raises(ConfigError, match=f"^command line: .*{told}.*$"):
            given(*words)


def test_another_language_has_its_own_sentences_letters_and_sounds(quickstart, tmp_path):
    german = quickstart.Quickstart(size="toy", language="de")
    assert german.name == "quickstart-toy-de"
    assert (german.corpus.language, german.corpus.accents) == ("de", ("de",))
    assert quickstart.configuration(german, tmp_path).model.labels.endswith("z'äöüß")
    import quickstart_voice

    runs = quickstart_voice.configurations(tmp_path, german.name, tmp_path, "toy", "de")
    assert (runs.acoustic.text.symbol_set, runs.acoustic.text.language) == ("espeak_1", "de")
    assert runs.acoustic.data.pitch_mean == ()


@pytest.mark.nightly
def test_ctrl_c_stops_all_trainings_and_the_same_command_ends_in_the_same_weights(first, folder):
    again = folder / "interrupted"
    environment = {**os.environ, "SPEECH_PYTHON": sys.executable, "QUICKSTART_SIZE": "toy", "OMP_NUM_THREADS": "1"}
    command = ["bash", "scripts/quickstart.sh", "--data-dir", folder / "data", "--run-dir", again]
    with subprocess.Popen(
        command, cwd=REPOSITORY, env=environment, stdout=subprocess.PIPE, text=True, start_new_session=True
    ) as stopped:
        for line in stopped.stdout:
            if "iter    2/6" in line:
                os.killpg(stopped.pid, signal.SIGINT)  # as a terminal does
                break
        rest = stopped.stdout.read()
    assert stopped.returncode == 130
    assert "stopped; the same command goes on from there" in rest
    assert "Traceback" not in rest
    assert list(again.glob("quickstart-toy/jasper_step*.pt"))
    said = subprocess.run(command, cwd=REPOSITORY, env=environment, capture_output=True, text=True, check=True).stdout
    assert "recogniser  resumed at step" in said
    for path in ("quickstart-toy/jasper_best.pt", "quickstart-toy-voice/fastpitch_step00000004.pt"):
        one, other = (checkpoint.load(runs / path)["weights"] for runs in (folder / "runs", again))
        assert all(torch.equal(one[name], other[name]) for name in one)


@pytest.mark.nightly
def test_an_error_of_one_training_is_the_message_of_all(first, folder):
    runs = folder / "in_the_way"
    runs.mkdir()
    (runs / "quickstart-toy-vocoder").write_text("a file where a folder belongs")
    environment = {**os.environ, "SPEECH_PYTHON": sys.executable, "QUICKSTART_SIZE": "toy", "OMP_NUM_THREADS": "1"}
    command = ["bash", "scripts/quickstart.sh", "--data-dir", folder / "data", "--run-dir", runs]
    ended = subprocess.run(command, cwd=REPOSITORY, env=environment, capture_output=True, text=True, check=False)
    assert ended.returncode == 2
    assert "error: the training of the vocoder ended with an error" in ended.stderr
    assert "quickstart-toy-vocoder: cannot be used as a run directory" in ended.stderr
    assert "Traceback" not in ended.stdout + ended.stderr


@pytest.mark.nightly
def test_the_quickstart_in_german(quickstart, tmp_path, capsys):
    german = quickstart.Quickstart(size="toy", language="de", data_dir=tmp_path / "data", run_dir=tmp_path / "runs")
    assert quickstart.main(german) == 0
    said = capsys.readouterr().out
    assert "Voice" in said
    assert "Oliver malte die alte Tür." in said
