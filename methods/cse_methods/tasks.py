"""The tasks on which an encoder can be scored, by name; this module opens no file."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeVar, get_args

from cse_methods.errors import EvaluationError, nearest_hint
from cse_methods.files.named import expand
from cse_methods.own_pairs import OwnPairs, is_pairs_file
from cse_methods.task_reference import Reference, is_reference, parse_reference

TransferTask = Literal["mr", "cr", "subj", "mpqa", "sst2", "trec", "mrpc"]
ReviewTask = Literal["yelp", "imdb"]
Statistic = Literal["mean", "spearman", "average_precision"]
"""What makes the score of a task of the values of its examples."""

STS_TASKS = ("sts12", "sts13", "sts14", "sts15", "sts16", "stsb", "sickr")
TRANSFER_TASKS: tuple[TransferTask, ...] = get_args(TransferTask)
LONG_TASKS: tuple[ReviewTask, ...] = get_args(ReviewTask)
_Name = TypeVar("_Name", bound=str)
OwnSet = OwnPairs | Reference
"""A dev or test set that a sweep file names: own pairs, or a task by its reference."""

AVG_STS, AVG_TRANSFER = "avg_sts", "avg_transfer"
MAIN_SCORE = "main_score"
"""The metric of a referenced task; the settings of a score say which of its metrics that is."""

GEOMETRY_TASK: Literal["stsb"] = "stsb"
"""The dev set whose space is measured."""
GEOMETRY_METRICS = ("alignment", "uniformity", "effective_rank", "mean_cosine")
"""What is measured of an embedding space. These are not fractions: no table shows them x 100."""
CONTAMINATION_METRICS = ("in_corpus", "in_teachers", "in_dev")
"""Which share of a set's sentences stands in the training corpus, in the corpora that the teachers
declare, and in a lab's own dev files."""
SENTENCE_GROUPS = "sentence_groups"
"""How many groups of pairs that share sentences a set has, as a fraction of its pairs."""
DATA_METRICS = (*CONTAMINATION_METRICS, SENTENCE_GROUPS)
"""What is measured of a set and not of an encoder: no table of scores shows them."""
TASK_FAMILIES = ("sts", "transfer", "ranking", "geometry", "long")
_MEMBERS: dict[str, tuple[str, ...]] = {
    "sts": STS_TASKS,
    "transfer": TRANSFER_TASKS,
    "long": LONG_TASKS,
}


def own_name_problem(own: OwnPairs) -> str | None:
    """Explain why a lab's own file cannot be a set under its name; None if it can."""
    taken = {*STS_TASKS, *TRANSFER_TASKS, *LONG_TASKS, *TASK_FAMILIES, AVG_STS, AVG_TRANSFER}
    way_out = (
        f"name the set in a sweep file, {{file: {own.file}, name: …}}, or rename the file: at most "
        "100 ASCII letters, digits, '-', '_' and '.', a letter or digit first, no file's ending"
    )
    if own.set_name in taken | {"transfer_dev", "dev", "test"}:
        return f"{own.file} would be called {own.set_name!r}, which has a meaning here; {way_out}"
    sound = re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,99}", own.set_name)
    if sound and not is_pairs_file(own.set_name):
        return None
    return f"{own.file} would be called {own.set_name!r}; {way_out}"


