"""What a paper hands to the training loop."""

from torch import Tensor, nn

from cse_methods.encoders.encoder import Encoder
from cse_methods.training.student import Batch, Student, Views


class Objective(nn.Module):
    """A paper's loss, with what it keeps between steps: further encoders, queues, projections.

    Parameters of it that take gradients are trained beside the student's, and all of its state is
    in every checkpoint.
    """

    def forward(self, student: Views, batch: Batch) -> dict[str, Tensor]:
        """The parts of the loss by name, each a weighted scalar; they are summed.

        Args:
            student: what is trained.
            batch: B training sentences.
        """
        raise NotImplementedError

    def tested(self, student: Student) -> Encoder:
        """The encoder whose vectors are the method's embeddings at test time."""
        return student.encoder
