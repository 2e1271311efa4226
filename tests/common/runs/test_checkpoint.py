import errno
import functools
import io
import itertools
import math
import multiprocessing
import os
import pickle
import random
import zipfile

import pytest
import torch

from common.runs import checkpoint, checksum
from common.runs.checkpoint import CheckpointError
from tests.fuzz import structures
from tests.timing import assert_takes_less

MODELS = ("jasper", "fastpitch", "hifigan", "waveglow", "wav2vec2", "fastconformer")


class RunsCode:
    def __reduce__(self):
        return os.system, ("touch executed",)


def test_what_was_saved_is_loaded(tmp_path):
    state = {"weights": {"w": torch.randn(3)}, "progress": {"step": 3, "best": None}, "names": ["a"]}
    checkpoint.save(tmp_path / "new" / "c.pt", state)
    loaded = checkpoint.load(tmp_path / "new" / "c.pt")
    assert torch.equal(loaded["weights"]["w"], state["weights"]["w"])
    assert loaded["progress"] == state["progress"]
    assert [p.name for p in (tmp_path / "new").iterdir()] == ["c.pt"]


def test_a_folder_in_place_of_a_checkpoint_is_told_with_one_that_is_in_it(tmp_path):
    with pytest.raises(CheckpointError, match="is a folder; expected a checkpoint, which is one file$"):
        checkpoint.load(tmp_path)
    (tmp_path / "best.pt").touch()
    with pytest.raises(CheckpointError, match="which is one file, such as best.pt$"):
        checkpoint.load(tmp_path)


def test_a_missing_checkpoint_is_named(tmp_path):
    with pytest.raises(CheckpointError, match="nothing.pt: no such checkpoint"):
        checkpoint.load(tmp_path / "nothing.pt")


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (b"RIFF\x24\0\0\0WAVEfmt ", r"a recording \(WAV\)"),
        (b"fLaC\0", r"a recording \(FLAC\)"),
        (b"\0\0\0\x20ftypM4A ", r"a recording \(MP4 or M4A\)"),
        (b'{"audio_filepath": "a.wav"}\n', r"text, as lists \(\.txt\) and manifests \(\.jsonl, \.csv\) are"),
    ],
)
def test_a_recording_or_a_manifest_in_place_of_a_checkpoint_is_told(tmp_path, content, told):
    (tmp_path / "a").write_bytes(content)
    with pytest.raises(CheckpointError, match=f"a: is {told}, and not a checkpoint; check the order of arguments$"):
        checkpoint.load(tmp_path / "a")


@pytest.mark.filterwarnings("ignore")
def test_bytes_of_something_else_are_a_checkpoint_error_whatever_they_are(tmp_path):
    draw, path = random.Random(0), tmp_path / "c.pt"
    pickled = b"\x80\x02" + b"(.)]}tuRqKNIJMX0\x00\x01\x85\x86"
    for number in range(300):
        beginning = b"" if number % 2 else b"\x80\x02"
        path.write_bytes(beginning + bytes(draw.choices(range(256) if number % 4 else pickled, k=draw.randint(1, 99))))
        with pytest.raises(CheckpointError, match="c.pt: "):
            checkpoint.load(path)


def test_a_tensor_alone_is_loaded_and_nothing_else_in_its_place(tmp_path):
    torch.save(torch.arange(3), tmp_path / "t.pt")
    assert checkpoint.load_tensor(tmp_path / "t.pt").tolist() == [0, 1, 2]
    torch.save({"a": 1}, tmp_path / "d.pt")
    with pytest.raises(CheckpointError, match="d.pt: expected a tensor, found dict"):
        checkpoint.load_tensor(tmp_path / "d.pt")
    (tmp_path / "r.pt").write_bytes(b"\x80\x02.qq")
    with pytest.raises(CheckpointError, match="r.pt: damaged or not a tensor"):
        checkpoint.load_tensor(tmp_path / "r.pt")
    with pytest.raises(CheckpointError, match="none.pt: no such tensor"):
        checkpoint.load_tensor(tmp_path / "none.pt")


