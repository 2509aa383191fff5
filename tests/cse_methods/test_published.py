import csv
from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest

from cse_methods import published
from cse_methods.names import method_name
from cse_methods.published.released import names_of_released, released_encoder
from cse_methods.published.tables import published_settings, read_published
from cse_methods.registry import available_methods, get_method

ADDED: dict[str, dict[str, Any]] = {
    **{name: {"pooler": "cls"} for name in ("simcse", "esimcse", "rankcse")},
    "ct": {"max_grad_norm": None},  # Keras' optimizer does not clip
    "isbert": {"mask_padding": False},  # of the same code as its `relu: false`
    "dclr": {"complementary_dropout": True},
    "mocose bert-base": {"train_target_projection": True},  # there is no code for large models
    "promptbert roberta-base": {"bare_positions": "from_zero"},
}
"""Settings that the papers or their released code tell, beside those of the shared table: of a
method, or of one of its backbones."""
BASES = {
    "esimcse": ("queue_size", "repetition_rate", "momentum", "dropout"),
    "sncse": ("margin_low", "margin_high", "margin_weight"),
}
"""What HiCL takes over from its base, as the base's authors set it for the same backbone."""
SEARCHED_ON = {
    ("compcse", "d0"): {"bert-base", "bert-large"},  # table 6; section 5 excludes RoBERTa
    ("compcse", "aggregation"): {"bert-base", "roberta-base"},  # table 3
    ("compcse", "compose"): {"bert-base"},  # table 4
    ("compcse", "partitions"): {"bert-base"},  # table 5
    ("hicl", "slicing_length"): {"roberta-large"},  # figure 2, with two of the bases
}
"""The backbones of an ablation, where the shared table repeats its space on every backbone."""
NO_SETTINGS = {
    *("devices", "dev_metric", "positive_contrast", "seed", "mask_rates"),
    *("fgsm_epsilon", "token_cutoff", "feature_cutoff", "output_dim", "projection_layers"),
    *("triplet_dropout", "triplet_min_length", "denoise", "freeze_template", "logscale_factor"),
    *("pooler_dev", "coupling", "permutation"),
}
"""Rows of the shared tables that are no setting of ours, or its default."""
NOTED = {"start", "corpus"}
"""Rows of the shared tables that a note has in place of a setting."""
THEIR_NAMES = {"isbert": "is-bert", "bertflow": "bert-flow", "l2pcsr": "l2p-csr"}
"""Methods that the shared tables name otherwise."""
OUR_SETTINGS = {
    **{"adam_eps": "optimizer_epsilon", "gradient_clip": "max_grad_norm", "head": "projection"},
    **{"pooler_train": "pooler", "pooler_test": "test_pooler", "skip_from": "trunk_layers"},
    **{"updates": "max_steps", "optimiser": "optimizer", "schedule": "learning_rate_schedule"},
    "flow_learning_rate": "learning_rate",
}
OUR_ROWS = {
    ("correct_bias", "false"): ("optimizer", "adamw_without_bias_correction"),
    ("pooler", "first-last (called avg-last-2)"): ("pooler", "avg_first_last"),
    ("encoder", "frozen, dropout on while the flow trains"): ("encoder_dropout", "true"),
    ("precision", "fp16 (apex O1)"): ("precision", "fp16"),
    ("mlm_eval", "true"): ("trunk_dropout", "false"),
    ("mlm_eval", "false"): ("trunk_dropout", "true"),
}
"""Rows that they have, and what they are here."""
OUR_ROWS_OF = {
    "bertflow": {
        ("batch_size", "32"): ("batch_size", "64"),  # pairs there, sentences here
        ("correct_bias", "false"): ("optimizer", "bert_adamw"),
    },
    "infocse": {
        ("head", "batchnorm MLP (train only)"): ("head", "false"),  # it has one of its own
        ("pooler_test", "cls_before_pooler"): ("pooler", "cls"),
    },
}
OUR_NAMES = {
    "distilbert-base-uncased": "distilbert-base",
    "unsup-simcse-bert-base-uncased": "simcse-bert-base",
    "unsup-simcse-roberta-base": "simcse-roberta-base",
    "unsup-simcse-bert-large-uncased": "simcse-bert-large",
    "unsup-simcse-roberta-large": "simcse-roberta-large",
    "bert-base-uncased": "bert-base",
    "32 (without template and specials)": "32",
}
"""How encoders and settings are named here that the shared tables name otherwise."""
METHODS = [name for name in available_methods() if name not in ("macl", "st", "untrained")]
OF_NO_SHARED_TABLE = {
    *("cotbert", "distillcse", "focalinfonce", "multicsr", "pna", "simcsepp"),
}
"""Methods whose settings were read in their released code."""
HEAD = "backbone,variant,hyperparameter,value,source\n"


