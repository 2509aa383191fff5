"""Collects where numbers come from: code, command, machine and library versions, as text."""

import getpass
import os
import platform
import re
import resource
import shlex
import socket
import subprocess
import sys
from collections.abc import Iterable
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, distributions, version
from pathlib import Path

from cse_platform.secrets import mask_text, mask_url
from cse_platform.tracking.submission import read_submission

MAX_DIFF_BYTES = 2**20
NOT_WHOLE = "### not whole: "
"""Beginning of the last line of a diff that cannot be applied; no diff has such a line itself."""

_TIMEOUT_SECONDS = 10
# Whatever a user has configured: colours, other prefixes and filters make a diff that git cannot
# apply.
_DIFF = (
    *("diff", "HEAD", "--binary", "--no-color", "--no-ext-diff", "--no-textconv"),
    *("--no-relative", "--src-prefix=a/", "--dst-prefix=b/", "--ignore-submodules=dirty"),
)


def git_state(folder: Path) -> dict[str, str]:
    """Read `commit`, `dirty` and `remote` of the repository around a folder; {} outside of one.

    `dirty` is "true" when tracked files differ from the commit. `remote` is the URL of `origin`,
    left out where there is none; it can hold a password.
    """
    commit = _run_git(folder, "rev-parse", "HEAD")
    status = _run_git(folder, "status", "--porcelain", "--untracked-files=no")
    if not commit or status is None:
        return {}
    remote = _run_git(folder, "remote", "get-url", "origin")
    state = {"commit": commit, "dirty": "true" if status else "false"}
    return state | ({"remote": remote} if remote else {})


def git_diff(folder: Path) -> str | None:
    """Diff tracked files against the commit, as `git apply` takes it; None if nothing differs.

    A diff that is longer than `MAX_DIFF_BYTES` is cut, and one that is not UTF-8 loses characters;
    either then ends in a line that begins with `NOT_WHOLE`.
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
    """Return True if a diff of `git_diff` can be applied."""
    return not diff.rstrip("\n").rpartition("\n")[2].startswith(NOT_WHOLE)


def is_tracked(file: Path) -> bool:
    """Return True if git tracks the file; a copy in a venv of a repository is not tracked."""
    return bool(_run_git(file.parent, "ls-files", "--error-unmatch", file.name))


def command_output(*command: str) -> str | None:
    """Run a command and return its stripped output; None if it fails or does not exist."""
    output = _read_output(*command)
    return None if output is None else output.decode("utf-8", "replace").strip()


def _run_git(folder: Path, *arguments: str) -> str | None:
    return command_output("git", "-C", str(folder), *arguments)


def _read_output(*command: str) -> bytes | None:
    # Without locks: another git may be at work in the same repository.
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
    """Return who runs this process, and on which host: `USER@HOST`."""
    try:
        user = getpass.getuser()
    except (OSError, KeyError):  # a container without a user of that number
        user = str(os.getuid())
    return f"{user}@{socket.gethostname()}"


def sweep_provenance(repository: Path | None, *, method: Path | None = None) -> dict[str, str]:
    """Collect what a sweep is started from: git state, command line, host and library versions.

    Keys: `git_commit`, `git_dirty` ("true" when tracked files differ from the commit) and
    `git_remote` (the URL of origin) of the repository; the same as `package_…` where this package
    runs from a checkout of its own code, and as `method_…` where `method`, the module of another
    package's method, lies in one; `command`, `folder` (where it was given), `host`,
    `python`, `platform`, and the version of each library by name. Passwords are hidden. What cannot
    be found out is left out. Without `repository`, a folder in the user's repository, it is the
    working directory. Of a sweep that was submitted to a cluster, the repositories, `command` and
    `folder` are those of the machine that has submitted it; `job`, `cluster` and `submitted_by` say
    how.
    """
    return {
        **{
            f"{name}_{fact}": mask_url(value)
            for name, folder in _find_repositories(repository, method).items()
            for fact, value in git_state(folder).items()
        },
        "command": _format_command(),
        "folder": str(Path.cwd()),
        "host": socket.gethostname(),
        "python": platform.python_version(),
        "platform": platform.platform(),
        **_list_versions(SWEEP_PACKAGES),
        **read_submission("provenance"),
    }


def installed_packages() -> dict[str, str]:
    """List the version of every installed distribution, by its normalised name, sorted.

    Of two with one name it is the one that Python imports.
    """
    versions: dict[str, str] = {}
    for distribution in distributions():
        if name := distribution.metadata["Name"]:  # a broken one has none
            versions.setdefault(normalise_name(name), distribution.version)
    return dict(sorted(versions.items()))


def normalise_name(package: str) -> str:
    """Normalise a distribution's name as indexes do (PEP 503)."""
    return re.sub(r"[-_.]+", "-", package).lower()


