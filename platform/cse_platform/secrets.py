"""The one place that masks passwords and tokens in whatever is written: messages, logs, tags."""

import re
from typing import Any

_SECRET_PARAMETER = re.compile(r"(?i)([?&]\w*(?:password|passwd|pwd|token|secret)=)[^&#\s]*")
_TO_PASSWORD = re.compile(r"((?:.*?://)?[^:]*)(:?)", re.DOTALL)
_URL = re.compile(r"[A-Za-z][\w+.-]*://\S+")


def mask_url(url: str) -> str:
    """The URL, or an argument that holds one, with `***` for each password in it.

    A malformed URL does no harm: all from the first colon after the scheme to the last `@`
    counts as password, so rather too much is masked than too little.
    """
    masked = _SECRET_PARAMETER.sub(r"\1***", url)
    if "@" not in url:
        return masked
    # A password with a "?" in it can look like parameters, and take the "@" with it.
    credentials, at, host = masked.rpartition("@") if "@" in masked else (masked, "", "")
    user = _TO_PASSWORD.match(credentials)
    if user is None or not user[2]:
        return masked
    return f"{user[1]}:***{at}{host}"


def mask_text(text: str) -> str:
    """A sentence, or lines of text, with every URL in it masked."""
    return _URL.sub(lambda url: mask_url(url[0]), text)


def mask_values(value: Any) -> Any:
    """A copy of JSON values with every text masked as a URL; the keys stay."""
    if isinstance(value, str):
        return mask_url(value)
    if isinstance(value, dict):
        return {name: mask_values(inner) for name, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [mask_values(inner) for inner in value]
    return value
