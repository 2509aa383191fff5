"""The page's own server: where it listens, and what it says."""

import re
import signal
import socket
import subprocess
import sys
import urllib.error
import urllib.request

import pytest
from processes import interruptible

from cse_dashboards.errors import ServeError
from cse_dashboards.page.app import serve

SERVE = "import sys; from cse_dashboards.page.app import serve; serve(sys.argv[1], port=0)"


@pytest.mark.slow
def test_it_says_where_it_listens_and_ends_by_an_interrupt(lab_url: str) -> None:
    command = [sys.executable, "-u", "-c", SERVE, lab_url]
    with interruptible():
        server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    with server:
        assert server.stdout is not None
        line = server.stdout.readline()
        found = re.fullmatch(rf"(http://127\.0\.0\.1:\d+/) shows {lab_url}; Ctrl-C ends it\n", line)
        assert found is not None, line
        try:
            with urllib.request.urlopen(f"{found[1]}sweeps") as answer:
                assert b"hicl" in answer.read()
            strange = urllib.request.Request(found[1], headers={"Host": "evil.example"})
            with pytest.raises(urllib.error.HTTPError, match="400"):
                urllib.request.urlopen(strange)
        finally:
            server.send_signal(signal.SIGINT)
        assert server.wait(timeout=60) == 0


def test_a_place_where_nobody_can_listen_is_named() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        sentence = rf"cannot listen on 127\.0\.0\.1, port {port}: Address already in use; --port"
        with pytest.raises(ServeError, match=sentence):
            serve("sqlite:///runs/leaderboard.db", port=port)
    with pytest.raises(ServeError, match=r"cannot listen on 203\.0\.113\.1, port 0: "):
        serve("sqlite:///runs/leaderboard.db", host="203.0.113.1", port=0)
