from collections.abc import Callable
from pathlib import Path

import pytest

HEAD = "paper,table,backbone,method,settings,task,split,metric,value,std,configuration"


@pytest.fixture
def lab_file(tmp_path: Path) -> Callable[..., Path]:
    def write(*lines: str, head: str = HEAD) -> Path:
        file = tmp_path / "lab.csv"
        file.write_text("\n".join((head, *lines)) + "\n", encoding="utf-8")
        return file

    return write
