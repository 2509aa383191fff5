"""What a paper hands to the training loop."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from torch import Tensor, nn

from cse_methods.encoders.encoder import Encoder
from cse_methods.training.optimizers import ParameterGroup
from cse_methods.training.student import Batch, RowTemplate, Student, StudentProtocol


class Objective(nn.Module):
    """A paper's loss, with what it keeps between steps: further encoders, queues, projections.

    Its parameters that take gradients are trained beside the student's. Every checkpoint holds its
    whole state.
    """

    def forward(self, student: StudentProtocol, batch: Batch) -> dict[str, Tensor]:
        """The parts of the loss by name, each a weighted scalar; their sum is the loss.

        Args:
            student: what is trained.
            batch: B training sentences.
        """
        raise NotImplementedError

    def batch_rows(self, drawn: NDArray[np.int64]) -> NDArray[np.int64]:
        """The places in the corpus of the sentences of a batch for which `drawn` were drawn.

        They follow from `drawn` alone, so that a resumed trial goes on with the same batches.

        Args:
            drawn: distinct places in the corpus at random, shape (B,).

        Returns:
            Places, shape (N,), mostly as many and distinct; by default those that were drawn.
        """
        return drawn

    def parameter_groups(self, student: Student) -> Sequence[ParameterGroup]:
        """What is not trained with the trial's learning rate and weight decay; by default nothing.

        Whatever takes a gradient in the student and in this objective is trained, in a group of
        these or outside all.
        """
        del student
        return ()

    def metrics(self) -> dict[str, float]:
        """Numbers that are no part of the loss, by name, such as a learned temperature.

        They are asked for at every dev point after a step, and reported as `train/<name>`.
        """
        return {}

    def evaluation_encoder(self, student: Student) -> Encoder:
        """The encoder that is scored and saved: its vectors are the method's embeddings."""
        return student.encoder

    def evaluation_encoders(self, student: Student) -> Sequence[Encoder]:
        """Several encoders of which the best on dev is saved, at each dev point; mostly one."""
        return (self.evaluation_encoder(student),)


@dataclass(frozen=True)
class TwoViews:
    """How the two views of a batch are read: the same word pieces, in one template each."""

    contents: list[list[int]]
    """The word pieces of B sentences, without special ones."""
    templates: tuple[RowTemplate, RowTemplate]


class TwoViewObjective(Objective):
    """An objective on two views of each sentence, which another method can stand on.

    It says how the views are read, how they are encoded, and what their loss is. Whoever stands on
    it calls these three one by one: RankCSE ranks the views, WhitenedCSE hands it a student whose
    head whitens, and HiCL encodes the views by segments in its place.
    """

    def views(self, student: StudentProtocol, batch: Batch) -> TwoViews:
        """How the two views of each sentence are read; by default each is the sentence as it is.

        Args:
            student: what is trained.
            batch: B training sentences.
        """
        template = student.encoder.template
        return TwoViews(student.pieces_of(batch, template), (template, template))

    def encode(self, student: StudentProtocol, views: TwoViews) -> tuple[Tensor, ...]:
        """The embeddings of the two views, shape (B, D) each, and whatever else `losses` takes.

        An objective with an `encode` of its own cannot be the base of a method that encodes parts
        of sentences, such as HiCL.

        Args:
            student: what is trained.
            views: what `views` gave for the batch.
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
        """The parts of the loss by name, as `forward` gives them.

        Args:
            first: embeddings of the first view, shape (B, D).
            second: embeddings of the second view, shape (B, D).
            further: what `encode` gave beyond the two.
            views: what `views` gave for the batch.
            student: what is trained; it encodes whatever else the loss needs.
            batch: B training sentences.
        """
        raise NotImplementedError

    def forward(self, student: StudentProtocol, batch: Batch) -> dict[str, Tensor]:
        """The parts of the loss of whole sentences."""
        views = self.views(student, batch)
        encoded = self.encode(student, views)
        return self.losses(*encoded, views=views, student=student, batch=batch)
