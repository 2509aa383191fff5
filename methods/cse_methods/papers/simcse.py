"""SimCSE, unsupervised: a sentence's positive is itself under another dropout mask.

Paper: Gao, Yao, Chen, EMNLP 2021, https://arxiv.org/abs/2104.08821.
Departs from it: the last, incomplete batch of an epoch is dropped.
"""

from pydantic import Field
from torch import Tensor

from cse_methods import training
from cse_methods.contract import MethodConfig, Paper, Published, Run
from cse_methods.data.corpora import load_corpus
from cse_methods.losses.info_nce import info_nce
from cse_methods.registry import register
from cse_methods.student import Batch, Student


class SimCSEConfig(MethodConfig):
    """Settings of SimCSE."""

    temperature: float = Field(
        default=0.05,
        gt=0,
        description="divides cosines",
        json_schema_extra={"symbol": "τ"},
    )


def _published(backbone: str, batch_size: int, learning_rate: float) -> Published:
    settings = {
        "batch_size": batch_size,
        "learning_rate": learning_rate,
        "temperature": 0.05,
        "pooler": "cls",
        "max_length": 32,
        "epochs": 1,
        "eval_steps": 125,
        "warmup_ratio": 0.0,
        "precision": "fp16",
    }
    return Published(backbone, settings, source="released scripts")


@register(
    "simcse",
    config=SimCSEConfig,
    paper=Paper(
        "SimCSE: Simple Contrastive Learning of Sentence Embeddings",
        "https://arxiv.org/abs/2104.08821",
        2021,
    ),
    revision=1,
    published=(
        _published("bert-base", 64, 3e-5),
        _published("bert-large", 64, 1e-5),
        _published("roberta-base", 512, 1e-5),
        _published("roberta-large", 512, 3e-5),
    ),
)
def train(config: SimCSEConfig, run: Run) -> dict[str, float]:
    """Train on raw sentences; return the metrics of the best checkpoint on dev."""

    def objective(student: Student, batch: Batch) -> dict[str, Tensor]:
        first, second = student.views(batch.sentences, count=2)
        return {"contrastive": info_nce(first, second, temperature=config.temperature)}

    corpus = load_corpus(config.corpus, config.data)
    return training.train(config, run, corpus=corpus, objective=objective)
