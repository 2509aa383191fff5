"""Notify people of the end of a sweep through any service that Apprise supports."""

import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from pydantic import SecretStr

from cse_platform.secrets import mask_text

_log = logging.getLogger(__name__)


@contextmanager
def failure_notified(sweep: str, urls: Sequence[SecretStr]) -> Iterator[None]:
    """Report an exception that leaves the context, unless it is a KeyboardInterrupt."""
    try:
        yield
    except Exception as error:
        notify(sweep, urls, "failed", str(error) or repr(error))
        raise


def notify(sweep: str, urls: Sequence[SecretStr], what: str, details: str) -> None:
    """Send a message: a title of a word or two, and details.

    Services have a few seconds; one that does not answer costs a warning.
    """
    if not urls:
        return
    import apprise

    service, title = apprise.Apprise([url.get_secret_value() for url in urls]), f"{sweep}: {what}"
    if not service.notify(title=title, body=mask_text(details) or title):
        _log.warning("some notifications failed: %s", title)
