"""Make texts safe to be written: messages, logs, tags, the journal.

Passwords and tokens are masked, and characters that files or databases refuse are escaped.
"""

import os
import re
from functools import lru_cache
from typing import Any
from urllib.parse import quote

from cse_platform.values import map_leaves

_NAME = (
    r"(?:(?:api|access|account|private|encryption|signing|subscription)[_-]?key(?:[_-]id)?"
    r"|(?:secret(?:[_-]?(?:access[_-]?)?key)?|passwords?|passwd)(?:_?\d)?"
    r"|passphrase|pwd|credentials?|jwt|signature|sig|(?<=[_?&-])(?:pass|auth|cookie)"
    r"|(?<!cls_)(?<!sep_)(?<!pad_)(?<!mask_)(?<!unk_)(?<!bos_)(?<!eos_)token)"
)
"""The ends of names of secrets; a tokenizer's tokens are excluded."""
_TYPE = r"(?:str|bytes|int|float|bool|None|object|Any|Optional|SecretStr)\b"
"""Type names that can follow the name of an argument in code."""
_PLAIN = r"""(?:true|false|null|none|\d{1,3}|\d*\.\d+|\[[A-Z]+\]|<[\w/|]+>)(?![^\s,"'}\]])"""
"""Values that are no secret: switches, numbers, and a tokenizer's tokens."""
_SECRET_PARAMETER = re.compile(rf"(?i)([?&][\w-]*{_NAME}=)[^&#\s]*")
_USER_ALONE = re.compile(r"(?i)^(.*?https?://)[^/@\s:]+(?::(?:x-oauth-basic)?)?@", re.DOTALL)
"""A user without a password in a web URL is a token."""
_QUOTE = r"""\\*["']"""
_ASSIGNED = re.compile(
    rf"""(?imx)
    ( (?<![\w.-])(?<!line[ ]\d,[ ])(?<!line[ ]\d\d,[ ])(?<!line[ ]\d\d\d,[ ])  # of a sweep file
      [\w.-]*{_NAME}(?:{_QUOTE})?[ \t]*:(?:[ \t]+|(?=["']\w))(?!{_TYPE}|{_PLAIN})  # YAML, JSON
      (?:[|>][+-]?[ \t]*\n[ \t+-]*|b?{_QUOTE})?
    | ["'][\w.-]*{_NAME}{_QUOTE}(?::|\][ \t]*=)[ \t]*{_QUOTE}  # JSON, code
    | (?<![\w.?&-])[\w.-]*{_NAME}=(?!{_PLAIN})(?:[bfr]?{_QUOTE})?  # a variable, an option with =
    | (?<![\w.?&-])[\w.-]*{_NAME}(?::[ \t]*{_TYPE}[^\n"'=]{{0,40}})?[ \t]=[ \t]
      (?:[bfr]?["']|(?=(?=[a-z_]*\d)[^\s"'()]{{6,}}(?:\\n["'])?(?!\S)))  # code, an INI file
    | (?<![\w-])(?=[\w-]*?--)[\w-]*{_NAME}[ \t]+(?!--|{_PLAIN})["']?  # an option with a space
    | ["']--[\w-]*{_NAME}["'],[ \t]*["']               # the same among the words of a command
    | \bbearer[ \t]+
    | \bbasic[ \t]+(?-i:(?=[\w+/]{{16}}|[\w+/]{{12}}(?![\w+/])|[\w+/]{{6,11}}=)
      (?=\w[a-z+/]*[A-Z\d]|[a-z]+=)) )                 # base64, not a word
    (?!(?=[\w-]*?--)[\w-]*{_NAME}[ \t])  # the value is no option that has a secret of its own
    (?:(?:!!|&)\w+[ \t]+)?  # a tag or an anchor of YAML
    (?: (?<!\\["'])(?=\S)(?:(?<=")(?:[^"\\\n]|\\.)+(?=")|(?<=')(?:[^'\\\n]|\\.|'')+(?='))
      | [^\s"',}}&]+ )"""
)
_QUOTED = rf"{_QUOTE}[^\"'\n]*[\"']"
_HEADER = re.compile(
    rf"""(?ix)
    ( authorization (?:{_QUOTE}\]?[ \t]*[:=,] | [ \t]*: | = | [ \t]+=(?=[ \t]*b?{_QUOTE}))
      [ \t]* (?:b?{_QUOTE})? (?!{_TYPE}) )
    (?:[a-z][\w-]*[ \t]+)?  # whatever the scheme
    (?: (?:[^\s=,"']+=(?:{_QUOTED}|[^\s,"']*) (?:,[ \t]*(?=[\w-]+=))?)+ | [^\s"',}}&]+ )
    |
    ( cookie (?:{_QUOTE})? \]? [ \t]* [:=,]? [ \t]* (?:b?{_QUOTE})? (?!{_TYPE}) )
    [^\s;=,"']{{1,99}}=(?:{_QUOTED}|[^\s;"']*)
    (?:;[ \t]*[^\s;=,"']+(?:=(?:{_QUOTED}|[^\s;"']*))?)*"""
)
"""Headers of HTTP, also as they are written in JSON and in code; their names end in these words."""
_KNOWN_SHAPES = re.compile(
    r"\b(?:(?:hf|gh[pousr]|npm|[rs]k_live)_[A-Za-z\d]{16,}|github_pat_\w{16,}|AIza[\w-]{35}"
    r"|(?:glpat|pypi|xox[abeoprs])-[\w-]{16,}|A[KS]IA[A-Z\d]{16})"
    r"|(?<![\w-])(?:sk-(?=[a-z-]*[A-Z\d])[\w-]{16,}|eyJ[\w-]+\.eyJ[\w.-]+)|(?<=hooks\.slack\.com/services/)[\w/]+"
    r"|-----BEGIN [A-Z ]*PRIVATE KEY-----(?s:.*?)(?:-----END|\Z)"
)
_TO_PASSWORD = re.compile(r"((?:.*?://)?[^:]*)(:?)", re.DOTALL)
_URL = re.compile(r"(?<![\w+.-])(?=[\w+.-]*?[A-Za-z])[\w+.-]*:(?://|/(?=[^\s/:@]+:[^\s/]*@))\S+")
"""As in all patterns here, each run of characters is scanned only once, from its start, because the
driver masks texts of workers, which can be long."""
_UNWRITABLE = re.compile("[\0\ud800-\udfff]")
"""PostgreSQL refuses NUL. A surrogate stands for a byte that is not UTF-8; UTF-8 has none."""

