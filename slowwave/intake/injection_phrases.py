"""Orders to run a command, to call a tool or to change the memory; and orders in French, Italian, Portuguese, Dutch.

What `injection` recognises beside its own phrases, in lower case with single spaces, by the reason that it gives.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

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

PHRASES: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
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
        "It tells the reader to drop earlier instructions.": (
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
            r"\b(?:tu es|vous êtes) (?:maintenant|désormais) une? (?:[\w-]+ ){0,2}(?:ia|assistant|modèle|bot)\b",
            r"\b(?:ora|(?:da )?adesso) sei un(?:'|a |o )? ?(?:[\w-]+ ){0,2}(?:ia|assistente|modello|bot)\b",
            r"\b(?:agora você é|a partir de agora você é|você agora é) uma? (?:[\w-]+ ){0,2}(?:ia|"
            r"assistente|modelo|bot)\b",
            r"\bje bent (?:nu|vanaf nu) een (?:[\w-]+ ){0,2}(?:ai|assistent|model|bot)\b",
        ),
        "It orders data to be sent away.": (
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
    }
)
HINTS = (
    "curl", "wget", "rm -", "chmod", "iwr", "invoke", "nc -e", "git push", "download", "tool", "function",
    "herramienta",
    "función", "werkzeug", "funktion", "outil", "fonction", "strument", "funzione", "ferramenta",
    "função", "functie",
    "memor", "stored", "observation", "proposal", "remember that", "remember forever", "recuerdos", "propuestas",
    "erinnerungen", "gedächtnis", "vorschläge", "souvenirs", "mémoire", "propositions", "ricordi", "memória",
    "herinneringen", "geheugen", "oubli", "néglig", "compte", "dimentica", "tralascia", "esqueça", "esquece",
    "desconsider", "negeer", "vergeet", "no sigas", "befolg", "systèm", "sistema", "tu es ", "vous êtes", " sei ",
    "você", "je bent", "envo", "transmet", "invia", "envie", "mande", "stuur", "verzend", "usuario", "nutzer",
    "utilisateur",
)  # fmt: skip
"""Each phrase needs one of these, so that most texts are never looked at closely."""
