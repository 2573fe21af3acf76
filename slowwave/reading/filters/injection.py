"""Texts that give orders to their reader: kept, extracted only by force, never shown as instruction (S2-22)."""

from __future__ import annotations

from collections.abc import Mapping

import polars as pl

from slowwave.common import frames

_RUN = (
    r"\b(?:run|execut(?:e|ing)|paste|open|invoke|start|download|must|should|ejecuta|corre|abre|führe|starte|öffne|"
    r"exécutez?|lancez?|ouvrez?|esegui|lancia|apri|rode|abra|voer|open|continue)\b"
)
_SHELL = r"(?:sudo )?(?:ba|z|da|k)?sh\b"
_FETCH = r"\b(?:curl|wget|iwr|invoke-webrequest)\b"
_PIPED = (
    rf"{_FETCH}[^\n]{{0,200}}?(?:\| ?(?:{_SHELL}|iex\b|invoke-expression)|pipe (?:it|that|this|the "
    rf"output) (?:in)?to {_SHELL})"
)
_HARMFUL = (
    r"(?:\brm -(?:rf|fr)\b|\bchmod (?:777 -r|-r 777)|\bnc -e\b|\beval \"?\$\((?:curl|wget)|"
    rf"\b{_SHELL} -c \"?\$\((?:curl|wget)|\b{_SHELL} <\((?:curl|wget))"
)
_TOOL_NAME = r"[`\"']?[a-z]+(?:_[a-z]+)+[`\"']?"
_CALL = r"(?:call|invoke|trigger|use)"
_ALWAYS = r"(?:always|must|immediately|never answer without|whenever [^.!?]{1,60},|each time [^.!?]{1,60},)"
_ADDRESS = r"(?:https?://|[a-z0-9_.+-]+@[a-z0-9-]+\.)"
_DROP = r"(?:ignore|disregard|override|bypass|discard|(?:do not|don't|stop) follow(?:ing)?)"
_OVERRIDE = rf"(?:forget|{_DROP})"
_ORDERS = r"(?:instructions?|prompts?|directives?|guidelines|rules|commands?|system message)"
_EARLIER = r"(?:previous|prior|above|earlier|preceding|system|original|initial|developer|former|foregoing)"
_ALL = r"(?:(?:any|all|every|the|these|those|your|of|and) ){0,4}"
_BEING = (
    r"(?:ai\b|a\.i\.|chat ?bot\b|bot\b|language model\b|llm\b|assistant(?:[.,;:!]|$| (?:that|who|which|called|"
    r"named|without)\b))"
)
_UNBOUND = r"(?:unrestricted|unfiltered|uncensored|jail ?broken|unlimited|amoral|evil|unethical|rogue|root)"
_GOODS = (
    r"(?:api keys?|passwords?|credentials|secrets?|(?:access |auth )?tokens?|private keys?|environment variables|"
    r"env vars|conversation(?: history)?|chat (?:history|log)|(?:your )?memor(?:y|ies)|system prompt|\.env|ssh keys?)"
)
_TARGET = r"(?:https?://|[a-z0-9_.+-]+@[a-z0-9-]+\.|(?:[a-z0-9-]+\.)+(?:com|net|org|io|dev|ru|cn|xyz|site|app)\b)"

