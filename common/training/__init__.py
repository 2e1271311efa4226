"""The training of every model: the loop, the learner, optimisers, schedules, and what a run must not lose."""
