"""Words that go in pairs: spellings of one word, and the two ends of one scale (§6.2, T29).

Doublets are few and closed on purpose: spellings, short forms, and words that differ in register alone. A boy is not a
kid, a man is no person, and a bike may be a bicycle or a motorbike: those stay apart.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

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
# Two words that say what one says; read before words are.
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
# Prefixes that turn a word round: "unhappy", "inactive", "disagree".
TURNING = r"^(?:un|in|im|ir|il|dis|non|de|anti|mis)-?([^\W\d_]{3,})$"


def _groups(table: str) -> Iterator[str]:
    return (group.strip() for group in table.replace("\n", "|").split("|") if group.strip())


def _ends() -> Iterator[tuple[str, str]]:
    for number, scale in enumerate(_groups(_SCALES)):
        for sign, words in zip("+-", scale.split("/"), strict=True):
            for word in words.split():
                yield word, f"{number}{sign}"


DOUBLETS: Mapping[str, str] = {word: group.split()[0] for group in _groups(_DOUBLETS) for word in group.split()}
# Of each word the ends of scales that it stands at, scale and sign each, with spaces between them.
ENDS: Mapping[str, str] = {word: " ".join(end for each, end in _ends() if each == word) for word, _ in _ends()}
