"""The command: see the package."""

import argparse
import sys
from pathlib import Path

from tests.fuzz.readers import READERS
from tests.fuzz.runner import file_of, fuzz, outcome


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m tests.fuzz", description="Files with random changes, read by every reader of this repository."
    )
    parser.add_argument("--seconds", type=float, default=60, help="duration for all readers together (default 60)")
    parser.add_argument("--most", type=int, default=1_000_000, help="greatest number of files per reader")
    parser.add_argument("--seed", type=int, default=0, help="seed of the changes")
    parser.add_argument(
        "--reader", choices=sorted(READERS), action="append", help="reader to try, in place of all; may be repeated"
    )
    parser.add_argument("--keep", type=Path, default=Path("fuzz-findings"), help="folder for files with findings")
    parser.add_argument("--replay", type=Path, help="a file to read once")
    options = parser.parse_args()
    names = options.reader or list(READERS)
    if options.replay:
        print(*outcome(READERS[names[0]](), options.replay))
        return
    is_clean = True
    for name in names:
        found = fuzz(name, seed=options.seed, seconds=options.seconds / len(names), most=options.most)
        print(f"{name}: {', '.join(f'{count} {what}' for what, count in sorted(found.counts.items()))}", flush=True)
        for finding in found.findings[:20]:
            is_clean = False
            suffix, content = file_of(READERS[name](), options.seed, finding.number)
            options.keep.mkdir(parents=True, exist_ok=True)
            kept = options.keep / f"{name}-{options.seed}-{finding.number}{suffix}"
            kept.write_bytes(content)
            print(f"{finding.what}: {kept}\n{finding.told}", flush=True)
    sys.exit(0 if is_clean else 1)


if __name__ == "__main__":
    main()