# Patterns by reason, in lower case with single spaces. They match orders to the reader of the text; the owner who
# speaks of their own words ("ignore my previous instructions", "ignore the previous e-mail") is no attack.
_PATTERNS: Mapping[str, tuple[str, ...]] = {
    "It tells the reader to drop earlier instructions.": (
        rf"\b{_OVERRIDE} (?:about )?{_ALL}{_EARLIER} (?:[\w-]+ ){{0,2}}{_ORDERS}\b",
        rf"\b{_DROP} (?:(?:any|all|of) ){{0,3}}your (?:[\w-]+ ){{0,2}}(?:{_ORDERS}|programming|training)\b",
        r"\bforget (?:about )?(?:(?:any|all|of) ){0,3}your (?:[\w-]+ ){0,2}(?:instructions|prompts?|directives|"
        r"programming)\b",
        rf"\b{_OVERRIDE} {_ALL}{_ORDERS} (?:above|before this|you (?:were|have been|got|received))\b",
        rf"\b{_OVERRIDE} (?:everything|anything|all) (?:above this|you (?:were|have been|'ve been) (?:told|taught|"
        rf"given|instructed))\b",
        r"(?:^|[.!?:#*\]\n] ?)(?:new|updated|override) (?:system )?instructions? ?:",
        r"\b(?:ignora|olvida|descarta|omite|ignore|olvide)r? (?:(?:todas|todos|por completo) ){0,2}"
        r"(?:(?:las|los|tus|sus) )?(?:[\w-]+ )?(?:instrucciones|reglas|indicaciones|órdenes|ordenes|directrices) "
        r"(?:anteriores|previas|precedentes|de arriba|originales|del sistema)\b",
        r"\b(?:ignora|olvida|descarta) (?:todas )?tus (?:instrucciones|reglas|indicaciones|órdenes|directrices)\b",
        r"\b(?:ignoriere?|vergiss|vergesse|missachte|verwirf) (?:(?:bitte|alle|sämtliche|die|deine|ihre|aller) ){0,4}"
        r"(?:vorherigen|bisherigen|obigen|früheren|vorigen|vorangegangenen|ursprünglichen) "
        r"(?:anweisungen|instruktionen|regeln|befehle|vorgaben|prompts?)\b",
        r"\b(?:ignoriere?|vergiss|missachte) (?:alle )?deine (?:anweisungen|instruktionen|regeln|vorgaben)\b",
        r"\b(?:ignorez?|oubliez?|négligez?|ne (?:tiens|tenez) (?:pas|plus) compte) (?:(?:toutes|des|de|"
        r"les|tes|vos) ){1,3}"
        r"(?:instructions|consignes|règles|directives) (?:précédentes|antérieures|ci-dessus|initiales|du système)",
        r"\b(?:ignorez?|oubliez?) (?:toutes )?(?:tes|vos) (?:instructions|consignes|directives)\b",
        r"\b(?:ignora|dimentica|tralascia)(?:te)? (?:(?:tutte|le|tue) ){1,3}(?:istruzioni|regole|direttive) "
        r"(?:precedenti|di sopra|iniziali|del sistema)\b",
        r"\b(?:ignora|dimentica) le tue (?:istruzioni|regole|direttive)\b",
        r"\b(?:ignor[ae]|esqueça|esquece|desconsidere) (?:(?:todas|as|suas|tuas) ){1,3}(?:instruções|"
        r"regras|diretrizes) "
        r"(?:anteriores|acima|iniciais|do sistema)\b",
        r"\b(?:ignore|esqueça|desconsidere) (?:as )?suas (?:instruções|regras|diretrizes)\b",
        r"\b(?:negeer|vergeet) (?:(?:alle|de) ){0,2}(?:eerdere|vorige|bovenstaande) (?:instructies|"
        r"regels|opdrachten)\b",
        r"\b(?:negeer|vergeet) (?:al )?(?:je|jouw|uw) (?:instructies|regels)\b",
        r"\bno sigas las (?:instrucciones|reglas) (?:anteriores|previas)\b",
        r"\bbefolge? die (?:obigen|vorherigen|bisherigen) (?:anweisungen|regeln) nicht\b",
    ),
    "It asks for the system prompt.": (
        r"\b(?:reveal|print|repeat|output|leak|display|disclose|expose|dump|show|tell|give|send)(?: (?:me|us|back|"
        r"out|verbatim))* "
        r"your (?:[\w-]+ ){0,2}(?:system (?:prompt|message)|(?:initial|hidden|secret|original|system) "
        r"(?:instructions|prompt))\b",
        r"\b(?:reveal|print|repeat|output|leak|disclose|dump)(?: (?:me|us|back|out))* the "
        r"(?:(?:full|entire|exact|complete|whole) )?(?:system|hidden|initial) (?:prompt|instructions)\b",
        r"\bwhat(?:'s| is| are|'re) your (?:[\w-]+ )?(?:system prompt|(?:hidden|secret|initial) instructions)\b",
        r"\b(?:muestra|muéstrame|dime|revela|imprime|repite)(?:me)? (?:tu|el) (?:prompt|mensaje) (?:de|del) sistema\b",
        r"\b(?:zeig|zeige|verrate|nenne|wiederhole|gib)(?: mir| uns)? deinen? system-?(?:prompt|nachricht|"
        r"anweisungen?)\b",
        r"\b(?:révèle|affiche|montre|répète|donne|révéle)z?(?:[- ]moi)? (?:ton|votre|le|tes|vos) (?:prompt système|"
        r"message système|instructions initiales)",
        r"\b(?:mostra|rivela|ripeti|stampa)(?:mi)? il (?:tuo )?prompt di sistema\b",
        r"\b(?:mostr[ae]|revele|repita|imprima)(?:-me)? (?:o )?(?:seu |teu )?prompt d[eo] sistema\b",
        r"\b(?:toon|onthul|herhaal) (?:je|jouw|uw) systeemprompt\b",
        r"\b(?:revela|imprime|muestra) (?:tu|el) (?:prompt|mensaje) (?:de|del) sistema\b",
        r"\bgib den (?:vollständigen |ganzen )?systemprompt aus\b",
        r"\bwiederhole deine systemanweisungen\b",
    ),
    "It gives the reader another role.": (
        rf"\byou are (?:now|no longer) (?:going to (?:be|act as) )?(?:in )?(?:an? |the )?(?:[\w-]+ "
        rf"){{0,2}}(?:{_UNBOUND}|dan\b|developer mode|dev mode|god mode)",
        rf"\byou are (?:now|no longer) (?:an? |the |my )?(?:[\w-]+ ){{0,2}}{_BEING}",
        rf"\b(?:act|behave|respond|answer|roleplay) (?:as|like) (?:if you (?:were|are) )?(?:an? |the )?(?:[\w-]+ "
        rf")?(?:{_UNBOUND} |dan\b|(?:[\w-]+ )?{_BEING} (?:without|with no) )",
        r"\bpretend (?:that )?(?:to be|you(?:'re| are)|you have|to have) (?:[\w-]+ ){0,4}(?:no |without |not bound "
        r"by |free (?:of|from) )(?:any )?(?:[\w-]+ )?(?:restrictions|rules|filters?|guidelines|limits)",
        r"\b(?:enable|enter|activate|switch to) (?:dan|jailbreak|unrestricted|god) mode\b",
        r"\b(?:ahora eres|a partir de ahora (?:eres|serás)) (?:una? )?(?:[\w-]+ ){0,2}(?:ia|asistente|modelo|bot|"
        r"chatbot)\b",
        r"\bdu bist (?:jetzt|nun|ab (?:jetzt|sofort)) (?:eine? )?(?:[\w-]+ ){0,2}(?:ki|assistent|assistentin|"
        r"modell|bot|chatbot|sprachmodell)\b",
        r"\b(?:tu es|vous êtes) (?:maintenant|désormais) une? (?:[\w-]+ ){0,2}(?:ia|assistant|modèle|bot)\b",
        r"\b(?:ora|(?:da )?adesso) sei un(?:'|a |o )? ?(?:[\w-]+ ){0,2}(?:ia|assistente|modello|bot)\b",
        r"\b(?:agora você é|a partir de agora você é|você agora é) uma? (?:[\w-]+ ){0,2}(?:ia|"
        r"assistente|modelo|bot)\b",
        r"\bje bent (?:nu|vanaf nu) een (?:[\w-]+ ){0,2}(?:ai|assistent|model|bot)\b",
    ),
    "It orders data to be sent away.": (
        rf"\b(?:send|post|upload|forward|exfiltrate|e-?mail|transmit|leak|submit|append) "
        rf"[^.!?]*?{_GOODS}\b[^.!?]*? (?:to|at|via|into) [^ ]*?{_TARGET}",
        rf"\b(?:envía|envia|manda|sube|reenvía) [^.!?]*?(?:contraseñas?|claves?|credenciales|tokens?|"
        rf"secretos?|historial)\b[^.!?]*? a {_TARGET}",
        rf"\b(?:sende|schicke?|lade|leite) [^.!?]*?(?:passwörter|passwort|schlüssel|zugangsdaten|tokens?|"
        rf"geheimnisse|verlauf)\b[^.!?]*? (?:an|nach|auf|zu) {_TARGET}",
        r"\b(?:do not|don't|never) (?:tell|inform|alert|notify) the (?:user|human) (?:about|of|that you|what|this|"
        r"you)\b",
        r"\bwithout (?:telling|informing|notifying|alerting|asking) the (?:user|human)(?:[.,;!]|$| (?:about|first|"
        r"that you))",
        rf"!\[[^\]]*\]\(https?://[^)]*(?:\{{\{{|\$\{{|<)?{_GOODS}(?:\}}\}}|\}}|>)",
        rf"\b(?:envoie|envoyez|transmets|transmettez) [^.!?]{{0,80}}?(?:mots de passe|clés|identifiants|"
        rf"jetons|historique)\b"
        rf"[^.!?]{{0,40}}? à {_ADDRESS}",
        rf"\b(?:invia|manda) [^.!?]{{0,80}}?(?:password|chiavi|credenziali|cronologia)\b[^.!?]{{0,40}}? "
        rf"a {_ADDRESS}",
        rf"\b(?:envie|mande) [^.!?]{{0,80}}?(?:senhas|chaves|credenciais|histórico)\b[^.!?]{{0,40}}? "
        rf"para {_ADDRESS}",
        rf"\b(?:stuur|verzend) [^.!?]{{0,80}}?(?:wachtwoorden|sleutels|geschiedenis)\b[^.!?]{{0,40}}? "
        rf"naar {_ADDRESS}",
        r"\bno le digas al usuario\b",
        r"\bsag(?:e)? dem (?:be)?nutzer nichts\b",
        r"\bne dis pas à l'utilisateur\b",
    ),
    "It carries hidden markup of a model's prompt.": (
        r"<\s*/?\s*(?:system|sys|system[_-](?:prompt|message|override))\s*>",
        r"<\|\s*(?:im_start|im_end|system|assistant|user|endoftext|eot_id|start_header_id|end_header_id)\s*\|>",
        r"\[/?inst\]|<</?sys>>",
        r"(?:^|[.!?\n] ?)#{2,} ?(?:system|instruction|new instructions?) ?:",
        r"<!--[^>]*\b(?:assistant|ai agent|language model|llm)\b[^>]*\b(?:must|should|ignore|always|"
        r"never|instruct)",
    ),
    "It tells the reader to run a command.": (
        rf"{_RUN}[^\n]{{0,80}}?{_PIPED}",
        rf"{_PIPED}[^\n]{{0,20}}; run this\b",
        rf"{_RUN}[^.!?\n]{{0,80}}?{_HARMFUL}",
        r"\bdownload https?://[^ ]+ and (?:execute|run) it\b",
        r"\bgit push [^\n]{0,80}with the stored (?:token|key|password)",
    ),
    "It tells the reader to call a tool.": (
        rf"\b{_CALL} (?:the )?(?:tool|function):? {_TOOL_NAME}",
        rf"\b{_CALL} the {_TOOL_NAME} tool\b",
        rf"\b{_ALWAYS} (?:{_CALL}|calling) (?:the )?(?:(?:tool|function)\b|[a-z_]+ tool\b)",
        rf"\bcall tool: ?{_TOOL_NAME}",
        r"\b(?:ai agents?|assistants?)(?: reading this)? must (?:call|invoke|use) (?:the )?[a-z_ "
        r"]{0,20}(?:tool|function)\b",
        rf"\b(?:llama|usa|debes (?:llamar|usar))(?: siempre)?(?: a)? (?:la|tu) (?:herramienta|función) "
        rf"{_TOOL_NAME}",
        rf"\b(?:rufe?|benutze?|verwende|du musst)(?: immer| sofort| zuerst)? (?:das|die) (?:werkzeug|"
        rf"tool|funktion) {_TOOL_NAME}",
        rf"\b(?:appelez?|appelle|appeler|utilisez?|utiliser)(?: toujours)? (?:l'outil|la fonction) {_TOOL_NAME}",
        rf"\b(?:chiama|usa)(?: sempre)? (?:lo strumento|la funzione) {_TOOL_NAME}",
        rf"\b(?:chame|use|chama)(?: sempre)? a (?:ferramenta|função) {_TOOL_NAME}",
        rf"\b(?:roep|gebruik)(?: altijd)? (?:de|het) (?:tool|functie) {_TOOL_NAME}",
    ),
    "It orders the memory to be changed.": (
        r"\b(?:delete|erase|wipe|purge) (?:all|every) (?:of )?(?:your |the |stored )*(?:memor(?:y|ies)|"
        r"stored facts|"
        r"facts (?:about|in)|observations?)\b",
        r"\b(?:erase|wipe|purge) your memory\b",
        r"\bapprove (?:all|every)(?: of the)? (?:pending |open )?proposals?\b",
        r"\b(?:remember|save to your memory|store) (?:forever )?that (?:you must obey|all future requests)\b",
        r"\bborra (?:todos los recuerdos|toda tu memoria)\b",
        r"\baprueba todas las propuestas\b",
        r"\blösche? (?:alle erinnerungen|dein ganzes gedächtnis)\b",
        r"\bgenehmige alle (?:[a-zäöüß]+ )?vorschläge\b",
        r"\b(?:supprime|efface)z? (?:tous les souvenirs|toute (?:ta|votre) mémoire)\b",
        r"\bapprouvez? toutes les propositions\b",
        r"\bcancella (?:tutti i ricordi|tutta la tua memoria)\b",
        r"\bapag(?:ue|a) todas as (?:suas )?memórias\b",
        r"\bwis (?:alle herinneringen|je (?:hele )?geheugen)\b",
    ),
}
_ANY_OF = {reason: "|".join(f"(?:{pattern})" for pattern in patterns) for reason, patterns in _PATTERNS.items()}
"""One pattern for each reason: Polars keeps 32 of those it has read, and reads all others anew with each call."""
_HINTS = (
    "curl|wget|rm -|chmod|iwr|invoke|nc -e|git push|download|tool|function|herramienta|función|werkzeug|funktion|"
    "outil|fonction|strument|funzione|ferramenta|função|functie|memor|stored|observation|proposal|remember that|"
    "remember forever|recuerdos|propuestas|erinnerungen|gedächtnis|vorschläge|souvenirs|mémoire|propositions|"
    "ricordi|memória|herinneringen|geheugen|oubli|néglig|compte|dimentica|tralascia|esqueça|esquece|desconsider|"
    "negeer|vergeet|no sigas|befolg|systèm|sistema|tu es |vous êtes| sei |você|je bent|envo|transmet|invia|envie|"
    "mande|stuur|verzend|usuario|nutzer|utilisateur|ignor|disregard|forget|override|bypass|discard|follow|"
    "instruct|olvid|descart|omit|vergiss|vergesse|missachte|verwirf|system|prompt|you are|act |behave|respond|"
    "answer|roleplay|pretend| mode|eres|serás|du bist|send|post|upload|forward|exfiltrate|mail|transmit|leak|"
    "submit|append|env|manda|sube|reenv|schick|lade|leite|the user|the human|![|<|[inst|[/inst|##"
).split("|")
"""Each pattern needs one of these, so that most texts skip the patterns."""
_INVISIBLE = "[\u00ad\u061c\u200b-\u200f\u202a-\u202e\u2060-\u206f\ufe00-\ufe0f\ufeff\U000e0000-\U000e007f]"
# Letters of other scripts that look like Latin ones: they may hide an order.
_LOOK_ALIKES = dict(
    zip(
        "аеорсхуіјѕԁһԛԝᴦոսνοαρτικυεωАВЕКМНОРСТХУІЈЅΑΒΕΖΗΙΚΜΝΟΡΤΥΧ",
        "aeopcxyijsdhqwrnuvoaptikuewABEKMHOPCTXYIJSABEZHIKMNOPTYX",
        strict=True,
    )
)
_TAG_CHARACTERS = "[\U000e0020-\U000e007e]{4,}"  # invisible letters: text that only a model can read
_KEPT = (
    r"\b(?:do not|don't|dont|never|not|won't|can't|cannot|didn't|no) (?:forget|ignore|disregard|bypass|"
    r"override|discard|olvides|ignores)\b"
)
_HIDDEN = "It carries text in invisible characters."
_SPACED = r"[\s--[ ]]\s*| \s+"  # single spaces stay: most texts need no change


