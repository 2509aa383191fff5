"""Objectives on the columns of a corpus: sentences that belong together."""

from torch import Tensor

from cse_methods.data.corpus import Corpus
from cse_methods.encoders.encoder import Encoder
from cse_methods.encoders.post_pooling import TrainingHead
from cse_methods.training.objective import TwoViewObjective, TwoViews
from cse_methods.training.student import Batch, Student, StudentProtocol


class SupervisedObjective(TwoViewObjective):
    """An objective on the embeddings of all columns; the head stays at test time.

    The first two columns are the views, `losses` gets the embeddings of further ones after them.
    """

    def __init__(self, corpus: Corpus) -> None:
        super().__init__()
        self.columns = [
            Corpus(corpus.name, column, f"{corpus.sha256} column {index}")
            for index, column in enumerate(corpus.columns)
        ]

    def views(self, student: StudentProtocol, batch: Batch) -> TwoViews:
        """Return the rows of all columns, one after another."""
        template = student.encoder.template
        cut = [student.pieces_at(batch.rows, column, template) for column in self.columns]
        return TwoViews([content for own in cut for content in own], (template, template))

    def encode(self, student: StudentProtocol, views: TwoViews) -> tuple[Tensor, ...]:
        """Compute the embeddings of each column, shape (B, D) each, in one pass."""
        (embeddings,) = student.encode(views.contents, views.templates[0])
        return embeddings.chunk(len(self.columns))

    def evaluation_encoder(self, student: Student) -> Encoder:
        """Return the encoder with its head if it is trained with one."""
        head = student.head
        return student.encoder.with_post_pooling(*[head] if isinstance(head, TrainingHead) else [])
