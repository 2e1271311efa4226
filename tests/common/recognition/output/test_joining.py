import tracemalloc

from common.recognition.output.joining import Joined
from common.recognition.output.transcripts import Letter, Reading


def reading(text: str, first: int, score: float = 0.0) -> Reading:
    return Reading([Letter(letter, first + i, first + i + 1, 1.0) for i, letter in enumerate(text)], score)


def words(letters) -> list[str]:
    return "".join(letter.text for letter in letters).split()


def test_words_go_on_from_one_stretch_to_the_next():
    joined = Joined(words, separator=" ")
    for first, text in enumerate(("a wo", "rd", "s an", "", "d", " ", "more")):
        joined.add([reading(text, first)], space_at=first if text == "d" else None)
    assert joined.result() == joined.result() == [(["a", "words", "and", "more"], 0.0)]


def test_the_best_ways_with_different_texts_are_kept_in_order():
    joined = Joined(words, separator=" ", n_best=3)
    joined.add([reading("a b", 0, -1.0), reading("a c", 0, -2.0)])
    joined.add([reading("d", 3, -1.0), reading(" d", 3, -1.5), reading("d ", 3, -9.0)])
    assert joined.result() == [(["a", "bd"], -2.0), (["a", "b", "d"], -2.5), (["a", "cd"], -3.0)]


def test_a_language_without_separators_takes_memory_for_its_letters_alone():
    stretch, count = reading("x" * 25, 0), 400
    joined = Joined(words, separator=" ")
    tracemalloc.start()
    try:
        for _ in range(count):
            joined.add([stretch])
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 5 * 8 * 25 * count  # a few lists of pointers to letters, and not one of every stretch
    assert joined.result() == [(["x" * 25 * count], 0.0)]