def test_a_pickle_with_code_in_it_is_refused_and_nothing_runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    torch.save({"w": RunsCode()}, tmp_path / "zip.pt")
    (tmp_path / "plain.pt").write_bytes(pickle.dumps(RunsCode()))
    with pytest.raises(CheckpointError, match=r"zip.pt: refused: it wants to run posix.system"):
        checkpoint.load(tmp_path / "zip.pt")
    with (
        pytest.warns(UserWarning, match="pickle protocol"),
        pytest.raises(CheckpointError, match="plain.pt: damaged or not a"),
    ):
        checkpoint.load(tmp_path / "plain.pt")
    assert not (tmp_path / "executed").exists()


def test_a_checkpoint_that_is_no_dictionary_is_refused(tmp_path):
    torch.save(torch.zeros(3), tmp_path / "t.pt")
    with pytest.raises(CheckpointError, match="expected a dictionary, found Tensor"):
        checkpoint.load(tmp_path / "t.pt")


def test_a_newest_checkpoint_that_cannot_be_read_now_is_not_taken_for_damaged(tmp_path, monkeypatch):
    for step in (1, 2):
        checkpoint.save(checkpoint.step_path(tmp_path, "m", step), {"step": step})

    def away(path):
        raise OSError(errno.ESTALE, os.strerror(errno.ESTALE), str(path))

    monkeypatch.setattr(checkpoint.checksum, "damage", away)
    with pytest.raises(CheckpointError, match="m_step00000002.pt: cannot be read: Stale file handle"):
        checkpoint.load_newest(tmp_path, "m")


def test_an_offset_that_damage_made_impossible_is_damage(tmp_path, monkeypatch):
    checkpoint.save(tmp_path / "c.pt", {"step": 1})

    def impossible(path):
        raise OSError(errno.EINVAL, os.strerror(errno.EINVAL))

    monkeypatch.setattr(checkpoint.checksum, "damage", impossible)
    with pytest.raises(CheckpointError, match="c.pt: damaged or not a checkpoint: an offset in it is impossible"):
        checkpoint.load(tmp_path / "c.pt")


def test_an_empty_folder_has_no_newest_checkpoint(tmp_path):
    assert checkpoint.load_newest(tmp_path, "m") == (None, [])


def test_layers_that_do_not_fit_are_told():
    model = torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.Linear(3, 4))
    weights = {k: torch.full_like(v, 7.0) for k, v in model.state_dict().items()}
    weights["1.weight"] = torch.zeros(5, 3)
    del weights["1.bias"]
    weights["extra"] = torch.zeros(1)
    told = checkpoint.load_matching(model, weights, "x.pt")
    assert model[0].weight.eq(7).all()
    assert not model[1].weight.eq(0).all()
    assert told == [
        "1.weight: (5, 3) in the checkpoint, (4, 3) here, starts anew",
        "1.bias: not in the checkpoint, keeps its initial value",
        "extra: in the checkpoint, not in this model, unused",
    ]


def test_many_layers_that_do_not_fit_are_told_together_and_a_small_share_is_refused():
    model = torch.nn.ModuleDict({"a": torch.nn.Sequential(*(torch.nn.Linear(2, 2) for _ in range(3)))})
    weights = {"a.0.weight": torch.zeros(2, 2), "a.0.bias": torch.zeros(2), "a.x.num_batches_tracked": torch.ones(9)}
    assert checkpoint.load_matching(model, weights, "x.pt") == [
        "a.* (4): not in the checkpoint, keeps its initial value"
    ]
    weights |= {f"a.{i}.weight": torch.zeros(3, 2) for i in (1, 2)} | {f"a.{i}.bias": torch.zeros(3) for i in (1, 2)}
    before = model["a"][0].weight.clone()
    with pytest.raises(CheckpointError) as error:
        checkpoint.load_matching(model, {**weights, "a.0.weight": torch.ones(2, 2)}, "x.pt", least=0.5)
    assert str(error.value) == (
        "x.pt: 25% of its numbers fit this model, expected at least 50%: a.* (4): of other shapes, such as a.1.weight, "
        "(3, 2) in the checkpoint, (2, 2) here, start anew"
    )
    assert torch.equal(model["a"][0].weight, before)  # nothing was taken


