"""Checks that an MLflow store exists, without MLflow, which would create a missing one."""

import sqlite3
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlparse

from cse_platform.errors import NoStoreError, StoreError
from cse_platform.secrets import mask_url
from cse_platform.tracking.mlflow.store import check_uri, is_server, store_errors

_TABLE = "experiments"
_EXPERIMENT = "meta.yaml"
"""The file in each experiment's folder."""


def check_there(uri: str) -> None:
    """Raise StoreError where MLflow would create a store or upgrade one; nothing is written.

    The URI is that of a tracking server, a database or a folder (`file:…`). A server is not asked
    here: the first request to it fails if it does not answer.
    """
    if urlparse(uri).scheme == "file":
        _check_folder(Path(unquote(urlparse(uri).path)))
        return
    check_uri(uri)
    if not is_server(uri):
        _check_database(uri)


def _check_folder(folder: Path) -> None:
    if not folder.is_dir():
        raise NoStoreError(f"no folder {folder} of MLflow runs")
    if (folder / _EXPERIMENT).exists() or not any(folder.glob(f"*/{_EXPERIMENT}")):
        raise StoreError(
            f"the folder {folder} is not an MLflow store: it holds no experiments, folders with a "
            f"{_EXPERIMENT}; name the one that does, often called mlruns"
        )


def _check_database(uri: str) -> None:
    with store_errors(uri):
        there = _list_tables(uri)
        if _TABLE in there and not (lacking := _list_known_tables() - there):
            return
    if _TABLE not in there:
        what = f"the database {mask_url(uri)} is not an MLflow store"
        raise StoreError(f"{what}: it has no table {_TABLE!r}")
    raise StoreError(
        f"the MLflow store {mask_url(uri)} is of an older schema, without the table "
        f"{min(lacking)!r}; `mlflow db upgrade` with its URI upgrades it"
    )


def _list_known_tables() -> set[str]:
    """List the tables that this version of MLflow would create."""
    import mlflow.store.db.utils  # noqa: F401 (it declares them)
    from mlflow.store.db.base_sql_model import Base

    return set(Base.metadata.tables)


def _list_tables(uri: str) -> set[str]:
    from sqlalchemy import NullPool, create_engine, inspect, make_url

    options: dict[str, Any] = {"poolclass": NullPool}
    place = make_url(uri)
    if place.get_backend_name() == "sqlite":
        file = Path(place.database or "")
        if not file.is_file():
            raise NoStoreError(f"no MLflow database {file}")
        read_only = f"{file.absolute().as_uri()}?mode=ro"
        options["creator"] = lambda: sqlite3.connect(read_only, uri=True)
    with create_engine(place, **options).connect() as connection:
        return set(inspect(connection).get_table_names())
