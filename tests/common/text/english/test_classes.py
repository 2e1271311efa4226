"""Classes of written English, one form of each as a voice says it; phrases by class are in test_reader.py."""

from functools import partial

import pytest

from common.text.spoken import spoken_english
from tests.timing import assert_takes_less

KEEP = "'-!(),.:;?"

CASES = {
    "money with magnitudes, ranges and what it is paid for": {
        "€1.5M-2M": "one point five million to two million euros",
        "$5k-10k a month": "five thousand to ten thousand dollars a month",
        "$1.2-1.5M raised": "one point two to one point five million dollars raised",
        "$10K/yr": "ten thousand dollars per year",
        "from $2.59-2.85": "from two dollars fifty nine cents to two dollars eighty five cents",
        "5,00 €": "five euros",
        "US $5, $5 USD": "five u s dollars, five u s dollars",
        "Rs. 500, NT$100": "five hundred rupees, one hundred taiwan dollars",
        "500 SEK, 200 zł": "five hundred swedish kronor, two hundred zlotys",
        "฿100, ₪40": "one hundred baht, forty shekels",
        "Paid in $/hr": "paid in dollars per hour",
        "$TSLA and $HOME": "t s l ay and dollar home",
        "a loss of $-5": "a loss of minus five dollars",
    },
    "units that are made of units": {
        "6.5 L/100km": "six point five liters per one hundred kilometers",
        "12 kWh/day, 50GB/month": "twelve kilowatt hours per day, fifty gigabytes per month",
        "5 mcg/kg/min": "five micrograms per kilogram per minute",
        "Measured in mg/dL": "measured in milligrams per deciliter",
        "3 N·m and 200 lb-ft": "three newton meters and two hundred pound feet",
        "80 cells/mL, 60 beats/min": "eighty cells per milliliter, sixty beats per minute",
        "3 apples/day": "three apples per day",
        "8 fl. oz. of milk": "eight fluid ounces of milk",
        "up 25 bps, 5 pct": "up twenty five basis points, five percent",
        "2x/day": "two times per day",
        "in/out": "in out",
    },
    "temperatures": {
        "Bake at 375F": "bake at three hundred seventy five degrees fahrenheit",
        "seat 20C, row 3F": "seat twenty c, row three f",
        "20C outside": "twenty degrees celsius outside",
        "-5 C tonight": "minus five degrees celsius tonight",
        "72ºF": "seventy two degrees fahrenheit",
    },
    "times": {
        "7a-3p": "seven ay m to three p m",
        "at 19h30, for 1h30": "at nineteen thirty, for one hour thirty minutes",
        "at 19:30h": "at nineteen thirty hours",
        "1430 hrs, 0600 hours, wake at 0615": "fourteen thirty hours, oh six hundred hours, wake at oh six fifteen",
        "ends at 00:00": "ends at midnight",
        "UTC-5, 20:00 GMT+1": "u t c minus five, twenty hundred g m t plus one",
        "2024-03-15T10:30:00Z": "march fifteenth twenty twenty four, ten thirty u t c",
        "2d 4h": "two days four hours",
        "3m45s": "three minutes forty five seconds",
        "the 11.36 train, at 11.36 per share": "the eleven thirty six train, at eleven point three six per share",
        "Call between 9 and 9.30 tomorrow.": "call between nine and nine thirty tomorrow.",
        "between 9 and 9.30 points": "between nine and nine point three zero points",
        "at 8.15 tonight, it stood at 8.15 in May": "at eight fifteen tonight, it stood at eight point one five in may",
        "a 2yo boy, 5 y/o": "a two year old boy, five years old",
    },
    "dates": {
        "Jan '24": "january twenty four",
        "the 2023/24 season": "the twenty twenty three twenty four season",
        "exp. 03/24": "expires march twenty twenty four",
        "12/2024": "december twenty twenty four",
        "the 18th c. novel": "the eighteenth century novel",
        "M-F 9-5": "monday to friday nine to five",
        "Mon/Wed/Fri": "monday wednesday friday",
        "FY24 and Q3": "f y twenty four and q three",
    },
    "two numbers": {
        "odds of 100/1, a 5/1 shot": "odds of one hundred to one, a five to one shot",
        "120/80 mmHg": "one twenty over eighty millimeters of mercury",
        "20/40 vision": "twenty forty vision",
        "an 80/20 rule, a 60-40 split": "an eighty twenty rule, a sixty forty split",
        "aged 40-60": "aged forty to sixty",
        "5/5 stars": "five out of five stars",
        "3/5 of them": "three fifths of them",
        "2.35:1": "two point three five to one",
        "225/45R17": "two twenty five forty five r seventeen",
    },
    "names with numbers": {
        "F-150, F-16s and 747s": "f-one fifty, f-sixteens and seven forty sevens",
        "a 737-800": "a seven thirty seven eight hundred",
        "320i": "three twenty i",
        "Ryzen 7 5800X": "ryzen seven fifty eight hundred x",
        "802.11ac": "eight oh two dot eleven ay c",
        "501(c)(3)": "five oh one c three",
        "Unit 731, PO Box 4500": "unit seven thirty one, p o box forty five hundred",
        "Fahrenheit 451": "fahrenheit four fifty one",
        "1 Corinthians 13, 1 king": "first corinthians thirteen, one king",
        "a .45 caliber, batting .300": "a forty five caliber, batting three hundred",
        "Sony A7 III": "sony ay seven three",
    },
    "chess": {
        "Nf3": "knight f three",
        "Qxf7#": "queen takes f seven checkmate",
        "exd5": "e takes d five",
        "O-O-O": "castles queenside",
    },
    "Roman numerals": {
        "Elizabeth II's reign": "elizabeth the second's reign",
        "Haakon VII of Norway": "haakon the seventh of norway",
        "Pope John XXIII": "pope john the twenty third",
        "Super Bowl LVIII": "super bowl fifty eight",
        "MCMXCIX": "nineteen ninety nine",
        "pages iv-vii": "pages four to seven",
        "the XXI century": "the twenty first century",
        "iPhone X, Malcolm X": "iphone ten, malcolm x",
        "Elizabeth I ruled, Elizabeth I said": "elizabeth the first ruled, elizabeth i said",
    },
    "telephones": {
        "+33 1 23 45 67 89": "plus three three, one, two three, four five, six seven, eight nine",
        "030/901820": "zero three zero, nine zero one eight two zero",
        "call 888/233-2787": "call eight eight eight, two three three, two seven eight seven",
        "Call 999 or 112": "call nine nine nine or one one two",
        "+150 points": "plus one hundred fifty points",
    },
    "codes and addresses": {
        "4111 1111 1111 1111": "four one one one, one one one one, one one one one, one one one one",
        "#FF5733, #A-1023": "hash f f five seven three three, number ay-ten twenty three",
        "SW1A 1AA": "s w one ay one ay ay",
        "Boston, Mass. and Rep. Lee, D-Calif.": "boston, massachusetts and representative lee, d california.",
        "30 km N of Oslo": "thirty kilometers north of oslo",
        "the 2nd fl. flat": "the second floor flat",
    },
    "abbreviations": {
        "b/c of it, c/o Ann": "because of it, care of ann",
        "max. 5, avg. speed": "maximum five, average speed",
        "the max.": "the max.",
        "Adm. Nelson": "admiral nelson",
        "Ctrl+C": "control c",
        "Figs. 1-3, Eq. (2)": "figures one to three, equation (two)",
        "Roe v. Wade": "roe versus wade",
        "T&Cs, PhDs": "t and c's, p h d's",
        "aka Bob": "ay k ay bob",
        "r/books": "r slash books",
    },
    "mathematics and chemistry": {
        "2^n, f(x)": "two to the n, f of (x)",
        "x == 5, a != b": "x equals five, a does not equal b",
        ">50% and <5%": "more than fifty percent and less than five percent",
        "people ≥65": "people at least sixty five",
        "x ≥ 5": "x is at least five",
        "Ca(OH)2": "c ay o h two",
        "1/250s": "one two hundred fiftieth of a second",
    },
    "acronyms that are words, too": {
        "His ERA is 2.35.": "his e r ay is two point three five.",
        "THE CAT sat on ONE mat.": "the cat sat on one mat.",
        "a lead at HT.": "a lead at h t.",
    },
    "forms and labels": {
        "Qty: 3 @ $9.99/ea.": "quantity: three at nine dollars ninety nine cents each.",
        "3 yrs. exp., exp. 03/24": "three years experience, expires march twenty twenty four",
        "Model no. XJ-900 v. 2.1": "model number x j-nine hundred version two point one",
        "ch. 3-5, pp. 4-6": "chapters three to five, pages four to six",
        "got 18/20 of us": "got eighteen twentieths of us",
        "I got 18/20.": "i got eighteen out of twenty.",
        "347 U.S. 483 (1954)": "three forty seven u s four eighty three (nineteen fifty four)",
        "2016/679": "twenty sixteen slash six seventy nine",
        "Is 60:1-6, Ps 72, 1 Pt 5:5": "isaiah sixty one to six, psalm seventy two, first peter five five",
        "in A.D. 476, 300-250 BC": "in ay d four seventy six, three hundred to two fifty b c",
        "E = mc²": "e equals m c squared",
    },
    "codes of two kinds": {
        "S2E5 at 9/8c": "season two episode five at nine eight central",
        "Rte. 9W, 9 W, 60W": "route nine w, nine watts, sixty watts",
        "2x4s": "two by fours",
        "Depart 0715, arrive 1025.": "depart oh seven fifteen, arrive ten twenty five.",
        "45-12 30th Ave.": "forty five twelve thirtieth avenue.",
        "A1B2-334, zones 5b-9a": "ay one b two three thirty four, zones five b to nine a",
        "a 3/8-in. hole, 1,200-sq.-ft. deck": "a three eighths inch hole, one thousand two hundred square foot deck",
        "He plays in 6/8 and B♭ minor.": "he plays in six eight and b flat minor.",
    },
    "messages": {
        "gr8, c u 2nite": "great, c u tonight",
        "I <3 you :)": "i heart you",
        "if x <3 then": "if x less than three then",
        "I love you <3": "i love you heart",
        "children aged it <3 years": "children aged it less than three years",
    },
    "seats, players, pages": {
        "I live in apt. 4B on the third floor.": "i live in apartment four b on the third floor.",
        "Seat 12B by exhibit 4K is free.": "seat twelve b by exhibit four k is free.",
        "Bring hot water to platform 3C now.": "bring hot water to platform three c now.",
        "It has 5B users and 40K people.": "it has five billion users and forty thousand people.",
        "The 49ers beat the 76ers.": "the forty niners beat the seventy sixers.",
        "Take 2 l of water and 1 l of milk.": "take two liters of water and one liter of milk.",
        "Line 2 l of the poem": "line two l of the poem",
        "You bet. Add 3/4 cup of milk.": "you bet. add three quarters cup of milk.",
        "Against all odds, 2/3 of them won.": "against all odds, two thirds of them won.",
        "The odds are 5/2.": "the odds are five to two.",
        "the No 1 seed at No 10; there is no 1 way": "the number one seed at number ten; there is no one way",
        "See sec. 7; wait a sec. 5 more.": "see section seven; wait a sec. five more.",
        "It took 4 sec. 5 times.": "it took four seconds five times.",
        "Rev. 3 of it, Rev. Brown, Rev. 3:16": "revision three of it, reverend brown, revelation three sixteen",
        "the 500 block of W. Main St.": "the five hundred block of west main street.",
        "The exp. date is near.": "the expiration date is near.",
        "Dr. Ann Lee, MD, of Baltimore, MD": "doctor ann lee, m d, of baltimore, maryland",
        "Ms Lee and Ms. Lee": "miz lee and miz lee",
        "The no. of men is 5. I said no. Of course.": "the number of men is five. i said no. of course.",
        "He ran a 10k in 50 min and got a 10k raise.": "he ran a ten k in fifty minutes and got a ten thousand raise.",
        "from N. Korea to S. Africa": "from north korea to south africa",
        "in '08 or '99, by ISO 8601": "in oh eight or ninety nine, by i s o eighty six oh one",
        "WW1 and WWII": "world war one and world war two",
    },
}


