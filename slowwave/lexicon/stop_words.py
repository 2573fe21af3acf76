"""Words of four letters or more that name no topic, in English and Spanish (S0-09)."""

from __future__ import annotations

from slowwave.text import word_set

from .statement_words import FUNCTION_WORDS

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
