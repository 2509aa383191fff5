"""What every benchmark asks of its command line, and how it tells its results."""

import json
import subprocess
import sys
from argparse import ArgumentDefaultsHelpFormatter, ArgumentParser
from typing import Any


def options(example: str) -> ArgumentParser:
    """A parser whose help has the first line of the script's docstring, and an example."""
    return ArgumentParser(
        description=(sys.modules["__main__"].__doc__ or "").partition("\n")[0],
        epilog=f"Example: python benchmarks/{example}",
        formatter_class=ArgumentDefaultsHelpFormatter,
    )


def say(line: str) -> None:
    """Print a line and flush it."""
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def last_json(command: list[str]) -> dict[str, Any]:
    """Parse the last line of a command's output as JSON."""
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    found: dict[str, Any] = json.loads(done.stdout.strip().splitlines()[-1])
    return found
