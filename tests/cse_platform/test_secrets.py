import os
from pathlib import Path
from urllib.parse import quote

import click
import pytest
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st
from sqlalchemy import make_url

from cse_methods.errors import CseError
from cse_platform.cli.common import StoreOptions, UserPath, shows_errors, store_options
from cse_platform.databases import expand_url, sqlite_file, sqlite_url
from cse_platform.errors import SweepFileError
from cse_platform.leaderboard import open_leaderboard
from cse_platform.runner.failures import one_line
from cse_platform.secrets import mask_text, mask_url, mask_values
from cse_platform.stores.mlflow.tags import later_tags
from cse_platform.stores.sql.store import open_store
from cse_platform.sweep.file import load_sweep, read_draft
from cse_platform.sweep.problems import format_value
from cse_platform.sweep.stores import sweep_stores
from cse_platform.tracking.events import TrialFinished

PASSWORDS = st.text(st.characters(exclude_categories=["C", "Z"]), min_size=1)


@settings(max_examples=40)
@given(password=PASSWORDS.filter(lambda text: "=" not in text))
def test_any_password_is_hidden_quoted_or_not(password) -> None:
    for written in (password, quote(password), quote(password, safe="")):
        for before in ("postgresql+psycopg://user", "https://", "--store=sqlite://lab"):
            url = f"{before}:{written}@lab:5432/cse"
            assert mask_url(url) == f"{before}:***@lab:5432/cse"


@settings(max_examples=40)
@given(password=PASSWORDS, parameter=st.sampled_from(["password", "PWD", "sslpassword", "token"]))
def test_any_password_among_the_parameters_is_hidden(password, parameter) -> None:
    url = f"postgresql://lab/cse?{parameter}={quote(password, safe='')}&sslmode=require"
    assert mask_url(url) == f"postgresql://lab/cse?{parameter}=***&sslmode=require"


@settings(max_examples=40)
@given(text=st.text())
def test_hiding_never_fails_and_what_is_hidden_stays_so(text) -> None:
    assert mask_url(mask_url(text)) == mask_url(text)


NO_SECRETS = (
    "sqlite:///runs/cse.db",
    "http://lab:5000/",
    "postgresql://user@lab/cse",
    "rankcse@c0ffee",
    "+  learning_rate: 3.0e-5",
    '"pad_token": "[PAD]", "cls_token": "[CLS]"',
    "tokens = tokenizer(text)",
    "KeyError: 'temperature'",
    "+    def log_in(user: str, password: str, token: bytes | None) -> None:",
    "max_tokens=5 and tokenizer=fast",
    "hf://datasets/lab/data@main/dev.tsv at 10:30",
    "def get(authorization: str, cookie: str = 'x') -> bytes: ...",
    "authorization = build(user)",
    "the basic tokenizer and the basic encoders of the first pass: 3 of 5",
    "the basic BertTokenizer, ResNet and hf_transformers_tokenizer_fast in sk-learn-contrib-x",
    "first_token: true, image_token: <image>, max_token=64, loss_per_token: 0.5, two_pass=false",
    "line 6, fixed.token: method 'simcse' has no setting 'token'; see --by-token --trials 3",
    "no cookie is sent, and Authorization is what it lacks; bypass=1, compass: north",
)


def test_only_passwords_are_hidden_in_malformed_urls_too() -> None:
    assert [text for text in NO_SECRETS if mask_text(text) != text] == []
    assert [url for url in NO_SECRETS[:4] if mask_url(url) != url] == []
    assert {url: mask_url(url) for url in MALFORMED} == MALFORMED
    text = "http://lab:5000 and s3://key:pa@ss@bucket/x answer: mail ann@lab"
    assert mask_text(text) == "http://lab:5000 and s3://key:***@bucket/x answer: mail ann@lab"


MALFORMED = {
    "postgresql:/user:secret@lab/cse": "postgresql:***@lab/cse",
    "user:secret@lab": "user:***@lab",
    "postgresql://user:sec?ret&pwd=x@lab": "postgresql://user:***",
    "postgresql://user:se@cr@lab": "postgresql://user:***@lab",
    "postgresql://u:a@lab/x?password=b@c": "postgresql://u:***@lab/x?password=***",
    "stores: {a: p://u:secret@h, b: p://u:secret@h}": "stores: {a: p://u:***@h}",
}


SECRET = "hunter2hunter2hunter2"


