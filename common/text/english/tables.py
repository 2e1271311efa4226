"""What the classes look up: units, currencies, abbreviations, acronyms, states, symbols."""

MONTHS = {
    "jan": "january", "feb": "february", "mar": "march", "apr": "april", "may": "may", "jun": "june", "jul": "july",
    "aug": "august", "sep": "september", "sept": "september", "oct": "october", "nov": "november", "dec": "december",
}  # fmt: skip
MONTH_NAMES = tuple(dict.fromkeys(MONTHS.values()))
WEEKDAYS = {
    "Mon": "monday", "Tue": "tuesday", "Tues": "tuesday", "Wed": "wednesday", "Thu": "thursday", "Thur": "thursday",
    "Thurs": "thursday", "Fri": "friday", "Sat": "saturday", "Sun": "sunday",
}  # fmt: skip

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
    "est": "established",
}  # fmt: skip
# Words of their own at the end of a sentence.
ALSO_WORDS = frozenset(["apt", "co", "est", "ext", "fig", "gen", "hon", "ms", "pres", "rep", "rev", "sen"])
CAPITALISED = frozenset([
    "Messrs", "Drs", "Jr", "Sr", "Prof", "Rev", "Gov", "Sen", "Maj", "Lt", "Capt", "Cmdr", "Sgt", "Cpl", "Esq",
    "Ltd", "Blvd", "Mt", "Ave", "Rd", "Expy", "Pkwy", "Hwy", "Ln", "Ctrl",
])  # fmt: skip
LEGAL = {
    "Art": "article", "Arts": "articles", "Sec": "section", "Secs": "sections", "Para": "paragraph",
    "Paras": "paragraphs", "Cl": "clause", "Cls": "clauses",
}  # fmt: skip
# Before chapter and verse.
BOOKS = {
    "Gen": "genesis", "Exod": "exodus", "Ex": "exodus", "Lev": "leviticus", "Num": "numbers", "Deut": "deuteronomy",
    "Josh": "joshua", "Judg": "judges", "Sam": "samuel", "Neh": "nehemiah", "Ps": "psalm", "Prov": "proverbs",
    "Eccl": "ecclesiastes", "Isa": "isaiah", "Jer": "jeremiah", "Ezek": "ezekiel", "Dan": "daniel", "Hos": "hosea",
    "Zech": "zechariah", "Mal": "malachi", "Matt": "matthew", "Rom": "romans", "Cor": "corinthians",
    "Gal": "galatians", "Eph": "ephesians", "Phil": "philippians", "Col": "colossians", "Thess": "thessalonians",
    "Tim": "timothy", "Heb": "hebrews", "Jas": "james", "Pet": "peter", "Rev": "revelation",
}  # fmt: skip
VERSES = "Genesis|Exodus|Psalms?|Proverbs|Isaiah|Matthew|Mark|Luke|John|Acts|Romans|Corinthians|Revelation|Job"
# Before the number of a course: Chem 101.
COURSES = (
    "Chem|Bio|Econ|Psych|Math|Maths|Calc|Phys|Stats?|Physics|Chemistry|Biology|English|History|Economics|Psychology"
    "|Calculus|Philosophy|Sociology|Geology|Spanish|French|German|Marketing|Accounting|CS|EE"
)
STREETS = "St|Street|Ave|Avenue|Blvd|Boulevard|Rd|Road|Dr|Drive|Ln|Lane|Expy|Pkwy|Parkway|Hwy|Ct|Court|Way|Pl|Place"
DIRECTIONS = {
    "N": "north", "S": "south", "E": "east", "W": "west", "NE": "northeast", "NW": "northwest", "SE": "southeast",
    "SW": "southwest",
}  # fmt: skip
STATES = {
    "AL": "alabama", "AK": "alaska", "AZ": "arizona", "AR": "arkansas", "CA": "california", "CO": "colorado",
    "CT": "connecticut", "DE": "delaware", "FL": "florida", "GA": "georgia", "HI": "hawaii", "ID": "idaho",
    "IL": "illinois", "IN": "indiana", "IA": "iowa", "KS": "kansas", "KY": "kentucky", "LA": "louisiana", "ME": "maine",
    "MD": "maryland", "MA": "massachusetts", "MI": "michigan", "MN": "minnesota", "MS": "mississippi", "MO": "missouri",
    "MT": "montana", "NE": "nebraska", "NV": "nevada", "NH": "new hampshire", "NJ": "new jersey", "NM": "new mexico",
    "NY": "new york", "NC": "north carolina", "ND": "north dakota", "OH": "ohio", "OK": "oklahoma", "OR": "oregon",
    "PA": "pennsylvania", "RI": "rhode island", "SC": "south carolina", "SD": "south dakota", "TN": "tennessee",
    "TX": "texas", "UT": "utah", "VT": "vermont", "VA": "virginia", "WA": "washington", "WV": "west virginia",
    "WI": "wisconsin", "WY": "wyoming", "DC": "d c",
}  # fmt: skip

