from collections.abc import Callable
from typing import Any

import pytest
from mlflow_history import HISTORY, JOURNAL, contents, numbered

from cse_platform.stores.mlflow.mirror import MLflowMirror


@pytest.fixture
def new_store(empty_mlflow, tmp_path) -> Callable[[str], str]:
    return lambda name: empty_mlflow(tmp_path / name)


@pytest.fixture(scope="session")
def undisturbed(empty_mlflow, tmp_path_factory) -> dict[str, Any]:
    """What stands in a store that got each event as it happened."""
    uri = empty_mlflow(tmp_path_factory.mktemp("undisturbed") / "mlflow.db")
    mirror = MLflowMirror(uri)
    for entry in numbered(HISTORY):
        mirror.apply(JOURNAL, [entry])
    return contents(uri)


@pytest.fixture
def uri(new_store) -> str:
    return new_store("mlflow.db")
