import pytest

from tests.processes import run_module


@pytest.mark.slow
@pytest.mark.parametrize(
    ("former", "command"),
    [
        ("fastpitch.hifigan.train", "fastpitch.vocoders.train"),
        ("fastpitch.hifigan.mels", "fastpitch.mels"),
        ("fastpitch.hifigan.benchmark", "fastpitch.vocoders.benchmark"),
        ("fastpitch.waveglow.train", "fastpitch.vocoders.train"),
    ],
)
def test_commands_run_under_their_former_names(former, command):
    said = run_module(former, "--help").said
    assert "usage:" in said
    assert f"python -m {command}" in said or "--vocoders" in said or "--sources" in said


def test_vocoders_are_imported_from_their_former_place():
    import fastpitch
    from fastpitch.vocoder import load_vocoder

    assert load_vocoder is fastpitch.load_vocoder
