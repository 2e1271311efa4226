"""Everyday phrases by class, as a voice says them; what labels are is in tests/common/text/test_normalize.py."""

import pytest

from common.text.english.reader import spoken, tokens
from common.text.english.style import Style
from common.text.normalize import label_tokens, normalize_english
from common.text.spoken import spoken_english, voice_tokens
from tests.data import shared

KEEP = "'-!(),.:;?"

CASES = {
    "money": {
        "It costs ~£20, 120 EUR/night": "it costs about twenty pounds, one hundred twenty euros per night",
        "$5M": "five million dollars",
        "$30-$45": "thirty dollars to forty five dollars",
        "$100-200": "one hundred to two hundred dollars",
        "$5-10 million": "five to ten million dollars",
        "NASA's budget is $25.4bn": "nasa's budget is twenty five point four billion dollars",
        "£3.50/kg": "three pounds fifty pence per kilogram",
        "$20/mo": "twenty dollars per month",
        "a $5 bill": "a five dollar bill",
        "USD 50": "fifty u s dollars",
        "₩460 billion": "four hundred sixty billion won",
        "C$20 and 100$": "twenty canadian dollars and one hundred dollars",
    },
    "magnitudes": {
        "10K": "ten thousand",
        "1.2M people": "one point two million people",
        "3.5B users": "three point five billion users",
        "100 million kg": "one hundred million kilograms",
        "1 000 000": "one million",
        "1,000s of people": "thousands of people",
        "a 4K video": "a four k video",
        "Watch it in 8K or run a 5K": "watch it in eight k or run a five k",
        "He ran 5K of 10K.": "he ran five k of ten thousand.",
        "5 ft 10 in, not 3 ft 2 in the rain": "five feet ten inches, not three feet two in the rain",
        "At 1920x1080.": "at nineteen twenty by ten eighty.",
        "See para. 4.": "see paragraph four.",
        "8K users": "eight thousand users",
        "1984 sheep": "one thousand nine hundred eighty four sheep",
        "a 60 W bulb": "a sixty watt bulb",
        "in 9.58s": "in nine point five eight seconds",
        "Austin, TX is hot": "austin, texas is hot",
        "Well, OK then": "well, o k then",
        "221B Baker St": "two twenty one b baker street",
    },
    "times": {
        "24h before, in the 89th min. of": "twenty four hours before, in the eighty ninth minute of",
        "7.30pm": "seven thirty p m",
        "9:30 am - 11:15 am": "nine thirty ay m to eleven fifteen ay m",
        "6:00 p.m. EST": "six p m e s t",
        "Mon-Fri 9am-5pm": "monday to friday nine ay m to five p m",
        "a ratio of 4:30": "a ratio of four to thirty",
        "14:10:30": "fourteen hours ten minutes and thirty seconds",
    },
    "dates": {
        "Fri, 3/14": "friday, march fourteenth",
        "2016/07/03": "july third twenty sixteen",
        "15.01.2020": "the fifteenth of january twenty twenty",
        "Jan-15": "january fifteenth",
        "Tue., Jan. 5th, 2021": "tuesday, january fifth twenty twenty one",
        "02/03": "february third",
        "1st March, 1830": "first march, eighteen thirty",
        "Jan 2020": "january twenty twenty",
        "July 4 - July 6": "july fourth to july sixth",
        "He has 1066 items": "he has one thousand sixty six items",
        "in 1066 knights rode": "in ten sixty six knights rode",
        "1960s-1980s": "nineteen sixties to nineteen eighties",
    },
    "measures": {
        "10 MB/s, 10 Mb/s": "ten megabytes per second, ten megabits per second",
        "a 9x13 in. pan": "a nine by thirteen inch pan",
        'a 27" 4K monitor': "a twenty seven inch four k monitor",
        "50%-60%": "fifty percent to sixty percent",
        "2-5lb": "two to five pounds",
        '12"': "twelve inches",
        'He said "I am 12".': "he said i am twelve.",
        "5 m/s": "five meters per second",
        "9.8 m/s²": "nine point eight meters per second squared",
        "100 Mbps": "one hundred megabits per second",
        "3 kWh": "three kilowatt hours",
        "60 dB": "sixty decibels",
        "25 mpg": "twenty five miles per gallon",
        "4 1/2 lbs": "four and a half pounds",
        "5‰": "five per mille",
        "500 sq ft": "five hundred square feet",
        "5 lb. 3 oz.": "five pounds three ounces.",
        "5 in. wide": "five inches wide",
        "12/kg": "twelve per kilogram",
        "1080p and 720p": "ten eighty p and seven twenty p",
        "-12°C": "minus twelve degrees celsius",
    },
    "mathematics": {
        "3x daily, 2 x coffee": "three times daily, two times coffee",
        "3x + 5, a 4x zoom": "three x plus five, a four x zoom",
        "gave it a 7/10": "gave it a seven out of ten",
        "a 7/10 mile, 7/10 of it": "a seven tenths mile, seven tenths of it",
        "3x5": "three by five",
        "2x8 m2": "two by eight square meters",
        "1024x768": "ten twenty four by seven sixty eight",
        "2*8": "two times eight",
        "2^10": "two to the power of ten",
        "10⁻³": "ten to the power of minus three",
        "x² + y²": "x squared plus y squared",
        "π": "pi",
        "10-4=6": "ten minus four equals six",
        "6/2=3": "six divided by two equals three",
        "5 ± 1": "five plus or minus one",
        "1/4th": "one quarter",
        "3 5/2": "three and five halves",
    },
    "codes": {
        "192.168.0.1": "one nine two dot one six eight dot zero dot one",
        "078-05-1120": "zero seven eight, zero five, one one two zero",
        "+1(123) 123-5678": "plus one, one two three, one two three, five six seven eight",
        "1-800-GO-2-HAUL": "one, eight hundred, go, two, haul",
        "PIN 1234": "pin one two three four",
        "ext. 204": "extension two zero four",
        "401(k)": "four oh one k",
        "Boeing 747, Flight 370": "boeing seven forty seven, flight three seventy",
        "call 911": "call nine one one",
        "911 people": "nine hundred eleven people",
        "11st": "eleven st",
        "Chem. 101, Math 300": "chem. one oh one, math three hundred",
        "Gen. 1:1, Rom. 8:1, Gen. Smith": "genesis one one, romans eight one, general smith",
        "Art. 5 and Sec. 2": "article five and section two",
        "I-95 N to exit 12A": "i-ninety five north to exit twelve ay",
    },
    "addresses": {
        "1428 Elm St., Reno, CA 95051": "fourteen twenty eight elm street, reno, california nine five zero five one",
        "CA 95051": "california nine five zero five one",
        "12 S 1st st": "twelve south first street",
        "1211 E Arques Ave": "twelve eleven east arques avenue",
        "Portland, OR": "portland, oregon",
        "a1b2@abc.com": "ay one b two at ay b c dot com",
        "john.doe@example.co.uk": "john dot doe at example dot co dot u k",
        "file:///c/docs": "file colon slash slash slash c slash docs",
    },
    "acronyms and names": {
        "The IP address of the SQL server": "the i p address of the s q l server",
        "AI, TV, UK, CEO and MRI are": "ay i, t v, u k, c e o and m r i are",
        "NASA and NATO": "nasa and nato",
        "I am VERY glad": "i am very glad",
        "IT IS HIS": "it is his",
        "CO2 and H2O": "c o two and h two o",
        "C# and C++": "c sharp and c plus plus",
        "COVID-19": "covid-nineteen",
        "Q&A": "q and ay",
        "WWII": "world war two",
        "PART XL": "part forty",
        "under Henry II., a king": "under henry the second, a king",
    },
    "names of files and things": {
        "Open report_final.pdf": "open report underscore final dot p d f",
        "decoding.hot_words": "decoding dot hot underscore words",
        "C:\\Users and ~/docs": "c colon backslash users and tilde slash docs",
        "and/or he/she": "and or he or she",
        "#BlackLivesMatter @john_doe9": "hashtag black lives matter at john underscore doe nine",
        "npm, hmm": "n p m, hmm",
        "iOS, mRNA, OpenAI, ReLU": "i o s, m r n ay, open ay i, relu",
        "the A380 and i7-9700K": "the ay three eighty and i seven ninety seven hundred k",
        "A4, 23A, vitamin A, a RTX 4090": "ay four, twenty three ay, vitamin ay, a r t x forty ninety",
        "Once Upon A Time": "once upon a time",
        "a Boeing 737-800": "a boeing seven thirty seven eight hundred",
        "H2SO4, CaCO3, COP27": "h two s o four, c ay c o three, cop twenty seven",
    },
    "in their places": {
        "a 2h 15m flight of 2h 15m": "a two hour fifteen minute flight of two hours fifteen minutes",
        "a 27\" screen, a 5 km run": "a twenty seven inch screen, a five kilometer run",
        "40.71° N, 74° W": "forty point seven one degrees north, seventy four degrees west",
        "5th Ave NW": "fifth avenue northwest",
        "c. 1450 and FY2024": "circa fourteen fifty and f y twenty twenty four",
        "on Sat, Dec 25, Fri the 13th": "on saturday, december twenty fifth, friday the thirteenth",
        "Sun and sand": "sun and sand",
        "a 6/8 beat in G#": "a six eight beat in g sharp",
        "Pope John XXIII": "pope john the twenty third",
        "port 8080, error 404": "port eighty eighty, error four oh four",
        "A 50¢ stamp, a ring for 50¢": "a fifty cent stamp, a ring for fifty cents",
        "by 4/30, 4/30 of it": "by april thirtieth, four over thirty of it",
        "6 ft 1 in tall, 1,500 W.": "six feet one inch tall, one thousand five hundred watts.",
        "500 W. Main St.": "five hundred west main street.",
        "9 Elm Ct, US-101, an SR-71": "nine elm court, u s-one oh one, an s r-seventy one",
        "2:03 at noon, in 2:03:45": "two oh three at noon, in two hours three minutes and forty five seconds",
        "winds NW 10-15 mph": "winds northwest ten to fifteen miles per hour",
        "Jan–Mar 2020": "january to march twenty twenty",
        "in Physics[3] and a[3]": "in physics and a three",
        "x = 3x^2 - 2x": "x equals three x squared minus two x",
        "1e-4, 0x1F, a && b": "one e minus four, zero x one f, a and b",
        "b. 1990, pop. 500": "born nineteen ninety, population five hundred",
        "10:00:00 p.m. EST": "ten hours zero minutes and zero seconds p m e s t",
    },
    "words": {
        "w/o sugar, w/ milk": "without sugar, with milk",
        "apt. 4B, fig. 3": "apartment four b, figure three",
        "20/20 vision": "twenty twenty vision",
        "9-to-5": "nine-to-five",
        "12's": "twelve's",
        "upgrade / update": "upgrade slash update",
        "#1 #winning": "number one hashtag winning",
    },
}  # fmt: skip


