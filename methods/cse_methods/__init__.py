"""Sentence embeddings: methods that train encoders, and the scoring of encoders.

`__all__` is the public surface, and docs/api.md is its page. A name is imported when it is first
used, so that `import cse_methods` imports no torch.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from cse_methods.config import Above as Above
    from cse_methods.config import Conditions as Conditions
    from cse_methods.config import Holding as Holding
    from cse_methods.config import MethodConfig as MethodConfig
    from cse_methods.config import TrainingConfig as TrainingConfig
    from cse_methods.config import TwoViewConfig as TwoViewConfig
    from cse_methods.contract import LateSave as LateSave
    from cse_methods.contract import Method as Method
    from cse_methods.contract import Paper as Paper
    from cse_methods.contract import PublishedSettings as PublishedSettings
    from cse_methods.contract import Run as Run
    from cse_methods.data.corpora import Corpus as Corpus
    from cse_methods.data.corpora import load_corpus as load_corpus
    from cse_methods.encoders.edits import Edits as Edits
    from cse_methods.encoders.encoder import Encoder as Encoder
    from cse_methods.encoders.loading import load_encoder as load_encoder
    from cse_methods.encoders.saved_layers import SavedLayer as SavedLayer
    from cse_methods.encoders.saved_layers import TokenLayer as TokenLayer
    from cse_methods.encoders.saved_layers import register_layer as register_layer
    from cse_methods.errors import CseError as CseError
    from cse_methods.errors import SettingError as SettingError
    from cse_methods.errors import TrainingError as TrainingError
    from cse_methods.evaluation.evaluate import evaluate as evaluate
    from cse_methods.evaluation.models import open_model as open_model
    from cse_methods.losses.bidirectional_margin import bidirectional_margin as bidirectional_margin
    from cse_methods.losses.info_nce import info_nce as info_nce
    from cse_methods.losses.list_mle import list_mle as list_mle
    from cse_methods.losses.list_net import list_net as list_net
    from cse_methods.losses.multi_positive import multi_positive as multi_positive
    from cse_methods.losses.ranking_consistency import ranking_consistency as ranking_consistency
    from cse_methods.losses.segments import entailment as entailment
    from cse_methods.losses.segments import local_contrast as local_contrast
    from cse_methods.losses.similarity import cosine_matrix as cosine_matrix
    from cse_methods.metrics import alignment as alignment
    from cse_methods.metrics import spearman as spearman
    from cse_methods.metrics import uniformity as uniformity
    from cse_methods.published.tables import read_published as read_published
    from cse_methods.registry import available_methods as available_methods
    from cse_methods.registry import get_method as get_method
    from cse_methods.registry import register as register
    from cse_methods.sentence_transformers_trainer.port import report_to_cse as report_to_cse
    from cse_methods.sentence_transformers_trainer.settings import LibraryConfig as LibraryConfig
    from cse_methods.settings import setting as setting
    from cse_methods.tasks import parse_tasks as parse_tasks
    from cse_methods.training.dev_evaluation import DevSuite as DevSuite
    from cse_methods.training.frozen import FrozenModule as FrozenModule
    from cse_methods.training.loop import register_objective as register_objective
    from cse_methods.training.loop import train as train
    from cse_methods.training.objective import Objective as Objective
    from cse_methods.training.objective import TwoViewObjective as TwoViewObjective
    from cse_methods.training.objective import TwoViews as TwoViews
    from cse_methods.training.optimizers import ParameterGroup as ParameterGroup
    from cse_methods.training.student import Batch as Batch
    from cse_methods.training.student import Student as Student
    from cse_methods.training.student import StudentProtocol as StudentProtocol
    from cse_methods.training.student import Tokens as Tokens
    from cse_methods.training.student import dropout_views as dropout_views

_MODULES = {
    "config": (
        *("Above", "Conditions", "Holding", "MethodConfig", "TrainingConfig", "TwoViewConfig"),
    ),
    "contract": ("LateSave", "Method", "Paper", "PublishedSettings", "Run"),
    "data.corpora": ("Corpus", "load_corpus"),
    "encoders.edits": ("Edits",),
    "encoders.encoder": ("Encoder",),
    "encoders.loading": ("load_encoder",),
    "encoders.saved_layers": ("SavedLayer", "TokenLayer", "register_layer"),
    "errors": ("CseError", "SettingError", "TrainingError"),
    "evaluation.evaluate": ("evaluate",),
    "evaluation.models": ("open_model",),
    "losses.bidirectional_margin": ("bidirectional_margin",),
    "losses.info_nce": ("info_nce",),
    "losses.list_mle": ("list_mle",),
    "losses.list_net": ("list_net",),
    "losses.multi_positive": ("multi_positive",),
    "losses.ranking_consistency": ("ranking_consistency",),
    "losses.segments": ("entailment", "local_contrast"),
    "losses.similarity": ("cosine_matrix",),
    "metrics": ("alignment", "spearman", "uniformity"),
    "published.tables": ("read_published",),
    "registry": ("available_methods", "get_method", "register"),
    "sentence_transformers_trainer.port": ("report_to_cse",),
    "sentence_transformers_trainer.settings": ("LibraryConfig",),
    "settings": ("setting",),
    "tasks": ("parse_tasks",),
    "training.dev_evaluation": ("DevSuite",),
    "training.frozen": ("FrozenModule",),
    "training.loop": ("register_objective", "train"),
    "training.objective": ("Objective", "TwoViewObjective", "TwoViews"),
    "training.optimizers": ("ParameterGroup",),
    "training.student": ("Batch", "Student", "StudentProtocol", "Tokens", "dropout_views"),
}
HOMES = {name: module for module, names in _MODULES.items() for name in names}

__all__ = sorted(HOMES)


def __getattr__(name: str) -> Any:
    if name not in HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"{__name__}.{HOMES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return [*globals(), *__all__]
