"""Numbers and hyperparameters in figures, by hand."""

from cse_dashboards.figures.labels import number, value_text, values_line


def test_numbers_have_three_digits_and_powers_of_ten() -> None:
    shown = {
        **{0.00027: "2.7e-4", 1e-5: "1e-5", 0.19: "0.19", 0.0125: "0.0125", 0.0: "0"},
        **{999.6: "1000", 12345.6: "12346", 1e5: "1e5", -0.0002: "-2e-4", 64.0: "64"},
    }
    assert {value: number(value) for value in shown} == shown


def test_hyperparameters_are_written_for_readers() -> None:
    for value, shown in (
        *((None, "none"), (True, "true"), (0.00027, "2.7e-4"), (12, "12"), ([], "none")),
        ([{"model": "/lab/models/174118bb"}, {"model": "org/minilm"}], "174118bb, minilm"),
        ({"model": "a/b", "weight": 0.5}, "b (weight=0.5)"),
        ({"tau2": 0.05}, "{τ₂=0.05}"),
    ):
        assert value_text(value) == shown
    values = {"learning_rate": 2.7e-4, "gamma": 0.19, "pooler": "cls", "batch_size": 128}
    assert values_line(values) == "lr=2.7e-4, γ=0.19, pooler=cls, batch size=128"
