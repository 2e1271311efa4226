import pytest

from fastpitch.front.control import Control
from fastpitch.front.phrases import Phrase, PhraseError, read_phrases


def written(tmp_path, name, content):
    path = tmp_path / name
    path.write_text(content, encoding="utf-8")
    return path


def test_a_text_file_has_a_phrase_a_line(tmp_path):
    path = written(tmp_path, "a.txt", "Hello.\n\nTwo | three\r\n\n")
    found = read_phrases(path)
    assert found.phrases == [Phrase(1, "Hello.", "audio_0.wav"), Phrase(3, "Two | three", "audio_2.wav")]
    assert found.problems == []


def test_a_table_has_controls_for_every_line(tmp_path):
    path = written(
        tmp_path,
        "a.tsv",
        "output\ttext\tspeaker\tpace\tpitch_shift\tpitch_flatten\twords\tenergy\n"
        'x\tHello "you".\t2\t0.8\t20\ttrue\thello: pace=2\t\n'
        "sub/y.wav\tBye.\n",
    )
    found = read_phrases(path)
    assert found.problems == []
    assert found.phrases[0] == Phrase(
        2, 'Hello "you".', "x.wav", 2, Control(pace=0.8, pitch_shift_hz=20, pitch_flatten=True), "hello: pace=2"
    )
    assert found.phrases[1] == Phrase(3, "Bye.", "sub/y.wav")


def test_recorded_spectrograms_are_named_from_the_folder_of_the_list(tmp_path):
    path = written(tmp_path, "a.tsv", "mel\tpitch\toutput\nmels/a.npy\tpitch/a.pt\ta.wav\n")
    assert read_phrases(path).phrases == [Phrase(2, "", "a.wav", mel=tmp_path / "mels/a.npy")]


def test_a_broken_byte_costs_its_line_only(tmp_path):
    path = tmp_path / "a.txt"
    path.write_bytes(b"\xef\xbb\xbfOne.\nTw\xffo.\nThree \xc3\xa9.\n")
    found = read_phrases(path)
    assert [phrase.text for phrase in found.phrases] == ["One.", "Three é."]
    assert found.problems == [f"{path}:2: not text in UTF-8 (byte 0xff at 3)"]
    path.write_bytes("One.\nZwei ü.\n".encode("utf-16"))
    assert [phrase.text for phrase in read_phrases(path).phrases] == ["One.", "Zwei ü."]


def test_a_speaker_of_thousands_of_digits_costs_its_line_only(tmp_path):
    found = read_phrases(written(tmp_path, "a.tsv", f"text\tspeaker\none\t{'7' * 5000}\ntwo\t1\n"))
    assert [phrase.speaker for phrase in found.phrases] == [1]
    assert "a.tsv:2: speaker '777" in found.problems[0]


def test_a_bad_line_is_told_and_the_others_are_read(tmp_path):
    path = written(
        tmp_path,
        "a.tsv",
        "text\toutput\tspeaker\tpace\n"
        "good\ta\n\tb\n\nslow\tc\t\tslowly\nwho\td\tBob\nmany\te\t1\t1\t1\ntwice\ta\nout\t../f\nstop\tg\t\t0\nfine\th\n",
    )
    found = read_phrases(path)
    assert [phrase.text for phrase in found.phrases] == ["good", "fine"]
    assert found.problems == [
        f"{path}:3: no text; expected something to say",
        f"{path}:5: pace = 'slowly': expected a number",
        f"{path}:6: speaker 'Bob': expected the number of a speaker, from 0",
        f"{path}:7: 5 values for 4 columns (text, output, speaker, pace)",
        f"{path}:8: output 'a.wav' is that of line 2 too",
        f"{path}:9: output '../f': expected a name below the output folder",
        f"{path}:10: pace = 0.0: expected a number above 0, 1 for unchanged",
    ]


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.tsv", "Hello world\nx\n", "a.tsv:1: columns Hello world; expected names of columns, text among them"),
        ("a.tsv", "text\tspede\n", "a.tsv:1: unknown column 'spede'; did you mean speaker"),
        ("a.tsv", "text\tzzzzz\n", "a.tsv:1: unknown column 'zzzzz'; known: text, output, speaker"),
        ("a.txt", "\n\n", "a.txt: empty; expected a phrase a line"),
    ],
)
def test_a_file_that_is_no_phrase_file_is_told(tmp_path, name, content, message):
    with pytest.raises(PhraseError, match=message):
        read_phrases(written(tmp_path, name, content))


def test_a_missing_file_is_told(tmp_path):
    with pytest.raises(PhraseError, match="none.txt: cannot be read "):
        read_phrases(tmp_path / "none.txt")
