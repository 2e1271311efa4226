"""Long texts that nobody wrote for a voice: figures, signs and marks over and over, or at random."""

import random
import time
from collections.abc import Callable

import pytest

from common.text.european.reader import european_tokens
from common.text.mandarin.reader import spoken_mandarin
from common.text.normalize import normalize_english
from common.text.spoken import spoken_english
from tests.timing import assert_takes_less, quickest

pytestmark = pytest.mark.slow
READERS: dict[str, Callable[[str], object]] = {
    "voice": spoken_english,
    "labels": normalize_english,
    "mandarin": lambda text: spoken_mandarin(f"{text}中"),
    "german": lambda text: european_tokens(text, "de"),
    "spanish": lambda text: european_tokens(text, "es"),
    "russian": lambda text: european_tokens(text, "ru"),
}
REPEATED = (
    "½", "1", "1 ", "1,", "1.", "1-", "1/", "12:30 ", "A", "A. ", "IV ", "$1", "€ ", "-", "'", "(", "@", "a@b.c ", "%",
    "5 kg ", "1年", "1²", "U.S. ", "a_", "123-456-7890 ", "Mo. ", "1/2 kg ", "600 ", '"', "AB ", "1-800-", "😀",
    "a\u0301", "5' ", "no. ", "A1-", "4/6 ",
)  # fmt: skip
AT_RANDOM = ("-/.:,;$%€£#&*+=<>()[]\"'°²½@_~^|", "0123456789-/.:,$%½ abAI", "½¼²³€£°éßα中年万 1-")


@pytest.fixture(autouse=True, scope="module")
def warm() -> None:
    """What is read once: tables, weights, the dictionary."""
    for read in READERS.values():
        read("The GPU A cost $5 on 3/4. Am 3. Mai 5 kg, 中1年")


@pytest.mark.parametrize("repeated", REPEATED)
@pytest.mark.parametrize("reader", ["voice", "german", "mandarin"])
def test_what_is_written_over_and_over_costs_next_to_nothing(reader: str, repeated: str) -> None:
    text = repeated * (50_000 // len(repeated.encode()))
    assert_takes_less(0.5, lambda: READERS[reader](text))


@pytest.mark.parametrize("characters", AT_RANDOM)
@pytest.mark.parametrize("reader", READERS)
def test_time_grows_with_the_length_and_no_faster(reader: str, characters: str) -> None:
    choose = random.Random(0)
    text = "".join(choose.choice(characters) for _ in range(20_000))

    least = dict.fromkeys((10_000, 20_000), float("inf"))

    def ratio() -> float:
        for length in least:
            start = time.process_time()
            READERS[reader](text[:length])
            least[length] = min(least[length], time.process_time() - start)
        return least[20_000] / max(least[10_000], 0.01)

    assert quickest(2.5, ratio) < 2.5