@pytest.mark.parametrize(
    ("printed", "said"), [case for table in CASES.values() for case in table.items()], ids=lambda text: text[:40]
)
def test_everyday_phrases_are_said_as_a_person_reads_them(printed, said):
    assert spoken_english(printed, keep=KEEP) == said


def test_labels_have_the_same_words_but_no_spelled_capitals():
    assert normalize_english("The CEO paid $5M at 7.30pm for 3 kWh!") == (
        "the ceo paid five million dollars at seven thirty pm for three kilowatt hours"
    )


def _forgiving(text: str) -> str:
    """Letters alone: case, punctuation, spaces, and the words and, the, of do not count."""
    return "".join(word for word in normalize_english(text).split() if word not in ("and", "the", "of"))


def test_a_public_set_of_cases_is_read_as_it_asks_or_nearly():
    rows = shared("data/text/normalization/english.tsv").read_text(encoding="utf-8").splitlines()
    cases = [(*row.split("\t"), "")[1:3] for row in rows if not row.startswith("#")]
    right = sum(_forgiving(written) in map(_forgiving, said.split(" | ")) for written, said in cases)
    assert right >= 0.92 * len(cases)


@pytest.mark.parametrize("written", [case for table in CASES.values() for case in table])
def test_tokens_hold_the_whole_text(written):
    assert "".join(token.written for token in tokens(written, Style())) == written


def test_tokens_have_classes_and_readings():
    found = [(token.written, token.kind, token.spoken) for token in voice_tokens("Pay $5M at 9am, OK?")]
    assert ("$5M", "money", "five million dollars") in found
    assert ("9am", "time", "nine ay m") in found
    assert (",", "mark", None) in found
    assert spoken(label_tokens("2-5lb")).split() == ["two", "to", "five", "pounds"]


def test_own_readings_come_first():
    readings = {"SQL": "sequel", "GIF": "jif", "5G": "fifth generation"}
    assert spoken_english("SQL, a GIF, and 5G.", readings=readings) == "sequel, a jif, and fifth generation."
    assert normalize_english("the SQL server", readings=readings) == "the sequel server"