@dataclass(frozen=True)
class Tasks:
    """The tasks that an encoder is scored on, by family, in the papers' order."""

    sts: tuple[str, ...] = ()
    transfer: tuple[TransferTask, ...] = ()
    ranking: tuple[str, ...] = ()
    """STS sets whose pairs are ranked."""
    geometry: bool = False
    """On STS-B dev."""
    long: tuple[ReviewTask, ...] = ()
    own: tuple[OwnPairs, ...] = ()
    """A lab's own files of pairs."""
    referenced: tuple[Reference, ...] = ()
    """Tasks of mteb, benchmarks, and tasks that a lab's own files make."""

    @property
    def names(self) -> tuple[str, ...]:
        """The shortest list of words that name these tasks; own files by their paths."""
        words: list[str] = []
        for family, members in _MEMBERS.items():
            own = getattr(self, family)
            words += [family] if own == members else own
        ranking, geometry = ["ranking"] * bool(self.ranking), ["geometry"] * self.geometry
        files = (own.file for own in self.own)
        return (*words, *ranking, *geometry, *files, *(one.task for one in self.referenced))

    @property
    def parts(self) -> frozenset[str]:
        """Each single task, and `ranking` and `geometry`: one evaluation covers another by them."""
        families = {"ranking": bool(self.ranking), "geometry": self.geometry}
        asked = [name for name, wanted in families.items() if wanted]
        own = [f"{one.set_name} {one.sha256}" for one in self.own]
        own += [" ".join(filter(None, (one.task, one.sha256))) for one in self.referenced]
        return frozenset((*self.sts, *self.transfer, *self.long, *asked, *own))

    @property
    def opens_tests(self) -> bool:
        """Whether any of it is scored on a test set; the geometry is measured on a dev set."""
        return bool(self.parts - {"geometry"})


def split_tasks(text: str) -> list[str]:
    """Split a list such as `sts,mteb:NFCorpus,benchmark:MTEB(eng, v2)` outside its brackets."""
    words, depth = [""], 0
    for character in text:
        depth += (character in "({") - (character in ")}")
        if character == "," and depth == 0:
            words.append("")
        else:
            words[-1] += character
    return [word.strip() for word in words if word.strip()]


def parse_tasks(words: Sequence[str], files: Mapping[str, OwnSet] | None = None) -> Tasks:
    """Put families (`sts`, `transfer`, `ranking`, `geometry`, `long`) and single tasks together.

    A word may also be a path to a file of pairs, the name of one of `files`, or a reference such as
    `mteb:NFCorpus`; those of libraries are not looked up here.

    Raises:
        EvaluationError: names a word that is neither, and the nearest that is; or says that
            there is none, or why a file cannot be a test set.
    """
    given = {name: one for name, one in (files or {}).items() if isinstance(one, Reference)}
    paths = {word: OwnPairs(file=expand(word)) for word in words if is_pairs_file(word)}
    known = paths | {name: one for name, one in (files or {}).items() if isinstance(one, OwnPairs)}
    own = dict[str, OwnPairs]()
    for word in [word for word in words if word in known]:
        if problem := own_name_problem(known[word]):
            raise EvaluationError(problem)
        other = own.setdefault(known[word].set_name, known[word])
        if Path(other.file) != Path(known[word].file):
            raise EvaluationError(
                f"{other.file} and {known[word].file} would both be called {other.set_name!r}; "
                "rename one of them, or score them one by one"
            )
    referenced = dict.fromkeys(word for word in words if word in given or is_reference(word))
    words = [word for word in words if word not in known and word not in referenced]
    each = [task for members in _MEMBERS.values() for task in members]
    if not words and not own and not referenced:
        raise EvaluationError(
            f"no task is named; name some of {', '.join(TASK_FAMILIES)}, or {', '.join(each)}"
        )
    for word in words:
        if word not in (*TASK_FAMILIES, *each):
            hint = nearest_hint(word.lower(), [*TASK_FAMILIES, *each])
            raise EvaluationError(
                f"no task {word!r}.{hint} Known: {', '.join(TASK_FAMILIES)}; {', '.join(each)}; a "
                "file of pairs such as ./my-test.tsv; a task of mteb such as mteb:NFCorpus"
            )

    def select(family: str, members: tuple[_Name, ...]) -> tuple[_Name, ...]:
        return tuple(task for task in members if family in words or task in words)

    return Tasks(
        sts=select("sts", STS_TASKS),
        transfer=select("transfer", TRANSFER_TASKS),
        ranking=STS_TASKS if "ranking" in words else (),
        geometry="geometry" in words,
        long=select("long", LONG_TASKS),
        own=tuple(own.values()),
        referenced=tuple(given.get(word) or parse_reference(word) for word in referenced),
    )