SECRETS = [
    f"git@ https://{SECRET}@github.com/lab/code.git",
    f"https://lab:{SECRET}@github.com/lab/code.git",
    f"https://git.lab/code?api_key={SECRET}",
    f"https://bucket/x?X-Amz-Signature={SECRET}&y=1",
    f"+  password: {SECRET}",
    f'-    "hf_token": "{SECRET}",',
    f'{{"a": 1, "client_secret": "{SECRET}"}}',
    f"AWS_SECRET_ACCESS_KEY={SECRET} cse-sweep a.yaml",
    f"cse-sweep a.yaml --mlflow-token {SECRET}",
    f"cse-sweep a.yaml --api-key={SECRET}",
    f"Authorization: Bearer {SECRET}",
    f'client = Client(token = "{SECRET}")',
    f'os.environ["HF_TOKEN"] = "{SECRET}"',
    f"+leaderboard: postgresql://lab:{SECRET}@db/board",
    f"ConnectionError: client_secret: {SECRET}",
    f"stores: {{search: x, password: {SECRET}}}",
    f"the answer names hf_{SECRET} and ghp_{SECRET}",
    f"see--token {SECRET}",
    f"--token see--token {SECRET}",
    f"password: --api-key {SECRET}",
    f"Authorization: Basic {SECRET}",
    f"authorization: {SECRET}, as everywhere",
    f"{{'Authorization': 'Basic {SECRET}', 'Accept': '*/*'}}",
    f'headers["Authorization"] = "Basic {SECRET}"',
    f'"headers": "{{\\"Authorization\\": \\"Basic {SECRET}\\"}}"',
    f"send: b'GET / HTTP/1.1\\r\\nAuthorization: Basic {SECRET}\\r\\n'",
    f"(b'Proxy-Authorization', b'Negotiate {SECRET}')",
    f'Proxy-Authorization: Digest username="lab", nonce={SECRET}, response="{SECRET}"',
    f"Authorization: Token {SECRET}; try again",
    f'Authorization: AWS4-HMAC-SHA256 Credential=x/y, SignedHeaders=a;b, Signature="{SECRET}"',
    f"Cookie: theme=dark; session={SECRET}; last={SECRET}",
    f'Set-Cookie: session="{SECRET}"; Path=/; HttpOnly',
    f"{{'Cookie': 'session={SECRET}'}} and <Cookie session={SECRET} for lab/>",
    f"X-Auth-Token: {SECRET}",
    "the server refuses Basic aHVudGVyMmh1bnRlcjJodW50ZXIy".replace("aHVu", f"aHVu{SECRET}"),
    f"export DB_PASS={SECRET} LAB_AUTH='{SECRET}'",
    f"cse-sweep a.yaml --basic-auth {SECRET} --session-cookie={SECRET}",
    f"reading http:/lab:{SECRET}@host/a.yaml",
    f"https://{SECRET}:x-oauth-basic@github.com/lab/code and https://{SECRET}:@github.com/a",
    f'password: "two words {SECRET}", and {{"token" : "a\\"{SECRET}"}}',
    f"password: 'it''s {SECRET}'",
    f"password: |\n  {SECRET}\n+token: !!str {SECRET}\n password: &a {SECRET}",
    f"password: !{SECRET} x",
    f"[mlflow]\nmlflow_tracking_password = {SECRET}",
    f"[line  2]: 'mlflow_tracking_password = {SECRET}\\n'",
    f"Command '['git', '--token', '{SECRET}']' failed",
    f"def log_in(token: str | None = '{SECRET}', password=b'{SECRET}'): ...",
    f'{{\\"token\\": \\"{SECRET}\\"}}, token:"{SECRET}"',
    f"AccountName=x;AccountKey={SECRET}; encryption_key: {SECRET}, passwords: [{SECRET}]",
    f"password2={SECRET} clientSecretKey={SECRET} jwt: {SECRET}",
    f"github_pat_{SECRET}, xoxb-{SECRET}, npm_{SECRET}, eyJhbGci.eyJzdWI.{SECRET}",
    f"-----BEGIN RSA PRIVATE KEY-----\n{SECRET}\n-----END RSA PRIVATE KEY-----",
    f"https://hooks.slack.com/services/T0/B0/{SECRET}",
    f"1s3://key:{SECRET}@bucket/x",
    f"1://s3://key:{SECRET}@bucket/x",
]


def test_every_kind_of_secret_is_hidden() -> None:
    masked = {text: mask_text(text) for text in SECRETS}
    assert [text for text in SECRETS if SECRET in masked[text] or "***" not in masked[text]] == []
    assert [text for text in SECRETS if mask_text(masked[text]) != masked[text]] == []


NEAR = st.lists(
    st.sampled_from(["-", "--", "a", "1", ".", "/", "é", "token", "s3", " ", "\n", "?"])
)


@settings(max_examples=40)
@given(text=st.sampled_from(SECRETS), before=NEAR, after=NEAR)
def test_a_secret_is_hidden_whatever_stands_near_it(text, before, after) -> None:
    assert SECRET not in mask_text(f"{''.join(before)} {text} {''.join(after)}")


