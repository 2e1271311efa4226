"""What the classes look up: months, states, elements, acronyms, symbols."""

from common.text.english.units import CURRENCIES

MONTHS = {
    "jan": "january", "feb": "february", "mar": "march", "apr": "april", "may": "may", "jun": "june", "jul": "july",
    "aug": "august", "sep": "september", "sept": "september", "oct": "october", "nov": "november", "dec": "december",
}  # fmt: skip
MONTH_NAMES = tuple(dict.fromkeys(MONTHS.values()))
WEEKDAYS = {
    "Mon": "monday", "Tue": "tuesday", "Tues": "tuesday", "Wed": "wednesday", "Weds": "wednesday",
    "Thu": "thursday", "Thur": "thursday",
    "Thurs": "thursday", "Fri": "friday", "Sat": "saturday", "Sun": "sunday",
}  # fmt: skip

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

PROVINCES = {
    "ON": "ontario", "QC": "quebec", "BC": "british columbia", "AB": "alberta", "MB": "manitoba",
    "SK": "saskatchewan", "NS": "nova scotia", "NB": "new brunswick", "PE": "prince edward island",
    "NL": "newfoundland",
}  # fmt: skip
"""Of Canada, before a postcode."""

ELEMENTS = frozenset([
    "H", "He", "Li", "Be", "B", "C", "N", "O", "F", "Ne", "Na", "Mg", "Al", "Si", "P", "S", "Cl", "Ar", "K", "Ca",
    "Ti", "V", "Cr", "Mn", "Fe", "Co", "Ni", "Cu", "Zn", "Ga", "Ge", "As", "Se", "Br", "Sr", "Zr", "Mo", "Ag", "Cd",
    "Sn", "Sb", "Te", "I", "Xe", "Cs", "Ba", "W", "Pt", "Au", "Hg", "Pb", "Bi", "Ra", "Th", "U", "Pu",
])  # fmt: skip
# Spelled, although in two cases.
MIXED_CASE = (
    "pH", "IMDb", "NaCl", "NaOH", "KCl", "HCl", "LiCl", "AgCl", "ZnO", "MgO", "CaO", "GaAs", "IoT", "LoL", "WoW",
    "VoIP", "Rx", "IPv", "PCIe", "NVMe",
)  # fmt: skip
# Words without a vowel; others are spelled.
INTERJECTIONS = frozenset([
    "hm", "hmm", "hmmm", "mm", "mmm", "mhm", "sh", "shh", "shhh", "psst", "pst", "brr", "brrr", "grr", "grrr", "tsk",
    "pfft", "zz", "zzz", "nth", "th", "cwm", "mr", "mrs", "dr", "st", "vs", "jr", "sr", "ms", "ft", "nd", "rd",
])  # fmt: skip

# What "1.5m" counts in millions, not in meters.
COUNTED_IN_MILLIONS = (
    "people|users|views|viewers|followers|subscribers|customers|downloads|copies|jobs|homes|households|listeners"
    "|children|adults|students|workers|voters|visitors|tourists|passengers|members|readers|players|patients|cars"
    "|records|rows|parameters|years|tons|tonnes|barrels|shares|units|dollars|euros|pounds|votes|deaths|residents"
    "|without|Americans|Brits|Britons|Germans|Indians|refugees|migrants|jobless|unemployed|doses|tests|animals|trees|plays|streams"
    "|likes|hits|visits|sales|sold|others|girls|boys|women|men|babies|pupils|teachers|fans|tweets|posts|accounts|clicks"
    "|signatures|tickets|properties|hectares|acres|birds|displaced|affected|infected|jabs|claims|applicants|drivers|families"
)

