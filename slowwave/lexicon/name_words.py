"""Words that a comparison of names ignores or replaces: titles, company forms, particles, short names."""

from __future__ import annotations

from slowwave.text import word_set

TITLES = word_set(
    """mr mrs ms miss mx dr doctor prof professor sir dame lord lady madam monsieur madame mme mlle m herr frau senor
    senora sr sra don dona president prasident presidente chancellor minister judge justice captain capt colonel col
    general gen lieutenant lt major sergeant sgt admiral father fr brother sister rev reverend imam haji hajji shaikh
    sheikh sheik sayyid mullah maulana king queen prince princess saint st aunt auntie uncle grandma grandpa coach
    officer agent nurse chef"""
)
"""Titles before a name; in ASCII, without full stops."""
SUFFIXES = word_set("jr sr ii iii iv phd md esq mba msc bsc")
PARTICLES = word_set("al el ul ur bin ibn ben bint abu de da do dos del della di der den van von zu la le the na y e")
"""Small words inside a name that do not distinguish names."""

_FORMS = """
    limited: ltd, limited, limited company, company limited, co ltd, private limited, pvt ltd, pte ltd, pty ltd
    inc: inc, incorporated, incorporation
    corp: corp, corporation
    llc: llc, limited liability company, ooo, obshchestvo s ogranichennoi otvetstvennostiu, srl, sarl,
        societatea cu raspundere limitata, sp z o o, sp z oo, spzoo, gmbh,
        gesellschaft mit beschrankter haftung, bv, bvba, sro, kft, oy, aps, sl, sociedad limitada
    plc: plc, public limited company
    jsc: jsc, joint stock company, open joint stock company, public joint stock company, closed joint stock company,
        ojsc, pjsc, cjsc, oao, pao, zao, ao, ag, aktiengesellschaft, sa, sociedad anonima, societe anonyme, spa, nv, ab,
        se, as, asa, sa de cv, kk
    llp: llp, lp, limited partnership, limited liability partnership, kg, kommanditgesellschaft
    foundation: ano, foundation, stiftung, ngo, ev
    company: co, company, cie
"""
COMPANY_FORMS = {
    tuple(form.split()): kind.strip()
    for line in _FORMS.replace(",\n", ", ").strip().splitlines()
    for kind, _, forms in [line.partition(":")]
    for form in forms.split(", ")
    if form.strip()
}
"""Each spelling of a company form, as words in ASCII, with the form."""
LONGEST_FORM = max(map(len, COMPANY_FORMS))

SPELLINGS = {
    "organisation": "organization", "centre": "center", "intl": "international", "int l": "international",
    "mfg": "manufacturing", "bros": "brothers", "dept": "department",
    "univ": "university", "natl": "national", "assn": "association", "assoc": "association",
    "ibn": "bin", "ben": "bin", "abdal": "abdul", "abd": "abdul",
}  # fmt: skip
"""Another way to write a word, with the usual one."""

_SHORT_NAMES = """
    alexander alexandra alejandro alejandra: alex al sandy sasha xander lex ale sandra; andrew andrea andres andre: andy
    drew andi; anthony antonio antonia: tony toni anton toño; benjamin: ben benny benji; charles carlos charlotte:
    charlie chuck chas carl lottie; catherine katherine kathryn katharina katarina catalina: kate kathy cathy katie kat
    kay katya cat; christopher cristobal christoph: chris kit topher; christina christine cristina: chris tina chrissy
    cris; daniel daniela danielle: dan danny dani; david: dave davy davey; deborah: deb debbie; dmitry dimitri: dima
    mitya; donald: don donny; dorothy: dot dottie dolly; edward eduardo edmund edwin: ed eddie ted teddy ned edu;
    elizabeth elisabeth isabel isabella: liz beth lizzie betty eliza lisa elsie isa bella libby; emily emilia emma: em
    emmy millie; francis francisco francesca francesco frances: frank fran paco pancho cisco kiko; frederick friedrich
    federico: fred freddy fritz fede; gabriel gabriela gabrielle: gabe gabi gabby; george jorge georgina: georgie jordi;
    gregory: greg; henry henrique enrique: harry hank quique kike; ignacio: nacho; jacob james jaime: jake jim jimmy
    jamie jay; jennifer: jen jenny; jeffrey geoffrey: jeff geoff; jessica: jess jessie; john jonathan juan johannes:
    johnny jack jon nathan juanito hans; joseph josephine jose josef: joe joey jo josie pepe sepp; joshua: josh;
    kenneth: ken kenny; lawrence laurence laurent lorenzo: larry lars; leonard leonardo leonid: leo len lenny; louis
    luis ludwig: lou louie; manuel manuela emmanuel: manu manny manolo; margaret margarita margarete: maggie meg peggy
    marge greta rita daisy; maria mary marie: molly polly mia mari maru; martin martina: marty tina; matthew mateo
    matthias: matt matty; maximilian maxine maximiliano: max; megan: meg; michael michelle miguel michaela: mike mick
    mickey misha micky mika; mikhail: misha; natalia natalie natasha: nat tasha natalya nati; nicholas nicola nicole
    nikolai nicolas: nick nicky nico niko kolya; olivia oliver: ollie liv livvy; pamela: pam; patrick patricia: pat
    paddy patty trish rick patri; peter pedro: pete petra; philip phillip felipe: phil pip; rebecca: becky becca bex;
    richard ricardo: rick dick richie rich ricky; robert roberto roberta: bob rob bobby robbie bert berto; ronald: ron
    ronny; rosario: charo; samuel samantha samson: sam sammy; sarah: sally sadie; sebastian: seb bastian basti; sergei
    sergey: seryozha; stephen steven stephanie stefan esteban: steve stevie steph stef; susan susanna suzanne: sue susie
    suzy; theodore theodor: ted teddy theo; theresa teresa: terry tess tere; thomas tomas: tom tommy; timothy: tim
    timmy; valentina valerie valeria: val vale; victoria victor viktor: vic vicky tori; vladimir volodymyr: vova volodya
    vlad; vincent vicente: vince vinny; walter: walt; wilhelm william guillermo: will bill billy willy liam guille memo;
    zachary: zach zack"""
SHORT_NAMES: dict[str, frozenset[str]] = {}
"""Each short form of a first name with its possible whole names."""
_SAME_NAMES = """john juan johann giovanni jean ivan; peter pedro pierre pietro; paul pablo paolo; george jorge
    giorgio georg; michael miguel michel mikhail; joseph jose giuseppe josef; sergei sergey serhii sergejs;
    alexander alexandre alejandro oleksandr aleksandr; vladimir volodymyr uladzimir; catherine katherine ekaterina"""
for _group in _SHORT_NAMES.split(";"):
    _whole, _, _short = _group.partition(":")
    for _name in _short.split():
        SHORT_NAMES[_name] = SHORT_NAMES.get(_name, frozenset()) | word_set(_whole)
SAME_NAMES = {name: frozenset(group.split()) for group in _SAME_NAMES.split(";") for name in group.split()}
"""First names that are the same name in several languages."""

NUMBER_WORDS = {
    word: str(value)
    for value, word in enumerate(
        """zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen
        seventeen eighteen nineteen twenty""".split()
    )
} | {
    "thirty": "30", "forty": "40", "fifty": "50", "sixty": "60", "seventy": "70", "eighty": "80",
    "ninety": "90", "first": "1", "second": "2", "third": "3",
}  # fmt: skip
ROMAN = {numeral: str(n + 2) for n, numeral in enumerate("ii iii iv v vi vii viii ix x xi xii xiii xiv xv".split())}
