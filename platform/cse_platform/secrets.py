"""Makes all text fit to be written: messages, logs, tags, the journal.

It masks passwords and tokens, and writes out characters that files or databases refuse.
"""

import re
from typing import Any

_NAME = (
    r"(?:api[_-]?key|access[_-]?key(?:[_-]id)?|secret(?:[_-](?:access[_-])?key)?|private[_-]key"
    r"|password|passwd|passphrase|pwd|credentials?|signature|sig"
    r"|(?<!cls_)(?<!sep_)(?<!pad_)(?<!mask_)(?<!unk_)(?<!bos_)(?<!eos_)token)"
)
"""How the names of secrets end; a tokenizer's tokens are none."""
_TYPE = r"(?:str|bytes|int|float|bool|None|object|Any|Optional|SecretStr)\b"
"""What follows the name of an argument in code."""
_SECRET_PARAMETER = re.compile(rf"(?i)([?&][\w-]*{_NAME}=)[^&#\s]*")
_USER_ALONE = re.compile(r"(?i)^(.*?https?://)[^/@\s:]+@", re.DOTALL)
"""On the web, a user without a password is a token."""
_ASSIGNED = re.compile(
    rf"""(?imx)
    ( (?<![\w.-])[\w.-]*{_NAME}["']?:[ \t]+(?!{_TYPE})["']?   # YAML, JSON, a sentence
    | ["'][\w.-]*{_NAME}["']:[ \t]*["']                # in the middle of JSON
    | (?<![\w.?&-])[\w.-]*{_NAME}=["']?                # a variable, an option with =
    | (?<![\w.?&-])[\w.-]*{_NAME}[ \t]=[ \t]["']       # a literal in code
    | (?<![\w-])(?=[\w-]*?--)[\w-]*{_NAME}[ \t]+       # an option with a space
    | \bbearer[ \t]+ )
    (?!(?=[\w-]*?--)[\w-]*{_NAME}[ \t])  # the value is no option that has a secret of its own
    [^\s"',}}&]+"""
)
_KNOWN_SHAPES = re.compile(
    r"\b(?:hf_\w{16,}|gh[pousr]_\w{16,}|glpat-[\w-]{16,}|sk-[\w-]{16,}|AKIA[0-9A-Z]{16})"
)
_TO_PASSWORD = re.compile(r"((?:.*?://)?[^:]*)(:?)", re.DOTALL)
_URL = re.compile(r"(?<![\w+.-])(?=[\w+.-]*?[A-Za-z])[\w+.-]*://\S+")
"""A run of characters is looked at once, from its start, as in all patterns here: texts of workers
can be long, and the driver masks them."""
_UNWRITABLE = re.compile("[\0\ud800-\udfff]")
"""PostgreSQL takes no NUL. A surrogate stands for a byte that is not UTF-8, and UTF-8 has none."""

_hidden: set[str] = set()


def hide(secret: str) -> None:
    """Mask this text, too, in whatever this process writes from now on."""
    if secret.strip():
        _hidden.add(secret)


def escape_text(text: str) -> str:
    """Write out each NUL and each surrogate of a text, as `\\x00` and `\\udc80`."""
    return _UNWRITABLE.sub(lambda character: ascii(character[0])[1:-1], text)


def escape_values(value: Any) -> Any:
    """Copy JSON values with every text and every key as `escape_text` writes it."""
    if isinstance(value, str):
        return escape_text(value)
    if isinstance(value, dict):
        return {escape_text(name): escape_values(inner) for name, inner in value.items()}
    if isinstance(value, list):
        return [escape_values(inner) for inner in value]
    return value


def mask_url(url: str) -> str:
    """Replace each password in a URL, or in an argument that holds one, by `***`.

    A malformed URL does no harm: all from the first colon after the scheme to the last `@`
    counts as password, so rather too much is masked than too little.
    """
    url = _mask_hidden(escape_text(url))
    masked = _SECRET_PARAMETER.sub(r"\1***", url)
    if "@" not in url:
        return masked
    # A password with a "?" in it can look like parameters, and take the "@" with it.
    credentials, at, host = masked.rpartition("@") if "@" in masked else (masked, "", "")
    user = _TO_PASSWORD.match(credentials)
    if user is None or not user[2]:
        return _USER_ALONE.sub(r"\1***@", masked)
    return f"{user[1]}:***{at}{host}"


def mask_text(text: str) -> str:
    """Replace passwords in URLs and values of secret names by `***`, line by line.

    That is the value of a line, variable, option or literal whose name ends in `password`, `token`,
    `api_key` and the like, and what has the shape of a well-known service's token.
    """
    masked = _URL.sub(lambda url: mask_url(url[0]), _mask_hidden(escape_text(text)))
    return _KNOWN_SHAPES.sub("***", _ASSIGNED.sub(r"\1***", masked))


def _mask_hidden(text: str) -> str:
    for secret in tuple(_hidden):
        text = text.replace(secret, "***")
    return text


def mask_values(value: Any) -> Any:
    """Copy JSON values with every text masked as a URL; the keys stay."""
    if isinstance(value, str):
        return mask_url(value)
    if isinstance(value, dict):
        return {name: mask_values(inner) for name, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [mask_values(inner) for inner in value]
    return value