@pytest.mark.parametrize(("printed", "said"), [case for table in CASES.values() for case in table.items()])
def test_a_class_is_said_as_a_person_reads_it(printed, said):
    assert spoken_english(printed, keep=KEEP) == said


@pytest.mark.parametrize(
    ("printed", "said"),
    {
        "I was 20 when May came.": "i was twenty when may came.",
        "He read 1 Kings, and 1 king read him.": "he read first kings, and one king read him.",
        "Meet me in or out.": "meet me in or out.",
        "No. It is a no.": "no. it is a no.",
        "Was it Art? Art. It was.": "was it art? art. it was.",
        "I met Ed. He sat on the sat.": "i met ed. he sat on the sat.",
        "The max. That is the min.": "the max. that is the min.",
        "Take part 1 of a set of 3 or more.": "take part one of a set of three or more.",
        "He said: 'I have 10' and left.": "he said: i have ten and left.",
        "I DO NOT WANT IT, and I AM sure.": "i do not want it, and i am sure.",
        "You and I reigned, Elizabeth I told you.": "you and i reigned, elizabeth i told you.",
        "It has 5 stars and 1 F in it.": "it has five stars and one f in it.",
        "It is 3 in the morning, 2 to 4 of us.": "it is three in the morning, two to four of us.",
        "Sun on Sat, rain in Mar and Dec.": "sun on saturday, rain in mar and december.",
        "We need him, or us; a or b.": "we need him, or us; a or b.",
    }.items(),
)
def test_ordinary_prose_stays_as_it_is(printed, said):
    assert spoken_english(printed, keep=KEEP) == said


def test_a_long_text_takes_time_in_proportion():
    """What one token looks for in all of the text is looked for once."""
    for written in ("5F ", "4/6 "):
        text = written * (12_000 // len(written))
        assert_takes_less(4, partial(spoken_english, text, keep=KEEP))  # three times that, where each looks for it
