"""Objectives on the columns of a corpus: sentences that belong together."""

from torch import Tensor

from cse_methods.data.corpora import Corpus
from cse_methods.encoders.encoder import Encoder
from cse_methods.encoders.post_pooling import TrainingHead
from cse_methods.training.objective import Objective
from cse_methods.training.student import Batch, Student, StudentProtocol


class SupervisedObjective(Objective):
    """An objective on the embeddings of all columns; the head stays at test time."""

    def __init__(self, corpus: Corpus) -> None:
        super().__init__()
        self.columns = [
            Corpus(corpus.name, column, f"{corpus.sha256} column {index}")
            for index, column in enumerate(corpus.columns)
        ]

    def encode_columns(self, student: StudentProtocol, batch: Batch) -> tuple[Tensor, ...]:
        """Compute the embeddings of each column of a batch, shape (B, D) each, after the head."""
        template = student.encoder.template
        cut = [student.pieces_at(batch.rows, column, template) for column in self.columns]
        (embeddings,) = student.encode([content for own in cut for content in own], template)
        return embeddings.chunk(len(cut))

    def evaluation_encoder(self, student: Student) -> Encoder:
        """Return the encoder with its head if it is trained with one."""
        head = student.head
        return student.encoder.with_post_pooling(*[head] if isinstance(head, TrainingHead) else [])
