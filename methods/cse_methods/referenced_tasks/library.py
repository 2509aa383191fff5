"""Tasks of mteb: their data is fetched into snapshots, and they are built from these alone."""

import logging
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from cse_methods.errors import CseError, DataError, EvaluationError
from cse_methods.files.hub import explain_hub_error
from cse_methods.referenced_tasks.adapter import progress_hidden, streams_kept
from cse_methods.referenced_tasks.own_files import EVERY, OWN_METRICS
from cse_methods.referenced_tasks.snapshots import (
    Parts,
    find_snapshot,
    library_version,
    read_rows,
    record_snapshot,
    write_snapshot,
)
from cse_methods.task_reference import Reference, parse_reference

HUB_SECONDS = 5.0
"""Timeout in seconds of the first request for a data set; the library's own take half a minute."""
PARAMETERS = (
    *("seed", "min_score", "max_score", "ignore_identical_ids", "skip_first_result"),
    *("train_split", "samples_per_label", "n_experiments", "is_cross_validation", "n_splits"),
    *("max_document_to_embed", "max_fraction_of_documents_to_embed", "max_documents_per_cluster"),
    *("n_clusters", "k_mean_batch_size", "max_depth", "input1_prompt_type", "input2_prompt_type"),
)
"""The attributes of tasks on which scores depend."""
_LISTS = ("relevant_docs", "top_ranked")
"""The documents of each query in a retrieval task: with their relevance, and to be ranked again."""


def import_mteb() -> Any:
    """Import mteb without a change of any random stream.

    EvaluationError if it is not installed.
    """
    try:
        with streams_kept():
            import mteb
    except ImportError as error:
        raise EvaluationError(
            f"tasks of mteb need the package mteb, which cannot be imported ({error}); run "
            "pip install 'cse-platform[mteb]'"
        ) from error
    logging.getLogger("mteb").setLevel(logging.ERROR)  # it warns of every older task
    return mteb


def make_task(reference: Reference) -> Any:
    """Build the task object that a reference names, without its data.

    EvaluationError if mteb has no such task or subset, the task is not one of single texts, or it
    is evaluated on the split to develop on.
    """
    if reference.is_own:
        return _make_own_task(reference)
    mteb = import_mteb()
    try:
        with streams_kept():
            task = mteb.get_task(reference.name)
    except KeyError as error:
        raise _make_unknown_name_error("task", error) from None
    if task.is_aggregate or task.metadata.modalities != ["text"]:
        raise EvaluationError(
            f"{reference.task}: expected a single task on texts; name the parts of an aggregate "
            "task one by one"
        )
    if reference.split in task.metadata.eval_splits:
        raise EvaluationError(
            f"{reference.task}: {reference.split!r} is a split on which the task is evaluated "
            f"({', '.join(task.metadata.eval_splits)}); a dev set needs another: "
            f"{{mteb: {reference.name}, split: …}}, or another task"
        )
    known = task.metadata.hf_subsets
    if unknown := [subset for subset in reference.subsets if subset not in known]:
        raise EvaluationError(
            f"{reference.task}: no subset {unknown[0]!r}; the task has {', '.join(known)}"
        )
    task.hf_subsets = [name for name in known if name in reference.subsets or not reference.subsets]
    return task


def find_test_splits(task: Any) -> list[str]:
    """Return the splits that score a task: `test` if it is evaluated on it, else all of its own."""
    splits = list(task.metadata.eval_splits)
    return ["test"] if "test" in splits else splits


def check_references(references: Sequence[Reference]) -> None:
    """Raise EvaluationError if mteb lacks one of these tasks or benchmarks; asks no hub."""
    for reference in references:
        if reference.kind == "benchmark":
            _list_members(reference)
        else:
            make_task(reference)


