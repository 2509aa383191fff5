"""Names of tasks."""

from cse_methods.tasks import STS_TASKS, TRANSFER_TASKS, Tasks, parse_tasks


def test_families_and_single_tasks_in_the_papers_order() -> None:
    assert parse_tasks(["sickr", "sts12"]).sts == ("sts12", "sickr")
    assert parse_tasks(["sts"]).sts == STS_TASKS
    everything = parse_tasks(["sts", "transfer", "ranking", "geometry", "long", "stsb"])
    assert everything == Tasks(STS_TASKS, TRANSFER_TASKS, STS_TASKS, True, ("yelp", "imdb"))
    # The shortest words ask for the same.
    for words in (["sts", "mr"], ["sts12", "ranking"], ["geometry", "long"], ["transfer"]):
        tasks = parse_tasks(words)
        assert parse_tasks(tasks.names) == tasks
        assert set(tasks.names) == set(words)


def test_the_geometry_alone_opens_no_test_set() -> None:
    assert not parse_tasks(["geometry"]).opens_tests
    assert parse_tasks(["geometry", "mr"]).opens_tests
    assert parse_tasks(["ranking"]).opens_tests
    assert parse_tasks(["ranking", "sts12"]).parts == {"ranking", "sts12"}
