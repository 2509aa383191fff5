"""Writes what is generated in docs/ and README.md anew: run it by `make docs`."""

import subprocess
import sys
import tempfile
from pathlib import Path

import doc_api
import doc_architecture
import doc_commands
from doc_blocks import ROOT
from doc_world import rewrite_all


def main() -> None:
    """Write methods.md, commands.md, and the generated parts and console blocks of other pages."""
    describe = [str(Path(sys.executable).with_name("cse-sweep")), "describe", "--markdown"]
    methods = subprocess.run(describe, check=True, capture_output=True, text=True).stdout
    (ROOT / "docs" / "methods.md").write_text(methods, encoding="utf-8")
    doc_commands.PAGE.write_text(doc_commands.page(), encoding="utf-8")
    for part in (doc_api, doc_architecture):
        text = part.PAGE.read_text(encoding="utf-8")
        part.PAGE.write_text(part.filled(text), encoding="utf-8")
    with tempfile.TemporaryDirectory() as folder:
        rewrite_all(Path(folder))


if __name__ == "__main__":
    main()
