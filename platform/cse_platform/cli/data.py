"""cse-data: check or fill a data folder, count sentence lengths and overlaps, show the cache."""

from collections import Counter
from collections.abc import Sequence
from math import isfinite
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

import click

from cse_methods.errors import DataError, TableError
from cse_platform.cli.common import CONTEXT, ShowingGroup, UserPath, print_table, version_option
from cse_platform.standard_streams import echo

if TYPE_CHECKING:
    from cse_methods.data.check import FileCheck
    from cse_methods.data.corpus_spec import CorpusSpec
    from cse_methods.files.table_settings import TableFormat

_FOLDER = UserPath()
_FORMAT_ADVICE = {
    "format": "; or add --format",
    "unquoted": "; or add --format unquoted if quotes are characters",
}
"""How `overlap` reads a table that it refuses, by what could be stated of it."""
_NOTE = (
    "Other checksum: as many records, but not the known bytes, perhaps another tokenisation; "
    "scores may differ from those of others."
)


@click.group(cls=ShowingGroup, context_settings=CONTEXT)
@version_option
def main() -> None:
    """Fetch, check and inspect evaluation sets and corpora.

    A data folder holds evaluation sets in the SentEval layout, and corpora.

    \b
    Examples:
        cse-data fetch data
        cse-data check data
        cse-data lengths wiki1m --backbone roberta-large
        cse-data overlap corpus.txt my-test.tsv
        CSE_DATA=data cse-sweep sweeps/rankcse.yaml
    """


@main.command()
@click.argument("folder", metavar="[DIR]", type=_FOLDER, envvar="CSE_DATA", required=False)
def check(folder: Path | None) -> None:
    """Compare the files in DIR with their known counts and checksums.

    DIR defaults to CSE_DATA. The command exits with 1 if an evaluation file is missing or has a
    wrong count. It reports a file with the right count but another checksum; this is not an error.

    \b
    Example:
        cse-data check data
    """
    from cse_methods.data.check import check_folder

    if folder is None:
        raise click.UsageError("no folder to check; name DIR or set CSE_DATA")
    checks = check_folder(folder)
    rows = [(c.path, c.state, c.expected, c.found) for c in checks]
    notes = [_NOTE] if any(c.state == "other checksum" for c in checks) else []
    print_table(("file", "state", "expected", "found"), rows, _format_summary(checks), *notes)
    if lacking := sum(c.lacking for c in checks):
        raise DataError(
            f"{folder} is incomplete: {lacking} of {len(checks)} files are missing or have a "
            f"wrong count; `cse-data fetch {folder}` gets them from the hub"
        )


@main.command()
@click.argument("folder", metavar="DIR", type=_FOLDER)
def fetch(folder: Path) -> None:
    """Fetch all evaluation sets and the corpus wiki1m into DIR.

    The files come from the Hugging Face Hub. Files with the right count are kept, and interrupted
    downloads continue. If some files cannot be fetched, the command names them and exits with 1.

    \b
    Example:
        cse-data fetch data
    """
    from cse_methods.data.check import check_files
    from cse_methods.data.senteval import fetch_corpus, fetch_senteval

    problems = []
    for fill in (fetch_senteval, fetch_corpus):
        try:
            fill(folder)
        except DataError as error:
            problems.append(str(error))
    echo("\n".join(problems), err=True, nl=bool(problems))
    checks = check_files(folder)
    echo(f"{folder}: {_format_summary(checks)}")
    if folders := Counter(str(PurePosixPath(c.path).parent) for c in checks if c.lacking):
        echo()
        print_table(("lacking in", "files"), [(folder, str(n)) for folder, n in folders.items()])
    if problems or folders:
        raise DataError(
            f"some files of {folder} could not be fetched; run the same command again to continue"
        )


@main.command()
@click.argument("corpus")
@click.option(
    "--backbone", default="bert-base", show_default=True, help="Count word pieces of this backbone."
)
@click.option(
    "--data", help="A folder in the SentEval layout, `hub` or `builtin`.  [env var: CSE_DATA]"
)
def lengths(corpus: str, backbone: str, data: str | None) -> None:
    """Count the sentences of CORPUS by length in word pieces.

    Special tokens count; empty lines do not. CORPUS is written as `corpus:` of a sweep file:
    wiki1m, builtin, a text file, or a table in braces. If papers print the shares of this corpus,
    the command shows these too.

    \b
    Examples:
        cse-data lengths wiki1m
        cse-data lengths ./sentences.txt --backbone roberta-large
        cse-data lengths '{name: pairs.tsv, column: sentence1}' --backbone mini
    """
    from cse_methods.data.corpora import load_corpus
    from cse_methods.data.lengths import count_lengths
    from cse_methods.published.tables import published_lengths

    spec = _parse_corpus(corpus)
    sentences = load_corpus([spec], data, backbone=backbone).sentences
    papers = published_lengths(corpus)
    rows = []
    for (over, to), counted in count_lengths(sentences, backbone=backbone).items():
        printed = (shares.get((over, to)) for shares in papers.values())
        between = f"{over:.0f} < n ≤ {to:.0f}" if isfinite(to) else f"n > {over:.0f}"
        shown = ("" if share is None else f"{share:.3%}" for share in printed)
        rows.append((between, f"{counted:,}", f"{counted / len(sentences):.3%}", *shown))
    summary = f"{corpus}: {len(sentences):,} sentences in word pieces of {backbone}."
    print_table(("word pieces", "sentences", "share", *papers), rows, summary)