_SECRET_VARIABLE = re.compile(
    r"""(?ix)(?!(?:old)?pwd$)(?:.*[_.-])?
    (?: (?: [a-z\d]*(?:passwords?|passwd|pwd|secrets?|(?<!pad_)(?<!cls_)(?<!sep_)(?<!mask_)token
                     |(?:api|secret|access|account|private)_?keys?)
          | pass(?:phrase|code) | (?:ssh|db|pg|my(?:sql)?|smtp)?pass | o?auth | authorization
          | cred(?:ential)?s? | cookies? | jwt | pat | dsn | connection_string | webhook(?:_url)?)
        \d*
        (?:_(?!(?:.*_)?(?:mode|type|method|file|path|dir|sock|ur[il]|host|port|user|name|domain
                        |limit|count|length|version|enabled?|disabled?)$).*)?
      | key(?:_id|_?\d+)? )"""
)
_SWITCHES = frozenset(("enabled", "disabled", "required", "optional", "default"))
_SHORTEST = 6
"""Length of the shortest value of a variable that is masked; a shorter one could be any word."""

_hidden: set[str] = set()


def hide(secret: str) -> None:
    """Also mask this text in everything that this process writes from now on."""
    if secret.strip():
        _hidden.add(secret)


def escape_text(text: str) -> str:
    """Escape each NUL and each surrogate of a text, as `\\x00` and `\\udc80`."""
    return _UNWRITABLE.sub(lambda character: ascii(character[0])[1:-1], text)


