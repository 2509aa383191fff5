"""A client of a Ray cluster's job server, which its dashboard offers over HTTP to any machine."""

import os
import re
import shlex
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import requests
from ray._private.authentication.authentication_token_setup import AuthenticationTokenLoader
from ray.job_submission import JobDetails, JobSubmissionClient

from cse_platform.errors import SweepRefusedError
from cse_platform.runner.ray_process import has_token, token_refusal
from cse_platform.tracking.submission import BEGUN, ENDED

DASHBOARD_PORT = 8265
SWEEP = "sweep"
"""The key of a job's metadata that holds the sweep's name."""
_CONNECT_SECONDS = 4.0
"""Seconds within which a server must answer the first request."""
_REQUEST_SECONDS = 60.0
"""Timeout in seconds of every other request, uploads included."""
_MAX_SILENCE_SECONDS = 60.0
"""Seconds without an answer after which `states` gives up on a job."""
_ENDING_SECONDS = 5.0
"""Seconds to wait for the driver of a stopped sweep to release it."""
_LOOK_SECONDS = 0.5
_WANTS_TOKEN = (401, 403)
_HEADS_PYTHON = re.compile(r"--python_worker_command=(.+?) \S*/ray/_private/workers/")


@dataclass(frozen=True)
class JobState:
    """The state of a job."""

    has_ended: bool
    exit_code: int | None
    """Exit code of its command; None before its end, and if it was never started."""
    lines: tuple[str, ...]
    """The lines of its whole log."""
    why: str
    """Ray's message about the job."""


class JobServer:
    """The job server at an address: http://HOST:PORT, HOST:PORT or HOST.

    Every method raises SweepRefusedError, with a message of one sentence, if the server does not
    answer.

    Raises:
        SweepRefusedError: within ten seconds, if no server answers or it rejects our token.
    """

    def __init__(self, address: str) -> None:
        self.url = _make_url(address)
        headers = _find_headers(self.url)
        # Ray would prefer the value of this variable, or of RAY_ADDRESS, to the given address.
        os.environ["RAY_API_SERVER_ADDRESS"] = self.url
        self._client = _Client(self.url, headers=headers)

    def running(self, sweep: str) -> str | None:
        """Find the id of the job that runs a sweep; one about to end gets a few seconds first."""
        until = time.monotonic() + _ENDING_SECONDS
        while (job := self._find_running_job(sweep)) is not None and time.monotonic() < until:
            time.sleep(_LOOK_SECONDS)
        return job

    def _find_running_job(self, sweep: str) -> str | None:
        with self._refuse_no_answer("does not tell its jobs"):
            for job in self._client.list_jobs():
                if (job.metadata or {}).get(SWEEP) != sweep or job.status.is_terminal():
                    continue
                lines = str(self._client.get_job_logs(job.submission_id)).splitlines()
                marks = [line for line in lines if line.endswith((BEGUN, ENDED))]
                if not marks or marks[-1].endswith(BEGUN):  # else it may only be publishing
                    return str(job.submission_id)
        return None

    def python(self) -> str:
        """Return the Python that runs the head's Ray, quoted for a shell; PATH may differ."""
        try:
            answer = self._client._do_request("GET", "/nodes?view=summary")
            nodes = answer.json()["data"]["summary"]
            [head] = [node for node in nodes if node["raylet"].get("isHeadNode")]
            match = _HEADS_PYTHON.search(" ".join(head["cmdline"]))
        except (requests.RequestException, ValueError, LookupError, TypeError, AttributeError):
            match = None  # another version of Ray reports it elsewhere
        return shlex.quote(match[1]) if match else "python"

    def upload(self, archives: Mapping[str, bytes]) -> None:
        """Upload archives, given by URI, that the cluster does not have yet."""
        with self._refuse_no_answer("does not take the code"):
            for uri, data in archives.items():
                endpoint = f"/api/packages/gcs/{uri.rpartition('/')[2]}"
                if self._client._do_request("GET", endpoint).status_code == 404:
                    self._client._do_request("PUT", endpoint, data=data).raise_for_status()

    def submit(
        self, job: str, command: str, *, environment: dict[str, Any], metadata: dict[str, str]
    ) -> None:
        """Submit a command that the head runs as the job with id `job`."""
        with self._refuse_no_answer("does not take the job"):
            self._client.submit_job(
                entrypoint=command, submission_id=job, runtime_env=environment, metadata=metadata
            )

    def states(self, job: str) -> Iterator[JobState]:
        """Yield a job's state twice a second until it has ended."""
        has_ended, heard = False, time.monotonic()
        while not has_ended:
            try:
                info: JobDetails = self._client.get_job_info(job)
                has_ended = info.status.is_terminal()
                lines = tuple(str(self._client.get_job_logs(job)).splitlines())
            except (requests.RequestException, RuntimeError) as error:
                if time.monotonic() > heard + _MAX_SILENCE_SECONDS:
                    raise SweepRefusedError(
                        f"the Ray cluster at {self.url} has not answered for a minute; its job "
                        f"{job} may run on, which cse-sweep status tells"
                    ) from error
            else:
                heard = time.monotonic()
                yield JobState(has_ended, info.driver_exit_code, lines, info.message or "")
            time.sleep(_LOOK_SECONDS)

    @contextmanager
    def _refuse_no_answer(self, what: str) -> Iterator[None]:
        try:
            yield
        except (requests.RequestException, RuntimeError) as error:
            wayout = "look into dashboard.log of its head, in /tmp/ray/session_latest/logs"
            if "No available agent" in str(error):
                wayout = (
                    "the agent of its head does not run, as where another Ray there has its port; "
                    "start it with --dashboard-agent-listen-port=0"
                )
            why = " ".join(str(error).split())[:300]
            raise SweepRefusedError(
                f"the Ray cluster at {self.url} {what}: {why}; {wayout}"
            ) from error