# One, many, one hundredth, many hundredths.
CURRENCIES = {
    "$": ("dollar", "dollars", "cent", "cents"),
    "£": ("pound", "pounds", "penny", "pence"),
    "€": ("euro", "euros", "cent", "cents"),
    "¥": ("yen", "yen", "sen", "sen"),
    "₹": ("rupee", "rupees", "paisa", "paise"),
    "₩": ("won", "won", "", ""),
    "₽": ("ruble", "rubles", "kopek", "kopeks"),
    "₿": ("bitcoin", "bitcoins", "", ""),
    "₱": ("peso", "pesos", "centavo", "centavos"),
    "¢": ("cent", "cents", "", ""),
    "US$": ("us dollar", "us dollars", "cent", "cents"),
    "A$": ("australian dollar", "australian dollars", "cent", "cents"),
    "AU$": ("australian dollar", "australian dollars", "cent", "cents"),
    "C$": ("canadian dollar", "canadian dollars", "cent", "cents"),
    "CA$": ("canadian dollar", "canadian dollars", "cent", "cents"),
    "HK$": ("hong kong dollar", "hong kong dollars", "cent", "cents"),
    "NZ$": ("new zealand dollar", "new zealand dollars", "cent", "cents"),
    "R$": ("real", "reais", "centavo", "centavos"),
    "USD": ("us dollar", "us dollars", "cent", "cents"),
    "CAD": ("canadian dollar", "canadian dollars", "cent", "cents"),
    "AUD": ("australian dollar", "australian dollars", "cent", "cents"),
    "EUR": ("euro", "euros", "cent", "cents"),
    "GBP": ("pound", "pounds", "penny", "pence"),
    "JPY": ("yen", "yen", "sen", "sen"),
    "CNY": ("yuan", "yuan", "fen", "fen"),
    "RMB": ("yuan", "yuan", "fen", "fen"),
    "CHF": ("swiss franc", "swiss francs", "centime", "centimes"),
    "INR": ("rupee", "rupees", "paisa", "paise"),
}
MAGNITUDES = {
    "k": "thousand", "K": "thousand", "m": "million", "M": "million", "mn": "million", "mm": "million",
    "MM": "million", "mil": "million", "b": "billion", "B": "billion", "bn": "billion", "Bn": "billion",
    "BN": "billion", "tn": "trillion", "t": "trillion", "T": "trillion", "trn": "trillion",
}  # fmt: skip

