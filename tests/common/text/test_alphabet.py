import json

import pytest

from common.config import ConfigError
from common.data.manifest import ManifestError
from common.text.alphabet import AlphabetConfig, main
from common.text.dictionary import read_symbols, write_symbols
from tests.jasper.tiny import run
from tests.languages import write_manifests


def test_letters_of_manifests_become_a_dictionary(tmp_path, capsys):
    folder = write_manifests(tmp_path, "german")
    output = tmp_path / "dict.txt"
    said = run(capsys, "common.text.alphabet", folder / "train.jsonl", folder / "dev.jsonl", "--output", output)
    assert said.status == 0
    assert set(read_symbols(output)) == set("|bärschöntaßeüml")
    assert said.out[0].startswith(f"{output}: {len(read_symbols(output))} symbols of 15 texts: | ")
    main(AlphabetConfig(sources=(folder / "train.jsonl", folder / "dev.jsonl"), output=output))  # the same again


def test_a_dictionary_with_other_symbols_is_never_replaced_unless_told_to(tmp_path):
    (tmp_path / "a.ltr").write_text("A B |\n")
    (tmp_path / "b.ltr").write_text("C |\n")
    output = tmp_path / "dict.ltr.txt"
    main(AlphabetConfig(sources=(tmp_path / "a.ltr",), output=output, case="upper"))
    before = output.read_text()
    with pytest.raises(ConfigError, match=r"dict.ltr.txt: has 3 symbols already, which are not the 2 of these texts"):
        main(AlphabetConfig(sources=(tmp_path / "b.ltr",), output=output, case="upper"))
    assert output.read_text() == before == "A 1\nB 1\n| 1\n"
    main(AlphabetConfig(sources=(tmp_path / "b.ltr",), output=output, case="upper", overwrite=True))
    assert read_symbols(output) == ("C", "|")


def test_rare_letters_letters_of_other_languages_and_bad_entries_are_left_out_and_named(tmp_path, capsys):
    folder = write_manifests(tmp_path, "russian", train=2, validation=1)
    rows = [{"audio_filepath": "dev-0.wav", "text": text} for text in ("cab cab", "cabé 5")]
    (folder / "m.jsonl").write_text("\n".join([*map(json.dumps, rows), "broken"]))
    main(AlphabetConfig(sources=(folder / "m.jsonl",), output=folder / "d", minimum=2, language="english"))
    assert read_symbols(folder / "d") == ("|", "a", "b", "c")
    told = capsys.readouterr().err
    assert "m.jsonl:3: " in told
    assert "left out: rarer letters: f 1, i 1, v 1, e 1\n" in told
    assert "left out: letters that are not english: é 1\n" in told


def test_texts_without_a_letter_and_files_that_cannot_be_read_are_errors(tmp_path):
    (tmp_path / "no.ltr").write_text("\n")
    with pytest.raises(ConfigError, match="no.ltr: not one letter in 2 texts"):
        main(AlphabetConfig(sources=(tmp_path / "no.ltr",), output=tmp_path / "d"))
    with pytest.raises(ManifestError, match="missing.ltr: cannot be read"):
        main(AlphabetConfig(sources=(tmp_path / "missing.ltr",), output=tmp_path / "d"))
    with pytest.raises(ValueError, match="no texts: name manifests, corpus folders or .ltr files"):
        AlphabetConfig(sources=())


def test_a_dictionary_of_what_is_no_text_is_an_error(tmp_path):
    (tmp_path / "d").write_bytes(b"\xff")
    with pytest.raises(ConfigError, match="cannot be read as a dictionary"):
        read_symbols(tmp_path / "d")
    with pytest.raises(ConfigError, match="cannot be read as a dictionary"):
        write_symbols(tmp_path / "d", {"a": 1})
