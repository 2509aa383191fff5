"""Registers own files in settings: a setting holds a file's name, and `files` holds its path."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from cse_methods.data.own.spec import OwnPairs, is_pairs_file
from cse_methods.errors import SettingError
from cse_methods.tasks import own_name_problem


def register_own_file(setting: str, entry: Any, files: dict[str, Any]) -> Any:
    """Return the name of an entry; if it is a path or a mapping, add it to `files`.

    Any other entry is returned unchanged, a name that `files` has already among them.

    Raises:
        SettingError: for the `setting`, such as `also.1`, if the entry is no file of pairs
            or cannot have its name. A ValidationError of the entry is its cause.
    """
    if isinstance(entry, str) and entry not in files and is_pairs_file(entry):
        entry = {"file": entry}
    if not isinstance(entry, Mapping):
        return entry
    try:
        own = OwnPairs.model_validate(entry)
    except ValidationError as error:
        first = error.errors()[0]
        path = ".".join(map(str, (setting, *first["loc"])))
        known = ", ".join(name for name in OwnPairs.model_fields if name != "sha256")
        said = f"{path}: {first['msg']}, got {first['input']!r}"
        raise SettingError(setting, f"{said}; a file of pairs has the keys {known}") from error
    if problem := own_name_problem(own):
        raise SettingError(setting, problem)
    other = files.get(own.set_name)
    other = OwnPairs.model_validate(other) if isinstance(other, Mapping) else other
    if other is not None and other != own:
        raise SettingError(
            setting,
            f"{own.file} is named twice, with other columns or another scale; name it alike"
            if Path(other.file) == Path(own.file)
            else f"{other.file} and {own.file} would both be called {own.set_name!r}; rename one "
            f"of them, or name its set, {{file: {own.file}, name: …}}; write it alike if it is one",
        )
    files[own.set_name] = own
    return own.set_name
