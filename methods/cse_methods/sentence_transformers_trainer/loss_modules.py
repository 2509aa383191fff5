"""Builds the modules of losses, each around the model that it trains."""

from collections.abc import Mapping
from typing import Any

from sentence_transformers.sentence_transformer import losses as library
from sentence_transformers.sentence_transformer.losses import MatryoshkaLoss
from torch import nn

from cse_methods.encoders.backbones import fetch_backbone, resolve_backbone
from cse_methods.encoders.devices import default_device
from cse_methods.encoders.library_encoder import load_library_encoder
from cse_methods.errors import TrainingError
from cse_methods.sentence_transformers_trainer.losses import LOSSES, LossName
from cse_methods.sentence_transformers_trainer.settings import StSettings


def build_losses(config: StSettings, model: Any, sets: Mapping[str, Any]) -> dict[str, nn.Module]:
    """Build the loss of each set; with `matryoshka`, each is computed at all widths."""
    built = {}
    for (name, dataset), loss in zip(sets.items(), config.losses, strict=False):
        module = build_loss(config, loss, model, dataset)
        if config.matryoshka is not None:
            drawn = config.matryoshka_dims_per_step or -1  # all
            module = MatryoshkaLoss(model, module, list(config.matryoshka), n_dims_per_step=drawn)
        built[name] = module
    return built


def build_loss(config: StSettings, loss: LossName, model: Any, dataset: Any) -> nn.Module:
    """Build a loss with the settings of the configuration, and what follows from the data."""
    arguments = {**LOSSES[loss].fixed, **config.loss_settings(loss)}
    if loss == "softmax":
        arguments["embedding_dimension"] = model.get_embedding_dimension()
        arguments["num_labels"] = max(dataset["label"]) + 1
    elif loss in ("gist", "cached_gist"):
        source = resolve_backbone(str(config.guide))
        guide = load_library_encoder(source, fetch_backbone(source), {})
        arguments["guide"] = guide.to(default_device()).model.requires_grad_(False)
    elif LOSSES[loss].label == "vector":
        width, made = len(dataset["label"][0]), arguments.get("projection_dim")
        if width != (made or model.get_embedding_dimension()):
            raise TrainingError(
                f"loss {loss}: the teacher's vectors have {width} coordinates, the backbone's "
                f"{model.get_embedding_dimension()}; set loss_projection_dim: {width}"
            )
    module: nn.Module = getattr(library, LOSSES[loss].library_class)(model, **arguments)
    return module
