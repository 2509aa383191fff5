"""IS-BERT: a sentence's vector, made by convolutions, shares information with its own word pieces.

Paper: Zhang et al., EMNLP 2020, https://arxiv.org/abs/2009.12061.
The convolutions are trained with the encoder and stay at test.
Departs from the released code: ReLU follows the convolutions, and padding counts as zeros in them;
there a sentence's vector depends on the padding of its batch. `relu: false` and
`mask_padding: false` imitate the code.
Departs from it: the paper's numbers are of the sentences of NLI data, and for the transfer tasks of
the tasks' own; here the corpus is the trial's.
That the paper has ReLU is told from memory, not checked.
"""

from collections.abc import Sequence
from typing import Annotated, ClassVar, Literal, Self

from pydantic import AfterValidator, Field, model_validator
from torch import Tensor

from cse_methods.config import TrainingConfig
from cse_methods.data.corpus import Corpus
from cse_methods.encoders.convolution import TokenConvolution
from cse_methods.encoders.encoder import Encoder
from cse_methods.encoders.poolers import Pooler
from cse_methods.errors import SettingError
from cse_methods.losses.mutual_information import mutual_information
from cse_methods.settings import released, setting
from cse_methods.training.loop import register_objective
from cse_methods.training.objective import Objective
from cse_methods.training.optimizers import ParameterGroup
from cse_methods.training.student import Batch, Student, StudentProtocol


def _refuse_repeated_sizes(sizes: tuple[int, ...]) -> tuple[int, ...]:
    if len(set(sizes)) < len(sizes):
        raise ValueError(f"each kernel size stands once, got {list(sizes)}")
    return sizes


KernelSizes = Annotated[
    tuple[Literal[1, 3, 5, 7], ...], Field(min_length=1), AfterValidator(_refuse_repeated_sizes)
]


class ISBERTConfig(TrainingConfig):
    head_poolers: ClassVar[tuple[Pooler, ...]] = ()  # it has convolutions of its own

    pooler: Pooler = released("avg", "how the vectors of tokens become one vector; avg alone")
    kernel_sizes: KernelSizes = released((1, 3, 5), "lengths of the convolutions in word pieces")
    channels: int = released(256, "of each convolution", ge=1, le=4096)
    relu: bool = setting(True, "whether ReLU follows; not in the released code", source="memory")
    mask_padding: bool = setting(
        True, "whether padding counts as zeros; not in the released code", source="ours"
    )
    convolution_learning_rate_factor: float = released(
        1.0, "the convolutions learn with this times the learning rate", gt=0
    )

    @model_validator(mode="after")
    def _refuse_other_poolers(self) -> Self:
        for name in ("pooler", "test_pooler"):
            if getattr(self, name) not in ("avg", None):
                raise SettingError(
                    name,
                    f"{name}={getattr(self, name)}: isbert averages the vectors that its "
                    f"convolutions give; leave {name} out",
                )
        return self


class ISBERT(Objective):
    """Maximises the mutual information between sentences and their own word pieces."""

    def __init__(self, config: ISBERTConfig, student: Student) -> None:
        super().__init__()
        self.learning_rate_factor = config.convolution_learning_rate_factor
        self.convolution = TokenConvolution(
            student.encoder.width,
            config.channels,
            config.kernel_sizes,
            relu=config.relu,
            mask_padding=config.mask_padding,
        )

    def forward(self, student: StudentProtocol, batch: Batch) -> dict[str, Tensor]:
        """Compute both terms of the negative bound; their sum falls as the information rises."""
        template = student.encoder.template
        encoder = student.encoder.with_token_layers(self.convolution)
        tokens = student.encode_tokens(
            student.pieces_of(batch, template), template, encoder=encoder
        )
        positive, negative = mutual_information(tokens.vectors, tokens.mask, tokens.pooled)
        return {"positive": -positive, "negative": negative}

    def parameter_groups(self, student: Student) -> Sequence[ParameterGroup]:
        del student
        return (ParameterGroup([self.convolution], self.learning_rate_factor),)

    def evaluation_encoder(self, student: Student) -> Encoder:
        return student.encoder.with_token_layers(self.convolution)


@register_objective("isbert", config=ISBERTConfig, revision=1)
def build(config: ISBERTConfig, _corpus: Corpus, student: Student) -> ISBERT:
    return ISBERT(config, student)