# By how they are written; without an entry in their own case, in lower case. The second word on has no plural.
_METERS = {
    "k": "kilo", "c": "centi", "m": "milli", "µ": "micro", "μ": "micro", "n": "nano", "d": "deci", "h": "hecto"
}  # fmt: skip
UNITS = {
    "%": "percent", "‰": "per mille", "km/h": "kilometer per hour", "kmh": "kilometer per hour",
    "kph": "kilometer per hour", "mph": "mile per hour", "mpg": "mile per gallon", "rpm": "revolution per minute",
    "bpm": "beat per minute",
    "fps": "frame per second", "dpi": "dot per inch", "ppm": "part per million", "psi": "pound per square inch",
    "m": "meter", "g": "gram", "kg": "kilogram", "mg": "milligram", "µg": "microgram", "μg": "microgram",
    "mcg": "microgram", "lb": "pound", "lbs": "pound", "oz": "ounce", "ft": "foot", "yd": "yard", "yds": "yard",
    "mi": "mile", "in": "inch", "L": "liter", "ml": "milliliter", "mL": "milliliter", "dl": "deciliter",
    "cl": "centiliter", "gal": "gallon", "qt": "quart", "pt": "pint", "tbsp": "tablespoon", "tsp": "teaspoon",
    "hz": "hertz", "khz": "kilohertz", "mhz": "megahertz", "ghz": "gigahertz", "thz": "terahertz", "kb": "kilobyte",
    "mb": "megabyte", "gb": "gigabyte", "tb": "terabyte", "pb": "petabyte", "KiB": "kibibyte", "MiB": "mebibyte",
    "GiB": "gibibyte", "TiB": "tebibyte", "kbps": "kilobit per second", "mbps": "megabit per second",
    "gbps": "gigabit per second", "kbit": "kilobit", "Mbit": "megabit", "Gbit": "gigabit",
    "ns": "nanosecond", "µs": "microsecond", "μs": "microsecond", "ms": "millisecond", "s": "second", "sec": "second",
    "secs": "second", "min": "minute", "mins": "minute", "h": "hour", "hr": "hour", "hrs": "hour", "wk": "week",
    "wks": "week", "mo": "month", "mos": "month", "yr": "year", "yrs": "year", "W": "watt", "kw": "kilowatt",
    "mw": "megawatt", "mW": "milliwatt", "gw": "gigawatt", "tw": "terawatt", "wh": "watt hour", "kwh": "kilowatt hour",
    "mwh": "megawatt hour", "gwh": "gigawatt hour", "mah": "milliamp hour", "V": "volt", "kv": "kilovolt",
    "mV": "millivolt", "A": "amp", "mA": "milliamp", "Ω": "ohm", "kΩ": "kilohm", "MΩ": "megohm", "N": "newton",
    "Nm": "newton meter", "J": "joule", "kj": "kilojoule", "mj": "megajoule", "cal": "calorie", "kcal": "kilocalorie",
    "Pa": "pascal", "hpa": "hectopascal", "kpa": "kilopascal", "mpa": "megapascal", "mmhg": "millimeter of mercury",
    "bar": "bar", "mbar": "millibar", "db": "decibel", "dba": "decibel", "hp": "horsepower", "lm": "lumen",
    "mol": "mole", "ha": "hectare", "cc": "c c", "mp": "megapixel", "px": "pixel", "ev": "electronvolt",
    "kev": "kiloelectronvolt", "mev": "megaelectronvolt", "K": "kelvin", "°c": "degree celsius",
    "°f": "degree fahrenheit", "℃": "degree celsius", "℉": "degree fahrenheit", "°": "degree", "sqft": "square foot",
    **{f"{prefix}m": f"{name}meter" for prefix, name in _METERS.items()},
}  # fmt: skip
# Said after a number that it is written against (5A is not five amps, a 5 K is not five kelvins) or after a slash only.
ONLY_WITH_A_SPACE = frozenset(["A", "K", "N", "V", "W", "J", "L", "pt", "Pa", "hp", "mo", "in", "bar", "cal"])
ONLY_AFTER_A_SLASH = frozenset(["s", "h", "K", "mo", "A", "N", "J"])
ALWAYS_ATTACHED = frozenset(["V", "W", "L", "hp", "Pa", "pt", "cal"])
MANY = {"foot": "feet", "inch": "inches", "hertz": "hertz", "horsepower": "horsepower", "percent": "percent"}

ELEMENTS = frozenset([
    "H", "He", "Li", "Be", "B", "C", "N", "O", "F", "Ne", "Na", "Mg", "Al", "Si", "P", "S", "Cl", "Ar", "K", "Ca",
    "Ti", "V", "Cr", "Mn", "Fe", "Co", "Ni", "Cu", "Zn", "Ga", "Ge", "As", "Se", "Br", "Sr", "Zr", "Mo", "Ag", "Cd",
    "Sn", "Sb", "Te", "I", "Xe", "Cs", "Ba", "W", "Pt", "Au", "Hg", "Pb", "Bi", "Ra", "Th", "U", "Pu",
])  # fmt: skip
# Spelled, although in two cases.
MIXED_CASE = (
    "pH", "NaCl", "NaOH", "KCl", "HCl", "LiCl", "AgCl", "ZnO", "MgO", "CaO", "GaAs", "IoT", "LoL", "WoW", "VoIP",
)  # fmt: skip
# Words without a vowel; others are spelled.
INTERJECTIONS = frozenset([
    "hm", "hmm", "hmmm", "mm", "mmm", "mhm", "sh", "shh", "shhh", "psst", "pst", "brr", "brrr", "grr", "grrr", "tsk",
    "pfft", "zz", "zzz", "nth", "th", "cwm", "mr", "mrs", "dr", "st", "vs", "jr", "sr", "ms", "ft", "lb", "lbs", "km",
    "kg", "cm", "ml", "nd", "rd", "thx", "pls", "ppl",
])  # fmt: skip

# What "1.5m" counts in millions, not in meters.
COUNTED_IN_MILLIONS = (
    "people|users|views|viewers|followers|subscribers|customers|downloads|copies|jobs|homes|households|listeners"
    "|children|adults|students|workers|voters|visitors|tourists|passengers|members|readers|players|patients|cars"
    "|records|rows|parameters|years|tons|tonnes|barrels|shares|units|dollars|euros|pounds|votes|deaths|residents"
)