@main.command()
@click.option("--clear", is_flag=True, help="Delete the files; they are made again when needed.")
def cache(clear: bool) -> None:
    """Show the files that this machine caches, and their size.

    All trials share the cache. It is in the folder CSE_CACHE, or if that is not set, in the user's
    cache folder. Do not clear it while a trial runs.

    \b
    Examples:
        cse-data cache
        cse-data cache --clear
    """
    from cse_methods.files.cache import CACHE_KINDS, cache_files, cache_root

    rows = []
    for kind, text in CACHE_KINDS.items():
        files = cache_files(kind)
        size = sum(file.stat().st_size for file in files)
        rows.append((kind, text, str(len(files)), f"{size / 2**20:.1f}"))
        for file in files if clear else ():
            file.unlink()
    done = f"{cache_root()}: {'cleared' if clear else 'kept'}"
    print_table(("kind", "what", "files", "MiB"), rows, done)


@main.command()
@click.argument("files", metavar="[A B]", nargs=-1, type=UserPath())
@click.option(
    "--format",
    "table_format",
    type=click.Choice(("csv", "tsv", "unquoted")),
    help="How CSV and TSV are read, as by `format:` in a sweep file; by default by their names.",
)
def overlap(files: tuple[Path, ...], table_format: "TableFormat | None") -> None:
    """Count the sentences and pairs that two files share.

    A and B are text files, tables, or folders of them such as STS15-en-test. In a text file, each
    line is a sentence. A table is read as a sweep reads it; the columns whose cells mostly have
    several words hold the sentences, and the first two of these columns form a pair. Case,
    punctuation and the order of a pair do not count. Without files, the command counts the rows of
    the STS test sets that are also in dev sets or in each other.

    \b
    Examples:
        cse-data overlap
        cse-data overlap ./my-dev.tsv data/downstream/SICK/SICK_test_annotated.txt
        cse-data overlap corpus.txt data/downstream/STS/STSBenchmark/sts-test.csv
    """

    if not files:
        from cse_methods.evaluation.clean import LeftOut, known_left_out

        counts = [
            (count.dev.replace("+", ", ") or "none", count.task, *map(str, count[2:]))
            for count in known_left_out().values()
        ]
        print_table(("dev sets", *LeftOut._fields[1:]), counts)
        return
    if len(files) != 2:
        raise click.UsageError(f"name two files, or none, got {len(files)}")
    from cse_methods.data.overlap import read_keys
    from cse_methods.files.table_settings import SEPARATORS, TableSettings

    stated, by_name = TableSettings(format=table_format), TableSettings()
    try:
        a, b = (
            read_keys(file, stated if by_name.format_of(file) in (None, *SEPARATORS) else by_name)
            for file in files
        )
    except TableError as error:
        raise DataError(error.problem + _FORMAT_ADVICE.get(error.setting, "")) from None
    rows = []
    for kind, ours, theirs in zip(("sentences", "pairs"), a, b, strict=True):
        for name, keys, other_keys in ((files[0], ours, theirs), (files[1], theirs, ours)):
            if ours and theirs:
                others = set(other_keys)
                shared = sum(key in others for key in keys)
                rows.append(
                    (kind, str(name), f"{len(keys):,}", f"{shared:,}", f"{shared / len(keys):.1%}")
                )
    print_table(
        ("what", "of", "there are", "also in the other", "share"),
        rows,
        "Case, punctuation and the order of a pair do not count; repeats do.",
    )


def _parse_corpus(text: str) -> "CorpusSpec":
    """Parse a corpus; what a sweep file has in braces stands in braces here, too."""
    from pydantic import ValidationError

    from cse_methods.data.corpus_spec import CorpusSpec
    from cse_platform.sweep.problems import joined_problems, problems_in
    from cse_platform.sweep.yaml_file import UnreadableYamlError, read_yaml

    try:
        stated = read_yaml(text).data if text.startswith("{") else {"name": text}
        return CorpusSpec.model_validate({"drop_empty": True, **stated})
    except UnreadableYamlError as error:
        raise click.BadParameter(str(error), param_hint="CORPUS") from None
    except ValidationError as error:
        reason = joined_problems(problems_in(error, stated, model=CorpusSpec))
        raise click.BadParameter(reason, param_hint="CORPUS") from None


def _format_summary(checks: Sequence["FileCheck"]) -> str:
    states = Counter(c.state for c in checks)
    return f"{len(checks)} files: {', '.join(f'{n} {state}' for state, n in states.items())}."
