"""Run a submitted sweep on the head of a cluster, by `python -m` this module.

At first it imports only the standard library, until it knows that the head has the other packages.
"""

import json
import logging
import os
import shutil
import sys
from pathlib import Path

from cse_platform.runner.pinned_packages import find_installed, list_lacking
from cse_platform.tracking.submission import EXIT_LACKS, LACKS, ORDER_FILE, SUBMISSION

RAY_JOB = "RAY_JOB_CONFIG_JSON_ENV_VAR"
"""The variable in which Ray hands a job's environment and metadata to its driver."""


def main() -> None:
    """Run the sweep in the working directory as `cse-sweep` does."""
    order = json.loads(Path(ORDER_FILE).read_text())
    if absent := list_lacking(order["packages"], find_installed(order["packages"])):
        sys.stdout.write(f"{LACKS}{json.dumps(absent)}\n")
        sys.exit(EXIT_LACKS)
    # The driver's environment is given to this sweep's workers instead of the job's. The job's
    # metadata stay, by which Ray knows that the driver belongs to the job.
    job = json.loads(os.environ.get(RAY_JOB, "{}"))
    os.environ[RAY_JOB] = json.dumps({"metadata": job.get("metadata") or {}})
    folder = Path(order["runs"]) / "submitted" / order["job"]
    shutil.copytree(Path(), folder, dirs_exist_ok=True)  # where all nodes see the sweep's files
    os.chdir(folder)
    os.environ[SUBMISSION] = str(folder / ORDER_FILE)
    from cse_platform.cli.sweep import main as cse_sweep
    from cse_platform.standard_streams import EchoHandler

    logging.basicConfig(format="%(message)s", handlers=[EchoHandler()])
    logging.getLogger("cse_platform.runner.driver").setLevel(logging.INFO)
    sys.argv = ["cse-sweep", *order["arguments"]]
    cse_sweep()


if __name__ == "__main__":
    main()
