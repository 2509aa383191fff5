"""Writes what is generated in docs/ and README.md anew: run it by `make docs`."""

import tempfile
from pathlib import Path

import doc_api
from doc_world import rewrite_all


def main() -> None:
    text = doc_api.PAGE.read_text(encoding="utf-8")
    doc_api.PAGE.write_text(doc_api.filled(text), encoding="utf-8")
    with tempfile.TemporaryDirectory() as folder:
        rewrite_all(Path(folder))


if __name__ == "__main__":
    main()
