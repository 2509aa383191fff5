"""What a trial's kept model says of the pairs of its dev set; no test set is opened."""

import torch

from cse_methods.data.dev_selection import DevSelection, climbed_sets
from cse_methods.data.dev_sets import load_dev_pairs
from cse_methods.encoders.loading import load_encoder
from cse_methods.errors import DataError
from cse_methods.training.dev_evaluation import DevSuite
from cse_platform.export.kept_model import kept_model
from cse_platform.export.reproduction.sweep_file import one_trial_sweep
from cse_platform.leaderboard.query.board.on_dev import DevPairs
from cse_platform.leaderboard.query.trials.details_record import TrialDetails
from cse_platform.sweep.identity import dev_identity


def dev_pairs(trial: TrialDetails) -> DevPairs:
    """The cosine of each pair of the dev set that the search climbs, under the kept model.

    Raises:
        NotFoundError: if the trial kept no model, or it is gone.
        BackboneError: if the model cannot be loaded.
        DataError: if it climbs something else than one set of pairs, or that cannot be read or
            holds other pairs by now.
    """
    if len(several := climbed_sets(trial.dev.search)) > 1:
        raise DataError(f"the mean of {' and '.join(several)} has no pairs of its own")
    dev, data = DevSelection.model_validate(one_trial_sweep(trial)["dev"]), data_setting_of(trial)
    gold = load_dev_pairs(dev, trial.dev.search, data).gold
    if dev_identity(dev, data) != trial.dev.identity:
        raise DataError(
            f"the dev sets of trial {trial.key[:16]} hold other pairs by now than it was judged by"
        )
    with kept_model(trial) as folder:
        encoder = load_encoder(str(folder)).to("cuda" if torch.cuda.is_available() else "cpu")
        # The very batches of the training: cosines that differ in a last digit rank otherwise.
        found = DevSuite(dev, data=data).similarities(encoder)[trial.dev.search]
    return DevPairs(gold, found.numpy())


def data_setting_of(trial: TrialDetails) -> str | None:
    """The setting `data` of a trial; where its file left it to CSE_DATA, what that named."""
    named: str | None = one_trial_sweep(trial)["data"]
    if named is None and trial.dev.source in ("builtin", "hub"):
        return trial.dev.source
    return named
