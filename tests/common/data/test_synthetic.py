import dataclasses
import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import soundfile

from common.audio import espeak
from common.data.synthetic import SyntheticConfig, build_librispeech, build_ljspeech, build_translations, speakers
from common.data.texts.paired import pairs
from common.data.texts.sentences import subset_of

SMALL = SyntheticConfig(train_utterances=12, dev_utterances=3, test_utterances=3)
SUBSETS = {"train": "train-clean", "dev": "dev-clean", "test": "test-clean"}


@pytest.fixture(scope="module")
def corpus(tmp_path_factory) -> Path:
    return build_librispeech(tmp_path_factory.mktemp("corpus"), SMALL, workers=1)


def transcripts(folder: Path) -> dict[str, str]:
    lines = [line for path in sorted(folder.rglob("*.trans.txt")) for line in path.read_text().splitlines()]
    return dict(line.split(" ", 1) for line in lines)


def files(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_the_folder_is_laid_out_as_librispeech(corpus):
    for subset, count in (("train", 12), ("dev", 3), ("test", 3)):
        audio = sorted((corpus / SUBSETS[subset]).rglob("*.flac"))
        texts = transcripts(corpus / SUBSETS[subset])
        assert len(audio) == count
        assert sorted(texts) == sorted(path.stem for path in audio)
        for path in audio:
            speaker, chapter, _ = path.stem.split("-")
            assert path.parent.parts[-2:] == (speaker, chapter)
            assert texts[path.stem] == texts[path.stem].upper()
            assert subset_of(texts[path.stem].lower()) == subset


def test_clips_are_mono_16_khz_of_a_few_seconds_and_do_not_clip(corpus):
    for path in corpus.rglob("*.flac"):
        samples, rate = soundfile.read(path)
        assert rate == 16000
        assert samples.ndim == 1
        assert 0.8 < len(samples) / rate < 8
        assert 0.09 < np.abs(samples).max() < 0.9  # -20 to -1 dB
        assert samples[:800].std() > 0  # there is noise before the speech


def test_every_word_has_a_time_within_its_clip(corpus):
    texts = transcripts(corpus)
    lines = [json.loads(line) for file in corpus.glob("*.word_times.jsonl") for line in file.read_text().splitlines()]
    assert sorted(line["id"] for line in lines) == sorted(texts)
    for line in lines:
        seconds = soundfile.info(next(corpus.rglob(f"{line['id']}.flac"))).duration
        edges = [edge for _, start, end in line["words"] for edge in (start, end)]
        assert [word for word, _, _ in line["words"]] == texts[line["id"]].lower().split()
        assert line["seconds"] == pytest.approx(seconds, abs=1e-4)
        assert edges == sorted(edges)
        assert edges[0] >= 0.05
        assert edges[-1] < seconds - 0.05 + 1e-3


def test_speech_is_louder_where_the_word_times_say(corpus):
    for line in (corpus / "train-clean.word_times.jsonl").read_text().splitlines():
        entry = json.loads(line)
        samples, rate = soundfile.read(next(corpus.rglob(f"{entry['id']}.flac")))
        start, end = round(entry["words"][0][1] * rate), round(entry["words"][-1][2] * rate)
        assert samples[start:end].std() > 3 * samples[:start].std()


def test_any_number_of_processes_gives_the_same_bytes(corpus, tmp_path):
    assert files(build_librispeech(tmp_path, SMALL, workers=2)) == files(corpus)


def test_an_utterance_does_not_depend_on_how_many_there_are(corpus, tmp_path):
    fewer = build_librispeech(
        tmp_path, dataclasses.replace(SMALL, train_utterances=2, dev_utterances=1, test_utterances=1), workers=1
    )
    clips = {name: data for name, data in files(fewer).items() if name.endswith(".flac")}
    assert len(clips) == 4
    assert clips.items() <= files(corpus).items()


def test_another_seed_gives_another_corpus(corpus, tmp_path):
    other = build_librispeech(
        tmp_path, dataclasses.replace(SMALL, seed=1, dev_utterances=1, test_utterances=1), workers=1
    )
    assert not set(transcripts(other).values()) & set(transcripts(corpus).values())


def test_no_voice_variant_is_heard_in_two_subsets():
    variants = {subset: {reader.voice.variant for reader in speakers(subset, SMALL)} for subset in SUBSETS}
    assert not variants["train"] & variants["test"]
    assert not variants["train"] & variants["dev"]
    assert not variants["dev"] & variants["test"]
    identifiers = [reader.id for subset in SUBSETS for reader in speakers(subset, SMALL)]
    assert len(set(identifiers)) == len(identifiers)


def test_every_voice_exists_and_has_men_and_women():
    variants = Path(espeak.paths()[1]) / "voices" / "!v"
    for subset in SUBSETS:
        assert {reader.sex for reader in speakers(subset, SMALL)} == {"F", "M"}
        assert all((variants / reader.voice.variant).is_file() for reader in speakers(subset, SMALL))


def test_the_speakers_are_listed(corpus):
    text = (corpus / "SPEAKERS.TXT").read_text()
    assert "100  | F | train-clean      | en-us+f1" in text
    assert len(text.splitlines()) == 1 + sum(len(speakers(subset, SMALL)) for subset in SUBSETS)


def test_a_complete_corpus_is_not_built_again(corpus):
    calls = []
    before = {path: path.stat().st_mtime_ns for path in corpus.rglob("*")}
    assert build_librispeech(corpus.parent, SMALL, progress=lambda *state: calls.append(state)) == corpus
    assert calls == []
    assert {path: path.stat().st_mtime_ns for path in corpus.rglob("*")} == before


def test_a_folder_with_something_else_is_not_overwritten(corpus, tmp_path):
    with pytest.raises(FileExistsError, match="LibriSpeech: holds another corpus or other files; delete it or choose"):
        build_librispeech(corpus.parent, dataclasses.replace(SMALL, seed=5))
    (tmp_path / "thesis.txt").write_text("years of work")
    with pytest.raises(FileExistsError, match="holds another corpus or other files"):
        build_ljspeech(tmp_path, SMALL)


def test_an_interrupted_build_leaves_no_corpus_and_the_next_one_succeeds(tmp_path):
    def interrupt(done: int, _: int) -> None:
        if done == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        build_librispeech(tmp_path, SMALL, workers=1, progress=interrupt)
    assert not (tmp_path / "LibriSpeech").exists()
    tiny = dataclasses.replace(SMALL, train_utterances=1, dev_utterances=1, test_utterances=1)
    assert len(list(build_librispeech(tmp_path, tiny, workers=1).rglob("*.flac"))) == 3


def test_a_corpus_is_on_disk_before_it_has_its_name(tmp_path, monkeypatch):
    states = []
    monkeypatch.setattr("os.sync", lambda: states.append([path.name for path in tmp_path.iterdir()]))
    small = dataclasses.replace(SMALL, train_utterances=1, dev_utterances=1, test_utterances=1)
    corpus = build_librispeech(tmp_path, small, workers=1)
    assert states == [["LibriSpeech.partial"]]
    assert (corpus / "corpus.json").exists()


def test_a_script_without_a_main_guard_fails_once_with_the_reason(tmp_path):
    script = tmp_path / "unguarded.py"
    script.write_text(
        "from pathlib import Path\n"
        "from common.data.synthetic import SyntheticConfig, build_librispeech\n"
        "few = SyntheticConfig(train_utterances=12, dev_utterances=1, test_utterances=1)\n"
        f"build_librispeech(Path({str(tmp_path)!r}), few, workers=2)\n"
    )
    repository = Path(__file__).parents[3]
    run = subprocess.run([sys.executable, script], cwd=repository, capture_output=True, text=True, check=False)
    assert run.returncode == 1
    assert 'must do so under `if __name__ == "__main__":`, because every process imports' in run.stderr
    assert not (tmp_path / "LibriSpeech").exists()


def test_progress_counts_to_the_end(tmp_path):
    states = []
    build_ljspeech(tmp_path / "lj", SMALL, workers=1, progress=lambda *state: states.append(state))
    assert states == [(i, 12) for i in range(1, 13)]


def test_the_ljspeech_folder_has_one_voice_at_22_khz_and_texts_as_printed_and_as_spoken(tmp_path):
    folder = build_ljspeech(tmp_path / "lj", SMALL, workers=1)
    rows = [line.split("|") for line in (folder / "metadata.csv").read_text().splitlines()]
    assert sorted(row[0] for row in rows) == sorted(path.stem for path in (folder / "wavs").glob("*.wav"))
    for name, printed, spoken in rows:
        info = soundfile.info(folder / "wavs" / f"{name}.wav")
        assert (info.samplerate, info.channels) == (22050, 1)
        assert printed[:-1].lower() == spoken
        assert printed[0].isupper()
        assert printed[-1] in ".?"
    assert len((folder / "word_times.jsonl").read_text().splitlines()) == 12


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"snr_db": (40, 15)}, "snr_db goes from 40 to 15; the first must not be the larger"),
        ({"words_per_minute": (200, 100)}, "words_per_minute goes from 200 to 100"),
        ({"peak_db": (-3, 3)}, "peak_db is 3; above 0 the samples would clip"),
        ({"speakers_per_variant": 0}, "speakers_per_variant is 0; expected at least one"),
    ],
)
def test_a_config_that_cannot_be_says_why(changes, message):
    with pytest.raises(ValueError, match=message):
        SyntheticConfig(**changes)