# In capitals, said as a word although short or without a vowel that would tell.
PRONOUNCED = frozenset([
    "AIDS", "NASA", "NATO", "UNESCO", "UNICEF", "OPEC", "LASER", "RADAR", "SCUBA", "JPEG", "GIF", "SIM", "PIN",
    "RAM", "ROM", "LAN", "WAN", "WIFI", "SARS", "COVID", "NAFTA", "ASAP", "FIFA", "UEFA", "DRAM", "SWAT", "ZIP",
    "CAT", "COP", "PET", "ICE", "TAB", "ALT", "BAR", "BASIC", "COBOL", "IKEA", "LEGO", "FEMA", "OSHA", "HIPAA",
    "DOS", "TASER", "YOLO", "FOMO", "BOGO", "MOOC", "POTUS", "SCOTUS", "FLOTUS", "CRISPR", "SPAC", "TEFL", "TOEFL",
    "JSON", "YAML", "SATA", "MAGA", "NOAA", "GAAP", "OLED", "AMOLED", "QLED", "IMAX", "RICO", "PETA", "NIMBY", "ASCII",
    "EULA", "LASIK", "HEPA", "MOMA", "ISIS", "BIOS", "RAID", "NASDAQ", "OPEC", "TRON", "CERN", "INSEAD", "MENSA",
    "AWOL", "LIV",
    "NASCAR", "GITMO", "SONAR", "TARP", "VESA", "CMOS", "NAND", "CONCACAF", "NORAD", "CAPTCHA", "YIMBY", "SWOT",
    "EPUB", "FLAC", "MOBI", "RAR", "WAV", "TOML", "ASEAN", "LSAT", "MCAT", "GMAT", "VOIP", "DACA", "FICA", "JAXA",
    "FUBAR", "EBITDA", "LIDAR", "FAFSA", "ICANN", "HELOC",
])  # fmt: skip
# In capitals, said letter by letter although there is such a word.
SPELLED = frozenset([
    "AD", "AI", "AM", "API", "ATM", "BA", "BBC", "BC", "CD", "CEO", "CFO", "CIA", "CO", "CPU", "CTO", "CV", "DIY",
    "DJ", "DNA", "DVD", "ER", "ETA", "EU", "FAQ", "FBI", "FM", "AFAIK", "ICYMI", "ROTFL", "UNHCR", "ROI", "IELTS",
    "TOEIC", "AAPL", "UNAIDS", "NAACP", "MSRP",
    "UEFI", "IIRC", "ROFL", "CCTV", "EPA", "ERA", "AAA", "IOU", "IUD", "UTI", "AED", "ATV", "ACL", "ADA", "USDA",
    "UAE", "AOL",
    "ESPN", "IRA", "ETF", "IPO", "APY", "APR", "ABS", "EIN", "IDE", "GUI", "AWS", "OCD", "UCLA", "ACLU", "AARP",
    "LGBTQIA",
    "OEM", "ODM", "EOM", "EOW", "EOY", "OOO", "OTC", "OTA", "SUV", "USMC", "USPS", "USAF", "GDP", "GOP", "GPS", "GPU",
    "HD", "HIV", "HR", "HTTPS",
    "IBM", "ID", "IP", "IQ", "IRS", "ISP", "IT", "IV", "JFK", "LA", "LED", "MBA", "MIT", "MRI", "MS", "NBA", "NBC",
    "NFL", "NHL", "NY", "NYC", "OS", "PC", "PDF", "PE", "PH", "PM", "PR", "QA", "RNA", "RV", "SAT", "SQL", "TB", "TV",
    "UFO", "VAT", "UK", "UN", "URL", "US", "USA", "USB", "UV", "LAX", "VIP", "VP", "VR", "WHO", "XP",
])  # fmt: skip
# Short words that are words in capitals, too, where someone raises the voice.
EMPHASISED = frozenset([
    "A", "ACT", "ADD", "AGE", "AGO", "AH", "AID", "AIM", "AIR", "ALL", "ALT", "AM", "AN", "AND", "ANY", "ARE", "ARM",
    "ART", "AS", "ASK", "AT", "ATE", "BAD", "BAG", "BAN", "BAT", "BE", "BED", "BEE", "BET", "BIG", "BIO", "BIT",
    "BOX", "BOY", "BUS", "BUT", "BUY", "BY", "BYE", "CAN", "CAP", "CAR", "COW", "CRY", "CUP", "CUT", "DAD", "DAM",
    "DAY", "DEF", "DID", "DIE", "DO", "DOG", "DRY", "DUE", "EAR", "EAT", "EGG", "EH", "END", "EVE", "EYE", "FAN",
    "FAR", "FAT", "FEE", "FEW", "MAX", "MID", "NAH", "MEH", "PIG", "PUB", "HUB", "DIG", "DOT", "CUB", "BUG", "BUN",
    "BIN", "BAY", "AXE", "ACE", "ADS", "FIG", "FIN", "FOG", "FUR", "GEM", "GUT", "HUT", "JAW", "JOG", "MUG", "NUN",
    "OAT",
    "OWE", "PAW", "PEA", "RAG", "RIM", "RUM", "RYE", "SPY", "SUE", "TAN", "TUB", "TUG", "WAX", "YAM", "ZEN", "FIT",
    "FIX", "FLY", "FOR", "FOX", "FUN", "GAP", "GAS", "GEL", "GET", "GIF", "GO", "GOD",
    "GOT", "GUN", "GUY", "GYM", "HA", "HAD", "HAM", "HAS", "HAT", "HAY", "HE", "HEN", "HER", "HEY", "HI", "HIM",
    "HIS", "HIT", "HMM", "HOP", "HOT", "HOW", "HUG", "HUH", "I", "ICE", "IF", "ILL", "IN", "INK", "ION", "IS", "IT",
    "ITS", "JAM", "JAR", "JET", "JOB", "JOY", "KEY", "KID", "LAD", "LAN", "LAP", "LAW", "LAY", "LEG", "LET", "LIE",
    "LIP", "LOG", "LOT", "LOW", "MAC", "MAD", "MAN", "MAP", "MAY", "ME", "MEN", "MET", "MIX", "MOM", "MUD", "MUM",
    "MY", "NAP", "NET", "NEW", "NO", "NOR", "NOT", "NOW", "NUT", "OAK", "ODD", "OF", "OFF", "OH", "OIL", "OK", "OLD",
    "ON", "ONE", "OR", "ORE", "OUR", "OUT", "OWL", "OWN", "PAN", "PAY", "PEN", "PIE", "PIG", "PIN", "PIT", "PLAY",
    "POP", "POT", "PRO", "PUT", "RAM", "RAN", "RAT", "RAW", "RED", "RIB", "ROB", "ROD", "ROM", "ROW", "RUB", "RUG",
    "RUN", "SAD", "SAID", "SAW", "SAY", "SEA", "SEE", "SET", "SEX", "SHE", "SHY", "SIM", "SIN", "SIP", "SIR", "SIT",
    "SIX", "SKI", "SKY", "SO", "SON", "SUM", "SUN", "TAB", "TAP", "TAX", "TEA", "TEN", "TEX", "THE", "TIE", "TIN",
    "TIP", "TO", "TOE", "TOO", "TOP", "TOY", "TRY", "TWO", "UP", "US", "USE", "VAN", "VET", "WAN", "WAR", "WAS",
    "WAY", "WE", "WEB", "WET", "WHY", "WIG", "WIN", "WON", "WOW", "YAY", "YEP", "YES", "YET", "YO", "YOU", "ZIP",
    "ZOO",
])  # fmt: skip
# Capitals of this list are words more often than letters: spelled only where no ordinary word can stand.
WORDS_TOO = frozenset([
    "AM", "BA", "CO", "ER", "ERA", "ETA", "IT", "IV", "LA", "LED", "MS", "NY", "PE", "PM", "SAT", "WHO",
])  # fmt: skip

