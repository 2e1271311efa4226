"""`python -m common.convolution calibrate` measures how fast this processor does the parts of a convolution.

By these numbers, in place of assumed ones, the algorithm of every convolution is chosen from then on.
"""

import argparse
import sys

from common.convolution import calibrate, native, planning
from common.interruption import ended_by_the_user


def main() -> None:
    """The command line; exit status 1 without the native library."""
    parser = argparse.ArgumentParser(prog="python -m common.convolution", description=__doc__)
    parser.add_argument(
        "command",
        choices=["calibrate"],
        help="measurement of a few seconds, whose result is kept beside the native library",
    )
    parser.parse_args()
    if native.load() is None:
        sys.exit(f"{native.LIBRARY.cpu} is missing; `{native.LIBRARY.command}` makes it")
    machine = calibrate.measure()
    planning.write_calibration(machine)
    print(f"products {machine.flops / 1e9:.0f} GFLOP/s, weights {machine.bandwidth / 1e9:.1f} GB/s, ", end="")
    print(f"points {machine.moving / 1e9:.1f} GB/s: written to {planning.CALIBRATION}")


if __name__ == "__main__":
    with ended_by_the_user():
        main()