def values_of(text: str) -> list[Any]:
    """The values of a cell of the shared table."""
    known: dict[str, Any] = {"true": True, "false": False}
    return [float(part) if part[0].isdigit() else known.get(part, part) for part in text.split("|")]


def is_noted(row: dict[str, str]) -> bool:
    """Whether a row is from memory, or no setting can hold it: a note stands for it."""
    return row["hyperparameter"] in NOTED or row["source"].startswith("memory")


def shared_rows(method: str, shared: Path) -> Iterator[dict[str, str]]:
    """The rows of a method, without those that a note stands for and those that are no setting.

    Each with the setting of ours that it tells, and its value.
    """
    theirs = THEIR_NAMES.get(method, method)
    known = OUR_ROWS | OUR_ROWS_OF.get(method, {})
    for table in ("hyperparameters", *(f"baselines{n}_hyperparameters" for n in (1, 2))):
        with (shared / "published" / f"{table}.csv").open(newline="") as stream:
            for row in csv.DictReader(stream):
                told = table == "hyperparameters" or not row["settings"]
                name, value = row["hyperparameter"], row["value"]
                if (row["paper"], row["method"]) != (theirs, theirs) or is_noted(row):
                    continue
                if told and name not in NO_SETTINGS:
                    own = OUR_SETTINGS.get(name, name), OUR_NAMES.get(value, value)
                    setting, ours = known.get((name, value), own)
                    yield row | {"hyperparameter": setting, "value": ours}


def columns_of(method: str, shared: Path) -> Iterator[dict[str, Any]]:
    """What the columns of a method hold, by the shared table."""
    rows: dict[tuple[str, str], dict[str, str]] = {}
    for row in shared_rows(method, shared):
        cells = rows.setdefault((row["backbone"], row["settings"]), {})
        cells[row["hyperparameter"]] = row["value"]
    for (backbone, told), cells in rows.items():
        templates = [cells.pop(name) for name in ("template_1", "template_2") if name in cells]
        if templates:
            both = "|".join(templates).replace("{x}", "{}")
            cells["prompts"] = both.replace("<mask>", "[MASK]")
        settings = {name: values_of(text) for name, text in cells.items() if "search_" not in name}
        alone = {name: value if len(value) > 1 else value[0] for name, value in settings.items()}
        if (start := alone.pop("start_from", backbone)) != backbone:
            alone["head"] = False  # `is_base False`: the pooling layer alone
        if steps := alone.pop("learning_rate_boundaries", None):
            first, *later = alone["learning_rate"]
            factors = {
                f"{n:.0f}": round(rate / first, 6) for n, rate in zip(steps, later, strict=True)
            }
            alone |= {"learning_rate": first, "learning_rate_schedule": factors}
        named = told.replace("beta>0 (HiCL v2)", f"beta={cells.get('beta')}")
        pairs = (pair.split("=") for pair in named.split(";") if pair)
        variant = {name: values_of(value)[0] for name, value in pairs}
        searched: dict[str, Any] = {}
        for name in (name.removeprefix("search_") for name in cells if "search_" in name):
            low, _, high = (text := cells[f"search_{name}"]).partition("..")
            bounds = {"low": float(low), "high": float(high)} if high else tuple(values_of(text))
            repeated = (name, variant.get("base")) == ("slicing_length", "esimcse")
            if backbone in SEARCHED_ON.get((method, name), {backbone}) and not repeated:
                searched[name] = bounds
        added = ADDED.get(method, {}) | ADDED.get(f"{method} {backbone}", {})
        yield {
            "backbone": start,
            "variant": variant,
            "settings": alone | variant | of_base(variant, backbone) | added,
            "searched": searched,
        }


def of_base(variant: dict[str, Any], backbone: str) -> dict[str, Any]:
    """The released settings of a column's base, where it has one."""
    base = variant.get("base", "")
    columns = published_settings(base) if base in BASES else ()
    (settings,) = [c.settings for c in columns if c.backbone == backbone] or [{}]
    return {name: settings[name] for name in BASES.get(base, ())}


def test_published_columns_equal_the_shared_table(shared: Path) -> None:
    """Every number of the shared table, the searched space too, and nothing beside them."""
    for method in METHODS:
        columns = get_method(method).published
        assert columns == published_settings(method)
        assert all(column.source for column in columns)
        names = ("backbone", "variant", "settings", "searched")
        ours = [{name: getattr(column, name) for name in names} for column in columns]
        if method in OF_NO_SHARED_TABLE:
            assert ours
            continue
        expected = list(columns_of(method, shared))
        assert expected
        ours, expected = (
            sorted(one, key=lambda column: (column["backbone"], str(column["variant"])))
            for one in (ours, expected)
        )
        assert ours == expected
    tables = [place.name for place in files(published).iterdir() if place.name.endswith(".csv")]
    others = {"departures.csv", "lengths.csv", "papers.csv", "released.csv", "training_data.csv"}
    assert sorted(others ^ set(tables)) == [f"{name}.csv" for name in METHODS]


