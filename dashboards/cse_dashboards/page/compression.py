"""Answers that are made anew at each request: compressed on their way, and never kept.

Flask-Compress would bring three packages for these few lines, and compress files at each request.
"""

import gzip

from flask import Response, request

_LEAST = 1000
"""Bytes that are worth it."""
_LEVEL = 6
"""Of gzip: 9 takes three times as long for 1 % less."""


def compress(answer: Response) -> Response:
    """Gzip a text for a browser that takes it."""
    answer.headers.setdefault("Cache-Control", "no-cache")
    if answer.content_encoding or answer.is_streamed or not _is_text(answer):
        return answer
    answer.vary.add("Accept-Encoding")
    if request.accept_encodings["gzip"] and len(answer.get_data()) >= _LEAST:
        answer.set_data(gzip.compress(answer.get_data(), _LEVEL, mtime=0))
        answer.content_encoding = "gzip"
    return answer


def _is_text(answer: Response) -> bool:
    kind = answer.mimetype or ""
    return kind.startswith("text/") or kind in ("application/json", "application/x-tex")
