"""Writes what is generated in docs/ and README.md anew: run it by `make docs`."""

import subprocess
import sys
import tempfile
from pathlib import Path

import doc_api
import doc_commands
from doc_blocks import ROOT
from doc_world import rewrite_all


def main() -> None:
    """Write methods.md, commands.md, and the generated parts and console blocks of other pages."""
    describe = [str(Path(sys.executable).with_name("cse-sweep")), "describe", "--markdown"]
    methods = subprocess.run(describe, check=True, capture_output=True, text=True).stdout
    (ROOT / "docs" / "methods.md").write_text(methods, encoding="utf-8")
    doc_commands.PAGE.write_text(doc_commands.page(), encoding="utf-8")
    text = doc_api.PAGE.read_text(encoding="utf-8")
    doc_api.PAGE.write_text(doc_api.filled(text), encoding="utf-8")
    with tempfile.TemporaryDirectory() as folder:
        rewrite_all(Path(folder))


if __name__ == "__main__":
    main()
