"""Everyday sentences beside rare classes: the class is read where its evidence stands, and the sentence as ever."""

import pytest

from common.text.spoken import spoken_english

CASES = {
    "references": {
        "We have a cat. I love her.": "we have a cat. i love her.",
        "He is my ex. I know her.": "he is my ex. i know her.",
        "The mob. I fear it.": "the mob. i fear it.",
        "My ex. 5 years ago we met.": "my ex. five years ago we met.",
        "I saw the last ep. I love it.": "i saw the last ep. i love it.",
        "Ep. I love. See fig. I know.": "ep. i love. see fig. i know.",
        "Ep. IV, Bk. I of the work": "episode four, book one of the work",
        "See ex. 5 and cat. 3.": "see exercise five and category three.",
    },
    "Roman numerals": {
        "See ch. IV and pt. II.": "see chapter four and part two.",
        "Read chapter IV, act III, scene II.": "read chapter four, act three, scene two.",
        "The part I like is section V.": "the part i like is section five.",
        "Grade C beef in Class D airspace": "grade c beef in class d airspace",
        "a class C license and stage IV cancer": "a class c license and stage four cancer",
    },
    "days": {
        "Posted: 11/24.": "posted november twenty fourth.",
        "from 11/20 to 11/25": "from november twentieth to november twenty fifth",
        "We are open from 12/1.": "we are open from december first.",
        "at odds of 12/1": "at odds of twelve to one",
        "from 3/4 to 7/8 inch": "from three quarters to seven eighths inch",
        "5/8 and 11/16": "five eighths and eleven sixteenths",
    },
    "scales": {
        "The scale is 1:25,000.": "the scale is one to twenty five thousand.",
        "a 1:50000 map at 1:25": "a one to fifty thousand map at one twenty five",
    },
    "ratios": {
        "Meet at 1:15 to talk about parts.": "meet at one fifteen to talk about parts.",
        "The radio plays a mix at 1:00.": "the radio plays a mix at one o'clock.",
        "The scale showed 70 kg at 1:45.": "the scale showed seventy kilograms at one forty five.",
        "We found a solution at 1:25 this morning.": "we found a solution at one twenty five this morning.",
        "The meeting is 1:30-2:30 to mix sound.": "the meeting is one thirty to two thirty to mix sound.",
        "Dilute it 1:10, a ratio of 1:20": "dilute it one to ten, a ratio of one to twenty",
        "a 1:10 bleach solution, a scale of 1:50": "a one to ten bleach solution, a scale of one to fifty",
    },
    "minutes": {
        "The pool has a length of 25 m.": "the pool has a length of twenty five meters.",
        "The total length: 15 m.": "the total length fifteen meters.",
        "He swam a total of 200 m.": "he swam a total of two hundred meters.",
        "Rest for 100 m.": "rest for one hundred meters.",
        "With 200 m to go he fell.": "with two hundred meters to go he fell.",
        "Only 100 m to go!": "only one hundred meters to go!",
        "The break is 10 m wide.": "the break is ten meters wide.",
        "Cook time: 15m, delayed 20m, 5m ago": "cook time fifteen minutes, delayed twenty minutes, five minutes ago",
    },
    "short words": {
        "No MSG added.": "no m s g added.",
        "The HV line is down.": "the h v line is down.",
        "GD&T": "g d and t",
        "Le Duc Tho": "le duc tho",
        "Msg me, thx, tho it is gd.": "message me, thanks, though it is good.",
    },
    "units alone": {
        "GW University": "g w university",
        "MW radio": "m w radio",
        "How many MW? The power in GW": "how many megawatts? the power in gigawatts",
    },
    "versions": {
        "Go 1/2 mile": "go one half mile",
        "Go 3/4 of the way.": "go three quarters of the way.",
        "Go 1.25 miles north.": "go one point two five miles north.",
        "Go 1.21 was released, Python 3.12": "go one point twenty one was released, python three point twelve",
    },
    "prices": {
        "My $5 bought me a coffee.": "my five dollars bought me a coffee.",
        "the $20 my mom gave me": "the twenty dollars my mom gave me",
        "The $300 helps.": "the three hundred dollars helps.",
        "My €10 ran out.": "my ten euros ran out.",
        "Give me the $5 first.": "give me the five dollars first.",
        "The $10 plus tax.": "the ten dollars plus tax.",
        "the $40 shirt, the $90 shoes": "the forty dollar shirt, the ninety dollar shoes",
        "$1.2 trillion deficit.": "one point two trillion dollar deficit.",
    },
    "hours": {
        "Section 1-2a applies.": "section one to two a applies.",
        "Apt 3-4a": "apartment three to four a",
        "Grades 7-8a": "grades seven to eight a",
        "Rows 2-3a": "rows two to three a",
        "It cost 10-12p.": "it cost ten to twelve pence.",
        "Open 6-9a": "open six to nine ay m",
    },
    "codes": {
        "Our policy 2024-25 is new.": "our policy twenty twenty four to twenty five is new.",
        "The file 2021-22.": "the file twenty twenty one to twenty two.",
        "My order number is 100-200.": "my order number is one zero zero two zero zero.",
        "No. 133-A": "number one hundred thirty three a",
    },
    "one or the other": {
        "128/256 GB": "one hundred twenty eight two hundred fifty six gigabytes",
        "120/240V": "one hundred twenty two hundred forty volts",
        "15/16 mm socket": "fifteen sixteen millimeter socket",
        "32/64 GB, 8/16 GB": "thirty two sixty four gigabytes, eight sixteen gigabytes",
        "1/2 GB": "one half gigabyte",
    },
    "circa": {
        "31 George III. c. 46": "thirty one george the third chapter forty six",
        "Figure c. 5 items": "figure c. five items",
        "He died c. 1780.": "he died circa seventeen eighty.",
    },
    "answers": {
        "I think no. 5 buses stop here.": "i think number five buses stop here.",
        "They guess no. 7 wins.": "they guess number seven wins.",
        "She said no. 5 people left.": "she said no. five people left.",
    },
    "stars and physics": {
        "5★ hotel": "five star hotel",
        "Rated 4.7★": "rated four point seven stars",
        "We sold 20 K units at 30 °C.": "we sold twenty k units at thirty degrees celsius.",
        "At 220V the 5 A students": "at two hundred twenty volts the five a students",
        "5 A at 220 V": "five amps at two hundred twenty volts",
    },
    "per": {"6/customer, 5/each": "six per customer, five each", "3/both": "three both"},
}


@pytest.mark.parametrize("written", [written for phrases in CASES.values() for written in phrases])
def test_everyday_sentences_are_not_read_as_rare_classes(written: str) -> None:
    expected = {written: said for phrases in CASES.values() for written, said in phrases.items()}
    assert spoken_english(written) == expected[written]
