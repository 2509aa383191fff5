"""The interface between a paper's loss and the training loop."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from torch import Tensor, nn

from cse_methods.encoders.encoder import Encoder
from cse_methods.training.optimizers import ParameterGroup
from cse_methods.training.student import Batch, RowTemplate, Student, StudentProtocol


class Objective(nn.Module):
    """A paper's loss, with its state between steps: further encoders, queues, projections.

    Its parameters with gradients are trained together with the student's. Every checkpoint includes
    its whole state.
    """

    def forward(self, student: StudentProtocol, batch: Batch) -> dict[str, Tensor]:
        """Compute the parts of the loss by name, each a weighted scalar; their sum is the loss.

        Args:
            student: the student in training.
            batch: B training sentences.
        """
        raise NotImplementedError

    def batch_rows(self, drawn: NDArray[np.int64]) -> NDArray[np.int64]:
        """Choose the sentences of a batch, given those that were drawn.

        The result must depend on `drawn` alone, so that a resumed trial continues with the same
        batches.

        Args:
            drawn: distinct random indices into the corpus, shape (B,).

        Returns:
            Indices into the corpus, shape (N,), usually B distinct ones; by default `drawn`.
        """
        return drawn

    def parameter_groups(self, student: Student) -> Sequence[ParameterGroup]:
        """Return groups with a learning rate or weight decay of their own; by default none.

        All parameters with gradients in the student and in this objective are trained, whether or
        not they are in one of these groups.
        """
        del student
        return ()

    def metrics(self) -> dict[str, float]:
        """Return numbers that are not part of the loss, by name, such as a learned temperature.

        The loop calls this at every dev point after step 0, and reports them as `train/<name>`.
        """
        return {}

    def evaluation_encoder(self, student: Student) -> Encoder:
        """Return the encoder to score and save: its vectors are the method's embeddings."""
        return student.encoder

    def evaluation_encoders(self, student: Student) -> Sequence[Encoder]:
        """Return the encoders to score at each dev point, usually one; the best on dev is saved."""
        return (self.evaluation_encoder(student),)


@dataclass(frozen=True)
class TwoViews:
    """How the two views of a batch are read: the same word pieces, each in its own template."""

    contents: list[list[int]]
    """Word pieces of B sentences, without special ones."""
    templates: tuple[RowTemplate, RowTemplate]


class TwoViewObjective(Objective):
    """An objective on two views of each sentence, on which another method can build.

    It defines how the views are read, how they are encoded, their loss, and what is kept after it.
    Methods that build on it call these separately: RankCSE also ranks the views, WhitenedCSE passes
    a student whose head whitens, and HiCL encodes the views by segments instead.
    """

    def views(self, student: StudentProtocol, batch: Batch) -> TwoViews:
        """Return how the two views of each sentence are read; by default, both are the sentence
        itself.

        Args:
            student: the student in training.
            batch: B training sentences.
        """
        template = student.encoder.template
        return TwoViews(student.pieces_of(batch, template), (template, template))

    def encode(self, student: StudentProtocol, views: TwoViews) -> tuple[Tensor, ...]:
        """Compute the embeddings of the two views, shape (B, D) each, and any other input of
        `losses`.

        An objective that overrides this cannot be the base of a method that encodes parts of
        sentences, such as HiCL.

        Args:
            student: the student in training.
            views: the result of `views` for the batch.
        """
        return student.encode(views.contents, *views.templates)

    def losses(
        self,
        first: Tensor,
        second: Tensor,
        *further: Tensor,
        views: TwoViews,
        student: StudentProtocol,
        batch: Batch,
    ) -> dict[str, Tensor]:
        """Compute the parts of the loss by name, as `forward` returns them.

        With `matryoshka_dims` it is called for the first coordinates of all embeddings, once for
        each of these numbers.

        Args:
            first: embeddings of the first view, shape (B, D).
            second: embeddings of the second view, shape (B, D).
            further: further results of `encode`.
            views: the result of `views` for the batch.
            student: the student in training; it encodes whatever else the loss needs.
            batch: B training sentences.
        """
        raise NotImplementedError

    def update_state(self, student: StudentProtocol, views: TwoViews) -> None:
        """Update what is kept for later steps, such as a queue; called once a step, after `losses`.

        Args:
            student: the student in training, before the optimiser's step.
            views: the result of `views` for the batch.
        """

    def forward(self, student: StudentProtocol, batch: Batch) -> dict[str, Tensor]:
        """Compute the parts of the loss on whole sentences, and update the state."""
        views = self.views(student, batch)
        encoded = self.encode(student, views)
        parts = self.losses(*encoded, views=views, student=student, batch=batch)
        self.update_state(student, views)
        return parts
