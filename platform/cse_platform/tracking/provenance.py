"""Collects the provenance of numbers as text: code, command, machine and library versions."""

import getpass
import os
import platform
import resource
import shlex
import socket
import subprocess
import sys
from collections.abc import Iterable
from contextlib import suppress
from functools import cache
from importlib.metadata import PackageNotFoundError, distributions, version
from pathlib import Path

from packaging.utils import canonicalize_name

from cse_platform.secrets import mask_text, mask_url
from cse_platform.tracking.submission import read_submission

MAX_DIFF_BYTES = 2**20
NOT_WHOLE = "### not whole: "
"""Beginning of the last line of a diff that cannot be applied; git never writes such a line."""

_TIMEOUT_SECONDS = 10
# Override the user's configuration: with colours, other prefixes or filters, git could not apply
# the diff.
_DIFF = (
    *("diff", "HEAD", "--binary", "--no-color", "--no-ext-diff", "--no-textconv"),
    *("--no-relative", "--src-prefix=a/", "--dst-prefix=b/", "--ignore-submodules=dirty"),
)


def git_state(folder: Path) -> dict[str, str]:
    """Read `commit`, `dirty` and `remote` of the repository around a folder; {} outside of one.

    `dirty` is "true" if tracked files differ from the commit. `remote` is the URL of `origin`,
    absent if there is none; it can contain a password.
    """
    commit = _run_git(folder, "rev-parse", "HEAD")
    status = _run_git(folder, "status", "--porcelain", "--untracked-files=no")
    if not commit or status is None:
        return {}
    remote = _run_git(folder, "remote", "get-url", "origin")
    state = {"commit": commit, "dirty": "true" if status else "false"}
    return state | ({"remote": remote} if remote else {})


def git_diff(folder: Path) -> str | None:
    """Diff tracked files against the commit, for `git apply`; None if nothing differs.

    A diff longer than `MAX_DIFF_BYTES` is truncated, and one that is not UTF-8 loses characters;
    both then end in a line that begins with `NOT_WHOLE`.
    """
    diff = _read_output("git", "-C", str(folder), *_DIFF)
    if not diff:
        return None
    kept = diff[:MAX_DIFF_BYTES].decode("utf-8", "replace")
    if kept.encode() == diff:
        return kept
    reason = (
        f"{len(diff)} bytes, cut after {MAX_DIFF_BYTES}"
        if len(diff) > MAX_DIFF_BYTES
        else "it is not UTF-8, and characters were replaced"
    )
    return f"{kept}\n{NOT_WHOLE}{reason}\n"


def can_be_applied(diff: str) -> bool:
    """Return True if a diff from `git_diff` is complete."""
    return not diff.rstrip("\n").rpartition("\n")[2].startswith(NOT_WHOLE)


def _run_git(folder: Path, *arguments: str) -> str | None:
    output = _read_output("git", "-C", str(folder), *arguments)
    return None if output is None else output.decode("utf-8", "replace").strip()