def test_a_checkpoint_of_which_nothing_fits_is_an_error_with_its_count():
    model = torch.nn.Linear(2, 3)
    with pytest.raises(CheckpointError) as error:
        checkpoint.load_matching(model, {"weight": torch.zeros(5, 5), "other": torch.zeros(1), "text": "x"}, "x.pt")
    assert str(error.value) == (
        "x.pt: of its 2 weights not one fits the 2 of this model: it begins with weight (5, 5), "
        "the model with weight (3, 2)"
    )


@pytest.mark.parametrize(
    "error", [KeyError("a"), TypeError("b"), RecursionError("c"), MemoryError(), AssertionError("d")]
)
def test_whatever_a_description_makes_python_raise_is_one_line(error):
    with (
        pytest.raises(CheckpointError, match=r"^x.pt: describes no model that is known: \S"),
        checkpoint.usable("x.pt"),
    ):
        raise error


def test_what_has_been_told_already_stays_as_it_is():
    with pytest.raises(CheckpointError, match="^told$"), checkpoint.usable("x.pt"):
        raise CheckpointError("told")
    with pytest.raises(CheckpointError, match="^x.pt: b = 3$"), checkpoint.usable("x.pt"):
        raise ValueError("x.pt: b = 3")


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        ({"weight": "x"}, "x.pt: weight is no weight: expected a tensor, found str"),
        ({"weight": torch.zeros(3, 2, dtype=torch.complex64)}, "x.pt: weight is no weight: expected a tensor, found T"),
        ({"weight": torch.zeros(3, 2)}, 'x.pt: does not fit its configuration: .*Missing key.* "bias"'),
        ({"weight": torch.zeros(3, 2).int(), "bias": torch.zeros(3)}, "x.pt: does not fit its configuration: "),
    ],
)
def test_weights_that_cannot_be_those_of_a_model_are_refused(weights, message):
    with pytest.raises(CheckpointError, match=message):
        checkpoint.fill(torch.nn.Linear(2, 3), weights, "x.pt")


def weights_in(state: dict, path: str = "") -> list[tuple[str, torch.Tensor]]:
    found = []
    for name, value in state.items():
        if isinstance(value, dict):
            found += weights_in(value, f"{path}{name}/")
        elif isinstance(value, torch.Tensor) and value.is_floating_point() and value.ndim:
            found.append((f"{path}{name}", value))
    return found


models = functools.cache(structures.models)


@pytest.mark.parametrize("kind", MODELS)
@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_a_number_that_is_none_is_found_in_every_weight_of_every_model_and_named(tmp_path, kind, bad):
    state, load = models()[kind]
    checkpoint.save(tmp_path / "a.pt", state)
    load(tmp_path / "a.pt")
    used = state | {"weights": {}} if state.get("ema") else state  # the average alone is read
    for name, weight in weights_in(used)[::7]:
        kept = weight.view(-1)[-1].clone()
        weight.view(-1)[-1] = bad
        checkpoint.save(tmp_path / "a.pt", state)
        with pytest.raises(CheckpointError, match=r"a.pt: \S+ is damaged: \d+ of \d+ numbers are NaN or infinite"):
            assert load(tmp_path / "a.pt") is name
        weight.view(-1)[-1] = kept


def test_a_weight_that_repeats_a_few_bytes_is_refused():
    weights = {"weight": torch.zeros(1, 1).expand(3, 2), "bias": torch.zeros(3)}
    with pytest.raises(CheckpointError, match=r"x.pt: weight of shape \[3, 2\] repeats the 4 bytes that it has"):
        checkpoint.fill(torch.nn.Linear(2, 3), weights, "x.pt")
    damaged = {"weight": torch.full((3, 2), 3e38), "bias": torch.tensor([0, torch.nan, 0])}
    with pytest.raises(CheckpointError, match="x.pt: bias is damaged: 1 of 3 numbers are NaN or infinite"):
        checkpoint.load_matching(torch.nn.Linear(2, 3), damaged, "x.pt")