def code_diffs(repository: Path | None, *, method: Path | None = None) -> dict[str, str]:
    """Diff the code against its commits, in the form of `git_diff`, where it differs.

    Keys: `git`, the user's repository (around `repository`, or the working directory), `package`,
    this package's own checkout, and `method`, that of another package's method.
    """
    repositories = _find_repositories(repository, method)
    diffs = {name: git_diff(folder) for name, folder in repositories.items()}
    masked = {name: _mask_secrets(diff) for name, diff in diffs.items() if diff is not None}
    return masked | read_submission("diffs")


def _mask_secrets(diff: str) -> str:
    masked = mask_text(diff)
    return masked if masked == diff else f"{masked}\n{NOT_WHOLE}secrets in it are hidden\n"


def trial_provenance(
    *, device: str, precision: str, attention: str, threads: int
) -> dict[str, str]:
    """Collect what a trial runs on; call it once in the worker, because it asks `nvidia-smi`.

    Keys: the arguments; `host`, `python`, `cpu`, `cpu_count` and library versions; on a GPU also
    `gpu`, `gpu_driver` and `cuda`. What cannot be found out is left out. `device` is torch's name
    of it, e.g. `cuda:0`; `precision` is that of the forward pass, `tf32` of a GPU included,
    `attention` the kernel, e.g. `sdpa`, and `threads` the number of CPU threads of torch.
    """
    facts = {
        "device": device,
        "precision": precision,
        "attention": attention,
        "threads": str(threads),
        "host": socket.gethostname(),
        "python": platform.python_version(),
        "cpu": _read_cpu_name(),
        "cpu_count": str(os.cpu_count()),
        **trial_packages(),
    }
    return facts | _describe_gpu(device)


def trial_packages() -> dict[str, str]:
    """Return the versions of the packages in a trial's provenance."""
    return _list_versions(_TRIAL_PACKAGES)


def peak_memory(device: str) -> dict[str, str]:
    """Measure the most memory that the calling process has used until now.

    Keys: `peak_memory_mib`, of the process since it began or `reset_peak_memory` was called; on a
    GPU (`cuda:0`) also `gpu_peak_memory_mib`, of torch's allocator.
    """
    facts = {"peak_memory_mib": str(_read_peak_memory_mib())}
    if _is_torch_on_gpu(device):
        import torch

        facts["gpu_peak_memory_mib"] = str(torch.cuda.max_memory_allocated(device) >> 20)
    return facts


def reset_peak_memory() -> None:
    """Reset what `peak_memory` counts; where the system cannot, as on macOS, it counts on."""
    with suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")  # resets VmHWM to what is used now
    if (torch := sys.modules.get("torch")) and torch.cuda.is_initialized():
        torch.cuda.reset_peak_memory_stats()


def _find_repositories(repository: Path | None, method: Path | None) -> dict[str, Path]:
    """Find a folder in each repository that numbers follow from."""
    modules = {"package": Path(__file__), "method": method}
    tracked = {name: file.parent for name, file in modules.items() if file and is_tracked(file)}
    return {"git": repository or Path(), **tracked}


def _format_command() -> str:
    program, *arguments = sys.argv
    return mask_text(shlex.join([Path(program).name, *map(mask_url, arguments)]))


def _list_versions(packages: Iterable[str]) -> dict[str, str]:
    versions = {}
    for package in packages:
        try:
            versions[package] = version(package)
        except PackageNotFoundError:
            continue
    return versions


def _read_cpu_name() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()


def _read_peak_memory_mib() -> int:
    try:
        # Linux's ru_maxrss begins with what the parent held when it started this process.
        status = Path("/proc/self/status").read_text()
        return int(status.partition("VmHWM:")[2].split()[0]) >> 10
    except (OSError, IndexError):
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak >> 20 if sys.platform == "darwin" else peak >> 10  # bytes there, KiB elsewhere


def _is_torch_on_gpu(device: str) -> bool:
    """Return True if torch can be asked about the GPU without importing it, which takes seconds."""
    return device.startswith("cuda") and "torch" in sys.modules


def _describe_gpu(device: str) -> dict[str, str]:
    if not _is_torch_on_gpu(device):
        return {}
    import torch

    query = ("nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader")
    driver = (command_output(*query) or "").splitlines()
    facts = {"gpu": torch.cuda.get_device_name(device), "cuda": str(torch.version.cuda)}
    return facts | ({"gpu_driver": driver[0]} if driver else {})
