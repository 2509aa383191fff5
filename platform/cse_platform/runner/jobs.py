"""Submit jobs to a Ray cluster and follow them, by Ray's own client of its dashboard."""

import logging
import os
import re
import shlex
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import requests
from ray.job_submission import JobDetails, JobSubmissionClient

from cse_platform.errors import SweepRefusedError
from cse_platform.runner.ray_process import RAY_SETTINGS, find_token, token_refusal
from cse_platform.tracking.submission import BEGUN, ENDED

PORT = 8265
SWEEP = "sweep"  # the key of a job's metadata that holds the sweep's name
_FIRST_SECONDS, _REQUEST_SECONDS = 4.0, 60.0
"""Timeouts of the first request and of every other; a followed job may be silent that long."""
_LOOK_SECONDS, _ENDING_SECONDS = 0.5, 5.0  # in which a stopped sweep's driver releases it
_HEADS_PYTHON = re.compile(r"--python_worker_command=(.+?) \S*/ray/_private/workers/")


JobState = tuple[JobDetails, list[str]]
"""A job, as Ray describes it, and the lines of its whole log."""


class JobServer(JobSubmissionClient):  # type: ignore[misc]  # Ray is untyped
    """The job server at an address: http://HOST:PORT, HOST:PORT or HOST.

    Raises SweepRefusedError within ten seconds, if no server answers or it rejects our token.
    """

    def __init__(self, address: str) -> None:
        if "://" not in address:
            address = f"http://{address}" + ("" if re.search(r":\d+$", address) else f":{PORT}")
        if not address.startswith(("http://", "https://")):
            raise SweepRefusedError(f"--address {address}: expected http://HOST:{PORT}")
        self.url = address.rstrip("/")
        headers = self._find_headers()
        # Ray would prefer the value of this variable, or of RAY_ADDRESS, to the given address.
        os.environ |= RAY_SETTINGS | {"RAY_API_SERVER_ADDRESS": self.url}
        super().__init__(self.url, headers=headers)
        for handler in logging.getLogger("ray").handlers:  # its own modules set their levels
            handler.setLevel(logging.ERROR)

    def _do_request(self, method: str, endpoint: str, **more: Any) -> Any:
        """Send a request with a timeout; without one Ray waits for ever."""
        return super()._do_request(method, endpoint, timeout=_REQUEST_SECONDS, **more)

    def _find_headers(self) -> dict[str, str]:
        """Find the headers that the server accepts: none, or those of the token on this machine."""
        token, url = find_token(), f"{self.url}/api/version"
        for headers in ({}, {"Authorization": f"Bearer {token}"}) if token else ({},):
            try:
                answer = requests.get(url, headers=headers, timeout=_FIRST_SECONDS)
                if answer.status_code not in (401, 403):
                    answer.raise_for_status()
                    answer.json()["ray_version"]
                    return headers
            except (requests.RequestException, ValueError, LookupError, TypeError) as error:
                raise SweepRefusedError(
                    f"no dashboard of a Ray cluster answers at {self.url} ({type(error).__name__})"
                    "; start its head with ray[default] and --dashboard-host=0.0.0.0, and give "
                    f"http://HOST:{PORT}; or give http://127.0.0.1:{PORT} beside a tunnel, ssh -L "
                    f"{PORT}:127.0.0.1:{PORT} HOST"
                ) from error
        raise SweepRefusedError(token_refusal(self.url, known=token is not None))

    def find_job(self, sweep: str) -> str | None:
        """Find the id of the job that runs a sweep; one about to end gets a few seconds first."""
        until = time.monotonic() + _ENDING_SECONDS
        with self.failures_refused("does not list its jobs"):
            for job in self.list_jobs():
                while (job.metadata or {}).get(SWEEP) == sweep and not job.status.is_terminal():
                    lines = str(self.get_job_logs(job.submission_id)).splitlines()
                    marks = [line for line in lines if line.endswith((BEGUN, ENDED))]
                    if marks and marks[-1].endswith(ENDED):
                        break  # it may only be closing its stores
                    if time.monotonic() > until:
                        return str(job.submission_id)
                    time.sleep(_LOOK_SECONDS)
                    job = self.get_job_info(job.submission_id)
        return None

    def find_python(self) -> str:
        """Return the Python that runs the head's Ray, quoted for a shell; PATH may differ."""
        try:
            nodes = self._do_request("GET", "/nodes?view=summary").json()["data"]["summary"]
            [head] = [node for node in nodes if node["raylet"].get("isHeadNode")]
            return shlex.quote(_HEADS_PYTHON.findall(" ".join(head["cmdline"]))[0])
        except (requests.RequestException, ValueError, LookupError, TypeError, AttributeError):
            return "python"  # another version of Ray reports it elsewhere

    def follow_states(self, job: str) -> Iterator[JobState]:
        """Yield the state of a job twice a second until it has ended."""
        has_ended, answered_at = False, time.monotonic()
        while not has_ended:
            try:
                info, lines = self.get_job_info(job), str(self.get_job_logs(job)).splitlines()
            except (requests.RequestException, RuntimeError) as error:
                if time.monotonic() > answered_at + _REQUEST_SECONDS:
                    why = (
                        f"has not answered for a minute; cse-sweep status shows whether {job} "
                        "is still running"
                    )
                    raise SweepRefusedError(f"the Ray cluster at {self.url} {why}") from error
            else:
                has_ended, answered_at = info.status.is_terminal(), time.monotonic()
                yield info, lines
            time.sleep(_LOOK_SECONDS)

    @contextmanager
    def failures_refused(self, what: str) -> Iterator[None]:
        """Raise SweepRefusedError if a request fails; `what` says which."""
        try:
            yield
        except (requests.RequestException, RuntimeError) as error:
            way_out = "see dashboard.log on its head, in /tmp/ray/session_latest/logs"
            if "No available agent" in str(error):  # as where another Ray there has its port
                way_out = "start its head with --dashboard-agent-listen-port=0"
            why = f"{what}: {' '.join(str(error).split())[:300]}; {way_out}"
            raise SweepRefusedError(f"the Ray cluster at {self.url} {why}") from error
