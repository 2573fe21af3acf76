"""How wide a place is: a person lives in a country and in a town of it at the same time."""

from __future__ import annotations

from slowwave.text import normalise_name

TOWN, REGION, COUNTRY, CONTINENT = 0, 1, 2, 3

_CONTINENTS = """africa | antarctica | asia | europe | north america | south america | latin america
central america | australasia | oceania | scandinavia | middle east | eu | european union | balkans | caribbean
southeast asia"""
_COUNTRIES = """afghanistan | albania | algeria | andorra | angola | argentina | armenia | australia | austria
azerbaijan | bahamas | bahrain | bangladesh | barbados | belarus | belgium | belize | benin | bhutan | bolivia
bosnia | bosnia and herzegovina | botswana | brazil | brunei | bulgaria | burkina faso | burundi | cambodia
cameroon | canada | cape verde | central african republic | chad | chile | china | colombia | comoros | congo
costa rica | croatia | cuba | cyprus | czechia | czech republic | denmark | djibouti | dominica
dominican republic | ecuador | egypt | el salvador | equatorial guinea | eritrea | estonia | eswatini | ethiopia
fiji | finland | france | gabon | gambia | georgia | germany | ghana | greece | grenada | guatemala | guinea
guinea-bissau | guyana | haiti | honduras | hungary | iceland | india | indonesia | iran | iraq | ireland | israel
italy | ivory coast | jamaica | japan | jordan | kazakhstan | kenya | kiribati | kosovo | kuwait | kyrgyzstan
laos | latvia | lebanon | lesotho | liberia | libya | liechtenstein | lithuania | luxembourg | madagascar | malawi
malaysia | maldives | mali | malta | mauritania | mauritius | mexico | micronesia | moldova | monaco | mongolia
montenegro | morocco | mozambique | myanmar | burma | namibia | nauru | nepal | netherlands | holland | new zealand
nicaragua | niger | nigeria | north korea | north macedonia | macedonia | norway | oman | pakistan | palau
palestine | panama | papua new guinea | paraguay | peru | philippines | poland | portugal | qatar | romania
russia | rwanda | samoa | san marino | saudi arabia | senegal | serbia | seychelles | sierra leone | singapore
slovakia | slovenia | somalia | south africa | south korea | korea | south sudan | spain | sri lanka | sudan
suriname | sweden | switzerland | syria | taiwan | tajikistan | tanzania | thailand | togo | tonga
trinidad and tobago | tunisia | turkey | türkiye | turkmenistan | tuvalu | uganda | ukraine | united arab emirates
uae | united kingdom | uk | great britain | britain | usa | us | united states | united states of america | america
states | uruguay | uzbekistan | vanuatu | vatican | venezuela | vietnam | yemen | zambia | zimbabwe | deutschland
österreich | schweiz | españa | méxico | italia | brasil"""
_REGIONS = """england | scotland | wales | northern ireland | bavaria | saxony | hesse | catalonia | andalusia
galicia | basque country | tuscany | sicily | sardinia | lombardy | provence | brittany | normandy | flanders
wallonia | lapland | crete | corsica | mallorca | madeira | azores | algarve | siberia | kashmir | punjab | kerala
quebec | ontario | british columbia | alberta | manitoba | saskatchewan | nova scotia | new brunswick
newfoundland | queensland | victoria | new south wales | tasmania | alabama | alaska | arizona | arkansas
california | colorado | connecticut | delaware | florida | hawaii | idaho | illinois | indiana | iowa | kansas
kentucky | louisiana | maine | maryland | massachusetts | michigan | minnesota | mississippi | missouri | montana
nebraska | nevada | new hampshire | new jersey | new mexico | new york state | north carolina | north dakota | ohio
oklahoma | oregon | pennsylvania | rhode island | south carolina | south dakota | tennessee | texas | utah
vermont | virginia | washington state | west virginia | wisconsin | wyoming | bay area | silicon valley | midwest
new england | east coast | west coast | pacific northwest | cornwall | yorkshire | kent | sussex | essex | surrey
devon | norfolk | suffolk | cumbria | lancashire | hokkaido | okinawa | bali | java"""
_LEVELS = {
    name.strip(): level
    for level, names in ((REGION, _REGIONS), (COUNTRY, _COUNTRIES), (CONTINENT, _CONTINENTS))
    for name in names.replace("\n", "|").split("|")
    if name.strip()
}
_SIDES = (
    "northern ",
    "southern ",
    "eastern ",
    "western ",
    "central ",
    "north ",
    "south ",
    "east ",
    "west ",
    "upstate ",
)


def level_of(name: str) -> int:
    """TOWN, REGION, COUNTRY or CONTINENT; what no list names counts as a town, part of a country as a region."""
    known = normalise_name(name).removeprefix("the ")
    if known in _LEVELS:
        return _LEVELS[known]
    side = next((side for side in _SIDES if known.startswith(side)), "")
    return REGION if side and known.removeprefix(side) in _LEVELS else TOWN
