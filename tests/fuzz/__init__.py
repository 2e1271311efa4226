"""Mutated files and calls: what comes in may be refused; it may not crash, hang, take all memory, end in a traceback.

    python -m tests.fuzz --seconds 3600              all readers in turn, an hour; exit status 1 for a finding
    python -m tests.fuzz --reader arpa --seed 7      one reader, other mutations

`readers.py` lists the readers: one more is one more function there. What was found is kept under --keep, as a file that
`python -m tests.fuzz --reader NAME --replay FILE` reads again.
"""
