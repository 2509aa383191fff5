import tarfile
from functools import partial

import pytest
from click.testing import Result
from commands import invoke

from cse_methods.data.corpora import KNOWN
from cse_methods.data.senteval import ARCHIVE
from cse_platform.cli.data import main

FILE = "downstream/MR/rt-polarity.neg"
run = partial(invoke, main)


def rows(result: Result) -> list[list[str]]:
    return [line.split() for line in result.stdout.splitlines()]


def test_the_real_folder(shared) -> None:
    result = run("check", shared / "data")
    assert [FILE, "ok", "5331", "lines", "5331", "lines"] in rows(result)
    assert "71 files: 71 ok." in result.stdout
    assert "\x1b" not in result.stdout


def test_a_lacking_file_is_a_failure(counted_data) -> None:
    (counted_data / FILE).write_text("One.\n")
    (counted_data / "downstream/SUBJ/subj.objective").unlink()
    result = run("check", counted_data, code=1)
    assert [FILE, "wrong", "count", "5331", "lines", "1", "lines"] in rows(result)
    assert ["downstream/SUBJ/subj.objective", "missing", "5000", "lines"] in rows(result)
    assert str(counted_data) in result.stderr and "2 of 69" in result.stderr
    assert f"`cse-data fetch {counted_data}`" in result.stderr


def test_fetch_fills_a_folder(kept_from_hub, counted_data, tmp_path) -> None:
    with tarfile.open(kept_from_hub(ARCHIVE), "w") as tar:
        tar.add(counted_data / "downstream", arcname=".")
    kept_from_hub(KNOWN["wiki1m"].hub[0]).write_text("One.\n" * 1_000_000)
    result = run("fetch", tmp_path / "own")
    assert (result.stderr, "69 files: 69 other checksum." in result.stdout) == ("", True)
    again = run("check", tmp_path / "own")
    assert ["corpus/wiki1m.txt", "ok", "1000000", "lines", "1000000", "lines"] in rows(again)


def test_fetch_offline_says_why(kept_from_hub, counted_data, tmp_path) -> None:
    kept_from_hub(ARCHIVE)
    result = run("fetch", tmp_path / "own", code=1)
    assert ["downstream/STS/STS14-en-test", "12"] in rows(result)
    for name in ("senteval.tar", "wiki1m_for_simcse.txt"):
        assert f"cannot fetch {name} of princeton-nlp/datasets-for-simcse" in result.stderr
    assert "Traceback" not in result.stderr
    result = run("fetch", counted_data, code=1)  # which lacks the corpus alone
    assert "lacking in" not in result.stdout
    assert "cannot fetch wiki1m_for_simcse.txt" in result.stderr


def test_the_cache_is_shown_and_cleared(tmp_path) -> None:
    kept = tmp_path / "cache" / "teachers" / "a.npy"
    kept.parent.mkdir(parents=True)
    kept.write_bytes(bytes(2**20))
    environment = {"CSE_CACHE": str(tmp_path / "cache")}
    for arguments in (["cache"], ["cache", "--clear"]):
        shown = run(*arguments, env=environment)
        assert ["teachers", "vectors", "of", "frozen", "teachers", "1", "1.0"] in rows(shown)
    assert not kept.exists()
    after = rows(run("cache", env=environment))
    assert ["teachers", "vectors", "of", "frozen", "teachers", "0", "0.0"] in after


def test_lengths_count_special_pieces_too(tmp_path) -> None:
    """`a` is one piece of mini; [CLS] and [SEP] make 32 pieces of 30 of them, and 33 of 31."""
    file = tmp_path / "texts.txt"
    texts = [" ".join(["a"] * pieces) for pieces in (1, 30, 31, 62, 63, 600)]
    file.write_text("\n\n".join(texts))  # empty lines do not count
    result = run("lengths", file, "--backbone", "mini")
    assert [line.split()[-2:] for line in result.stdout.splitlines()[2:9]] == [
        *(["2", "33.333%"], ["2", "33.333%"], ["1", "16.667%"]),
        *(["0", "0.000%"],) * 3,
        ["1", "16.667%"],
    ]
    assert "texts.txt: 6 sentences in word pieces of mini." in result.stdout
    table = tmp_path / "table.tsv"
    table.write_text("text\tn\n" + "".join(f"{text}\t1\n" for text in texts[:3]))
    refused = run("lengths", table, "--backbone", "mini", code=1).stderr
    assert f"name its column, {{name: {table}, column: …}}" in refused
    stated = f"{{name: {table}, column: text}}"
    result = run("lengths", stated, "--backbone", "mini")
    assert "3 sentences in word pieces of mini." in result.stdout
    wrong = run("lengths", stated.replace("column", "colum"), code=2).stderr
    assert "colum: no such key; did you mean 'column'?" in wrong
    cases = (
        (["nosuch"], "no corpus 'nosuch'"),
        (["./nosuch.txt"], "corpus './nosuch.txt': no such file or folder\n"),
        (["builtin", "--backbone", "x"], "'x'"),
    )
    for options, datum in cases:
        result = run("lengths", *options, code=1)
        assert result.stdout == "" and datum in result.stderr