def escape_values(value: Any) -> Any:
    """Copy a JSON value with every text and key escaped by `escape_text`."""
    if isinstance(value, str):
        return escape_text(value)
    if isinstance(value, dict):
        return {escape_text(name): escape_values(inner) for name, inner in value.items()}
    if isinstance(value, list):
        return [escape_values(inner) for inner in value]
    return value


def mask_url(url: str) -> str:
    """Replace each password in a URL, or in an argument that contains one, by `***`.

    A malformed URL is masked too much rather than too little: everything from the first colon after
    the scheme to the last `@` counts as password.
    """
    return _mask_password(_mask_hidden(escape_text(url)))


def _mask_password(url: str) -> str:
    masked = _SECRET_PARAMETER.sub(r"\1***", url)
    if "@" not in url:
        return masked
    # A password that contains "?" can look like a query, which then includes the "@".
    credentials, at, host = masked.rpartition("@") if "@" in masked else (masked, "", "")
    user = _TO_PASSWORD.match(credentials)
    if user is None or not user[2] or credentials[user.end() :] in ("", "x-oauth-basic"):
        return _USER_ALONE.sub(r"\1***@", masked)
    return f"{user[1]}:***{at}{host}"


def mask_text(text: str) -> str:
    """Replace passwords in URLs and values of secret names by `***`.

    These are values of a line, variable, option or literal whose name ends in `password`, `token`,
    `api_key` and the like; the credentials of HTTP's headers; texts in the format of a well-known
    service's tokens; and, wherever they stand, the values of this process's environment variables
    that `_list_forms` takes for secrets.
    """
    masked = _URL.sub(lambda url: _mask_password(url[0]), _mask_hidden(escape_text(text)))
    masked = _HEADER.sub(lambda header: f"{header[1] or header[2]}***", masked)
    return _KNOWN_SHAPES.sub("***", _ASSIGNED.sub(r"\1***", masked))


def _mask_hidden(text: str) -> str:
    """Mask the texts given to `hide` and the secrets of the environment, the longest first."""
    known = set(_hidden)
    for name in os.environ:
        if _is_secret_variable(name) and (value := os.environ.get(name)):
            known.update(_list_forms(value))
    for secret in sorted(known, key=len, reverse=True):
        text = text.replace(secret, "***")
    return text


@lru_cache(maxsize=4096)
def _is_secret_variable(name: str) -> bool:
    """Whether a word of a variable's name, between underscores, says that its value is secret.

    `DB_PASS`, `PGPASSWORD` and `TOKEN_OF_LAB` do; `PATH`, `BYPASS` and `AUTH_MODE` do not.
    """
    return _SECRET_VARIABLE.fullmatch(name) is not None


@lru_cache(maxsize=1024)
def _list_forms(value: str) -> frozenset[str]:
    """List the forms in which each line of a variable's secret value can be written.

    A value that could be an ordinary word or number is no secret: one of fewer than six characters,
    a word that turns something on or off, or the path of an existing file, such as a socket's.
    """
    if value.lower() in _SWITCHES or os.access(value, os.F_OK):
        return frozenset()
    lines = [line for each in value.splitlines() if len(line := each.strip()) >= _SHORTEST]
    quoted = (quote(os.fsencode(line), safe=safe) for line in lines for safe in ("/", ""))
    return frozenset((*lines, *quoted, *(repr(line)[1:-1] for line in lines)))


def mask_values(value: Any) -> Any:
    """Copy a JSON value with every text masked as a URL; keys are not changed."""
    return map_leaves(value, lambda leaf: mask_url(leaf) if isinstance(leaf, str) else leaf)
