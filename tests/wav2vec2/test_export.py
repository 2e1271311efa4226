import json

import pytest
import torch

from common.runs.checkpoint import CheckpointError
from tests.wav2vec2.small import ctc_model, pretraining_model
from wav2vec2.export import graph


@pytest.mark.parametrize("kind", ["base", "large", "base hourglass", "large linear"])
@torch.no_grad()
def test_the_plain_network_is_the_network(kind):
    own = graph(ctc_model(kind))
    for inputs in (own.inputs, *own.checks):
        (found_BSV, frames_B), (expected_BSV, expected_B) = (
            run(*inputs.values()) for run in (own.module, own.reference)
        )
        assert torch.equal(frames_B, expected_B)
        torch.testing.assert_close(found_BSV, expected_BSV, atol=1e-5, rtol=0)


def test_the_metadata_say_where_chunks_may_start_and_what_ends_a_word():
    told = {key: json.loads(value) for key, value in graph(ctc_model("hourglass")).metadata.items()}
    assert (told["chunk_multiple"], told["separator"], told["shortest_samples"], told["blank"]) == (4, "|", 400, 0)


def test_a_model_that_writes_nothing_is_refused():
    with pytest.raises(CheckpointError, match="is pre-trained only and has no CTC head: fine-tune it first"):
        graph(pretraining_model())
    with pytest.raises(CheckpointError, match="does not say what its 3 labels are"):
        graph(ctc_model(labels=("<0>", "<1>", "<2>")))
