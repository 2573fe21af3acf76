"""How wide a place is: a person lives in a country and in a town of it at the same time.

A place without an entry may be a quarter, a suburb or a village of another place.
"""

from __future__ import annotations

from slowwave.text import normalise_name

TOWN, REGION, COUNTRY, CONTINENT = 0, 1, 2, 3

_CONTINENTS = """africa | antarctica | asia | europe | north america | south america | latin america
central america | australasia | oceania | scandinavia | middle east | eu | european union | balkans | caribbean
southeast asia"""
_COUNTRIES = """afghanistan | albania | algeria | andorra | angola | argentina | armenia | australia
austria = österreich | azerbaijan | bahamas | bahrain | bangladesh | barbados | belarus | belgium | belize
benin | bhutan | bolivia | bosnia | bosnia and herzegovina | botswana | brazil = brasil | brunei | bulgaria
burkina faso | burundi | cambodia | cameroon | canada | cape verde = cabo verde | central african republic
chad | chile | china | colombia | comoros | congo | costa rica | croatia | cuba | cyprus
czechia = czech republic | denmark | djibouti | dominica | dominican republic | ecuador | egypt | el salvador
equatorial guinea | eritrea | estonia | eswatini = swaziland | ethiopia | fiji | finland | france | gabon
gambia | georgia | germany = deutschland | ghana | greece | grenada | guatemala | guinea | guinea-bissau
guyana | haiti | honduras | hungary | iceland | india | indonesia | iran | iraq | ireland | israel
italy = italia | ivory coast = côte d'ivoire | jamaica | japan | jordan | kazakhstan | kenya | kiribati | kosovo
kuwait | kyrgyzstan | laos | latvia | lebanon | lesotho | liberia | libya | liechtenstein | lithuania
luxembourg | madagascar | malawi | malaysia | maldives | mali | malta | mauritania | mauritius | mexico = méxico
micronesia | moldova | monaco | mongolia | montenegro | morocco | mozambique | myanmar = burma | namibia | nauru
nepal | netherlands = holland | new zealand | nicaragua | niger | nigeria | north korea | north macedonia
macedonia | norway | oman | pakistan | palau | palestine | panama | papua new guinea | paraguay | peru
philippines | poland | portugal | qatar | romania | russia | rwanda | samoa | san marino | saudi arabia
senegal | serbia | seychelles | sierra leone | singapore | slovakia | slovenia | somalia | south africa
south korea | korea | south sudan | spain = españa | sri lanka | sudan | suriname | sweden
switzerland = schweiz | syria | taiwan | tajikistan | tanzania | thailand | togo | tonga | trinidad and tobago
tunisia | turkey = türkiye | turkmenistan | tuvalu | uganda | ukraine | united arab emirates = uae
united kingdom = uk = great britain = britain
usa = us = united states = united states of america = america = states | uruguay | uzbekistan | vanuatu
vatican | venezuela | vietnam | yemen | zambia | zimbabwe"""
_REGIONS = """england | scotland | wales | northern ireland | bavaria | saxony | hesse | catalonia | andalusia
galicia | basque country | tuscany | sicily | sardinia | lombardy | provence | brittany | normandy | flanders
wallonia | lapland | crete | corsica | mallorca | madeira | azores | algarve | siberia | kashmir | punjab | kerala
quebec | ontario | british columbia | alberta | manitoba | saskatchewan | nova scotia | new brunswick
newfoundland | queensland | victoria | new south wales | tasmania | alabama | alaska | arizona | arkansas
california | colorado | connecticut | delaware | florida | georgia | hawaii | idaho | illinois | indiana | iowa | kansas
kentucky | louisiana | maine | maryland | massachusetts | michigan | minnesota | mississippi | missouri | montana
nebraska | nevada | new hampshire | new jersey | new mexico | new york state | north carolina | north dakota | ohio
oklahoma | oregon | pennsylvania | rhode island | south carolina | south dakota | tennessee | texas | utah
vermont | virginia | washington state | west virginia | wisconsin | wyoming | bay area | silicon valley | midwest
new england | east coast | west coast | pacific northwest | cornwall | yorkshire | kent | sussex | essex | surrey
devon | norfolk | suffolk | cumbria | lancashire | hokkaido | okinawa | bali | java"""
# Large towns far from each other, none a part of another.
_TOWNS = """abu dhabi | accra | addis ababa | adelaide | alexandria | algiers | almaty | amman | amsterdam | ankara
antwerp = antwerpen | asunción | athens | atlanta | auckland | austin | baghdad | baku | bangalore = bengaluru
bangkok | barcelona | basel | beijing = peking | beirut | belfast | belgrade | bergen | berlin | bern | bilbao
birmingham | bogotá = bogota | bologna | bordeaux | boston | braga | bratislava | brisbane | bristol
brussels = brussel = bruxelles | bucharest | budapest | buenos aires | cairo | calgary | cape town | caracas
cardiff | casablanca | chennai = madras | chicago | coimbra | cologne = köln | copenhagen = kopenhagen | dakar | dallas
dar es salaam | denver | detroit | dhaka | doha | dresden | dubai | dublin | düsseldorf | edinburgh | edmonton
florence | frankfurt | gdańsk = gdansk | geneva = genf = genève | genoa | glasgow | gothenburg | graz | guadalajara
guayaquil | halifax | hamburg | hannover = hanover | hanoi | harare | havana | helsinki | ho chi minh city = saigon
hong kong | honolulu | houston | hyderabad | istanbul | jakarta | jerusalem | johannesburg | kampala | karachi
kathmandu | khartoum | kolkata = calcutta | kraków = krakow = cracow | kuala lumpur | kyiv = kiev | kyoto | la paz
lagos | lahore | las vegas | leeds | leipzig | lima | lisbon = lisboa | liverpool | ljubljana | london | los angeles
luanda | lusaka | lyon | madrid | málaga = malaga | malmö | manchester | manila | maputo | marseille | medellín
melbourne | memphis | miami | milan = milano | milwaukee | minneapolis | minsk | monterrey | montevideo | montreal
moscow = moskau | mumbai = bombay | munich = münchen | nairobi | nantes | naples | nashville | new orleans
new york = new york city = nyc | nice | nuremberg = nürnberg | osaka | oslo | ottawa | palermo | panama city | paris
perth | philadelphia | phoenix | pittsburgh | portland | porto | prague = praha = prag | quito | reykjavik | riga
rio de janeiro | riyadh | rome = roma | rotterdam | saint petersburg = st petersburg | salvador | salzburg
san antonio | san diego | san francisco | santiago | sapporo | sarajevo | seattle | seoul | seville = sevilla
shanghai | skopje | sofia | stavanger | stockholm | strasbourg | stuttgart | sydney | taipei | tallinn | tbilisi
tehran | tel aviv | the hague | thessaloniki | tokyo | toronto | toulouse | trondheim | tunis | turin = torino
ulaanbaatar | utrecht | valencia | vancouver | venice | vienna = wien | vilnius | warsaw = warschau | wellington
winnipeg | wrocław = wroclaw | yerevan | zagreb | zürich = zurich"""


