"""Phrases of small talk, procedure and findings, and example texts of value and noise.

English first, with the commonest phrases in Spanish and German. All lower case, straight apostrophes.
"""

from __future__ import annotations


def _listed(table: str) -> tuple[str, ...]:
    return tuple(" ".join(phrase.split()) for phrase in table.split("|"))


# Replies without content of their own (S4-11). Replies that can answer a question are separate.
ASSENTS = _listed(
    """ok | okay | k | yes | yes please | yep | yeah | yup | sure | sure thing | go ahead | please | please do |
    absolutely | continue | proceed | sounds good | looks good | lgtm | do it | go for it | perfect | great | good |
    fine | right | exactly | sí | si | vale | claro | adelante | perfecto | de acuerdo | ja | ja bitte | gut | genau |
    klar | alles klar | mach weiter"""
)
THANKS = _listed(
    """thanks | thanks a lot | thanks so much | many thanks | thank you | thank you so much | thank you very much |
    thx | ty | cheers | got it | gotcha thanks | understood | noted | cool | nice | awesome | amazing | wow | lol |
    haha |
    hahaha | no problem | no worries | you're welcome | you are welcome | np | hmm | oh | ah | i see | gracias |
    muchas gracias | entendido | de nada | danke | danke schön | vielen dank | verstanden | super | toll | bitte |
    bitte schön"""
)

# Phrases for the announcement or report of a step (S4-11); matched at the start of an assistant's message.
PROCEDURAL_OPENERS = (
    r"^(?:i'll |i will |i've |i have |i looked at|i(?:'ve| have)? ?(?:made|updated|changed|added|removed|fixed|"
    r"created|modified|"
    r"implemented|wrote|ran)\b|i (?:made|updated|changed|added|removed|fixed|created|modified|implemented|wrote|"
    r"ran)\b|"
    r"let me (?:look|check|read|see)\b|sure! |sure, (?:i|let)|of course|done! |done\.|done$|absolutely|"
    r"voy a |he (?:hecho|actualizado|cambiado|añadido)|por supuesto|claro, |ich werde |ich habe |natürlich|gerne)"
)

# Words that announce a finding (S4-12).
FINDINGS = _listed(
    """root cause | turns out | turned out | found it | found the | the real issue | the real problem | the actual issue
    | the problem was | the issue was | the problem is | the issue is | the cause is | the cause was | fails because |
    happens because | i recommend | i suggest | i propose | the culprit | gotcha | surprisingly | unexpectedly | it
    was caused by | was because | the fix is | the fix was | figured out | workaround | lesson learned | key insight |
    discovered that | we decided | i decided | resultó que | la causa | se debía a | stellte sich heraus | die ursache
    | lag daran"""
)

# Texts worth keeping: work first, then the lives of people (S4-16).
QUALITY_PROTOTYPES = _listed(
    """We decided to use one option instead of another because of its cost, speed and reliability; the alternatives were
    rejected for these reasons. | The service is built from these components: the interface calls the worker, which
    writes to the database, and the module is implemented like this. | The root cause of the bug was a wrong
    assumption in the code; the fix was to change that function and add a test for it. | Configuration of the
    deployment: the server listens on this port, the environment variable is set to this value, and the timeout was
    raised. | Our convention in this code base is to name things this way, to follow this pattern for errors, and to
    keep tests beside the module. | This error message appears when the package is missing; the workaround is to pin
    the older version until it is repaired upstream. | I prefer this kind of food, music and work; my favourite is
    this one, and I cannot stand that one. | I moved to another city, started a new job, got married, had a child,
    finished my studies, lost my father. | My sister, my husband, my best friend and my colleague: who they are, where
    they live and what they do. | I plan to travel there next month, signed up for a course, and want to finish the
    project by the end of the year. | Last weekend we went to a concert, hiked in the mountains, visited my parents
    and cooked dinner together. | I changed my mind: I no longer use that one, I switched to this one since last week
    because it works better for me. | decision and its rationale, trade-offs, rejected alternatives | bug, root cause,
    fix, regression test | code convention, naming pattern, repository structure | favourite food, music, books,
    taste, dislikes, allergies | husband, wife, sister, brother, daughter, friend, colleague, neighbour, dog | weekend
    in the mountains, concert, museum, camping, painting, dance class, dinner with parents"""
)
# Three of each kind, so that the three nearest can all be of the kind that a text is like.
NOISE_PROTOTYPES = _listed(
    """Hello! Hi there, good morning, how are you? | Thanks, thank you so much, I appreciate it! | Okay, great, sounds
    good, got it, perfect. | Let me know if you have any other questions or need anything else. | Is there anything
    else I can help you with today? | Feel free to ask me anything, I'm always here to help! | Sure, I'd be happy to
    help you with that. | I'll take a look and get started on it right away. | Let me check this for you, one moment
    please."""
)