@pytest.mark.slow  # the corpus has a million lines, and no other number of them passes
def test_lengths_of_a_papers_corpus_stand_beside_the_papers(tmp_path) -> None:
    corpus = tmp_path / "corpus" / "wiki1m.txt"
    corpus.parent.mkdir()
    corpus.write_text("a\n" * 1_000_000)
    result = run("lengths", "wiki1m", "--backbone", "mini", env={"CSE_DATA": str(tmp_path)})
    head, _, first, *_ = result.stdout.splitlines()
    assert head.split()[-2:] == ["hicl", "table2"]
    assert first.split()[-3:] == ["1,000,000", "100.000%", "76.031%"]


def test_what_two_files_share(tmp_path) -> None:
    text, table, pairs = (tmp_path / name for name in ("a.txt", "b.csv", "c.tsv"))
    text.write_text("A dog runs.\nno such thing\na dog runs\n")
    table.write_text('id,sentence1,sentence2\n1,"A dog runs!",a cat sleeps\n2,it is,he was\n')
    pairs.write_text("1\tA CAT sleeps\ta dog runs .\n2\the was\tit was not\n")
    of_text = rows(run("overlap", text, table))
    assert ["sentences", str(text), "3", "2", "66.7%"] in of_text
    assert ["sentences", str(table), "4", "1", "25.0%"] in of_text
    assert not any(row[:1] == ["pairs"] for row in of_text)
    of_pairs = rows(run("overlap", table, pairs))
    assert ["pairs", str(table), "2", "1", "50.0%"] in of_pairs
    assert ["sentences", str(pairs), "4", "3", "75.0%"] in of_pairs
    for header in ("sentence 1\tsentence 2\tscore", "Quality\t#1 ID\t#1 String\t#2 String"):
        tail = ["a dog runs\ta cat sleeps\t1", "it is here\the was there\t2"]
        if header.startswith("Quality"):
            tail = [f"{n}\t70{n}\t{row[:-2]}" for n, row in enumerate(tail)]
        pairs.write_text("\n".join([header, *tail]))
        assert ["pairs", str(pairs), "2", "1", "50.0%"] in rows(run("overlap", table, pairs))
    pairs.write_text("a dog runs\ta cat sleeps\nit is here\the was there\nit was there\n")
    assert "line 3: 1 cells, but the first row has 2" in run("overlap", table, pairs, code=1).stderr
    pairs.write_text('he said "a dog\t"a cat sleeps\n"no" he said\tnobody "knows it\n')
    refused = run("overlap", table, pairs, code=1).stderr
    assert "line 1: a quote inside a cell" in refused  # as a sweep says
    assert refused.endswith("; or add --format unquoted if quotes are characters\n")
    unquoted = rows(run("overlap", text, pairs, "--format", "unquoted"))
    assert ["sentences", str(pairs), "4", "0", "0.0%"] in unquoted
    known = tmp_path / "known.jsonl"  # which a stated format does not change
    known.write_text('{"a": "a dog", "b": "a cat"}\n')
    unquoted = rows(run("overlap", known, pairs, "--format", "unquoted"))
    assert ["sentences", str(known), "2", "0", "0.0%"] in unquoted
    missing = run("overlap", table, tmp_path / "a.tx", code=1).stderr
    assert missing.endswith(f"; did you mean {text}?\n")
    folder = tmp_path / "STS15-en-test"
    folder.mkdir()
    (folder / "STS.input.a.txt").write_text("a dog runs\ta cat sleeps\n")
    (folder / "STS.gs.a.txt").write_text("4.2\n")
    assert ["pairs", str(folder), "1", "1", "100.0%"] in rows(run("overlap", table, folder))
    table.write_text("1,2\n3,4\n")
    assert "no sentence" in run("overlap", text, table, code=1).stderr
    assert ["stsb", "sts15", "3000", "580", "8", "587"] in rows(run("overlap"))
