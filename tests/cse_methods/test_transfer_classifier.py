import copy
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import f1_score
from sklearn.model_selection import StratifiedKFold

from cse_methods.errors import BackboneError, EvaluationError
from cse_methods.transfer.classifier import fit_classifiers
from cse_methods.transfer.descent import TrainingFold
from cse_methods.transfer.folds import Accuracies, nested, split
from cse_methods.transfer.protocol import TransferProtocol
from cse_methods.transfer.samples import Samples, design

PENALTIES = (1e-5, 1e-4, 1e-3, 1e-2)
SHORT = TransferProtocol(kfold=3, batch_size=16, tenacity=1, epoch_size=2)
QUICK = replace(SHORT, optimizer="rmsprop", epoch_size=1)
SKLEARN = TransferProtocol(classifier="scikit-learn", kfold=3)

SLOW = pytest.mark.slow
PROTOCOLS = pytest.mark.parametrize(
    "protocol", [SHORT, pytest.param(QUICK, marks=SLOW), SKLEARN], ids=["adam", "rms", "skl"]
)
Fitted = Callable[[torch.Tensor], torch.Tensor]


def samples(count: int, *, classes: int = 2, seed: int = 0, noise: float = 2.0) -> Samples:
    """Classes around centres of their own, in float64: rounding then decides no prediction."""
    rng = np.random.default_rng(seed)
    labels = rng.permutation(np.arange(count) % classes)
    centres = np.random.default_rng(7).normal(size=(classes, 5))
    features = centres[labels] + noise * rng.normal(size=(count, 5))
    return Samples(torch.from_numpy(features), labels)


def plain_torch(
    train: Samples, validation: Samples | None, penalty: float, protocol: TransferProtocol
) -> torch.nn.Linear:
    """SentEval's loop, one model at a time."""
    order = np.random.RandomState(1111)
    torch.manual_seed(1111)
    x, y = train.features, torch.from_numpy(train.labels)
    model = torch.nn.Linear(x.shape[1], int(y.max()) + 1).double()
    kinds: dict[str, Any] = {"adam": torch.optim.Adam, "rmsprop": torch.optim.RMSprop}
    optimizer = kinds[protocol.optimizer](model.parameters(), weight_decay=penalty)
    if validation is None:
        drawn = order.permutation(len(x))
        cut = int(0.05 * len(x))
        dev_x, dev_y = x[drawn[:cut]], y[drawn[:cut]]
        x, y = x[drawn[cut:]], y[drawn[cut:]]
    else:
        dev_x, dev_y = validation.features, torch.from_numpy(validation.labels)
    best, best_model, misses, epochs = -1.0, model, 0, 0
    while epochs <= 200:
        for _ in range(protocol.epoch_size):
            for batch in torch.from_numpy(order.permutation(len(x))).split(protocol.batch_size):
                optimizer.zero_grad()
                torch.nn.functional.cross_entropy(model(x[batch]), y[batch]).backward()
                optimizer.step()
        epochs += protocol.epoch_size
        accuracy = (model(dev_x).argmax(dim=1) == dev_y).double().mean().item()
        if accuracy > best:
            best, best_model = accuracy, copy.deepcopy(model)
        elif misses >= protocol.tenacity:
            break
        else:
            misses += 1
    return best_model


def plain(
    train: Samples, validation: Samples | None, value: float, protocol: TransferProtocol
) -> Fitted:
    if protocol.classifier == "pytorch":
        linear = plain_torch(train, validation, value, protocol)
        return lambda inputs: linear(inputs).argmax(dim=1)
    model = LogisticRegression(C=value, random_state=1111, max_iter=1000)
    model.fit(train.features.numpy(), train.labels)
    return lambda inputs: torch.from_numpy(model.predict(inputs.numpy()))


def values_of(
    protocol: TransferProtocol, powers: Iterable[int] = range(-2, 4)
) -> tuple[float, ...]:
    """The regularisations that are tried."""
    plain = protocol.classifier == "pytorch"
    return PENALTIES if plain else tuple(2.0**power for power in powers)


def accuracy(fitted: Fitted, on: Samples) -> float:
    return float(np.mean(fitted(on.features).numpy() == on.labels))


def folds(data: Samples, count: int) -> Iterator[tuple[Samples, Samples]]:
    splitter = StratifiedKFold(count, shuffle=True, random_state=1111)
    for rows in splitter.split(data.features, data.labels):
        train, test = (Samples(data.features[part], data.labels[part]) for part in rows)
        yield train, test


def chosen(
    data: Samples, values: tuple[float, ...], protocol: TransferProtocol
) -> tuple[float, float]:
    """The regularisation with the best mean over folds, and that mean."""
    means = [
        np.mean([accuracy(plain(a, b, value, protocol), b) for a, b in folds(data, protocol.kfold)])
        for value in values
    ]
    best = int(np.argmax([round(100 * float(mean), 2) for mean in means]))
    return values[best], float(means[best])