@pytest.mark.timeout(300)  # it takes milliseconds a run; where the cost is quadratic, hours
def test_long_runs_are_masked_in_one_pass() -> None:
    long = ("-", "a", ".", "--token", "token: ", "s3:", "://", "?", " ", "=", "Authorization: ")
    long += ('token: "', "token: '\\", "token: !", "token = ", "token: str | ", "xoxb-", "eyJ-")
    for run in (*long, "cookie", "Cookie: a=", "; a=", 'a="', "Authorization: a=b, c=", "Basic "):
        assert "hunter2" not in mask_text(run * 50_000 + f"\npassword: {SECRET}")


NAMES_OF_SECRETS = (
    *("DB_PASS", "db_password", "PGPASSWORD", "MYSQL_PWD", "SSHPASS", "SMTP_PASS_2", "PASSPHRASE"),
    *("WANDB_API_KEY", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "STORAGE_KEY", "AN_APIKEY"),
    *("GITHUB_TOKEN", "TOKEN_OF_LAB", "LAB_OAUTH", "MY_AUTH", "AUTH_HEADER", "SESSION_COOKIE"),
    *("DB_PASSWORD2", "DBPASS", "SECRETKEY", "API_KEYS", "PRIVATE_KEY_PEM", "LAB_CREDS"),
    *("SENTRY_DSN", "AZURE_STORAGE_CONNECTION_STRING", "SLACK_WEBHOOK_URL", "lab.token"),
    *("AZURE_CREDENTIAL", "LAB_CREDENTIALS", "SECRET", "CLIENT_SECRETS"),
)
NAMES_OF_OTHERS = (
    *("LAB", "PASSENGER_APP", "BYPASS", "TOKENIZERS", "MAX_TOKENS", "AUTHOR", "KEYBOARD", "MONKEY"),
    *("RAY_AUTH_MODE", "SECRET_NAME", "TOKEN_FILE", "COOKIE_DIR", "OLDPWD", "MY_COMPASS"),
    *("PAD_TOKEN", "TOKEN_LIMIT", "COOKIE_DOMAIN", "HF_TOKEN_DISABLED"),
)


def test_values_of_variables_whose_names_say_secret_are_hidden_wherever_they_stand(
    monkeypatch, tmp_path
) -> None:
    value = "qX7/+ \"k'9€"
    forms = (value, quote(value), quote(value, safe=""), repr(value)[1:-1])
    for names, is_secret in ((NAMES_OF_SECRETS, True), (NAMES_OF_OTHERS, False)):
        wrong = []
        for name in names:
            with monkeypatch.context() as environment:
                environment.setenv(name, value)
                hidden = [form not in mask_text(f"401 for u{form}.") for form in forms]
                hidden.append(value not in mask_url(value))
            wrong += [name] if hidden != [is_secret] * 5 else []
        assert wrong == []
    assert mask_text(f"401 for {value}") == f"401 for {value}"


def test_a_value_that_is_no_secret_or_a_part_of_one_leaves_the_text_readable(
    monkeypatch, tmp_path
) -> None:
    key = tmp_path / "key.json"
    key.write_text("{}")
    text = f"yes, true, 1 of ann, disabled: {key} is one file"
    for number, plain in enumerate(("", " ", "1", "true", "yes", "ann", "disabled", str(key))):
        monkeypatch.setenv(f"KIND_{number}_AUTH", plain)
    assert mask_text(text) == text
    monkeypatch.setenv("LONG_TOKEN", long := "x" * 5000)  # longer than a file's name may be
    assert mask_text(f"401 for {long}") == "401 for ***"
    monkeypatch.setenv("A_TOKEN", "abcdef")
    monkeypatch.setenv("B_TOKEN", "12abcdef34")
    monkeypatch.setenv("C_TOKEN", "-----BEGIN-----\n0123456789\n-----END-----")
    shown = "a *** of ***, and *** of {'key': '***\\n***\\n***'}"
    given = "a abcdef of 12abcdef34, and 0123456789 of " + repr({"key": os.environ["C_TOKEN"]})
    assert mask_text(given) == shown


def test_values_errors_tags_and_commands_are_masked() -> None:
    value = {"a": ["p://u:secret@h", 1, None], "b": {"c": "http://h?token=secret"}}
    assert mask_values(value) == {"a": ["p://u:***@h", 1, None], "b": {"c": "http://h?token=***"}}
    assert "secret" not in format_value(value)
    assert "cret" not in format_value({"search": 'p://u:se"cret@h'})
    from ray.exceptions import RayTaskError

    error = CseError("no s3://key:secret@bucket/m")
    for raised in (error, RayTaskError("f", "trace", error)):
        assert one_line(raised) == "no s3://key:***@bucket/m"
    end = {"sweep": "s", "trial": "t", "state": "COMPLETE", "best_step": 1, "best_value": 0.5}
    kept = TrialFinished.model_validate({**end, "model": "s3://key:secret@bucket/models/t"})
    assert later_tags(kept)["model"] == "s3://key:***@bucket/models/t"

    @click.command
    @shows_errors
    def fail() -> None:
        raise CseError("p://u:secret@h/d does not answer")

    result = CliRunner().invoke(fail)
    assert (result.exit_code, result.stderr) == (1, "Error: p://u:***@h/d does not answer\n")