def test_english_recordings_have_a_transcript_and_a_translation_german_ones_a_transcript(tmp_path):
    root = build_translations(tmp_path / "corpus", SMALL, workers=1)
    assert build_translations(tmp_path / "corpus", SMALL) == root  # there already
    for subset, count in (("train", 12), ("dev", 3), ("test", 3)):
        rows = [json.loads(line) for line in (root / f"{subset}.jsonl").read_text().splitlines()]
        times = {row["id"]: row for row in map(json.loads, (root / f"{subset}.word_times.jsonl").open())}
        english = dict(pairs(count, subset=subset))
        assert len({row["audio_filepath"] for row in rows}) == len(times) == count
        for row in rows:
            seconds = soundfile.info(root / row["audio_filepath"]).duration
            assert row["duration"] == pytest.approx(seconds, abs=1e-3)
            if row["source_lang"] == row["target_lang"]:
                assert " ".join(word for word, _, _ in times[row["id"]]["words"]) == row["text"]
        tasks = [(row["source_lang"], row["target_lang"]) for row in rows]
        assert [tasks.count(one) for one in (("en", "en"), ("en", "de"), ("de", "de"))] == [
            (count + 1) // 2, (count + 1) // 2, count // 2,
        ]  # fmt: skip
        spoken = {row["audio_filepath"]: row["text"] for row in rows if row["target_lang"] == "en"}
        for row in rows:
            if (row["source_lang"], row["target_lang"]) == ("en", "de"):
                assert row["text"] == english[spoken[row["audio_filepath"]]]
