import torch

from common.lengths import inside


def test_the_first_places_of_an_utterance_are_its_own_and_the_others_are_padding():
    assert inside(torch.tensor([0, 2, 3, 5]), 3).tolist() == [
        [False, False, False],
        [True, True, False],
        [True, True, True],
        [True, True, True],
    ]