SYMBOLS = {
    "&": "and", "+": "plus", "@": "at", "=": "equals", "%": "percent", "°": "degrees", "‰": "per mille",
    "×": "times", "÷": "divided by", "±": "plus or minus", "≈": "approximately equals", "≠": "does not equal",
    "≤": "is at most", "≥": "is at least", "∞": "infinity", "√": "square root of", "²": "squared", "³": "cubed",
    "∑": "sum of", "∫": "integral of", "∂": "partial", "∆": "delta", "∈": "in", "∀": "for all",
    "∃": "there exists", "∪": "union", "∩": "intersection", "∝": "is proportional to", "⊂": "is a subset of",
    "∴": "therefore", "∠": "angle", "⊥": "is perpendicular to", "№": "number", "§": "section", "¶": "paragraph",
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
    "|ru|br|mx|sm|tv|me|ly|gg|fm|xyz|shop|store|online|site|blog|news|club|live|cloud|tech|page|link|aero|jobs|museum|travel"
    "|ie|gr|pt|cz|hu|ro|sg|hk|kr|tw|th|vn|ph|tr|ua|za|ar|cl|pe|fi|lt|lv|ee|sk|si|hr|bg|rs|kz|ir|il|sa|ae|eg|ng|ke|pk|bd|lk"
)
"""Those that are no words of English, behind a full stop that lacks its space."""
DOMAINS_BEFORE_A_PATH = "be|to|is|it|at|so|my|la|im|id|am|be|cc|ws|gl|gd|vc|do|page|link|as|by"
EXTENSIONS = (
    "pdf|html?|txt|docx?|xlsx?|pptx?|csv|tsv|json|jsonl|ya?ml|toml|xml|md|py|ipynb|js|jsx|ts|tsx|css|cpp|cu|java|sh|bat|exe"
    "|dll|zip|tar|gz|xz|rar|png|jpe?g|gif|svg|bmp|tiff|webp|mp3|mp4|wav|flac|ogg|mov|avi|mkv|log|cfg|ini|conf|bak|tmp|sql|db"
    "|heic|7z|webm|m4a|m4v|odt|rtf|vcf|ics|bin|img|jar|php|rs|rb|aspx|scss|mpe?g|avif|npy|npz|pkl|pth|ckpt|iso|apk|dmg|deb|rpm|onnx|pt|tex|bib|epub|psd|srt|whl|env|lock"
)
KINGS = (
    "Henry|Louis|Charles|George|Edward|Richard|James|William|Elizabeth|Philip|Napoleon|Pius|Benedict|Gregory|John Paul"
    "|Frederick|Catherine|Alexander|Ivan|Leo|Urban|Clement|Innocent|Nicholas|Wilhelm|Ramesses|Ramses|Ptolemy|Sam|Mehmed"
    "|Suleiman|Haakon|Harald|Olav|Christian|Gustav|Carl|Karl|Margrethe|Albert|Leopold|Otto|Francis|Franz|Ferdinand"
    "|Victor Emmanuel|Umberto|Alfonso|Felipe|Isabella|Mary|Darius|Xerxes|Cyrus|Theodosius|Constantine|Justinian|Basil"
    "|Peter|Rama|Thutmose|Amenhotep|Seti|Rudolf|Maximilian|Joseph|Stephen|Sigismund|Boniface|Sixtus|Julius|Adrian"
    "|Eugene|Cleopatra|Murad|Selim|Edmund|Malcolm(?=\\sI)|Robert|Hussein|Abdullah|Hassan|Mohammed|Baldwin|Casimir|Willem"
)
COUNTED = (
    "Chapter|Part|Volume|Book|Act|Scene|Section|Article|War|Type|Phase|Title|Appendix|Figure|Bowl|Stage|Grade|Level"
    "|Unit|Class|Episode|Season|Round"
    "|Super Bowl|Vatican|Apollo|Mark|Factor|World War|WW|Olympiad"
    "|Canto|Amend\\.|Ep\\.|Pt\\.|Ch\\.|Bk\\.|Art\\.|Figs?\\.|Mk\\.|Amendment|Schedule|Annex|Tier|Category|Chap\\.|Vol\\.|Lesson|Exhibit|Division|Table|Step"
    "|CHAPTER|PART|VOLUME|BOOK|ACT|SCENE|SECTION|ARTICLE|APPENDIX|FIGURE"
)
