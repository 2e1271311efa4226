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
    "records": {
        "We are 21-9 this season.": "we are twenty one and nine this season.",
        "They are 14-3 overall and 6-1 in play": "they are fourteen and three overall and six and one in play",
        "a 10-3 record, a 6-0-1 start": "a ten and three record, a six zero and one start",
        "They won 3-1 this season.": "they won three to one this season.",
        "The score was 3-1 on the road.": "the score was three to one on the road.",
        "Shares fell to 10-12 cents.": "shares fell to ten to twelve cents.",
        "Prices are 10-15% this year.": "prices are ten to fifteen percent this year.",
        "ages 3-5 start at noon": "ages three to five start at noon",
        "a 3-2 count, a 4-3 defense, a 3-2 win": "a three two count, a four three defense, a three to two win",
        "He is 6-7, 240 lbs.": "he is six seven, two hundred forty pounds.",
    },
    "races": {
        "My pace was 6:30/mi.": "my pace was six thirty per mile.",
        "5K: 22:15; a 5K at 9:30": "five k twenty two fifteen a five k at nine thirty",
        "10K: 47:03, a ratio of 16:9": "ten k forty seven oh three, a ratio of sixteen to nine",
        "It is 1:02:45 long.": "it is one hour two minutes and forty five seconds long.",
        "It began at 3:05:12.": "it began at three oh five and twelve seconds.",
    },
    "games": {
        "He hit .287 with 12 HR.": "he hit two eighty seven with twelve h r.",
        "a 24 HR service": "a twenty four hour service",
        "The boss has 250 HP and 40 MP.": "the boss has two hundred fifty h p and forty m p.",
        "A 300 HP engine, a 12 MP camera": "a three hundred horsepower engine, a twelve megapixel camera",
        "India made 287/6 in 50 overs.": "india made two hundred eighty seven for six in fifty overs.",
    },
    "answers of a server": {
        "A 404 page, a 503 error": "a four oh four page, a five oh three error",
        "a 404 page book, 500 errors": "a four hundred four page book, five hundred errors",
    },
    "fractions": {
        "Java 1/2 cup, Java 8/11": "java one half cup, java eight eleven",
        "1/3 + 1/6 = 1/2, 10/2 = 5": "one third plus one sixth equals one half, ten divided by two equals five",
        "from 12/23-1/2": "from december twenty third to january second",
        "a 1/2-3/4 cup": "a half to three quarters cup",
    },
    "one on one": {
        "our 1:1, a 1:1 with Ann": "our one on one, a one on one with ann",
        "a 1:1 ratio, my 1:1 scale model": "a one to one ratio, my one to one scale model",
        "The 1:20 race mix, a 1:20 mix": "the one twenty race mix, a one to twenty mix",
    },
    "courts and prescriptions": {
        "Fed. R. Civ. P. 12, Fed. R. Evid.": "federal rule of civil procedure twelve, federal rules of evidence.",
        "500 mg PO BID x 10 days": "five hundred milligrams p o b i d for ten days",
        "They bid 5, I bid 6.": "they bid five, i bid six.",
        "1 tab. by mouth, 3 tabs of a browser": "one tablet by mouth, three tabs of a browser",
        "Take 2 caps q4-6h prn.": "take two capsules every four to six hours p r n.",
        "Ex. A and Ex. 5": "exhibit a and exercise five",
    },
    "kitchens": {
        "Add 2 c. flour, 1 t. salt, and 2 T. oil.": "add two cups flour, one teaspoon salt, and two tablespoons oil.",
        "Add 1 T butter.": "add one tablespoon butter.",
        "2 t shirts in the water, 5 T rexes": "two t shirts in the water, five t rexes",
        "6 x 330ml, 3 x 4 m": "six times three hundred thirty milliliters, three by four meters",
        "(8 oz.), 4 lbs., 10-yr. loan": "eight ounces, four pounds, ten year loan",
    },
    "notes": {
        "The mgr rec'd the pkg.": "the manager received the package.",
        "MTG cards, the dept. of art": "m t g cards, the department of art",
        "The pkg-config tool, idk.": "the pkg config tool, i d k.",
        "Account No.: 12": "account number twelve",
        "Q1-Q3 and M25-A40": "q one to q three and m twenty five ay forty",
        "noon-1pm, Tu-Su, once/wk": "noon to one p m, tuesday to sunday, once per week",
        "my # is 5": "my number is five",
    },
    "places": {
        "W 4th St and George W 4th": "west fourth street and george w fourth",
        "3BR/2BA, 45k mi.": "three bedroom two bath, forty five thousand miles.",
        "Turn R on Oak, L on 5th.": "turn right on oak, left on fifth.",
        "The value of R on average": "the value of r on average",
        "Pt. Reyes, pt. 3, dew pt. 61": "point reyes, part three, dew point sixty one",
    },
    "sizes and lights": {
        '24"W x 36"L': "twenty four inches wide by thirty six inches long",
        "a 45° angle, it is 45° outside": "a forty five degree angle, it is forty five degrees outside",
        "2700K light": "two thousand seven hundred kelvin light",
        "14k gold, 14k people": "fourteen carat gold, fourteen thousand people",
        "2 ct. diamonds, 12 ct. eggs": "two carat diamonds, twelve count eggs",
        "price per sq. ft.": "price per square foot.",
    },
    "small Roman numerals": {
        "Scene iv, the part i like, part ii": "scene four, the part i like, part two",
        "I mix it in the vi editor.": "i mix it in the vi editor.",
    },
    "serial numbers": {
        "NDC 0781-1506-10": "n d c zero seven eight one, one five zero six, one zero",
        "10-20-30, 5-10-2024": "ten twenty thirty, may tenth twenty twenty four",
        "a 401k, $401k": "a four oh one k, four hundred one thousand dollars",
        "1 USD = 0.92 EUR": "one u s dollar equals zero point nine two euros",
    },
}


@pytest.mark.parametrize("written", [written for phrases in CASES.values() for written in phrases])
def test_everyday_sentences_are_not_read_as_rare_classes(written: str) -> None:
    expected = {written: said for phrases in CASES.values() for written, said in phrases.items()}
    assert spoken_english(written) == expected[written]
