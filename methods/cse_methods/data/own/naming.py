"""Registers own sets in settings: a setting holds a name, and `files` what the set is read from."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from cse_methods.errors import EvaluationError, SettingError
from cse_methods.own_pairs import OwnPairs, is_pairs_file
from cse_methods.task_reference import Reference, is_reference, parse_reference
from cse_methods.tasks import own_name_problem


def register_own_set(setting: str, entry: Any, files: dict[str, Any], *, dev: bool) -> Any:
    """Return the name of an entry; if it is a path, a mapping or a reference, add it to `files`.

    Any other entry is returned unchanged: a name that `files` has already, and in a list of tests
    (not `dev`) a reference to a library.

    Raises:
        SettingError: for the `setting`, such as `also.1`, if the entry is no file of pairs and no
            reference, or cannot have its name. A ValidationError of the entry is its cause.
    """
    if isinstance(entry, str) and entry in files:
        return entry
    if is_reference(entry) and (dev or isinstance(entry, Mapping)):
        return _register_reference(setting, entry, files, dev=dev)
    if isinstance(entry, str) and is_pairs_file(entry):
        entry = {"file": entry}
    if not isinstance(entry, Mapping):
        return entry
    try:
        own = OwnPairs.model_validate(entry)
    except ValidationError as error:
        first = error.errors()[0]
        path = ".".join(map(str, (setting, *first["loc"])))
        known = ", ".join(name for name in OwnPairs.model_fields if name != "sha256")
        said = f"{path}: {first['msg'].removeprefix('Value error, ')}, got {first['input']!r}"
        raise SettingError(setting, f"{said}; a file of pairs has the keys {known}") from error
    if problem := own_name_problem(own):
        raise SettingError(setting, problem)
    other = files.get(own.set_name)
    other = OwnPairs.model_validate(other) if isinstance(other, Mapping) else other
    if other is not None and Path(other.file) == Path(own.file):  # as `./my.tsv` and `my.tsv`
        own = own.model_copy(update={"file": other.file})
    if other is not None and other != own:
        raise SettingError(
            setting,
            f"{own.file} is named twice, with other columns or another scale; name it alike"
            if other.file == own.file
            else f"{other.file} and {own.file} would both be called {own.set_name!r}; rename one "
            f"of them, or name its set, {{file: {own.file}, name: …}}; write it alike if it is one",
        )
    files[own.set_name] = own
    return own.set_name


def _register_reference(setting: str, entry: Any, files: dict[str, Any], *, dev: bool) -> str:
    try:
        own = parse_reference(entry, dev=dev)
    except EvaluationError as error:
        raise SettingError(setting, str(error)) from None
    if own.kind == "benchmark":
        raise SettingError(setting, f"{own.task} is no dev set; name tasks of its one by one")
    other = files.get(own.task)
    other = Reference.model_validate(other) if isinstance(other, Mapping) else other
    if other is not None and other != own:
        way_out = "add another `name:`" if own.is_own else "write it alike"
        raise SettingError(setting, f"{own.task} is named twice, for other data; {way_out}")
    files[own.task] = own
    return own.task
