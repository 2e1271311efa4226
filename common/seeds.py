"""Seeds of everything random: functions of the run's seed and of where in the run it is, never of what came before."""

import numpy as np


def mixed(*parts: int) -> int:
    """A seed that depends on all of `parts`, numbers of at least 0; seeds of neighbours have nothing in common."""
    return int(np.random.SeedSequence(parts).generate_state(1, np.uint64)[0] >> np.uint64(2))
