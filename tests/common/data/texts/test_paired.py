from common.data.texts.paired import pairs
from common.data.texts.sentences import subset_of

SUBSETS = ("train", "dev", "test")
KNOWN = {
    "the hungry cat waited near the church in january": "im januar hat die hungrige katze neben der kirche gewartet",
    "the table is small but emma washed it": "der tisch ist klein aber emma hat ihn gewaschen",
    "did the teacher forget the hat": "hat der lehrer den hut vergessen",
    "my brother slept in the park because it was warm": "weil es warm war hat mein bruder im park geschlafen",
    "tomorrow my quiet fox will find my bottle": "morgen wird mein stiller fuchs meine flasche finden",
    "there were three green books near the church": "neben der kirche gab es drei grüne bücher",
    "a young teacher can't carry the new table": "ein junger lehrer kann den neuen tisch nicht tragen",
}


def test_translations_have_the_gender_the_case_and_the_order_of_german():
    found = dict(pairs(8000))
    assert {english: found[english] for english in KNOWN} == KNOWN


def test_no_two_sentences_have_one_translation_and_no_subset_shares_one_with_another():
    found = {subset: pairs(1500, subset=subset) for subset in SUBSETS}
    for subset, own in found.items():
        assert all(subset_of(english) == subset for english, _ in own)
        assert min(len(text.split()) for pair in own for text in pair) >= 4
    everything = [pair for own in found.values() for pair in own]
    for language in (0, 1):
        assert len({pair[language] for pair in everything}) == len(everything)


def test_a_longer_list_begins_as_a_shorter_one_and_a_seed_gives_another():
    assert pairs(200)[:50] == pairs(50)
    assert pairs(50, seed=1) != pairs(50)