def test_a_table_is_read_and_a_malformed_one_refused_with_its_line(tmp_path: Path) -> None:
    table = tmp_path / "toy.csv"
    table.write_text(
        HEAD + "mini,base=a;beta=3e-5,batch_size,64,table 1\n"
        "mini,base=a;beta=3e-5,relu,false,table 1\n"
        "mini,base=a;beta=3e-5,teachers,x|y-2,section 2\n"
        "bert-base,,tau,0.50,table 1\n"
        "mini,base=a;beta=3e-5,momentum,1,table 1\n"
        'mini,base=a;beta=3e-5,schedule,"{""500"": 0.8, ""1000"": 0.6}",table 1\n'
        "mini,base=a;beta=3e-5,clip,null,table 1\n"
        'mini,base=a;beta=3e-5,note,"Half of it, | as told.",mail\n'
        "mini,base=a;beta=3e-5,search_tau,0.5|1|none,figure 3\n"
        "bert-base,,search_tau,0.5,figure 3\n"
        "bert-base,,search_length,16..40,figure 4\n"
    )
    first, second = read_published(table)
    assert (first.backbone, second.backbone) == ("mini", "bert-base")
    assert first.variant == {"base": "a", "beta": 3e-5}
    told = {"base": "a", "beta": 3e-5, "batch_size": 64, "teachers": ["x", "y-2"], "momentum": 1}
    told |= {"relu": False, "schedule": {"500": 0.8, "1000": 0.6}, "clip": None}
    assert first.settings == told
    assert type(first.settings["momentum"]) is int
    assert first.settings["relu"] is False
    assert first.source == "table 1, section 2"
    assert (first.note, second.note) == ("Half of it, | as told.", "")
    assert first.searched == {"tau": (0.5, 1, "none")}
    assert (second.variant, second.settings) == ({}, {"tau": 0.5})
    assert second.searched == {"tau": (0.5,), "length": {"low": 16, "high": 40}}
    malformed: list[tuple[str, int, str]] = [
        ("backbone,variant,name,value,source\n", 1, "expected backbone, .*, got .*'name'"),
        (HEAD + "mini,,tau,1,t\nmini,,tau2,1\n", 3, "expected backbone, .*, got .*'tau2', '1'"),
        (HEAD + "mini,,tau,1,t\nmini,,tau,1,t\n", 3, "tau is given twice for one column"),
        (HEAD + "mini,beta=1,beta,1,t\n", 2, "beta is given twice for one column"),
        (HEAD + "mini,,steps,{500: 1},t\n", 2, "expected a mapping as in JSON, got '{500: 1}'"),
        (HEAD + "mini,beta>0,tau,1,t\n", 2, "a variant of NAME=VALUE;NAME=VALUE, got 'beta>0'"),
        (HEAD + "mini,,search_tau,1..,t\n", 2, "a range LOW..HIGH of numbers, got '1..'"),
    ]
    for text, line, problem in malformed:
        table.write_text(text)
        with pytest.raises(ValueError, match=rf"toy\.csv, line {line}: .*{problem}"):
            read_published(table)


def test_a_released_encoder_is_its_system_on_the_backbone_it_was_trained_from() -> None:
    plain = {"pooler": "cls", "whitening": False}
    short, whole = "diffcse-bert-base", "voidism/diffcse-bert-base-uncased-sts"
    for name in (short, whole, f"{short}@v1"):
        found = released_encoder("untrained", name, plain)
        assert found is not None
        assert (found.label, found.trained_from) == ("diffcse (released)", "bert-base")
        assert method_name(found.label) == "DiffCSE (released)"
    for method, name, settings in (
        *(("simcse", short, plain), ("untrained", "bert-base", plain)),
        *(
            ("untrained", short, plain | other)
            for other in ({"pooler": "avg"}, {"whitening": True})
        ),
    ):
        assert released_encoder(method, name, settings) is None
    dense = "sjtu-lit/SynCSE-partial-RoBERTa-base"  # read after the layer that it was trained with
    assert released_encoder("untrained", dense, plain) is None
    found = released_encoder("untrained", dense, plain | {"head": True})
    assert found is not None and found.label == "syncse-partial (released) (llm)"
    assert names_of_released(["bert-large"]) == [
        *("princeton-nlp/unsup-simcse-bert-large-uncased", "ffgcc/esimcse-bert-large-uncased"),
        *("qiyuw/pcl-bert-large-uncased", "ffgcc/InfoCSE-bert-large"),
        *("ffgcc/gsInfoNCE-bert-large-uncased", "Stevenhpy/unsup-simcse-bert-large-uncased-focal"),
        *("aleversn/GCSE-BERT-large", "simcse-bert-large"),
    ]
    assert names_of_released(["mini"]) == []
