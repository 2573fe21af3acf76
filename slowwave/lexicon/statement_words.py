"""Words of statements: negation, amounts, times, names; stop words; a quick check for words of time (§6.2 G1, S0-09).

English first, with the commonest words in Spanish and German. A needless word here only prevents a merge.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from slowwave.text import word_set


def _spellings(table: str) -> Mapping[str, str]:
    """Each spelling, and the name itself, with its name; of "name: spelling spelling | …"."""
    rows = (row.split(":") for row in table.split("|"))
    return {spelling: name.strip() for name, spellings in rows for spelling in (name.strip(), *spellings.split())}


# Longest first within a pattern: the first alternative that fits wins. Keys are the names of the markers.
POLARITY: Mapping[str, str] = {
    "no longer": r"no longer|not any ?more|\w{0,12}n't any ?more|ya no|nicht mehr|kein(?:e[nrms]?)? mehr",
    "used to": r"used to|formerly|former|previously|ex-\w+|solía|früher",
    "not": r"not|cannot|cant|dont|doesnt|didnt|isnt|arent|wasnt|werent|wont|wouldnt|shouldnt|couldnt|hasnt|havent|"
    r"hadnt|"
    r"\w{0,12}n't|nicht",
    "never": r"never|nunca|jamás|niemals|nie",
    "no": r"no|none|nobody|nothing|nowhere|no-one|neither|nor|ningun[ao]?|ningún|nadie|nada|tampoco|"
    r"kein(?:e[nrms]?)?|niemand|nichts|weder",
    "without": r"without|lacks?|lacking|sin|ohne",
    "stop": r"stop(?:s|ped|ping)?|quit(?:s|ting)?|ceased?|ceases|gave up|giv(?:e|es|ing|en) up|dej(?:ó|é|a|ar|ado) "
    r"de|aufgehört|hört auf",
    "except": r"except(?:ing)?|unless|instead of|rather than|other than|but not|excepto|außer",
    "hardly": r"hardly|barely|scarcely|rarely|seldom|almost|nearly|kaum|apenas|casi",
    "refuse": r"refus(?:e|es|ed|ing)|declin(?:e|es|ed|ing)|den(?:y|ies|ied|ying)|reject(?:s|ed|ing)?|fail(?:s|ed|"
    r"ing)?|"
    r"avoid(?:s|ed|ing)?|cancel(?:s|led|ed|ling|ing)?|miss(?:es|ed)?|prevent(?:s|ed|ing)?",
    "false": r"false|untrue|wrong|incorrect|fake|falso|falsch",
    "unable": r"unable|incapable|impossible|unlikely|unsupported|unavailable|disabled?|disables|deprecated",
}

NUMBER_WORDS: Mapping[str, str] = dict(
    pair.split("=")
    for pair in """
    zero=0 one=1 two=2 three=3 four=4 five=5 six=6 seven=7 eight=8 nine=9 ten=10 eleven=11 twelve=12 thirteen=13
    fourteen=14 fifteen=15 sixteen=16 seventeen=17 eighteen=18 nineteen=19 twenty=20 thirty=30 forty=40 fifty=50
    sixty=60 seventy=70 eighty=80 ninety=90 hundred=100 thousand=1000 million=1000000 billion=1000000000 dozen=12
    couple=2 pair=2 single=1 both=2 half=1/2 quarter=1/4 once=1x twice=2x thrice=3x double=2x triple=3x first=1st
    second=2nd third=3rd fourth=4th fifth=5th sixth=6th seventh=7th eighth=8th ninth=9th tenth=10th uno=1 dos=2 tres=3
    cuatro=4 cinco=5 seis=6 siete=7 ocho=8 nueve=9 diez=10 zwei=2 drei=3 vier=4 fünf=5 sechs=6 sieben=7 acht=8 neun=9
    zehn=10 elf=11 zwölf=12""".split()
)

_UNIT_SPELLINGS = """
    %: percent per cent | ms: millisecond milliseconds msec | s: sec secs seconds | min: mins minute minutes | h: hr
    hrs hour hours stunden horas | d: day days tage días | wk: wks week weeks wochen semanas | mo: month months
    monate
    meses | y: yr yrs year years jahre años | mm: millimeter millimeters millimetres | cm: centimeter centimeters
    centimetres | m: meter meters metre metres | km: kilometer kilometers kilometres kms | in: inch inches | ft: foot
    feet | mi: mile miles | mg: milligram milligrams | g: gram grams | kg: kilo kilos kilogram kilograms | lb: lbs
    pound pounds | oz: ounce ounces | ml: millilitres milliliters | l: litre litres liter liters | kb: kib kilobyte
    kilobytes | mb: mib megabyte megabytes | gb: gib gigabyte gigabytes | tb: tib terabyte terabytes | hz: hertz |
    mhz: megahertz | ghz: gigahertz | kw: kilowatt kilowatts | w: watt watts | $: usd dollar dollars bucks | €: eur
    euro euros | £: gbp | k: thousand | am: a.m | pm: p.m | c: celsius | f: fahrenheit | px: pixel pixels | x: times"""
UNITS = _spellings(_UNIT_SPELLINGS)

MONTHS = _spellings(
    """jan: january enero januar | feb: february febrero februar | mar: march marzo märz | apr: april abril | may: mayo
    mai | jun: june junio juni | jul: july julio juli | aug: august agosto | sep: sept september septiembre | oct:
    october octubre oktober | nov: november noviembre | dec: december diciembre dezember"""
)
WEEKDAYS = _spellings(
    """mon: monday mondays lunes montag | tue: tues tuesday tuesdays martes dienstag | wed: wednesday wednesdays
    miércoles mittwoch | thu: thur thurs thursday thursdays jueves donnerstag | fri: friday fridays viernes freitag |
    sat: saturday saturdays sábado samstag | sun: sunday sundays domingo sonntag"""
)
# These are also ordinary words in lower case.
AMBIGUOUS_CALENDAR = frozenset(
    {"mar", "march", "may", "jun", "jul", "sep", "sept", "dec", "mon", "wed", "sat", "sun", "jan", "martes", "mai"}
)

TIME_WORDS: tuple[str, ...] = tuple(
    (
        "today tonight tomorrow yesterday morning afternoon evening night noon midnight spring summer autumn "
        "winter hourly daily nightly weekly biweekly fortnightly monthly quarterly yearly annually weekdays "
        "weekends weekend before after until since during last next ago now weekday through throughout till "
        "starting ending temporarily permanently forever yet mornings afternoons evenings nights currently "
        "recently soon later earlier already still always sometimes often usually hoy ayer mañana antes después "
        "heute gestern morgen vorher nachher bisher"
    ).split()
)
# Words that make a statement relative to its day.
RELATIVE_TIME = (
    r"today|tonight|tomorrow|yesterday|now|currently|recently|lately|soon|just|this (?:morning|afternoon|evening|"
    r"week|weekend|month|year|time)|"
    r"(?:last|next|past|coming) (?:\w+)|ago|upcoming|the other day|in (?:a|an|one|two|three|\d+) \w+|"
    r"hoy|ayer|mañana|ahora|pasad[oa]|próxim[oa]|heute|gestern|morgen|jetzt|letzte\w*|nächste\w*"
)

FUNCTION_WORDS = frozenset(
    (
        "i i'm i've i'd i'll me my mine myself you you're you've your yours he he's she she's it it's its his her "
        "hers him we we're we've our ours us they they're their them a an the this that that's these those there "
        "there's here is are was were be been being am do does did done has have had having will would shall should "
        "can could may might must to of in on at by for from with into onto over under as and or but so if then than "
        "because while when where who whom whose which what how why about up down out off just very really also too "
        "both each every some any all most more much many such own same other another again ever even only yes yeah "
        "ok okay oh wow hey hi hello thanks thank let let's well sure"
    ).split()
)

PERSONS: Mapping[str, str] = {
    word: person
    for person, words in {
        "i": "i i'm i've i'd i'll me my mine myself im ive yo mi mis ich mich mir mein meine",
        "we": "we we're we've we'll us our ours nosotros wir uns",
        "you": "you you're you've you'll your yours yourself tú tu usted du dich dir dein deine",
        "he": "he he's he'll him his himself él er ihn",
        "she": "she she's she'll her hers herself ella sie",
        "they": "they they're they've they'll them their theirs ellos ellas",
    }.items()
    for word in words.split()
}
MODALITY: Mapping[str, str] = {
    word: kind
    for kind, words in {
        "future": "will shall won't gonna i'll we'll you'll he'll she'll they'll",
        "possible": "may might could maybe perhaps possibly probably likely can",
        "would": "would wouldn't should shouldn't ought",
        "must": "must needs need required mandatory",
        "if": "if whether unless provided assuming",
        "wish": "want wants wanted hope hopes hoped wish wishes plan plans planned planning intend intends "
        "considering consider considers thinking wonder wondering dream tried tries try trying",
        "belief": "think thinks thought believe believes believed guess suppose seems seem apparently allegedly "
        "supposedly heard claims claimed says said",
    }.items()
    for word in words.split()
}


# Doublets (spellings of one word) and scales (words with their opposites) (§6.2, T29). Doublets are few on purpose:
# spellings, short forms, and words that differ only in register. Boy and kid, man and person stay separate, and so does
# bike, which may be a bicycle or a motorbike.


_DOUBLETS = """
child kid | woman lady | man guy | mother mom mum mama mommy | father dad papa daddy | grandmother grandma
grandfather grandpa | someone somebody | everyone everybody | anyone anybody | car automobile | rabbit bunny
plane airplane aeroplane | motorbike motorcycle | cyclist bicyclist | phone telephone | television tv telly
photo photograph | sofa couch | movie film | fridge refrigerator | gym gymnasium | exam examination | lab laboratory
attorney lawyer | physician doctor | veterinarian vet | advertisement advert ad | garbage trash rubbish
repository repo | information info | configuration config | database db | developer dev | administrator admin
specification spec | javascript js | typescript ts | postgresql postgres | kubernetes k8s | big large | small little
rapid quick fast | rapidly quickly swiftly | carefully cautiously | outdoors outside | indoors inside | whole entire
often frequently | perhaps maybe | glad happy | ill sick | on upon | toward towards | among amongst | while whilst
until till | buy purchase | begin start commence | finish end | speak talk | fight battle | help assist
choose select | answer reply respond | jump leap | frighten scare | put place | stare gaze | color colour | gray grey
center centre | theater theatre | meter metre | liter litre | favorite favourite | blond blonde | license licence
program programme | organization organisation | organize organise | realize realise | analyze analyse
neighbor neighbour | flavor flavour | humor humour | honor honour | labor labour | traveler traveller
jewelry jewellery | tire tyre | pajamas pyjamas | catalog catalogue | dialog dialogue | donut doughnut
yogurt yoghurt | aluminum aluminium | backwards backward | forwards forward | upwards upward
"""
_SCALES = """
hot / cold | warm / cool | increase rise grow raise expand gain / decrease fall shrink lower drop reduce lose
up / down | high / low | enable activate / disable deactivate | on / off | before / after | above over / below under
allow permit / deny forbid ban prohibit block | accept approve / reject refuse decline | open / close shut
start begin commence / stop end finish quit | buy purchase / sell | win / lose | pass succeed / fail
love like enjoy adore prefer / hate dislike detest despise avoid | always / never rarely seldom
often / rarely seldom | all every each / none some few | many / few | more / less fewer | most / least
everyone everybody / nobody | big large huge / small little tiny | long tall / short | old / young new
fast quick rapid / slow | early / late | first / last | true / false | right correct / wrong incorrect | left / right
good / bad | better / worse | best / worst | safe / dangerous | easy simple / difficult hard | strong / weak
rich / poor | clean / dirty muddy | dry / wet | full / empty | light bright / dark | light / heavy | loud / quiet
public / private | present / absent | alive / dead | add include insert / remove exclude delete | push / pull
give / take receive | send / receive | enter / exit leave | arrive come / leave go depart
in into inside indoors / out outside outdoors | front / back behind | top / bottom | east / west | north / south
day / night | morning / evening night | man boy male / woman girl female lady | husband / wife | brother / sister
son / daughter | mother / father | borrow / lend | import / export | upload / download | encrypt / decrypt
install add / uninstall | connect / disconnect | agree / disagree | near / far | remember / forget | laugh / cry
smile / frown | sit lie / stand | walk run / stand rest | sleep / wake | asleep / awake | married / single divorced
online / offline | internal / external | local / remote | static / dynamic | optional / mandatory required
manual / automatic | upstream / downstream | ascending / descending | minimum min / maximum max
temporary / permanent | optimistic / pessimistic | positive / negative | guilty / innocent | introvert / extrovert
ancient / modern | thick / thin | wide broad / narrow | deep / shallow | smooth / rough | sweet / bitter sour
cheap / expensive | with / without | to / from | for / against | and / or
"""
# Phrases with the meaning of one word; replaced before single words are read.
PHRASES: Mapping[str, str] = {
    r"close to": "near",
    r"next to": "beside",
    r"(?:a lot|lots) of": "many",
    r"(?:cell|mobile|smart) ?phone": "cellphone",
    r"(has|have) got": "$1",
    r"(?:a )?(?:pair|couple) of": "two",
    r"make ?up": "makeup",
    r"due to": "because of",
    r"on to": "onto",
    r"in to": "into",
}
# Prefixes that negate a word: "unhappy", "inactive", "disagree".
TURNING = r"^(?:un|in|im|ir|il|dis|non|de|anti|mis)-?([^\W\d_]{3,})$"


def _groups(table: str) -> Iterator[str]:
    return (group.strip() for group in table.replace("\n", "|").split("|") if group.strip())


def _ends() -> Iterator[tuple[str, str]]:
    for number, scale in enumerate(_groups(_SCALES)):
        high, low = scale.split("/")
        for sign, words in (("+", high), ("-", low)):
            for word in words.split():
                yield word, f"{number}{sign}"


DOUBLETS: Mapping[str, str] = {word: group.split()[0] for group in _groups(_DOUBLETS) for word in group.split()}
# Each word with its ends of scales: number and sign, separated by spaces.
ENDS: Mapping[str, str] = {word: " ".join(end for each, end in _ends() if each == word) for word, _ in _ends()}


_ENGLISH = word_set(
    """able about above across actually after again against almost alone along already also although always amazing
    among anyone anything anyway around away awesome back became because become becomes been before began begin
    behind being below better between beyond bring brought came cannot come comes could days definitely didn
    doesn does doing done down during each either else enough even ever every everyone everything few find first
    found from gave gets getting give given glad goes going gone gonna good great had hadn happen happened
    happens hasn have haven having help here herself himself hope however into isn itself just keep kind knew
    know known last lately later least left less like likely little long look looked looking looks lots made
    make makes making many maybe mean means might mine more most much must myself need needs never next nice
    none nothing often once only onto other others ours over part people perhaps please pretty probably quite
    rather really right said same saw says seem seemed seems seen several shall should shouldn since some
    somebody someone something sometimes soon still stuff such sure take taken takes taking talk tell than thank
    thanks that their theirs them themselves then there these they thing things think this those though thought
    three through time today together told totally tomorrow took toward towards tried tries trying under until
    upon used user uses using usually very wanna want wanted wants wasn ways week well went were weren what
    whatever when where whether which while whom whose will with within without wonderful would wouldn year
    years yesterday your yours yourself assistant"""
)
_SPANISH = word_set(
    """además ahora algo alguien algún alguna algunas alguno algunos allí ante antes aquel aquella aquellas aquellos
    aquí aunque bajo bien cada casi como cómo contra cosa cosas cual cuál cuales cualquier cuando cuándo cuanto
    cuánto debe deben dentro desde después dice dicen dijo donde dónde durante ella ellas ellos embargo entonces
    entre eran eres esta está estaba estaban estado estamos están estar estas este esto estos estoy fuera fueron
    gran haber había habían habla hace hacen hacer hacia haciendo hasta hecho hemos incluso jamás luego mejor
    menos mientras misma mismas mismo mismos mucha muchas mucho muchos nada nadie ningún ninguna ninguno
    nosotras nosotros nuestra nuestras nuestro nuestros nunca otra otras otro otros para parte pero poca pocas
    poco pocos podemos poder porque primer primera primero pueda puede pueden pues quien quién quienes quiere
    quiero sabe sean según seis semana sería siempre sido siendo sigue siguiente sino sobre solo sólo somos suya
    suyas suyo suyos tales también tampoco tanta tantas tanto tantos tenemos tener tenía tengo tiempo tiene
    tienen toda todas todavía todo todos tras tuya tuyo unas unos usted ustedes usuario vamos varias varios
    veces vosotros vuestra vuestro"""
)
STOP_WORDS = _ENGLISH | _SPANISH | FUNCTION_WORDS


_TRIGGERS = (
    "ago", "day", "night", "week", "month", "year", "decade", "spring", "summer", "autumn", "winter", "fall",
    "last", "next", "since", "this ", "january", "christmas", "halloween", "valentine",
    "february", "march", "april", "may", "june", "july", "august", "september", "october", "november",
    "december", "tomorrow", "tonight", "ayer", "pasad", "hace", "desde", "hoy", "mañana", "semana", " mes",
    "año", "lunes", "martes", "coles", "jueves", "viernes", "bado", "domingo", "verano", "invierno", "otoño",
    "primavera", "enero", "febrero", "marzo", "abril", "junio", "julio", "agosto", "iembre", "octubre", "navidad",
    "noche", "día", "hour", "minute",
)  # fmt: skip
_DIGIT_OR_MONTH = re.compile(r"\d|\b(?:jan|feb|mar|apr|jun|jul|aug|sept?|oct|nov|dec)\b", re.IGNORECASE)


def may_tell_when(text: str) -> bool:
    """Whether a text has a digit or a word that every time needs; most such texts have no time."""
    lower = text.lower()
    return _DIGIT_OR_MONTH.search(text) is not None or any(word in lower for word in _TRIGGERS)


# Spanish words of time and their English words: "hace dos años" is "two years ago".


MES = "enero|febrero|marzo|abril|mayo|junio|julio|agosto|sep?tiembre|octubre|noviembre|diciembre"
DIA = "lunes|martes|mi[ée]rcoles|jueves|viernes|s[áa]bado|domingo"
"""Months and days of the week as alternatives of a pattern."""
_WORDS = {
    "enero": "january", "febrero": "february", "marzo": "march", "abril": "april", "mayo": "may", "junio": "june",
    "julio": "july", "agosto": "august", "septiembre": "september", "setiembre": "september", "octubre": "october",
    "noviembre": "november", "diciembre": "december", "lunes": "monday", "martes": "tuesday", "miércoles": "wednesday",
    "miercoles": "wednesday", "jueves": "thursday", "viernes": "friday", "sábado": "saturday", "sabado": "saturday",
    "domingo": "sunday", "día": "day", "dia": "day", "días": "days", "dias": "days", "semana": "week",
    "semanas": "weeks", "mes": "month", "meses": "months", "año": "year", "años": "years", "hora": "hour",
    "horas": "hours", "primavera": "spring", "verano": "summer", "otoño": "autumn", "invierno": "winter", "un": "a",
    "una": "a", "unos": "a few", "unas": "a few", "dos": "two", "tres": "three", "cuatro": "four", "cinco": "five",
    "seis": "six", "siete": "seven", "ocho": "eight", "nueve": "nine", "diez": "ten", "doce": "twelve", "quince": "15",
    "veinte": "twenty", "treinta": "thirty", "algunos": "a few", "algunas": "a few", "varios": "several",
    "varias": "several", "este": "this", "esta": "this", "estos": "these", "estas": "these", "hoy": "today",
    "ayer": "yesterday", "anteayer": "the day before yesterday", "antier": "the day before yesterday",
    "anoche": "last night", "mañana": "tomorrow", "tarde": "afternoon", "noche": "night", "desde": "since",
    "hasta": "until", "navidad": "christmas", "nochebuena": "christmas eve", "nochevieja": "new year's eve",
    "en": "in", "durante": "during", "sobre": "around", "hacia": "around", "para": "by", "y": "and", "a": "to",
    "al": "to", "de": "", "del": "", "el": "", "la": "", "los": "", "las": "",
}  # fmt: skip
_PHRASES = tuple(
    (re.compile(pattern), english)
    for pattern, english in (
        (r"\bpasado mañana\b", "the day after tomorrow"),
        (r"\b(?:esta|hoy por la|de la|por la|de) mañana\b", "this morning"),
        (r"\bfin(?:es)? de semana\b", "weekend"),
        (r"\bpar de\b", "couple of"),
        (r"\b(?:desde hace|hace ya|llevo|llevamos|lleva|llevan) (.+)", r"for \1 now"),
        (r"\bhace (?:unas? )?(?:como |casi |aproximadamente )?(.+)", r"\1 ago"),
        (r"\bdentro de (.+)", r"in \1"),
        (r"\ba (?:principios|comienzos|inicios) de\b", "early"),
        (r"\ba mediados de\b", "mid"),
        (r"\b(?:a |hasta |para )?(?:finales|fines|final) de\b", "end of"),
        (r"\b(?:el |la )?(?:próxim|proxim)[oa]s? (\w+)", r"next \1"),
        (r"\b(?:el |la )?(\w+) (?:que viene|próxim[oa]|siguiente|entrante)\b", r"next \1"),
        (r"\b(?:el |la )?(\w+) pasad[oa]\b", r"last \1"),
        (r"\b(?:los|las) (?:últim|ultim)[oa]s\b", "the last"),
        (r"\b(?:los|las) (?:próxim|proxim)[oa]s\b", "the next"),
        (r"\bantes (?:de|del)\b", "before"),
        (r"\ba partir (?:de|del)\b", "starting"),
        (r"\bdel (\d)", r"from \1"),
        (r"\bde (\w+) a (\w+)", r"from \1 to \2"),
        (r"\bentre\b", "between"),
        (r"\baños (\d\d)\b", r"\g<1>s"),
    )
)
_MARK = re.compile(
    rf"\b(?:{MES}|{DIA}|d[ií]as?|semanas?|mes(?:es)?|años?|primavera|verano|otoño|invierno|hoy|ayer|anteayer|antier|anoche"
    r"|mañana|desde|hasta|navidad|nochebuena|nochevieja|en|entre|hace|principios|mediados|finales)\b"
)


def in_english(words: str) -> str:
    """Spanish words of time in English; other words stay unchanged. The words must be in lower case."""
    if not _MARK.search(words):
        return words
    for pattern, english in _PHRASES:
        words = pattern.sub(english, words)
    return " ".join(" ".join(_WORDS.get(word, word) for word in words.split()).split())
