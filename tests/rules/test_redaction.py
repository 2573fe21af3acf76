"""Secrets leave a text before anything else sees it (S4-20, T39)."""

from __future__ import annotations

import time

import polars as pl
import pytest

from slowwave.reading.filters.redaction import has_secret, redact, redact_all, redact_lines

# Secrets are put together here so that no scanner takes this file for a leak.
AWS_KEY = "AKIA" + "IOSFODNN7EXAMPLE"
AWS_SECRET = "wJalrXUtnFEMI/K7MDENG/bPxRfiCY" + "EXAMPLEKEY"
GITHUB = "ghp_" + "a1B2" * 9
GITHUB_PAT = "github_pat_" + "a1B2" * 8
SLACK = "xoxb-" + "123456789012-abcdefABCDEF"
STRIPE = "sk_live_" + "4eC39HqLyjWDarjtT1zdp7dc"
JWT = "eyJ" + "hbGciOiJIUzI1NiJ9.eyJ" + "zdWIiOiIxMjM0In0.dozjgNryP4J3jVmNHl0w5N"
PRIVATE_KEY = "-----BEGIN RSA " + "PRIVATE KEY-----\nMIIEpAIBAAKCAQEA75\nabcd/+==\n-----END RSA " + "PRIVATE KEY-----"
SSH = "ssh-ed25519 AAAA" + "C3NzaC1lZDI1NTE5AAAAIGx7 anna@box"

SECRETS = [
    ("aws_key", f"the key is {AWS_KEY} for now", AWS_KEY),
    ("aws_secret", f"aws_secret_access_key = {AWS_SECRET}", AWS_SECRET),
    ("api_key", "my api key is 0123456789abcdef0123456789", "0123456789abcdef"),
    ("bearer", "curl -H 'Authorization: Bearer abcdef0123456789ABCDEF'", "abcdef0123456789"),
    ("github_token", f"push with {GITHUB}", GITHUB),
    ("github_pat", f"push with {GITHUB_PAT}", GITHUB_PAT),
    ("slack_token", f"bot: {SLACK}", SLACK),
    ("stripe_key", f"charge with {STRIPE}!", STRIPE),
    ("private_key", f"here:\n{PRIVATE_KEY}\nthanks", "MIIEpAIBAAKCAQEA75"),
    ("connection_string", "postgres://app:s3cr3t@db.example.com:5432/main", "s3cr3t"),
    ("password", 'connect(password="correct horse battery")', "horse"),
    ("password", "my password is hunter2, don't tell", "hunter2"),
    ("password", "the password for the wedding page is hunter2-Izmir", "hunter2-Izmir"),
    ("password", "The wifi password in Leeds is correct-horse-77.", "correct-horse-77"),
    ("jwt", f"cookie {JWT}", JWT),
    ("ssh_key", f"authorized: {SSH}", "C3NzaC1lZDI1NTE5"),
    ("email", "write to anna.weber+news@mail.example.org", "anna.weber"),
    ("keyword", "notes\nSECRET_TOKEN: swordfish\nmore", "swordfish"),
    ("keyword", "export DB_PASSWD_FILE: swordfish", "swordfish"),
]
ORDINARY = [
    "The password is too weak, and the token bucket refills every second.",
    "A secret is safe with her. Pin it to the wall, the key to the door is under the mat.",
    "Tokens: I counted about five hundred tokens per chunk.",
    "We met @ the station at 5:30 and ran https://example.com/a:b/c past the team.",
    "Anna's api works; the access key question is still open.",
    "the password for the wedding page is not the one of the door",
    "The password is up-to-date and **required**!",
    '{"max_tokens": "500", "key": "C major"}',
    "order 4111 1111 1111 1112 and ticket 1234567812345670",
    "https://example.com/a?page=2&sort=name",
    "Authorization: required documents are listed below",
]
HOSTILE = [
    "a" * 50_000,
    "a." * 25_000 + "@",
    "=:" * 25_000,
    "[redacted:" * 5_000,
    "\"'`" * 16_000,
    "-----END PRIVATE KEY-----" * 20_000,
    "-----BEGIN PRIVATE KEY-----" * 20_000,
]


@pytest.mark.parametrize(("kind", "text", "secret"), SECRETS)
def test_each_kind_of_secret_is_taken_out_and_named(kind: str, text: str, secret: str) -> None:
    result = redact(text)
    assert secret not in result.text
    assert kind in result.kinds
    assert f"[redacted:{kind}]" in result.text


@pytest.mark.parametrize("text", ORDINARY)
def test_ordinary_talk_of_secrets_stays_as_it_is(text: str) -> None:
    assert redact(text) == (text, ())
    assert not has_secret(text)


