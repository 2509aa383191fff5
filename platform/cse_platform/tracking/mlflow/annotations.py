"""What people write about sweeps, trials and configurations, as tags of the runs that there are."""

from typing import Any

from mlflow.entities import RunTag

from cse_platform.tracking.events import AnnotationWritten
from cse_platform.tracking.mlflow import tags


def write_annotation(client: Any, experiment: str, event: AnnotationWritten) -> None:
    """Put it on every run of what it is about; a run that a user deleted stays as it is."""
    condition = {
        "sweep": f"tags.`{tags.IDENTITY}` = '{tags.run_identity(event.name)}'",
        "trial": f"tags.{tags.TRIAL} = '{event.name}'",
        "configuration": f"tags.configuration = '{event.name}'",
    }[event.about]
    written, taken = tags.annotation_tags(event)
    added = [RunTag(name, said) for name, said in written.items()]
    for run in client.search_runs([experiment], condition):
        client.log_batch(run.info.run_id, tags=added)
        for name in taken & set(run.data.tags):
            client.delete_tag(run.info.run_id, name)
