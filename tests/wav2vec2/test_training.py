import pytest
import torch

from common.checkpoint import CheckpointError
from tests.training import alone
from tests.wav2vec2.runs import finetune_config, pretrain_config
from wav2vec2 import finetune, pretrain
from wav2vec2.data import loader
from wav2vec2.training import Trainer

pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.mark.parametrize("module", [pretrain, finetune])
def test_a_stand_in_adds_nothing_whatever_its_loss_is(corpus, tmp_path, module):
    learning = {"layer_drop": 0.5, "extractor_gradient": 0.1}
    make = pretrain_config if module is pretrain else finetune_config
    cfg = make(corpus, tmp_path, learning=learning, update_freq=2)
    left = []
    for n_batches in (1, 2):
        with alone(tmp_path) as (world, log):
            torch.manual_seed(0)
            trainer = Trainer(module.build(cfg, None)[0], None, world, log)
            batch = next(iter(loader(trainer.train_set, trainer._plans(0))))
            silent = batch._replace(audio_BN=torch.full_like(batch.audio_BN, torch.nan), counts=False)
            step = trainer.update([batch, silent][:n_batches])
            left.append([*trainer.state.model.parameters(), torch.tensor(step.totals.tolist())])
    assert all(torch.equal(a, b) for a, b in zip(*left, strict=True))


@pytest.mark.parametrize(
    ("module", "changes", "message"),
    [
        (pretrain, {"learning": {"extractor_gradient": 0.1}}, "mask.time_prob was 0.0 and is 0.0, learning.ext"),
        (finetune, {"learning": {"extractor_gradient": 0.1}}, "learning.extractor_gradient was 0.0 and is 0.1; take"),
        (finetune, {"mask": {"time_prob": 0.5}}, r"it trains \d+ parameters, not \d+, .* was 0.0 and is 0.5, learning"),
    ],
)
def test_what_decides_which_parameters_are_trained_is_named(corpus, tmp_path, module, changes, message):
    make = pretrain_config if module is pretrain else finetune_config
    small = {"mask": {"time_prob": 0.0}, "learning": {"extractor_gradient": 0.0}, "max_updates": 1}
    module.main(make(corpus, tmp_path, **small))
    with pytest.raises(CheckpointError, match=message):
        module.main(make(corpus, tmp_path, **(small | changes)))
