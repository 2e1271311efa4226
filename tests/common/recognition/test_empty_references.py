"""Inference and evaluation count alike where nothing was said."""

from pathlib import Path

from common.recognition.metrics import word_errors
from common.recognition.output.transcripts import Transcript, Word
from common.recognition.sources.inputs import FoundRecordings, InputRecording
from common.recognition.transcribing import TranscriptionConfig, write_all


def test_words_where_nothing_was_said_are_insertions_and_unknown_texts_do_not_count(capsys):
    heard = [
        Transcript(audio=name, text=text, words=[Word(text, 0, 1, 1.0)], seconds=1.0)
        for name, text in (("a", "hi"), ("b", "you"), ("c", "there"))
    ]
    items = [InputRecording("a", "a", "hi"), InputRecording("b", "b", ""), InputRecording("c", "c", None)]
    cfg = TranscriptionConfig(model=Path("m"), inputs=(Path("a"),))
    list(write_all(FoundRecordings(items, []), iter(heard), cfg, spelled=str))
    assert capsys.readouterr().err.splitlines() == ["WER 100.00%: 1 errors in 1 words of 2 utterances"]
    assert word_errors(["hi", ""], ["hi", "you"]).rate == 1.0