def _groups(names: str) -> list[list[str]]:
    """The names of each place of a list; "=" separates names of one place."""
    return [[normalise_name(name) for name in place.split("=")] for place in names.replace("\n", "|").split("|")]


_LISTS = ((TOWN, _TOWNS), (REGION, _REGIONS), (COUNTRY, _COUNTRIES), (CONTINENT, _CONTINENTS))
_LEVELS = {name: level for level, names in _LISTS for place in _groups(names) for name in place}
_REGION_NAMES = frozenset(name for place in _groups(_REGIONS) for name in place)
# The first name of each town and country, without countries that share the name of a region.
_KNOWN = {
    name: (level, place[0])
    for level, names in ((TOWN, _TOWNS), (COUNTRY, _COUNTRIES))
    for place in _groups(names)
    for name in place
    if name not in _REGION_NAMES
}
_SIDES = tuple(f"{side} " for side in "northern southern eastern western central north south east west upstate".split())


def is_known(name: str) -> bool:
    """Whether a list has the place, alone or as the end of "Graça, Lisbon"."""
    return any(normalise_name(part) in _LEVELS for part in (name, name.rpartition(",")[2]))


def level_of(name: str) -> int:
    """TOWN, REGION, COUNTRY or CONTINENT; an unlisted place counts as a town, part of a country as a region."""
    known = normalise_name(name).removeprefix("the ")
    if known in _LEVELS:
        return _LEVELS[known]
    side = next((side for side in _SIDES if known.startswith(side)), "")
    return REGION if side and known.removeprefix(side) in _LEVELS else TOWN


def is_listed(name: str) -> bool:
    """Whether a list has the place."""
    return normalise_name(name).removeprefix("the ") in _LEVELS


def are_apart(a: str, b: str) -> bool:
    """Whether the names are two known towns or two known countries; regions overlap (the East Coast, Vermont)."""
    one, other = (_KNOWN.get(normalise_name(name).removeprefix("the ")) for name in (a, b))
    return one is not None and other is not None and one[0] == other[0] and one[1] != other[1]