class _Client(JobSubmissionClient):  # type: ignore[misc]  # Ray is untyped
    """Ray's client with a timeout; without one it waits for answers for ever."""

    def _do_request(self, method: str, endpoint: str, **more: Any) -> requests.Response:
        answer: requests.Response = super()._do_request(
            method, endpoint, timeout=_REQUEST_SECONDS, **more
        )
        return answer


def _make_url(address: str) -> str:
    if "://" not in address:
        has_port = re.search(r":\d+$", address)
        return f"http://{address}" if has_port else f"http://{address}:{DASHBOARD_PORT}"
    if not address.startswith(("http://", "https://")):
        raise SweepRefusedError(
            f"--address {address}: expected that of Ray's dashboard, http://HOST:{DASHBOARD_PORT}"
        )
    return address.rstrip("/")


def _find_headers(url: str) -> dict[str, str]:
    """Return the headers that the server accepts: none, or those of the token on this machine.

    Raises:
        SweepRefusedError: if the server accepts neither.
    """
    if _is_accepted(url, {}):
        return {}
    known = has_token()
    if known:
        loader = AuthenticationTokenLoader.instance()
        headers: dict[str, str] = loader.get_token_for_http_header(ignore_auth_mode=True)
        if _is_accepted(url, headers):
            return headers
    raise SweepRefusedError(token_refusal(url, known=known))


def _is_accepted(url: str, headers: Mapping[str, str]) -> bool:
    """Whether the server accepts these headers; False if it asks for a token or a different one."""
    try:
        answer = requests.get(f"{url}/api/version", headers=headers, timeout=_CONNECT_SECONDS)
        if answer.status_code in _WANTS_TOKEN:
            return False
        answer.raise_for_status()
        answer.json()["ray_version"]
    except (requests.RequestException, ValueError, LookupError, TypeError) as error:
        raise SweepRefusedError(
            f"no dashboard of a Ray cluster answers at {url} ({type(error).__name__}); its head "
            "needs ray[default], and is heard on itself alone unless it was started with "
            f"--dashboard-host=0.0.0.0; through a tunnel, ssh -L {DASHBOARD_PORT}:127.0.0.1:"
            f"{DASHBOARD_PORT} HOST, the address is http://127.0.0.1:{DASHBOARD_PORT}, and "
            f"otherwise http://HOST:{DASHBOARD_PORT}"
        ) from error
    return True
