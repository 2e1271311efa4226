from common.seeds import mixed


def test_seeds_depend_on_every_part():
    assert len({mixed(1, 2, 3), mixed(1, 3, 2), mixed(0, 2, 3), mixed(1, 2)}) == 4