@pytest.mark.parametrize(
    ("protocol", "validated", "seed"),
    [
        (SHORT, True, 0),
        (QUICK, False, 0),
        pytest.param(SHORT, False, 1, marks=SLOW),
        pytest.param(QUICK, True, 1, marks=SLOW),
    ],
)
def test_joint_fits_give_the_weights_of_single_ones(protocol, validated, seed) -> None:
    # Patient and noisy: folds stop one after the other, and some get better after others stopped.
    protocol = replace(protocol, tenacity=3, epoch_size=1)
    data = samples(121, classes=3, seed=seed, noise=4.0)
    rows = [(np.delete(np.arange(121), part), part) for part in np.split(np.arange(120), 8)]
    penalties = np.random.default_rng(0).choice([0.0, 1e-3, 0.03, 0.1, 1.0], size=(8, 3))
    given = [TrainingFold(train, part if validated else None) for train, part in rows]
    before = torch.get_rng_state(), np.random.get_state()[1].copy()
    found = fit_classifiers(design(data), given, penalties, protocol)
    assert torch.equal(torch.get_rng_state(), before[0])  # the caller's
    assert np.array_equal(np.random.get_state()[1], before[1])
    for fold, (train, part) in enumerate(rows):
        one, other = (Samples(data.features[own], data.labels[own]) for own in (train, part))
        for model, penalty in enumerate(penalties[fold]):
            plainly = plain_torch(one, other if validated else None, penalty, protocol)
            weights = torch.cat([plainly.weight, plainly.bias[:, None]], dim=1)
            torch.testing.assert_close(found[fold, model, :, :6], weights.detach())
    assert not found[..., 6:].any()


@PROTOCOLS
def test_nested_folds_give_the_accuracies_of_single_fits(protocol: TransferProtocol) -> None:
    data = samples(62)  # no multiple of 3: folds of two lengths
    choices, tests = [], []
    for train, test in folds(data, 3):
        choices.append(chosen(train, values_of(protocol), protocol))
        tests.append(accuracy(plain(train, None, choices[-1][0], protocol), test))
    found = nested(data, protocol, test=True)
    assert found.chosen == tuple(value for value, _ in choices)
    assert found.dev == pytest.approx(np.mean([mean for _, mean in choices]))
    assert found.test == pytest.approx(np.mean(tests))
    assert nested(data, protocol, test=False) == Accuracies(found.dev, None, found.chosen)


@pytest.mark.parametrize(
    ("protocol", "classes"),
    [
        (SHORT, 4),
        (SKLEARN, 2),
        *(pytest.param(SHORT, 2, marks=SLOW), pytest.param(SKLEARN, 4, marks=SLOW)),
        *(pytest.param(QUICK, 2, marks=SLOW), pytest.param(QUICK, 4, marks=SLOW)),
    ],
)
def test_folds_choose_the_regularisation_before_the_test(
    protocol: TransferProtocol, classes: int
) -> None:
    train, test = samples(61, classes=classes), samples(40, classes=classes, seed=1)
    value, mean = chosen(train, values_of(protocol, range(-1, 6)), protocol)
    final = plain(train, None, value, protocol)
    found = split(train, None, test, protocol)
    assert found.chosen == (value,)
    assert found.dev == pytest.approx(mean)
    assert found.test == pytest.approx(accuracy(final, test))
    guesses = final(test.features).numpy()
    expected = f1_score(test.labels == 1, guesses == 1)
    assert found.f1 == pytest.approx(expected)
    assert split(train, None, None, protocol) == Accuracies(found.dev, None, found.chosen)


@PROTOCOLS
def test_a_dev_set_chooses_the_regularisation_before_the_test(protocol: TransferProtocol) -> None:
    train, dev, test = samples(61), samples(30, seed=1), samples(40, seed=2)
    fitted = {value: plain(train, dev, value, protocol) for value in values_of(protocol)}
    means = {value: accuracy(one, dev) for value, one in fitted.items()}
    best = max(means, key=lambda value: means[value])
    found = split(train, dev, test, protocol)
    assert found.chosen == (best,)
    assert found.dev == pytest.approx(means[best])
    assert found.test == pytest.approx(accuracy(fitted[best], test))
    assert split(train, dev, None, protocol) == Accuracies(found.dev, None, found.chosen)


def test_of_equal_regularisations_the_first_is_chosen() -> None:
    # Where labels follow from the features plainly, every penalty scores 1.
    data = samples(36, noise=0.001)
    assert set(nested(data, SKLEARN, test=False).chosen) == {0.25}
    assert split(data, None, None, SKLEARN) == Accuracies(1.0, None, (0.5,))


def test_embeddings_with_nan_are_refused() -> None:
    good, bad = samples(30), samples(30)
    bad.features[4, 2], bad.features[7] = float("nan"), float("inf")
    message = "2 of 30 embeddings hold NaN or infinite numbers, the first is that of sentence 4"
    scores: list[Callable[..., Accuracies]] = [
        *(partial(nested, bad, test=True), partial(split, good, None, bad)),
        partial(split, good, bad, None),
    ]
    for score in scores:
        with pytest.raises(EvaluationError, match=message):
            score(protocol=SHORT)


@pytest.mark.parametrize("full", ["torch.zeros", "cse_methods.transfer.classifier.descend"])
def test_a_full_gpu_raises_an_error_with_advice(full: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def ask_for_too_much(*_: Any, **__: Any) -> Any:
        raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 20 MiB. GPU 0 …")

    data = samples(36)
    monkeypatch.setattr(full, ask_for_too_much)
    with pytest.raises(BackboneError, match=r"memory is full while it trains .* resources\.gpu"):
        nested(data, SHORT, test=True)
