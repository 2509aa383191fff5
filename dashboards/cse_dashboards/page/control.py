"""Access control of the page: changes need the token of this run of `cse-dashboard`.

The address that the command prints contains the token. When it is opened, the token becomes a
cookie that scripts cannot read and other sites cannot send. A change must also come from a form of
this page.
"""

import hmac
import secrets
from hashlib import sha256
from pathlib import Path
from urllib.parse import urlencode

from flask import Flask, Request, Response, abort, redirect, request
from werkzeug.wrappers import Response as BaseResponse

PARAMETER = "token"
"""Query parameter for the token in the printed address."""
FIELD = "form_token"
"""Hidden field in each form that changes something."""
LONGEST_FORM = 64 * 1024
"""Maximum size of a form in bytes."""


class Control:
    """The token of one run of `cse-dashboard`, and checks of requests.

    Args:
        runs: the runs folder, which holds the journal of annotations.
    """

    def __init__(self, runs: Path) -> None:
        self.runs = runs
        self.token = secrets.token_urlsafe(32)
        self._run = sha256(self.token.encode()).hexdigest()[:8]
        self.form_token = hmac.digest(self.token.encode(), b"form", "sha256").hex()

    @property
    def cookie(self) -> str:
        """The cookie's name, unique to this run: servers on other ports of a host share its
        cookies.
        """
        return f"cse-control-{self._run}"

    @property
    def query(self) -> str:
        """The query at the end of the printed address."""
        return f"?{urlencode({PARAMETER: self.token})}"

    def admits(self, sent: Request) -> bool:
        """Whether a request comes from a browser that opened the address with the token."""
        return _is_equal(sent.cookies.get(self.cookie, ""), self.token)

    def refuse_others(self) -> None:
        """Abort with 403 unless the request has the cookie and, if sent, is of this page's form."""
        if not self.admits(request):
            abort(403, "First open the address that cse-dashboard --allow-control printed.")
        if request.method != "POST":
            return
        own = [f"{scheme}://{request.host}" for scheme in ("http", "https")]
        if request.headers.get("Origin", "") not in own:
            abort(403, "Another site sent this; nothing was changed.")
        if not _is_equal(request.form.get(FIELD, ""), self.form_token):
            abort(403, "This form belongs to an earlier run of cse-dashboard; reload the page.")

    def guard(self, app: Flask) -> None:
        """Make the application accept tokens from addresses, and configure its session and form
        size.
        """
        app.secret_key = hmac.digest(self.token.encode(), b"session", "sha256")
        app.config.update(
            SESSION_COOKIE_NAME=f"cse-said-{self._run}",
            SESSION_COOKIE_SAMESITE="Strict",
            MAX_CONTENT_LENGTH=LONGEST_FORM,
        )
        app.before_request(self._take_token)
        app.after_request(self._keep_from_caches)

    def _take_token(self) -> BaseResponse | None:
        """Store the token of an address as a cookie, and redirect to the address without it."""
        if request.method != "GET" or PARAMETER not in request.args:
            return None
        if not _is_equal(request.args[PARAMETER], self.token):
            abort(
                403,
                "This address belongs to another run of cse-dashboard; open the one that "
                "this run printed.",
            )
        others = [(name, value) for name, value in request.args.items(True) if name != PARAMETER]
        answer = redirect(request.path + (f"?{urlencode(others)}" if others else ""), 303)
        answer.set_cookie(self.cookie, self.token, httponly=True, samesite="Strict", path="/")
        return answer

    def _keep_from_caches(self, response: Response) -> Response:
        """Prevent caches from showing the page of an admitted person to others."""
        response.headers.add("Vary", "Cookie")
        if self.admits(request) and not request.path.startswith("/static/"):
            response.headers["Cache-Control"] = "no-store"
        return response


def _is_equal(given: str, right: str) -> bool:
    return hmac.compare_digest(given.encode(), right.encode())