def _read_output(*command: str) -> bytes | None:
    """Run a command and return its output; None if it fails or does not exist."""
    # Without locks, because another git process may be working in the same repository.
    environment = {**os.environ, "GIT_OPTIONAL_LOCKS": "0"}
    try:
        done = subprocess.run(
            command, capture_output=True, env=environment, timeout=_TIMEOUT_SECONDS, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout if done.returncode == 0 else None


SWEEP_PACKAGES = ("cse-platform", "ray", "torch", "transformers", "optuna", "mlflow", "sqlalchemy")
"""Packages whose versions are in a sweep's provenance."""

_TRIAL_PACKAGES = ("cse-platform", "torch", "transformers")


def user_and_host() -> str:
    """Return the user and host of this process: `USER@HOST`."""
    try:
        user = getpass.getuser()
    except (OSError, KeyError):  # a container without an account for this uid
        user = str(os.getuid())
    return f"{user}@{socket.gethostname()}"


def sweep_provenance(method: Path | None = None) -> dict[str, str]:
    """Collect the provenance of a sweep's start: git state, command line, host and library
    versions.

    Keys: `git_commit`, `git_dirty` ("true" if tracked files differ from the commit) and
    `git_remote` (the URL of origin) of the user's repository, which contains the working directory;
    the same as `package_…` if this package runs from a checkout, and as `method_…` if `method`, the
    module of another package's method, is in one; `command`, `folder` (the working directory),
    `host`, `python`, `platform`, and the version of each library by name. Passwords are masked.
    Unknown facts are absent.

    For a sweep that was submitted to a cluster, the repositories, `command` and `folder` are those
    of the submitting machine; `job`, `cluster` and `submitted_by` describe the submission.
    """
    program, *arguments = sys.argv
    return {
        **{
            f"{name}_{fact}": mask_url(value)
            for name, folder in _find_repositories(method).items()
            for fact, value in git_state(folder).items()
        },
        "command": mask_text(shlex.join([Path(program).name, *map(mask_url, arguments)])),
        "folder": str(Path.cwd()),
        "host": socket.gethostname(),
        "python": platform.python_version(),
        "platform": platform.platform(),
        **_list_versions(SWEEP_PACKAGES),
        **read_submission("provenance"),
    }


@cache
def installed_packages() -> dict[str, str]:
    """List the version of every installed distribution, by its normalised name, sorted.

    Of two with the same name, it is the one that Python imports.
    """
    versions: dict[str, str] = {}
    for distribution in distributions():
        if name := distribution.metadata["Name"]:  # a broken one has none
            versions.setdefault(canonicalize_name(name), distribution.version)
    return dict(sorted(versions.items()))


def code_diffs(method: Path | None = None) -> dict[str, str]:
    """Diff the code against its commits, in the form of `git_diff`; unchanged code is absent.

    Keys: `git`, the user's repository (around the working directory), `package`, this package's
    own checkout, and `method`, that of another package's method.
    """
    diffs = {}
    for name, folder in _find_repositories(method).items():
        if (diff := git_diff(folder)) is not None:
            masked = mask_text(diff)
            hidden = "" if masked == diff else f"\n{NOT_WHOLE}secrets in it are hidden\n"
            diffs[name] = masked + hidden
    return diffs | read_submission("diffs")


def trial_provenance(
    *, device: str, precision: str, attention: str, threads: int
) -> dict[str, str]:
    """Collect what a trial runs on; call it once per worker, because it runs `nvidia-smi`.

    Keys: the arguments; `host`, `python`, `cpu`, `cpu_count` and library versions; on a GPU also
    `gpu`, `gpu_driver` and `cuda`. Unknown facts are absent. `device` is torch's name, e.g.
    `cuda:0`; `precision` is that of the forward pass, including `tf32` on a GPU; `attention` is the
    kernel, e.g. `sdpa`; `threads` is the number of CPU threads of torch.
    """
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    facts = {
        "device": device,
        "precision": precision,
        "attention": attention,
        "threads": str(threads),
        "host": socket.gethostname(),
        "python": platform.python_version(),
        "cpu": names[0] if names else platform.processor() or platform.machine(),
        "cpu_count": str(os.cpu_count()),
        **_list_versions(_TRIAL_PACKAGES),
    }
    if _is_torch_on_gpu(device):
        import torch

        facts |= {"gpu": torch.cuda.get_device_name(device), "cuda": str(torch.version.cuda)}
        query = ("nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader")
        if driver := (_read_output(*query) or b"").decode().splitlines():
            facts["gpu_driver"] = driver[0].strip()
    return facts


def peak_memory(device: str) -> dict[str, str]:
    """Measure the peak memory of the calling process so far.

    Keys: `peak_memory_mib`, of the process since it began or `reset_peak_memory` was called; on a
    GPU (`cuda:0`) also `gpu_peak_memory_mib`, of torch's allocator.
    """
    try:
        # On Linux, ru_maxrss starts at the parent's memory when it forked this process.
        status = Path("/proc/self/status").read_text()
        peak = int(status.partition("VmHWM:")[2].split()[0]) >> 10
    except (OSError, IndexError):
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        peak >>= 20 if sys.platform == "darwin" else 10  # bytes there, KiB elsewhere
    facts = {"peak_memory_mib": str(peak)}
    if _is_torch_on_gpu(device):
        import torch

        facts["gpu_peak_memory_mib"] = str(torch.cuda.max_memory_allocated(device) >> 20)
    return facts


def reset_peak_memory() -> None:
    """Reset the peak of `peak_memory`; where the system cannot, as on macOS, it remains."""
    with suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")  # resets VmHWM to what is used now
    if (torch := sys.modules.get("torch")) and torch.cuda.is_initialized():
        torch.cuda.reset_peak_memory_stats()


def _find_repositories(method: Path | None) -> dict[str, Path]:
    """Find a folder in each repository with code that numbers depend on."""
    modules = {"package": Path(__file__), "method": method}
    tracked = {  # git does not track a copy in a repository's venv
        name: file.parent
        for name, file in modules.items()
        if file and _run_git(file.parent, "ls-files", "--error-unmatch", file.name)
    }
    return {"git": Path(), **tracked}


def _list_versions(packages: Iterable[str]) -> dict[str, str]:
    versions = {}
    for package in packages:
        with suppress(PackageNotFoundError):
            versions[package] = version(package)
    return versions


def _is_torch_on_gpu(device: str) -> bool:
    """Return True if torch is already imported, which takes seconds, and the device is a GPU."""
    return device.startswith("cuda") and "torch" in sys.modules
