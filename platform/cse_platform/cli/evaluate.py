"""cse-evaluate: score any encoder on the field's test sets."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal

import click

from cse_platform.cli.common import (
    CONTEXT,
    StoreOptions,
    StrictCommand,
    print_json,
    shows_errors,
    store_options,
    version_option,
)
from cse_platform.numbers import read_count
from cse_platform.standard_streams import announce

if TYPE_CHECKING:
    from cse_methods.encoders.poolers import Pooler
    from cse_methods.tasks import Tasks

POOLERS = ("cls", "avg", "avg_top2", "avg_first_last")


@click.command(cls=StrictCommand, context_settings=CONTEXT)
@version_option
@click.argument("model")
@click.option(
    "--tasks",
    default=("sts",),
    show_default=True,
    multiple=True,
    help="sts, transfer, ranking, geometry, long, single tasks, own files or tasks of mteb: "
    "sts,mr,./my.tsv,mteb:NFCorpus,'{retrieval: ./folder}'. Can be repeated.",
)
@click.option(
    "--data",
    help="A folder in the SentEval layout, `hub` or `builtin`; by default that of a trial's sweep, "
    "else CSE_DATA.",
)
@click.option(
    "--pooler", type=click.Choice(POOLERS), help="Use this pooler instead of the encoder's own."
)
@click.option("--prompt", help="Put this text before each sentence: 'query: '; '' leaves it out.")
@click.option(
    "--head/--no-head",
    default=None,
    help="Keep the dense layer on [CLS] that the weights have, or leave out supervised SimCSE's.",
)
@click.option("--dims", help="Also score the first coordinates of every vector: 32,64,128.")
@click.option(
    "--max-length",
    type=click.IntRange(min=3),
    help="Truncate texts to this many word pieces, special tokens included.",
)
@click.option(
    "--slicing-length",
    type=click.IntRange(min=3),
    help="Read texts in segments of this many word pieces, as HiCL does.",
)
@click.option(
    "--classifier",
    type=click.Choice(("pytorch", "scikit-learn")),
    default="pytorch",
    show_default=True,
    help="SentEval's classifier for transfer tasks; papers use pytorch.",
)
@store_options
@click.option(
    "--json", "as_json", is_flag=True, help="Print JSON: scores as fractions, with identities."
)
@shows_errors
def main(
    model: str,
    tasks: tuple[str, ...],
    data: str | None,
    pooler: "Pooler | None",
    prompt: str | None,
    head: bool | None,
    dims: str | None,
    max_length: int | None,
    slicing_length: int | None,
    classifier: Literal["pytorch", "scikit-learn"],
    stores: StoreOptions,
    as_json: bool,
) -> None:
    """Score an encoder on test sets.

    MODEL is a folder, a hub id, a short name such as bert-base, or a trial of the leaderboard,
    named as for `cse-leaderboard show`. The command records each opening of test sets for a trial,
    also if MODEL is a folder with its model. The scores of a trial that MODEL names go to the
    leaderboard and to MLflow.

    \b
    Examples:
        cse-evaluate princeton-nlp/unsup-simcse-bert-base-uncased --data senteval
        cse-evaluate quickstart-simcse#3 --tasks sts,transfer,ranking,geometry
        cse-evaluate ./simcse-mini --json
    """
    announce(f"reading {model}", log="stderr")  # torch takes seconds
    from cse_methods.transfer.protocol import TransferProtocol
    from cse_platform.scoring import ScoringRequest, score_model

    words = [word.strip() for word in dims.split(",")] if dims is not None else []
    if not all(read_count(word, least=1) for word in words):
        raise click.BadParameter(f"{dims!r} is not a list such as 32,64,128", param_hint="'--dims'")
    request = ScoringRequest(
        model=model,
        tasks=_parse_tasks(tasks),
        data=data,
        reading={
            "pooler": pooler,
            "prompt": prompt,
            "head": head,
            "max_length": max_length,
            "slicing_length": slicing_length,
        },
        dims=tuple(sorted({int(word) for word in words})),
        protocol=TransferProtocol(classifier=classifier),
    )
    url, folder = stores.url_beside_runs, stores.folder
    evaluation = score_model(request, leaderboard=url, runs=folder)
    if as_json:
        from cse_platform.presentation.evaluation import evaluation_record

        print_json(evaluation_record(model, evaluation))
    else:
        from cse_platform.presentation.evaluation import evaluation_page
        from cse_platform.presentation.terminal import print_page

        print_page(evaluation_page(evaluation))


def _parse_tasks(texts: Sequence[str]) -> "Tasks":
    """Parse lists of tasks; what a sweep file has in braces stands in braces here, too."""
    from cse_methods.data.own.naming import register_own_set
    from cse_methods.errors import SettingError
    from cse_methods.tasks import parse_tasks, split_tasks
    from cse_platform.sweep.yaml_file import UnreadableYamlError, read_yaml

    words = [word for text in texts for word in split_tasks(text)]
    files = dict[str, Any]()
    try:
        names = [
            register_own_set("tasks", read_yaml(word).data, files, dev=False)
            if word.startswith("{")
            else word
            for word in words
        ]
    except (SettingError, UnreadableYamlError) as error:
        raise click.BadParameter(str(error), param_hint="'--tasks'") from None
    return parse_tasks(names, files)