# In capitals, said as a word although short or without a vowel that would tell.
PRONOUNCED = frozenset([
    "AIDS", "NASA", "NATO", "UNESCO", "UNICEF", "OPEC", "LASER", "RADAR", "SCUBA", "JPEG", "GIF", "SIM", "PIN",
    "RAM", "ROM", "LAN", "WAN", "WIFI", "SARS", "COVID", "NAFTA", "ASAP", "FIFA", "UEFA", "DRAM", "SWAT", "ZIP",
    "BASIC", "COBOL", "IKEA", "LEGO", "FEMA", "OSHA", "HIPAA", "TASER", "YOLO",
])  # fmt: skip
# In capitals, said letter by letter although there is such a word.
SPELLED = frozenset([
    "AD", "AI", "AM", "API", "ATM", "BA", "BBC", "BC", "CD", "CEO", "CFO", "CIA", "CO", "CPU", "CTO", "CV", "DIY",
    "DJ", "DNA", "DVD", "ER", "ETA", "EU", "FAQ", "FBI", "FM", "GDP", "GOP", "GPS", "GPU", "HD", "HIV", "HR", "IBM",
    "ID", "IP", "IQ", "IRS", "ISP", "IT", "IV", "JFK", "LA", "LED", "MBA", "MIT", "MRI", "MS", "NBA", "NBC", "NFL",
    "NHL", "NY", "NYC", "OS", "PC", "PDF", "PE", "PH", "PM", "PR", "QA", "RNA", "RV", "SAT", "SQL", "TB", "TV",
    "UFO", "UK", "UN", "URL", "US", "USA", "USB", "UV", "LAX", "VIP", "VP", "VR", "WHO", "XP",
])  # fmt: skip
# Capitals of this list are words more often than letters: spelled only where no ordinary word can stand.
WORDS_TOO = frozenset([
    "AM", "BA", "CO", "ER", "ETA", "HR", "IT", "IV", "LA", "LED", "MS", "NY", "PE", "PH", "PM", "SAT", "TB", "WHO",
])  # fmt: skip

SYMBOLS = {
    "&": "and", "+": "plus", "@": "at", "=": "equals", "%": "percent", "°": "degrees", "‰": "per mille",
    "×": "times", "÷": "divided by", "±": "plus or minus", "≈": "approximately equals", "≠": "does not equal",
    "≤": "is at most", "≥": "is at least", "∞": "infinity", "√": "square root of", "²": "squared", "³": "cubed",
    "∑": "sum of", "∫": "integral of", "∂": "partial", "∆": "delta", "№": "number", "§": "section", "¶": "paragraph",
    **{symbol: names[0] for symbol, names in CURRENCIES.items() if len(symbol) == 1},
}  # fmt: skip
GREEK = {
    "α": "alpha", "β": "beta", "γ": "gamma", "δ": "delta", "ε": "epsilon", "ζ": "zeta", "η": "eta", "θ": "theta",
    "ι": "iota", "κ": "kappa", "λ": "lambda", "μ": "mu", "ν": "nu", "ξ": "xi", "ο": "omicron", "π": "pi", "ρ": "rho",
    "σ": "sigma", "ς": "sigma", "τ": "tau", "υ": "upsilon", "φ": "phi", "χ": "chi", "ψ": "psi", "ω": "omega",
}  # fmt: skip
MARKS = {
    ".": "dot", "/": "slash", "_": "underscore", "-": "dash", "@": "at", "?": "question mark", "=": "equals",
    "\\": "backslash", "&": "ampersand", "#": "hash", "%": "percent", ":": "colon", "~": "tilde", "+": "plus",
}  # fmt: skip
DOMAINS = (
    "com|org|net|edu|gov|mil|int|io|ai|dev|app|info|biz|co|uk|de|fr|eu|us|ca|it|es|nl|ch|at|jp|cn|in|au|nz|se|no|dk|pl"
    "|ru|br|mx|sm|tv|me"
)
EXTENSIONS = (
    "pdf|html?|txt|docx?|xlsx?|pptx?|csv|tsv|json|jsonl|ya?ml|toml|xml|md|py|ipynb|js|jsx|ts|tsx|css|cpp|cu|java|sh|bat|exe"
    "|dll|zip|tar|gz|xz|rar|png|jpe?g|gif|svg|bmp|tiff|webp|mp3|mp4|wav|flac|ogg|mov|avi|mkv|log|cfg|ini|conf|bak|tmp|sql|db"
    "|iso|apk|dmg|deb|rpm|onnx|pt|tex|bib|epub|psd|srt|whl|env|lock"
)
KINGS = (
    "Henry|Louis|Charles|George|Edward|Richard|James|William|Elizabeth|Philip|Napoleon|Pius|Benedict|Gregory|John Paul"
    "|Frederick|Catherine|Alexander|Ivan|Leo|Urban|Clement|Innocent|Nicholas|Wilhelm|Ramesses|Ptolemy|Sam"
)
COUNTED = (
    "Chapter|Part|Volume|Book|Act|Scene|Section|Article|War|Type|Phase|Title|Appendix|Figure|Bowl|Stage|Grade|Level"
    "|Unit|Class|Episode|Season|Round|Lesson|Exhibit|Division|Table|Step|CHAPTER|PART|VOLUME|BOOK|ACT|SCENE|SECTION|ARTICLE|APPENDIX|FIGURE"
)
