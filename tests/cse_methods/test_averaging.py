"""The average of encoders' weights, by values worked out by hand."""

from pathlib import Path

import torch
from torch import Tensor

from cse_methods.encoders.averaging import average_encoders, average_weights
from cse_methods.encoders.loading import load_encoder


def state(weight: Tensor, places: list[int]) -> dict[str, Tensor]:
    return {"weight": weight, "places": torch.tensor(places), "on": torch.tensor(places[0] > 0)}


def test_floats_are_averaged_and_whole_numbers_are_those_of_the_first() -> None:
    first, second = torch.tensor([[1.0, -2.0]]), torch.tensor([[4.0, 0.0]])
    averaged = average_weights([state(first, [1, 2]), state(second, [0, 7])])
    assert averaged["weight"].tolist() == [[2.5, -1.0]]
    assert averaged["places"].tolist() == [1, 2]
    assert averaged["on"].item() is True
    assert first.tolist() == [[1.0, -2.0]]  # as before


def test_sums_are_float64_and_each_tensor_keeps_its_type() -> None:
    """In float32, 2^24 + 1 is 2^24: the average would be a third of that, 5592405.5."""
    values = (2.0**24, 1.0, 1.0)
    averaged = average_weights({"w": torch.tensor([value])} for value in values)
    assert averaged["w"].dtype == torch.float32
    assert averaged["w"].item() == (2**24 + 2) / 3 == 5592406
    doubles = [torch.tensor([1.0], dtype=torch.float64), torch.tensor([2.0], dtype=torch.float64)]
    assert average_weights({"w": double} for double in doubles)["w"].item() == 1.5
    assert [double.item() for double in doubles] == [1, 2]


def test_saved_encoders_are_averaged(tmp_path: Path) -> None:
    """Weights moved by 0.25 and by -0.75 are, on average, moved by -0.25; the rest stays."""
    folders = [tmp_path / "up", tmp_path / "down", tmp_path / "wanted"]
    name = "model.encoder.layer.0.output.dense.bias"
    for folder, change in zip(folders, (0.25, -0.75, -0.25), strict=True):
        encoder = load_encoder("mini")
        with torch.no_grad():
            encoder.get_parameter(name).fill_(change)
        encoder.save(folder)
    averaged, wanted = average_encoders(folders[:2]), load_encoder(str(folders[2]))
    sentences = ["A man plays a guitar.", "Someone makes music."]
    assert torch.equal(averaged.encode(sentences), wanted.encode(sentences))
    assert not torch.equal(averaged.encode(sentences), load_encoder("mini").encode(sentences))
