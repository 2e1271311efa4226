from pathlib import Path

import pytest

from common.config import ConfigError
from common.recognition.output.sharding import Shard, check, left_to_do, merge_parts, parsed
from common.recognition.sources.inputs import FoundRecordings, InputRecording

ITEMS = [InputRecording(Path(f"{i}.wav"), str(i), "") for i in range(11)]


@pytest.mark.parametrize("count", [1, 2, 3, 11, 15])
def test_shards_are_all_recordings_once_and_in_order(count):
    shards = [Shard(number, count).of(ITEMS) for number in range(1, count + 1)]
    assert [item for shard in shards for item in shard] == ITEMS
    assert max(map(len, shards)) - min(map(len, shards)) <= 1


@pytest.mark.parametrize("text", ["", "0/2", "3/2", "1", "a/b", "1/0", "-1/2"])
def test_what_is_no_shard_is_refused(text):
    with pytest.raises(ValueError, match=r"shard = .*: expected i/n, the i-th of n jobs, such as 2/8"):
        parsed(text)


def test_options_that_do_not_go_together_are_refused(tmp_path):
    with pytest.raises(ValueError, match="shard: expected --output or --output_dir"):
        check("1/2", False, None, None)
    with pytest.raises(ValueError, match="merge: expected --output, whose parts are joined, and no --shard"):
        check("1/2", True, tmp_path / "a", None)
    check(None, True, tmp_path / "a", None)


def test_a_part_that_is_there_is_not_done_again(tmp_path, capsys):
    output = tmp_path / "all.jsonl"
    found = FoundRecordings(ITEMS, ["gone"])
    assert left_to_do(found, "1/2", "json", output, None) == FoundRecordings(ITEMS[:5], ["gone"])
    Shard(2, 2).part(output).write_text("x\n")
    assert left_to_do(found, "2/2", "json", output, None) is None
    assert "all.jsonl.2-of-2: is there already; remove it to transcribe these again" in capsys.readouterr().err
    assert left_to_do(found, None, "json", output, None) is found


def test_recordings_whose_files_are_there_are_not_done_again(tmp_path, capsys):
    (tmp_path / "3.srt").write_text("x")
    left = left_to_do(FoundRecordings(ITEMS, []), "1/2", "srt", None, tmp_path)
    assert [item.name for item in left.items] == ["0", "1", "2", "4"]
    assert "1 of 5 are there already" in capsys.readouterr().err


def test_parts_are_joined_in_order_and_only_when_all_are_there(tmp_path):
    output = tmp_path / "all[1].jsonl"
    with pytest.raises(
        ConfigError, match=r"expected the parts of one run, all\[1\]\.jsonl\.1-of-n and so on; found none"
    ):
        merge_parts(output)
    for number in (10, 2, 1, 3, 4, 5, 6, 7, 8):
        Shard(number, 10).part(output).write_text(f"{number}\n")
    with pytest.raises(
        ConfigError, match=r"1 of 10 parts are missing: all\[1\]\.jsonl\.9-of-10; run those shards again"
    ):
        merge_parts(output)
    assert not output.exists()
    Shard(9, 10).part(output).write_text("9\n")
    merge_parts(output)
    assert output.read_text() == "".join(f"{number}\n" for number in range(1, 11))
    Shard(1, 3).part(output).write_text("1\n")
    with pytest.raises(ConfigError, match="found of 3, of 10"):
        merge_parts(output)
