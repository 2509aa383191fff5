"""The page's own files and the compression of its answers."""

import gzip
from dataclasses import dataclass
from functools import cached_property
from hashlib import sha256
from mimetypes import guess_type
from pathlib import Path

from flask import Response, abort, request

from cse_dashboards.picture_html import STATIC

_YEAR = "public, max-age=31536000, immutable"
_ASK_AGAIN = "no-cache"


@dataclass(frozen=True)
class Asset:
    """One static file."""

    name: str
    body: bytes
    brotli: bytes | None
    """The compressed body, if the build made one."""

    @cached_property
    def digest(self) -> str:
        return sha256(self.body).hexdigest()[:16]

    @property
    def address(self) -> str:
        return f"/static/{self.digest}/{self.name}"

    @cached_property
    def gzip(self) -> bytes:
        return gzip.compress(self.body, mtime=0)


def read_assets() -> dict[str, Asset]:
    """Read all files that browsers may ask for, by name."""
    files = [file for file in STATIC.iterdir() if file.suffix in (".css", ".js", ".svg")]
    return {file.name: Asset(file.name, file.read_bytes(), _read_brotli(file)) for file in files}


def _read_brotli(file: Path) -> bytes | None:
    compressed = file.with_name(f"{file.name}.br")
    return compressed.read_bytes() if compressed.is_file() else None


def send_asset(assets: dict[str, Asset], digest: str, name: str) -> Response:
    """Send the file, in the shortest form that the browser accepts."""
    if name not in assets:
        abort(404)
    asset = assets[name]
    answer = Response(asset.body, mimetype=guess_type(name)[0])
    taken = request.accept_encodings
    for coding, body in (("br", asset.brotli), ("gzip", asset.gzip)):
        if body is not None and taken[coding]:
            answer.set_data(body)
            answer.content_encoding = coding
            break
    answer.vary.add("Accept-Encoding")
    # A page that was open during an upgrade asks for a file of the old version.
    answer.headers["Cache-Control"] = _YEAR if digest == asset.digest else _ASK_AGAIN
    return answer


_LEAST = 1000
"""The fewest bytes that are worth compressing."""
_LEVEL = 6
"""The gzip level: 9 takes three times as long for 1 % less."""


def compress(answer: Response) -> Response:
    """Gzip a text for a browser that accepts it."""
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
