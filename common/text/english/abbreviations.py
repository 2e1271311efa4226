"""What abbreviations stand for, by where they may stand."""

# With a dot in any case; those of `CAPITALISED` also without one.
ABBREVIATIONS = {
    "mr": "mister", "mrs": "missus", "messrs": "messieurs", "drs": "doctors", "jr": "junior", "sr": "senior",
    "prof": "professor", "rev": "reverend", "hon": "honorable", "gov": "governor", "sen": "senator",
    "rep": "representative", "pres": "president", "gen": "general", "maj": "major", "col": "colonel",
    "lt": "lieutenant", "capt": "captain", "cpt": "captain", "cmdr": "commander", "sgt": "sergeant", "cpl": "corporal",
    "esq": "esquire", "co": "company", "corp": "corporation", "inc": "incorporated", "ltd": "limited",
    "bros": "brothers", "assn": "association", "dept": "department", "univ": "university", "govt": "government",
    "ave": "avenue", "blvd": "boulevard", "rd": "road", "hwy": "highway", "apt": "apartment", "mt": "mount",
    "ft": "fort", "vs": "versus", "etc": "et cetera", "approx": "approximately", "vol": "volume", "ch": "chapter",
    "fig": "figure", "ext": "extension", "tel": "telephone", "expy": "expressway", "pkwy": "parkway", "ln": "lane",
    "ste": "suite", "rte": "route", "bldg": "building", "rm": "room", "ctrl": "control", "doz": "dozen", "ms": "miz",
    "fr": "father", "wt": "weight", "ht": "height", "brig": "brigadier", "cav": "cavalry", "inf": "infantry",
    "regt": "regiment", "bde": "brigade", "bn": "battalion", "amend": "amendment", "cont": "continued",
    "contd": "continued", "equiv": "equivalent", "esp": "especially", "elem": "elementary", "fed": "federal",
    "freq": "frequency", "fwd": "forward", "jct": "junction", "mkt": "market", "mtg": "meeting", "mtn": "mountain",
    "org": "organization", "proc": "proceedings", "pub": "published", "recd": "received", "rcvd": "received",
    "ret": "retired", "sched": "schedule", "soc": "society", "std": "standard", "subj": "subject", "tot": "total",
    "twp": "township", "usu": "usually", "diam": "diameter", "dia": "diameter", "conf": "conference",
    "comm": "commission", "cmte": "committee", "cert": "certificate", "inst": "institute", "lib": "library",
    "mem": "memorial", "mus": "museum", "prelim": "preliminary", "prob": "probably", "bal": "balance",
    "est": "established", "adm": "admiral", "pvt": "private", "mme": "madame", "mlle": "mademoiselle",
    "msgr": "monsignor",
    "supt": "superintendent", "det": "detective", "insp": "inspector", "amb": "ambassador", "atty": "attorney",
    "sens": "senators", "reps": "representatives", "misc": "miscellaneous", "lg": "large", "sm": "small",
    "med": "medium", "pkt": "packet", "avg": "average", "max": "maximum",
    "min": "minimum", "temp": "temperature", "incl": "including", "excl": "excluding", "qty": "quantity",
    "amt": "amount",
    "acct": "account", "asst": "assistant", "assoc": "associate", "mgr": "manager", "mgmt": "management",
    "intl": "international", "natl": "national", "dist": "district", "div": "division", "ed": "editor",
    "eds": "editors",
    "ref": "reference", "encl": "enclosed", "attn": "attention", "cf": "compare", "viz": "namely", "al": "al",
    "ca": "circa", "govs": "governors", "profs": "professors", "cos": "companies", "mfg": "manufacturing",
    "tech": "tech", "hosp": "hospital", "ctr": "center", "mts": "mountains", "isl": "island", "cres": "crescent",
    "terr": "terrace", "sq": "square", "pl": "place", "ct": "court", "tsp": "teaspoon", "tbsp": "tablespoon",
    "pkg": "package", "oz": "ounce", "lb": "pound", "lbs": "pounds", "gal": "gallon", "hr": "hour", "hrs": "hours",
    "yr": "year", "yrs": "years", "mo": "month", "wk": "week", "wks": "weeks", "mins": "minutes", "secs": "seconds",
    "mss": "manuscripts",
    "dbl": "double", "reg": "regular", "req": "required", "resp": "respectively",
    "exc": "except", "flt": "flight", "civ": "civil",
    "rec": "recreation",
    "admin": "admin", "appt": "appointment", "biol": "biology", "sci": "science", "eng": "engineering",
    "prev": "previous",
    "orig": "original", "abbr": "abbreviation", "alt": "alternative", "arr": "arrival", "dep": "departure",
    "tues": "tuesday", "thurs": "thursday", "weds": "wednesday", "exp": "expires", "nr": "near", "opp": "opposite",
    "dir": "director",
    "prod": "producer", "feat": "featuring", "trans": "translated", "hq": "headquarters",
    "bldgs": "buildings", "apts": "apartments", "blvds": "boulevards", "pct": "percent", "tbs": "tablespoon",
    "doc": "doc", "cu": "cubic", "anon": "anonymous", "ibid": "ibid", "qtr": "quarter", "elev": "elevation",
    "rpt": "report", "agg": "aggregate",
    "chk": "check", "rtg": "routing",
    "svc": "service", "chg": "charge", "pymt": "payment", "pmt": "payment", "qtrly": "quarterly", "blk": "block",
    "acctg": "accounting",
    "rcpt": "receipt", "avail": "available", "engr": "engineer", "precip": "precipitation", "unltd": "unlimited",
    "vit": "vitamin", "utils": "utilities",
    "adj": "adjunct", "cdr": "commander", "cllr": "councillor", "exec": "executive", "mfr": "manufacturer",
    "pd": "paid", "poss": "possibly", "treas": "treasurer", "furn": "furnished", "unfurn": "unfurnished",
    "hdwd": "hardwood", "flrs": "floors", "bsmt": "basement", "lrg": "large", "refrig": "refrigerator",
    "yrly": "yearly", "mthly": "monthly", "hrly": "hourly", "addl": "additional", "depts": "departments",
    "descr": "description", "equip": "equipment", "estd": "established", "govts": "governments", "inv": "invoice",
    "invt": "inventory", "lic": "license", "maint": "maintenance", "mktg": "marketing", "nbr": "number",
    "recv": "received", "reqd": "required", "secy": "secretary", "whse": "warehouse", "wknds": "weekends",
    "yday": "yesterday", "assy": "assembly", "attys": "attorneys", "chgs": "charges", "ctn": "carton",
    "ctns": "cartons", "cyl": "cylinder", "educ": "education", "elec": "electric", "hgt": "height",
    "mech": "mechanical", "pfc": "private first class", "prac": "practice", "pymts": "payments", "qtrs": "quarters",
    "resv": "reservation", "sgd": "signed", "stmt": "statement", "surg": "surgery", "ssgt": "staff sergeant",
    "msgt": "master sergeant", "gdn": "garden", "gdns": "gardens",
}  # fmt: skip
# Those that messages write without a dot, and that are no words.
WITHOUT_DOT = (
    "mgr", "mgmt", "govt", "dept", "acct", "asst", "appt", "recd", "pkg", "qty", "bldg", "hwy", "natl", "intl",
    "approx", "mtg", "yrs", "wks", "hrs", "mins", "secs", "qtr", "mkt", "pymt", "pmt", "qtrly", "stmt", "resv", "mktg",
    "reqd", "pymts",
    "whse",
    "bsmt", "hdwd", "flrs", "yrly", "mthly", "hrly", "maint", "mfr", "cllr", "unfurn",
)  # fmt: skip
# Words of their own at the end of a sentence.
ALSO_WORDS = frozenset(
    ["bal", "cert", "comm", "conf", "dia", "fed", "fr", "inf", "inst", "lib", "mem", "org", "pub", "ret", "soc"]
) | frozenset(
    [
        "med",
        "al",
        "ad",
        "alt",
        "amb",
        "arr",
        "ca",
        "cos",
        "ct",
        "cu",
        "dep",
        "det",
        "dir",
        "dist",
        "div",
        "ed",
        "eng",
        "exp",
        "max",
        "min",
        "mo",
        "nr",
        "opp",
        "pl",
        "prod",
        "rec",
        "ref",
        "reg",
        "req",
        "sec",
        "sq",
        "tech",
        "temp",
        "trans",
        "wk",
        "feat",
        "admin",
        "utils",
        "doc",
        "amt",
        "mins",
        "secs",
        "reps",
        "pct",
        "avg",
        "hr",
        "yr",
        "apt",
        "co",
        "est",
        "ext",
        "fig",
        "gen",
        "hon",
        "ms",
        "pres",
        "rep",
        "rev",
        "sen",
    ]
)
NAMES_TOO = frozenset(["Al", "Doc", "Ed", "Fed", "Max", "Oz", "Reg"])
CAPITALISED = frozenset([
    "Messrs", "Drs", "Jr", "Sr", "Prof", "Rev", "Gov", "Sen", "Maj", "Lt", "Capt", "Cmdr", "Sgt", "Cpl", "Esq",
    "Ltd", "Blvd", "Mt", "Adm", "Pvt", "Mme", "Mlle", "Supt", "Ave", "Rd", "Expy", "Pkwy", "Hwy", "Ln", "Ctrl",
])  # fmt: skip
LEGAL = {
    "Art": "article",
    "Arts": "articles",
    "Sec": "section",
    "Secs": "sections",
    "Para": "paragraph",
    "Paras": "paragraphs",
    "Cl": "clause",
    "Cls": "clauses",
}
# Before chapter and verse.
BOOKS = {
    "Gen": "genesis", "Exod": "exodus", "Ex": "exodus", "Lev": "leviticus", "Num": "numbers", "Deut": "deuteronomy",
    "Josh": "joshua", "Judg": "judges", "Sam": "samuel", "Neh": "nehemiah", "Ps": "psalm", "Prov": "proverbs",
    "Eccl": "ecclesiastes", "Isa": "isaiah", "Jer": "jeremiah", "Ezek": "ezekiel", "Dan": "daniel", "Hos": "hosea",
    "Zech": "zechariah", "Mal": "malachi", "Matt": "matthew", "Rom": "romans", "Cor": "corinthians",
    "Gal": "galatians", "Eph": "ephesians", "Phil": "philippians", "Col": "colossians", "Thess": "thessalonians",
    "Is": "isaiah", "Ez": "ezekiel", "Mt": "matthew", "Mk": "mark", "Lk": "luke", "Jn": "john", "Pt": "peter",
    "Tm": "timothy", "Rv": "revelation", "Dn": "daniel", "Dt": "deuteronomy", "Nm": "numbers", "Lv": "leviticus",
    "Jb": "job", "Prv": "proverbs", "Hab": "habakkuk", "Mic": "micah", "Chr": "chronicles", "Thes": "thessalonians",
    "Sol": "solomon", "Tim": "timothy", "Heb": "hebrews", "Jas": "james", "Pet": "peter", "Rev": "revelation",
}  # fmt: skip
VERSES = "Genesis|Exodus|Psalms?|Proverbs|Isaiah|Matthew|Mark|Luke|John|Acts|Romans|Corinthians|Revelation|Job"
# Before the number of a course: Chem 101.
COURSES = (
    "Chem|Bio|Econ|Psych|Math|Maths|Calc|Phys|Stats?|Physics|Chemistry|Biology|English|History|Economics|Psychology"
    "|Calculus|Philosophy|Sociology|Geology|Spanish|French|German|Marketing|Accounting|CS|EE"
)