SWEEP = "{sweep: a, method: simcse, backbone: mini, corpus: builtin, search: {trials: 1}"
AWKWARD = "my%20runs a?b x=1%2e5#{c}@d"


@given(st.text(st.characters(exclude_categories=("Cs",), exclude_characters="\0"), min_size=1))
def test_a_url_names_the_file_that_it_was_made_of(name: str) -> None:
    file = Path("/runs", name.lstrip("/") or "a")
    url = sqlite_url(file)
    assert sqlite_file(url) == file
    assert make_url(url).database == str(file)
    assert make_url(url).query == {}


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    home = tmp_path / AWKWARD
    home.mkdir()
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("SCRATCH", str(home / "s"))
    monkeypatch.setenv("CSE_STORE", "sqlite:///~/lab.db")
    return home


def test_what_a_person_writes_is_expanded(home: Path) -> None:
    for written, meant in (
        ("~/runs", str(home / "runs")),
        ("${SCRATCH}/runs", str(home / "s" / "runs")),
        ("sqlite:///~/lab.db", sqlite_url(home / "lab.db")),
        ("sqlite:///${SCRATCH}/lab.db?timeout=9", f"{sqlite_url(home / 's' / 'lab.db')}?timeout=9"),
        ("postgresql+psycopg://u@host/db", "postgresql+psycopg://u@host/db"),
        ("sqlite:///runs/a%20b.db", "sqlite:///runs/a b.db"),
        *(
            (same, same)
            for same in ("sqlite://", "sqlite:///:memory:", "s3://bucket/a", "a~b", "$")
        ),
    ):
        assert expand_url(written) == meant


def test_a_sweep_file_and_the_environment_are_expanded(home: Path, tmp_path, monkeypatch) -> None:
    file = tmp_path / "a.yaml"
    file.write_text(
        SWEEP + ", storage: ~/kept, stores: {search: 'sqlite:///${SCRATCH}/search.db'}}"
    )
    (spec,) = load_sweep(file).stages
    monkeypatch.setenv("CSE_STORE", "sqlite:///~/lab.db")
    monkeypatch.setenv("CSE_MLFLOW_URI", "sqlite:///~/ml.db")
    stores = sweep_stores(spec, runs=tmp_path)
    assert stores.storage == str(home / "kept")
    urls = (stores.leaderboard, stores.search, stores.mlflow)
    assert urls == tuple(sqlite_url(home / name) for name in ("lab.db", "s/search.db", "ml.db"))
    assert home / "lab.db" in stores.on_this_machine
    file.write_text(SWEEP.replace("backbone: mini", "backbone: ~/enc, data: '${SCRATCH}'") + "}")
    spec = read_draft(file).stages[0].spec  # without a look at these folders
    assert (spec.backbone, spec.data) == (str(home / "enc"), str(home / "s"))
    file.write_text(SWEEP + ", storage: '${LACKING}/kept'}")
    with pytest.raises(SweepFileError, match=r"line 1, storage: .*LACKING.* no variable"):
        load_sweep(file)


def test_options_and_their_variables_are_expanded_to_the_store_in_that_folder(home: Path) -> None:
    @click.command()
    @store_options
    @click.argument("file", type=UserPath())
    def show(stores: StoreOptions, file: Path) -> None:
        click.echo(f"{stores.url} {file}")

    def shown(*words: str) -> str:
        return CliRunner().invoke(show, words).output.strip()

    assert shown("-") == f"{sqlite_url(home / 'lab.db')} -"
    assert shown("--runs=~/runs", "~/x") == f"{sqlite_url(home / 'lab.db')} {home}/x"  # as a sweep
    (home / "runs").mkdir()
    (home / "runs/leaderboard.db").touch()
    assert shown("--runs=~/runs", "~/x") == f"{sqlite_url(home / 'runs/leaderboard.db')} {home}/x"
    assert shown("--store=sqlite:///${SCRATCH}/b.db", "a") == f"{sqlite_url(home / 's/b.db')} a"
    assert "LACKING" in shown("--runs", "${LACKING}", "a")
    open_store(sqlite_url(home / "leaderboard.db")).close()
    assert [file.name for file in home.parent.iterdir()] == [home.name]
    for named in (home, "~", "sqlite:///~/leaderboard.db"):
        with open_leaderboard(named) as board:
            assert board.rows() == []
