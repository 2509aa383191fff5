import csv
from importlib.resources import files
from pathlib import Path

import pytest

from cse_methods import published
from cse_methods.names import method_name
from cse_methods.published.released import names_of_released, released_encoder
from cse_methods.published.tables import read_published
from cse_methods.registry import available_methods, get_method

METHODS = [name for name in available_methods() if name not in ("macl", "st", "untrained")]
HEAD = "backbone,variant,hyperparameter,value,source\n"


def test_every_method_has_a_table_with_sources() -> None:
    assert all(column.source for name in METHODS for column in get_method(name).published)
    tables = [place.name for place in files(published).iterdir() if place.name.endswith(".csv")]
    others = {"departures.csv", "lengths.csv", "papers.csv", "released.csv", "training_data.csv"}
    assert sorted(others ^ set(tables)) == [f"{name}.csv" for name in METHODS]


def test_numbers_are_those_that_were_read_in_the_papers_a_second_time(shared: Path) -> None:
    """Of each setting that both readings name alike; a table of a method may have variants."""
    compared = 0
    for table in ("hyperparameters", *(f"baselines{n}_hyperparameters" for n in (1, 2))):
        with (shared / "published" / f"{table}.csv").open(newline="") as stream:
            for row in csv.DictReader(stream):
                name, method = row["hyperparameter"], row["method"].replace("-", "")
                told = table == "hyperparameters" or not row["settings"]
                number, *_ = row["value"].replace("|", " ").split()  # a remark or steps may follow
                if method not in METHODS or not told or not number[0].isdigit():
                    continue
                columns = get_method(method).published
                ours = [c.settings.get(name) for c in columns if c.backbone == row["backbone"]]
                if (method, name) == ("bertflow", "batch_size"):
                    continue  # pairs there, sentences here
                if numbers := [value for value in ours if isinstance(value, int | float)]:
                    assert float(number) in numbers, row
                    compared += 1
    assert compared > 600


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
