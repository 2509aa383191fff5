"""Check whether test sets are available, without opening one."""

from pathlib import Path

from cse_methods.data.dev_sets import missing_dev_sets
from cse_methods.data.manifest import manifest
from cse_methods.data.own.reading import refuse_absent
from cse_methods.data.senteval import missing_senteval
from cse_methods.data.source import data_source
from cse_methods.errors import DataError
from cse_methods.evaluation.test_sets.reviews import missing_reviews
from cse_methods.referenced_tasks.snapshots import missing_references
from cse_methods.tasks import GEOMETRY_TASK, TRANSFER_TASKS, Tasks

_FOLDERS: dict[str, str] = {
    **{f"sts{year}": f"STS/STS{year}-en-test/" for year in range(12, 17)},
    "stsb": "STS/STSBenchmark/sts-test.csv",
    "sickr": "SICK/SICK_test_annotated.txt",
    **{task: f"{task.upper()}/" for task in TRANSFER_TASKS},
    "sst2": "SST/binary/",
}
"""What each task reads below `downstream/`: a file, or all files in a folder."""


def missing_tests(tasks: Tasks, data: str | None) -> list[str]:
    """List what must be downloaded from the hub for these tasks, one line each.

    Raises:
        DataError: names the first file that is missing in a data folder.
    """
    for own in tasks.own:
        refuse_absent(own)
    missing = missing_references(tasks.referenced)
    missing += missing_reviews(tasks.long, data)
    wanted = list(dict.fromkeys((*tasks.sts, *tasks.ranking, *tasks.transfer)))
    source = data_source(data)
    if isinstance(source, Path):
        for task in wanted:
            for path in manifest():
                needed = path.startswith(f"downstream/{_FOLDERS[task]}")
                if needed and not (source / path).is_file():
                    raise DataError(
                        f"{source / path}: {task} is scored on this file, which is missing; "
                        "`cse-data check` lists what a folder lacks, and `cse-data fetch` fills it"
                    )
    elif source == "hub" and wanted:
        missing += missing_senteval()
    return missing + (missing_dev_sets([GEOMETRY_TASK], data) if tasks.geometry else [])