def _make_own_task(reference: Reference) -> Any:
    """Build a task for own files."""
    import_mteb()
    from mteb import TaskMetadata, abstasks

    base, kind = {
        "retrieval": (abstasks.AbsTaskRetrieval, "Retrieval"),
        "triplets": (abstasks.AbsTaskRetrieval, "Reranking"),
        "classification": (abstasks.AbsTaskClassification, "Classification"),
        "pairs": (abstasks.AbsTaskPairClassification, "PairClassification"),
        "clusters": (abstasks.AbsTaskClusteringLegacy, "Clustering"),
    }[reference.kind]
    metadata = TaskMetadata(
        name=reference.name,
        description="own files",
        dataset={"path": reference.task, "revision": reference.sha256 or "unknown"},
        type=kind,
        eval_langs=["eng-Latn"],  # which no score depends on
        main_score=OWN_METRICS[reference.kind],
    )
    with streams_kept():
        return type(kind, (base,), {"metadata": metadata})()


def fetch_references(references: Sequence[Reference]) -> None:
    """Make snapshots of the data of all references that lack one.

    DataError if the hub does not give the data; EvaluationError as `make_task`.
    """
    for reference in references:
        if reference.kind == "benchmark":
            members = [parse_reference(name) for name in _list_members(reference)]
            fetch_references(members)
            named = tuple(member.task for member in members)
            pinned = reference.model_copy(update={"members": named})
            record_snapshot(pinned, {"mteb": library_version()})
        elif find_snapshot(reference) is None:
            fetch_snapshot(reference)


def fetch_snapshot(reference: Reference) -> Reference:
    """Fetch the data of a task from the hub and make its snapshot.

    Returns the reference with the checksum of its rows. DataError if the hub does not give the
    data, it lacks the split, or its rows are not text and numbers; EvaluationError as `make_task`.
    """
    task = make_task(reference)
    wanted = [reference.split] if reference.split else find_test_splits(task)
    task.filter_eval_splits(wanted)
    place = task.metadata.dataset
    with (
        _hub_errors_explained(reference, place["path"]),
        _own_datasets_cache(),
        streams_kept(),
        progress_hidden(),
    ):
        from huggingface_hub import HfApi, constants

        if constants.HF_HUB_OFFLINE:
            raise DataError(
                "HF_HUB_OFFLINE is set, and there is no snapshot of its data here; unset it once, "
                "or copy the cache (CSE_CACHE) of a machine that has one"
            )
        # Without the hub, the library would read a cache that can lack parts, and say nothing.
        HfApi().dataset_info(place["path"], revision=place["revision"], timeout=HUB_SECONDS)
        task.load_data()
        if hasattr(task, "convert_v1_dataset_format_to_v2"):
            task.convert_v1_dataset_format_to_v2(None)
        sha256 = write_snapshot(_list_parts(task, wanted), reference)
    pinned = reference.model_copy(update={"sha256": sha256})
    source = {"splits": wanted, "data set": place, "mteb": library_version()}
    record_snapshot(pinned, source)
    return pinned


def load_task(
    reference: Reference, rows: Mapping[str, Sequence[Mapping[str, Any]]] | None = None
) -> tuple[Any, list[str]]:
    """Build a task with its data, for one evaluation.

    Args:
        reference: the task.
        rows: its data, if `read_rows` has read it already.

    Returns:
        The task object and the names of the splits to score. Where classifiers of a task to develop
        on would be tested on what trains them, each fifth row tests them, and the others train.

    Raises:
        DataError: if there is no data of this checksum.
    """
    from datasets import Dataset

    task = make_task(reference)
    splits = [reference.split] if reference.split else find_test_splits(task)
    is_cut = splits == [getattr(task, "train_split", None)]
    dataset = dict[str, dict[str, Any]]()
    for name, of_part in (read_rows(reference) if rows is None else rows).items():
        subset, of_split, part = name.split("/")
        parts = dataset.setdefault(subset, {})
        if part == "rows":
            if is_cut:
                parts["dev"] = Dataset.from_list(of_part[::EVERY])
                of_part = [row for number, row in enumerate(of_part) if number % EVERY]
            parts[of_split] = Dataset.from_list(of_part)
            continue
        parts = parts.setdefault(of_split, {"top_ranked": None})
        if part in _LISTS:
            parts[part] = {row["query"]: row["documents"] for row in of_part}
        else:
            parts[part] = Dataset.from_list(of_part)
    task.dataset, task.data_loaded = dataset, True
    return task, ["dev"] if is_cut else splits