def test_what_surrounds_a_secret_stays_readable() -> None:
    assert (
        redact("postgres://app:s3cr3t@db/main is down").text
        == "postgres://app:[redacted:connection_string]@db/main is down"
    )
    assert redact("DB_PASSWORD=abc\nDB_HOST=here").text == "DB_PASSWORD=[redacted:password]\nDB_HOST=here"


def test_a_column_is_redacted_like_its_texts_one_by_one() -> None:
    texts = [text for _, text, _ in SECRETS] + ORDINARY
    column, kinds = redact_all(pl.Series("content", [*texts, None]))
    assert column.to_list()[:-1] == [redact(text).text for text in texts]
    assert [tuple(each) for each in kinds.to_list()[:-1]] == [redact(text).kinds for text in texts]
    assert column[-1] is None
    assert column.name == "content"


@pytest.mark.parametrize("text", HOSTILE, ids=lambda text: repr(text[:12]))
def test_hostile_texts_cost_no_more_than_their_length(text: str) -> None:
    begun = time.process_time()
    redact(text)
    assert time.process_time() - begun < 2.0  # back-tracking would take minutes


def test_text_that_is_no_valid_unicode_does_no_harm() -> None:
    assert redact("a\ud800b password=hunter2\x00").kinds == ("password",)


XAPP = "xapp-1-" + "A01B2C3-4567890-abcdef"
DISCORD = "MTA5" + "a1B2c3" * 4 + ".Gabcde." + "x1Y2z3" * 6
MORE_SECRETS = [
    ('{"user":"ana","password":"correcthorse"}', "correcthorse"),
    (r'"{\"password\":\"correcthorse\",\"user\":\"ana\"}"', "correcthorse"),
    ("see https://example.com/a?token=abc123def456ghi", "abc123def456ghi"),
    ("Authorization: Token 9944b09199c62bcf", "9944b09199c62bcf"),
    ("AccountKey=abcd1234abcd1234==;", "abcd1234"),
    ("export FOO_TOKEN=abc123 && run", "abc123"),
    ("{'token': 'abc123'}", "abc123"),
    ('password="pa\\"ss word" is set', "ss word"),
    ("the db password is correct-horse-battery", "horse"),
    (f"slack app: {XAPP}", XAPP),
    (f"the bot logs in with {DISCORD}", DISCORD),
    ("pay with 4111 1111 1111 1111, please", "1111"),
    ("pay with 378282246310005", "378282246310005"),
]


@pytest.mark.parametrize(("text", "secret"), MORE_SECRETS)
def test_a_secret_is_taken_out_wherever_people_write_it(text: str, secret: str) -> None:
    assert secret not in redact(text).text
    assert has_secret(text)
    assert not has_secret(redact(text).text)


BODY = "a1B2c3" * 6
OF_SERVICES = (
    "gsk_ xai- pplx- tvly- lsv2_pt_ lsv2_sk_ r8_ dop_v1_ doo_v1_ dckr_pat_ dckr_oat_ shpat_ shpss_ shpca_ shppa_ ntn_ "
    "lin_api_ figd_ sntrys_ sntryu_ hvs. hvb. pypi- sbp_ pnu_ pnb_ glsa_ glc_ pscale_tkn_ pscale_pw_ pscale_oauth_ "
    "GOCSPX- NRAK- HRKU- ATATT3 ATCTT3 dapi nvapi- sq0atp- sq0csp- ya29. sk- AIza glpat- hf_ npm_ "
    "gho_ ghu_ ghs_ ghr_ xoxa- xoxe- xoxo- xoxp- xoxr- xoxs- sk_test_ rk_live_ pk_test_ whsec_"
).split()
PASSWORDS = ("password", "passwd", "pwd", "passphrase", "passcode", "passwort", "contraseña")
FORMS = [
    *((f"use {prefix}{BODY} for it", BODY) for prefix in OF_SERVICES),
    *((f"use {kind}{AWS_KEY[4:]} for it", AWS_KEY[4:]) for kind in "ASIA AGPA AIDA AROA ANPA ANVA AIPA".split()),
    (f"use SG.{BODY}.{BODY} for it", BODY),
    (f"use AGE-SECRET-KEY-1{BODY.upper() * 2} for it", BODY.upper()),
    (f"post to https://hooks.slack.com/services/T01/B01/{BODY}", BODY),
    *((f"add {kind} AAAA{BODY}", BODY) for kind in ("ssh-rsa", "ecdsa-sha2-nistp256", "sk-ssh-ed25519@openssh.com")),
    (f"send bearer {BODY}", BODY),
    (f"the bot is 123456789:AA{BODY[:33]}", BODY[:33]),
    (f"the bot is M{BODY[:23]}.{BODY[:6]}.{BODY[:27]}", BODY[:23]),
    *((f"{words} {BODY}", BODY) for words in ("the token is", "the secret is", "its access-key:", "the auth key =>")),
    *((f"the pin {words} 4711, remember", "4711") for words in ("is", "code is", "number:")),
    *((f"{words} hunter2", "hunter2") for words in ("passwort ist", "passcode was", "contraseña es")),
    *((f"the {word} is {value}", value) for word in PASSWORDS for value in ("X7abc9Qz", "correct-horse-battery")),
    *((f"log in with {word}=swordfish now", "swordfish") for word in ("passwd", "pwd", "passphrase", "passcode")),
    *((f"run FOO_{word}=swordfish now", "swordfish")
      for word in ("PASS", "PWD", "PASSCODE", "SECRET", "API_KEY", "ACCESSKEY", "PRIVATE_KEY", "CREDENTIALS")),
    *((f"notes\n{word}: swordfish\nmore", "swordfish")
      for word in ("db_pwd", "contraseña", "client_secret", "refresh_token", "apikey", "credentials")),
    *((f'{{"{word}": "swordfish"}}', "swordfish")
      for word in ("pwd", "client_secret", "api_key", "credentials", "passcode")),
]  # fmt: skip


