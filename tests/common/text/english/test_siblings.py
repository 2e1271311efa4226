"""Units, money, days and abbreviations by the table, each beside what it must not take."""

import pytest

from common.text.spoken import spoken_english

CASES = {
    "Mon-Thu 8am-8pm, Sun closed": "monday to thursday eight ay m to eight p m, sunday closed",
    "The Sun was hot Mon.": "the sun was hot monday.",
    "The cat who Sat down": "the cat who sat down",
    "Sun Microsystems, Inc.": "sun microsystems, incorporated.",
    "Wed in 1950, they moved.": "wed in nineteen fifty, they moved.",
    "T/Th 3-4": "tuesday thursday three to four",
    "re your email of 3/2": "re your email of march second",
    "on 3/4 of the days": "on three quarters of the days",
    "we meet on 3/4.": "we meet on march fourth.",
    "5/4 time": "five four time",
    "500 mg/5 mL": "five hundred milligrams per five milliliters",
    "150 kg / 330 lb": "one hundred fifty kilograms slash three hundred thirty pounds",
    'a 27" 144Hz monitor': "a twenty seven inch one hundred forty four hertz monitor",
    "12V 5A power supply": "twelve volt five amp power supply",
    "1 in. = 2.54 cm": "one inch equals two point five four centimeters",
    "8 in (20 cm)": "eight inches twenty centimeters",
    "he came in 8 in a row": "he came in eight in a row",
    "10'x12' closet": "ten feet by twelve feet closet",
    "12 st 5 lb": "twelve stone five pounds",
    "10 pt font": "ten point font",
    "2 pt milk": "two pints milk",
    "20 deg C": "twenty degrees celsius",
    "6 mo. - 2 yrs": "six months to two years",
    "Cut it into 1/8s.": "cut it into eighths.",
    "at 1/125s": "at one hundred twenty fifth of a second",
    "₹1,50,000": "one hundred fifty thousand rupees",
    "Rs 5 crore": "five crore rupees",
    "1 250 €": "one thousand two hundred fifty euros",
    "R1,500": "one thousand five hundred rand",
    "PHP 8.2": "p h p eight point two",
    "500 PHP": "five hundred philippine pesos",
    "RM 204": "room two oh four",
    "RM50": "fifty ringgit",
    "$20pp": "twenty dollars per person",
    "£500pcm": "five hundred pounds per calendar month",
    "$5/100g": "five dollars per one hundred grams",
    "$10s of millions": "tens of millions of dollars",
    "3:45 min": "three forty five minutes",
    "2:05:30": "two hours five minutes and thirty seconds",
    "at 2:05:30": "at two oh five and thirty seconds",
    "1030am": "ten thirty ay m",
    "11-noon": "eleven to noon",
    "RE: your mail": "re your mail",
    "est. cost $5": "estimated cost five dollars",
    "Est. 1950": "established nineteen fifty",
    "inc. VAT": "including v ay t",
    "Apple Inc. said": "apple incorporated said",
    "pd.DataFrame": "pd.dataframe",
    "pd. in full": "paid in full",
    "YAML and JSON": "yaml and json",
    "they're 8-2 in their last 10": "they're eight and two in their last ten",
    "a 911 Turbo": "a nine eleven turbo",
    "call 911": "call nine one one",
    "photo(1).png": "photo one dot p n g",
    "youtu.be/dQw4": "youtu dot be slash d q w four",
    "He said no.be careful": "he said no.be careful",
}


@pytest.mark.parametrize("written", CASES)
def test_a_class_and_its_siblings_are_told_apart(written: str) -> None:
    assert spoken_english(written) == CASES[written]