# "don't forget your instructions" asks for the opposite
_SINGLE_SPACED = pl.col("text").str.to_lowercase().str.replace_all(_SPACED, " ").str.replace_all(_KEPT, "keep")


def _plain(texts: pl.Series) -> pl.Series:
    """Lower case, compatibility letters folded, straight apostrophes, no invisible marks, single spaces."""
    folded = texts.cast(pl.String).clone()
    foreign = [place for place, text in enumerate(folded) if text and not text.isascii()]
    if foreign:
        letters = folded.gather(foreign).str.normalize("NFKC").str.replace_all("[\u2018\u2019]", "'")
        letters = letters.str.replace_all(_INVISIBLE, "").str.replace_many(_LOOK_ALIKES)
        folded = folded.scatter(foreign, letters)
    return folded.rename("text").to_frame().select(_SINGLE_SPACED)["text"]


def injection_reasons(texts: pl.Series) -> pl.Series:
    """One reason per text that gives its reader orders, null for other texts."""
    plain = _plain(texts)
    if not frames.contain_any(plain, _HINTS).any() and all(text is None or text.isascii() for text in texts):
        return frames.nothing("reason", pl.String(), len(texts))
    frame = pl.DataFrame({"raw": texts.cast(pl.String), "plain": plain}).with_row_index("row")
    hidden = pl.when(pl.col("raw").str.contains(_TAG_CHARACTERS)).then(pl.lit(_HIDDEN))
    suspects = frame.filter(pl.col("plain").str.contains_any(_HINTS))
    if suspects.is_empty():
        return frame.select(reason=hidden)["reason"]
    by_reason = [pl.when(pl.col("plain").str.contains(any_)).then(pl.lit(reason)) for reason, any_ in _ANY_OF.items()]
    found = suspects.select("row", reason=pl.coalesce(by_reason))
    whole = frame.join(found, on="row", how="left", maintain_order="left")
    return whole.select(reason=pl.coalesce("reason", hidden))["reason"]


def injection_flags(texts: pl.Series) -> pl.Series:
    """Whether each text gives its reader orders; False for null."""
    return injection_reasons(texts).is_not_null()


def injection_reason(text: str) -> str | None:
    """Why the text is refused as an order to its reader, or None."""
    whole = text.encode("utf-8", "replace").decode("utf-8")
    reason: str | None = injection_reasons(pl.Series([whole], dtype=pl.String))[0]
    return reason