REFERENCES = {
    "figs": "figures", "eq": "equation", "eqs": "equations", "eqn": "equation", "tab": "table", "tabs": "tables",
    "sect": "section", "sects": "sections", "para": "paragraph", "paras": "paragraphs", "app": "appendix",
    "refs": "references", "ref": "reference",
    "thm": "theorem", "def": "definition", "prop": "proposition", "vols": "volumes", "chs": "chapters",
    "chap": "chapter", "chaps": "chapters", "col": "column", "cols": "columns", "ll": "lines", "ed": "edition",
    "pt": "part", "bk": "book", "ser": "series", "iss": "issue", "suppl": "supplement", "amend": "amendment",
    "lv": "level", "lvl": "level", "cat": "category", "gr": "grade", "reg": "regulation", "rule": "rule",
    "exp": "expires", "bks": "books",
    "tel": "telephone", "ph": "phone", "mob": "mobile", "fl": "floor", "ps": "psalm", "pg": "page", "pgs": "pages",
    "sz": "size", "ver": "version",
    "rt": "route", "ep": "episode", "eps": "episodes", "lect": "lecture", "ex": "exercise",
}  # fmt: skip
SLASHED = {
    "b/c": "because", "c/o": "care of", "w/in": "within", "w/out": "without", "w/o": "without", "s/o": "shout out to",
    "b/t": "between", "n/c": "no charge", "w/e": "weekend", "y/y": "year over year", "q/q": "quarter over quarter",
    "m/m": "month over month", "w/w": "week over week", "h/t": "hat tip to",
}  # fmt: skip
# In two cases.
# Before a colon, as in forms.
LABELLED = {
    "Pts": "points",
    "Qty": "quantity", "Wt": "weight", "Ht": "height", "Tel": "telephone", "Attn": "attention", "Addr": "address",
    "Temp": "temperature", "Avg": "average", "Max": "maximum", "Min": "minimum", "Dept": "department", "Amt": "amount",
    "Hrs": "hours", "Mon": "monday", "Tue": "tuesday", "Wed": "wednesday", "Thu": "thursday", "Fri": "friday",
    "Sat": "saturday", "Sun": "sunday", "Ref": "reference", "Acct": "account", "Ext": "extension",
    "Dist": "distance", "Elev": "elevation", "Alt": "altitude", "Dims": "dimensions", "Dim": "dimensions",
}  # fmt: skip
IRISH_COUNTIES = (
    "Antrim|Armagh|Carlow|Cavan|Clare|Cork|Derry|Donegal|Down|Dublin|Durham|Fermanagh|Galway|Kerry|Kildare|Kilkenny|Laois"
    "|Leitrim|Limerick|Longford|Louth|Mayo|Meath|Monaghan|Offaly|Roscommon|Sligo|Tipperary|Tyrone|Waterford|Westmeath"
    "|Wexford|Wicklow"
)
"""And Durham, which is written as they are: Co. Durham."""
SHORT_PHRASES = {
    "YoY": "year over year", "QoQ": "quarter over quarter", "MoM": "month over month", "YOY": "year over year",
    "SpO": "s p o", "HbA": "h b ay",
}  # fmt: skip
# Parts of a book that is in two or three: 1 Corinthians.
BOOKS_IN_PARTS = (
    "Sam|Samuel|Pt(?=\\.?\\s\\d+:)|Tm(?=\\.?\\s\\d+:)|Jn(?=\\.?\\s\\d+:)|Thes|Chr|Kings|Kgs|Chron|Chronicles|Cor|Corinthians|Thess|Thessalonians|Tim|Timothy|Macc|Maccabees|Pet(?=\\.)"
    "|(?:Peter|John)(?=\\s\\d)"
)
KEYS = {
    "Ctrl": "control", "CTRL": "control", "Control": "control", "Cmd": "command", "CMD": "command",
    "Command": "command", "Alt": "alt", "ALT": "alt", "Shift": "shift", "SHIFT": "shift", "Option": "option",
}  # fmt: skip
FUNCTIONS = {"sin": "sine of", "cos": "cosine of", "tan": "tangent of", "log": "log of", "ln": "natural log of"}
# Behind a town, or a party.
OLD_STATES = {
    "Ala": "alabama", "Ariz": "arizona", "Ark": "arkansas", "Calif": "california", "Colo": "colorado",
    "Conn": "connecticut", "Del": "delaware", "Fla": "florida", "Ga": "georgia", "Ill": "illinois", "Ind": "indiana",
    "Kan": "kansas", "Ky": "kentucky", "La": "louisiana", "Mass": "massachusetts", "Md": "maryland",
    "Mich": "michigan", "Minn": "minnesota", "Miss": "mississippi", "Mo": "missouri", "Mont": "montana",
    "Neb": "nebraska", "Nev": "nevada", "Okla": "oklahoma", "Ore": "oregon", "Pa": "pennsylvania",
    "Penn": "pennsylvania", "Tenn": "tennessee", "Tex": "texas", "Va": "virginia", "Vt": "vermont",
    "Wash": "washington", "Wis": "wisconsin", "Wyo": "wyoming", "Ont": "ontario", "Que": "quebec",
}  # fmt: skip