@pytest.mark.parametrize(("text", "secret"), FORMS)
def test_each_form_of_a_secret_is_recognised_once(text: str, secret: str) -> None:
    once = redact(text).text
    assert secret not in once
    assert redact(once) == (once, ())


KEY_LINES = ["A1b2C3d4" * 8] * 30
BEGIN, END = "-----BEGIN RSA " + "PRIVATE KEY-----", "-----END RSA " + "PRIVATE KEY-----"


@pytest.mark.parametrize("line_end", ["\n", "\r\n", "\\n", "\\r\\n", "\n> "])
def test_the_half_of_a_key_is_taken_out_like_a_whole_one(line_end: str) -> None:
    key = line_end.join([BEGIN, *KEY_LINES, "Ab12==", END])
    for part in (key, key[: len(key) // 2], key[len(key) // 2 :]):
        assert redact(f"before it.\n{part}\nAfter it.").text == "before it.\n[redacted:private_key]\nAfter it."


@pytest.mark.parametrize("lost", [(0, 0), (1, 0), (0, 2)])
def test_a_key_in_the_lines_of_a_document_becomes_one_mark(lost: tuple[int, int]) -> None:
    key = [BEGIN, *KEY_LINES, "Ab12==", END]
    lines = [*["Nine boats.\n"] * 1990, *(f"{line}\n" for line in key[lost[0] : len(key) - lost[1]]), "After it.\n"]
    clean = "".join(redact_lines(lines))
    assert clean == "Nine boats.\n" * 1990 + "[redacted:private_key]\nAfter it.\n"


def test_a_key_that_never_ends_does_not_take_the_rest_of_a_document() -> None:
    lines = [f"{BEGIN}\n", *(f"Line {number} of the story.\n" for number in range(3000))]
    clean = "".join(redact_lines(lines))
    assert clean == "[redacted:private_key]\n" + "".join(lines[1:])


@pytest.mark.parametrize(
    "before",
    ["the pwd is ", "pwd=", "DB_PWD=", "Das Kennwort lautet ", "Kennwort: ", "Le mot de passe est ", "mot de passe : "],
)
def test_passwords_of_other_languages_and_of_pwd_are_redacted(before: str) -> None:
    assert redact(f"{before}X7abc9Qz").text.startswith(f"{before}[redacted:")


@pytest.mark.parametrize("value", ["swordfish", "/Kf83/jd9+aX2/==", "C:/a?b$1"])
def test_a_password_in_a_field_pwd_is_redacted(value: str) -> None:
    for quote in "\"'":
        assert (
            redact(f"{{{quote}pwd{quote}: {quote}{value}{quote}}}").text == f"{{{quote}pwd{quote}: [redacted:keyword]}}"
        )
    assert redact(f'{{"db_pwd": "{value}", "password": "/home/{value}"}}').text.count("[redacted:keyword]") == 2


@pytest.mark.parametrize("name", ["password", ":password", "passwd", "pwd", "db_pwd"])
@pytest.mark.parametrize("value", ["hunter2x", "'hunter2x'", '"hunter2x"'])
@pytest.mark.parametrize("sign", [" => ", "=>", " := ", "=", " = >"])
def test_the_whole_value_is_redacted_after_every_sign_that_sets_one(name: str, value: str, sign: str) -> None:
    once = redact(f"a {name}{sign}{value}, b").text
    assert once == f"a {name}{sign}[redacted:password], b"
    assert redact(once).text == once
