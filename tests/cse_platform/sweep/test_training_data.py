"""What a trial was trained on and chosen by, from its sweep file as JSON."""

from cse_platform.sweep.training_data import teachers_of, training_data


def test_every_dev_set_that_chose_is_named_once() -> None:
    dev = {"checkpoint": ["stsb", "sickr"], "search": "stsb", "also": ["transfer_dev"]}
    assert training_data({"dev": dev}, {}).chosen_on == ("stsb", "sickr")
    search = {"objectives": [{"name": "transfer_dev"}, {"name": "uniformity"}]}
    assert training_data({"dev": dev, "search": search}, {}).chosen_on == (
        *("stsb", "sickr"),
        "transfer_dev",
    )
    assert training_data({}, {}).chosen_on == ("stsb",)


def test_teachers_of_the_base_are_teachers_too() -> None:
    values = {"teachers": ["minilm", {"model": "simcse-bert-base", "max_length": 32}]}
    assert teachers_of(values) == ("minilm", "simcse-bert-base")
    assert teachers_of({"base": "rankcse", "base_teachers": ["minilm"]}) == ("minilm",)
    assert teachers_of({"teachers": None}) == teachers_of({}) == ()
