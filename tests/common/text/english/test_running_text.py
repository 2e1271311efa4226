"""Plain sentences in which something looks like a rare class: they are read as what they are."""

import pytest

from common.text.spoken import spoken_english

CASES = {
    "Set a timeout of 5s.": "set a timeout of five seconds.",
    "the 5s delay": "the five second delay",
    "a pair of 5s": "a pair of fives",
    "Two 3s and three 2s": "two threes and three twos",
    "We hired 3 PHP developers.": "we hired three p h p developers.",
    "500 PHP for lunch": "five hundred philippine pesos for lunch",
    "Pope Pius IV founded the hospital.": "pope pius the fourth founded the hospital.",
    "Stage IV cancer patients": "stage four cancer patients",
    "Patients need IV fluids.": "patients need i v fluids.",
    "Our service will reply in 15-30 minutes.": "our service will reply in fifteen to thirty minutes.",
    "It serves 30-40 guests.": "it serves thirty to forty guests.",
    "She serves at 30-40.": "she serves at thirty forty.",
    "Meet me in RM204.": "meet me in r m two oh four.",
    "fast (adj.) and slow": "fast adj. and slow",
    "Press Ctrl + C -> Done": "press control c done",
    "the T/R switch": "the t r switch",
    "T/R 2-4": "tuesday thursday two to four",
    "Answer T-F.": "answer t f.",
    "Monsieur Lecoq, v. 1": "monsieur lecoq, v. one",
    "See Genesis 1, v. 3.": "see genesis one, verse three.",
    "for Sun Studio 10": "for sun studio ten",
    "open Sun Brunch": "open sunday brunch",
    "(HRS) attacks": "h r s attacks",
    "n=1 sh -c": "n equals one sh c",
    "the ICD code R10.30": "the i c d code r ten point three zero",
    "TAG_FILE and MIN_SIZE": "tag underscore file and min underscore size",
    "API_KEY": "ay p i underscore key",
    "| a | b |c|d|": "a b c d",
    "|a| + |b| > |c|": "absolute value of ay plus absolute value of b is greater than absolute value of c",
    "n/a = not known": "n a equals not known",
    "a/b = c/d": "a over b equals c over d",
    "The team will equip.": "the team will equip.",
    "MK II": "mark two",
    "the 2 BA degrees": "the two b ay degrees",
    "2 BA flights, 2 BA condo": "two b ay flights, two bath condo",
    "tennis players of ages 30-40": "tennis players of ages thirty to forty",
    "a 2 pt increase": "a two point increase",
    "In v. 3 we read": "in verse three we read",
    "2/3s of it": "two thirds of it",
}


@pytest.mark.parametrize("written", CASES)
def test_plain_text_is_not_read_as_a_rare_class(written: str) -> None:
    assert spoken_english(written) == CASES[written]