def describe_protocol(task: Any, splits: Sequence[str]) -> dict[str, Any]:
    """Describe how vectors become the score of a task.

    Versions belong to it where the score cannot be computed again from vectors and rows alone.
    """
    from mteb.abstasks import AbsTaskPairClassification, AbsTaskRetrieval, AbsTaskSTS

    given = {name: getattr(task, name) for name in PARAMETERS if hasattr(task, name)}
    protocol = {
        "metric": task.metadata.main_score,
        "kind": task.metadata.type,
        "splits": list(splits),
        "subsets": sorted(task.hf_subsets),
        "parameters": {name: getattr(value, "value", value) for name, value in given.items()},
    }
    if isinstance(task, (AbsTaskSTS, AbsTaskPairClassification, AbsTaskRetrieval)):
        return protocol
    from sklearn import __version__ as scikit_learn

    return {**protocol, "versions": {"mteb": library_version(), "scikit-learn": scikit_learn}}


def _list_members(benchmark: Reference) -> list[str]:
    """Return the tasks of a benchmark, as references; EvaluationError if mteb has none so named."""
    mteb = import_mteb()
    try:
        with streams_kept():
            tasks = list(mteb.get_benchmark(benchmark.name).tasks)
    except KeyError as error:
        raise _make_unknown_name_error("benchmark", error) from None
    names = []
    for task in tasks:
        subsets, all_subsets = sorted(task.hf_subsets), sorted(task.metadata.hf_subsets)
        chosen = () if subsets == all_subsets else subsets
        names.append("/".join((f"mteb:{task.metadata.name}", *chosen)))
    return names


def _make_unknown_name_error(what: str, error: KeyError) -> EvaluationError:
    said = str(error.args[0]).removeprefix("KeyError: ")
    return EvaluationError(f"no such {what} in mteb {library_version()}: {said}")


def _list_parts(task: Any, splits: Sequence[str]) -> Parts:
    """Return all rows that an evaluation on these splits reads."""
    by_subset = {"default": task.dataset} if splits[0] in task.dataset else task.dataset
    parts = dict[str, Any]()
    for subset in task.hf_subsets:
        for name in dict.fromkeys((*splits, getattr(task, "train_split", splits[0]))):
            data, folder = by_subset[subset][name], f"{subset}/{name}"
            if not isinstance(data, dict):
                parts[f"{folder}/rows"] = data
                continue
            parts |= {f"{folder}/{part}": data[part] for part in ("corpus", "queries")}
            # The library's order of these is another each time.
            for part in _LISTS:
                if data.get(part) is not None:
                    ordered = sorted(data[part].items())
                    parts[f"{folder}/{part}"] = [{"query": q, "documents": d} for q, d in ordered]
            if task.metadata.type == "Reranking" and data.get("top_ranked") is None:
                raise DataError("the lists to rerank are missing")
    return parts


@contextmanager
def _hub_errors_explained(reference: Reference, repository: str) -> Iterator[None]:
    """Turn errors of the hub into a DataError of one sentence."""
    try:
        yield
    except CseError as error:
        raise type(error)(f"{reference.task}: {error}") from error
    except Exception as error:  # those of builders of data sets have no common base
        reason = explain_hub_error(error, repository, kind="datasets")
        raise DataError(
            f"{reference.task}: cannot fetch {repository} from the hub: {reason}"
        ) from error


@contextmanager
def _own_datasets_cache() -> Iterator[None]:
    """Give `datasets` a folder of its own, so that no table of a test split stays behind."""
    import datasets

    before = datasets.config.HF_DATASETS_CACHE
    with tempfile.TemporaryDirectory(prefix="cse-datasets-", ignore_cleanup_errors=True) as folder:
        datasets.config.HF_DATASETS_CACHE = folder
        try:
            yield
        finally:
            datasets.config.HF_DATASETS_CACHE = before