@pytest.mark.parametrize("is_sealed", [False, True])
def test_records_that_unpack_to_more_than_the_file_are_refused_by_their_headers(tmp_path, is_sealed):
    plain, path = io.BytesIO(), tmp_path / "packed.pt"
    torch.save({"w": torch.zeros(2**26)}, plain)
    with zipfile.ZipFile(plain) as whole, zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for record in whole.namelist():
            archive.writestr(record, whole.read(record))
    if is_sealed:
        content = path.read_bytes()
        with path.open("wb+") as file:
            writer = checksum.SealWriter(file)
            writer.write(content)
            writer.seal()
    told = r"packed.pt: damaged .*: its record \S+ is compressed and unpacks to \d+ bytes"

    def refused() -> None:
        with pytest.raises(CheckpointError, match=told):
            checkpoint.load(path)

    assert_takes_less(0.5, refused)


def test_records_that_share_their_bytes_are_refused(tmp_path):
    with zipfile.ZipFile(tmp_path / "a.pt", "w") as archive:
        archive.writestr("a/data/0", bytes(1000))
        archive.filelist *= 3  # three entries of the directory for one place in the file
    with pytest.raises(CheckpointError, match=r"its records take 3000 bytes in a file of \d+"):
        checkpoint.load(tmp_path / "a.pt")


def test_a_model_is_made_in_float32_and_without_counters_of_batches_that_its_checkpoint_lacks():
    norm = torch.nn.BatchNorm1d(3)
    halved = {name: w.half() for name, w in norm.state_dict().items() if "num_batches" not in name}
    made = checkpoint.made(lambda: torch.nn.BatchNorm1d(3), halved, "x.pt")
    assert not made.training
    found = made.state_dict()
    assert all(found[name].equal(w) and found[name].dtype == w.dtype for name, w in norm.state_dict().items())
    with pytest.raises(CheckpointError, match="x.pt: describes no model that is known: .* negative"):
        checkpoint.made(lambda: torch.nn.Linear(-1, 3), halved, "x.pt")


def test_statistics_that_are_no_floating_point_numbers_are_refused():
    norm = torch.nn.BatchNorm1d(3)
    weights = norm.state_dict() | {"running_mean": torch.zeros(3, dtype=torch.int32)}
    with pytest.raises(CheckpointError, match="x.pt: running_mean is of torch.int32; expected floating-point numbers"):
        checkpoint.fill(norm, weights, "x.pt")


def save_for_ever(folder, told):
    """Tells when it syncs and when a checkpoint is saved."""
    torch.set_num_threads(1)  # a forked child must not wait for its parent's threads
    sync = os.fsync

    def told_sync(descriptor):
        told.send("before a sync")
        sync(descriptor)
        told.send("after a sync")

    os.fsync = told_sync
    for step in itertools.count(1):
        state = {"step": step, "w": torch.full((500_000,), float(step))}
        checkpoint.save(checkpoint.step_path(folder, "m", step), state)
        told.send("saved")
        for _, path in checkpoint.saved_steps(folder, "m")[:-2]:
            path.unlink()


def test_being_killed_at_random_moments_after_a_save_never_leaves_an_unreadable_folder(tmp_path):
    random = torch.Generator().manual_seed(0)
    for _ in range(20):
        heard, told = multiprocessing.Pipe(duplex=False)
        saver = multiprocessing.get_context("fork").Process(target=save_for_ever, args=(tmp_path, told))
        saver.start()
        while heard.recv() != "saved":
            pass
        for _ in range(int(torch.randint(12, (), generator=random))):  # moments of the next two saves
            heard.recv()
        saver.kill()
        saver.join()
        state, damaged = checkpoint.load_newest(tmp_path, "m")
        assert damaged == []
        assert state["w"].eq(state["step"]).all()


@pytest.mark.parametrize("text", ["hello", "0.5 0.5", "one\ntwo\n"])
def test_a_text_in_place_of_a_checkpoint_is_told_in_words(text, tmp_path):
    (tmp_path / "notes.pt").write_text(text)
    with pytest.raises(CheckpointError, match=r"notes.pt: damaged or not a checkpoint(: .*[a-z]{3}| of tensors)"):
        checkpoint.load(tmp_path / "notes.pt")
