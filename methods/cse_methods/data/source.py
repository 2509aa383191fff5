"""Where data comes from: the built-in sets, the hub, or a folder in the SentEval layout."""

import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from cse_methods.errors import DataError
from cse_methods.files.hub import explain_hub_error
from cse_methods.files.named import expand

DataSource = Literal["builtin", "hub"] | Path


def data_source(data: str | None) -> DataSource:
    """Return the source named by the setting `data`; without it by CSE_DATA, else the hub.

    A folder must hold `downstream/`, `corpus/` or both.

    DataError if the folder does not exist or holds neither.
    """
    value = data or os.environ.get("CSE_DATA") or "hub"
    if value == "builtin":
        return "builtin"
    if value == "hub":
        return "hub"
    setting = "data" if data else "CSE_DATA"
    folder = Path(expand(value))
    if not folder.is_dir():
        raise DataError(
            f"{setting}: {value!r} is not a folder; "
            "name `builtin`, `hub`, or a folder that holds downstream/ or corpus/"
        )
    if not any((folder / part).is_dir() for part in ("downstream", "corpus")):
        raise DataError(
            f"{setting}: the folder {value!r} holds neither downstream/ nor corpus/; "
            "name the folder above them, `builtin` or `hub`"
        )
    return folder


def source_name(data: str | None) -> Literal["builtin", "hub", "senteval"]:
    """Return the kind of a data source, for display and records. DataError as `data_source`."""
    source = data_source(data)
    return "senteval" if isinstance(source, Path) else source


@dataclass(frozen=True)
class HubFile:
    """A file of a data set on the hub."""

    repository: str
    name: str
    revision: str

    @classmethod
    def at(cls, address: str) -> "HubFile":
        """Parse the address `hf://datasets/OWNER/NAME/FILE`, or `…/NAME@REVISION/FILE`.

        DataError if the address has neither form.
        """
        match = re.fullmatch(r"hf://datasets/([^/@]+/[^/@]+)(?:@([^/]+))?/(.+)", address)
        if match is None:
            raise DataError(
                f"{address!r} is not a file of the hub; expected hf://datasets/OWNER/NAME/FILE or "
                "hf://datasets/OWNER/NAME@REVISION/FILE"
            )
        return cls(match[1], match[3], match[2] or "main")

    @property
    def cached(self) -> bool:
        from huggingface_hub import try_to_load_from_cache

        path = try_to_load_from_cache(
            self.repository, self.name, revision=self.revision, repo_type="dataset"
        )
        return isinstance(path, str)

    def fetch(self) -> Path:
        """Return the file's path on this machine, fetched if needed. Raises DataError if that
        fails.
        """
        from huggingface_hub import hf_hub_download
        from huggingface_hub.errors import EntryNotFoundError

        try:
            path = hf_hub_download(
                self.repository, self.name, revision=self.revision, repo_type="dataset"
            )
        except (OSError, EntryNotFoundError) as error:
            reason = explain_hub_error(error, self.repository, kind="datasets")
            raise DataError(
                f"cannot fetch {self.name} of {self.repository} from the hub: {reason}; or set "
                "data: or CSE_DATA to `builtin` or to a folder that has the data"
            ) from error
        return Path(path)
