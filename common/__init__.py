"""Parts that two models need and neither owns: configuration, audio, features, text, data, training.

Every package imports this one first, so that Ctrl-C ends also a command that is still being imported in one line.
"""

from common import starting as starting
