"""Pack a sweep file with the files that it names, so that it can run on another machine."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from cse_methods.files.named import absolute_name, expand, is_file_name
from cse_platform.errors import SweepRefusedError
from cse_platform.secrets import mask_url
from cse_platform.sweep.file import read_draft
from cse_platform.sweep.problems import dotted_path
from cse_platform.sweep.spec import SweepFile
from cse_platform.values import iterate_leaves, map_leaves

SWEEP_FILE = "sweep.yaml"
LARGEST = 100 << 20
"""The most bytes of all files together; a cluster's head accepts no larger upload."""


@dataclass(frozen=True)
class SweepBundle:
    """A sweep file with the files that it names by relative paths."""

    sweeps: SweepFile
    """The sweep file as read on this machine."""
    content: Mapping[str, Path | str]
    """The bundle's files by name: the path of each on this machine, or its text. `SWEEP_FILE` is
    the sweep, with overrides applied and the other files named as in the bundle."""

    @property
    def name(self) -> str:
        """The name of the sweep, or of the file if it has several."""
        stages = self.sweeps.stages
        return stages[0].sweep if len(stages) == 1 else self.sweeps.path.stem.strip("-") or "sweep"


def pack_sweep(file: Path, overrides: Sequence[str], trials: int | None = None) -> SweepBundle:
    """Read a sweep file as a run does, and bundle it with the files that it names.

    Raises:
        SweepFileError: if the file cannot be read or is invalid.
        SweepRefusedError: if it holds a secret, or a file that it names is missing or too large.
    """
    draft = read_draft(file, overrides=overrides, trials=trials)
    sweeps, data = draft.finish(), draft.source.data
    known = {name for stage in sweeps.stages for name in stage.data_files}
    travelled, files = dict[str, str](), dict[str, Path]()
    for path, text in iterate_leaves(data):
        if "notify" in path:
            raise SweepRefusedError(
                "notify: holds secrets, and everyone on the cluster can read a submitted sweep; "
                "leave it out, and follow the sweep with cse-sweep logs --follow"
            )
        if not isinstance(text, str):
            continue
        if mask_url(text) != text:
            raise SweepRefusedError(
                f"{dotted_path(path)} = {mask_url(text)} holds a password, and everyone on the "
                "cluster can read a submitted sweep; leave it out, and set CSE_STORE, "
                "CSE_SEARCH_STORE and CSE_MLFLOW_URI where the Ray of the cluster's head is started"
            )
        is_relative = is_file_name(text) and not Path(expand(text)).is_absolute()
        here = absolute_name(text, file.parent)
        below = [Path(path) for path in known if Path(path).is_relative_to(here)]
        if is_relative and below and text not in travelled:
            target = PurePosixPath("files", str(len(files)), Path(text).name)
            travelled[text] = str(target)
            files |= {str(target / path.relative_to(here)): path for path in sorted(below)}
    way_out = "put it where all nodes of the cluster can read it, and give its absolute path there"
    for source in files.values():
        if not source.is_file():
            raise SweepRefusedError(f"{source}: no such file here; {way_out}")
    sizes = {source: source.stat().st_size for source in files.values()}
    if (size := sum(sizes.values())) > LARGEST:
        raise SweepRefusedError(
            f"the files that the sweep names have {size >> 20} MiB, and at most {LARGEST >> 20} "
            f"can be sent; for {max(sizes, key=sizes.__getitem__)}: {way_out}"
        )
    text = json.dumps(
        map_leaves(data, lambda value: travelled.get(value, value)), indent=1
    )  # JSON is YAML
    return SweepBundle(sweeps, {SWEEP_FILE: text, **files})
