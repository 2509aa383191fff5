from functools import partial

import numpy as np
import pytest
import torch
from started_papers import NUMBERED, start_paper
from torch.testing import assert_close
from transformers import AutoModel

from cse_methods.training.student import Batch

SENTENCES = NUMBERED[:6]
started = partial(start_paper, "l2pcsr", dropout=0.0)


@pytest.mark.parametrize(("attention", "masked_layers"), [("sdpa", 2), ("eager", 1)])
def test_the_loss_equals_that_of_the_library_s_masked_layers(
    attention, masked_layers, tiny_folder
) -> None:
    """Row by row, layer by layer, with masks that were drawn and not learned."""
    settings = {"attention": attention, "perturb_steps": 0, "threshold": 0.3}
    student, objective = started(tiny_folder, masked_layers=masked_layers, **settings)
    encoder = student.encoder
    rows = encoder.rows(SENTENCES, max_length=32) * 2
    torch.manual_seed(0)
    places, longest = masked_layers + 1, max(map(len, rows))
    tokens, features = torch.rand(places, len(rows), longest, 1), torch.rand(places, 1, 1, 32)
    factors = ((tokens > 0.3).float() + (features > 0.3).float()) / 2
    model = AutoModel.from_pretrained(tiny_folder, add_pooling_layer=False).eval()
    vectors = []
    for number, row in enumerate(rows):
        own = factors[:, number, : len(row)]
        hidden = model.embeddings(torch.tensor([row])) * own[0]
        for place, layer in enumerate(model.encoder.layer, 1):
            hidden = layer(hidden)
            if place <= masked_layers:
                hidden = hidden * own[place]
        vectors.append(student.head(hidden[0, 0]))
    first, second = torch.nn.functional.normalize(torch.stack(vectors), dim=1).chunk(2)
    expected = torch.nn.functional.cross_entropy(first @ second.T / 0.05, torch.arange(6))
    torch.manual_seed(0)
    found = objective(student, Batch(SENTENCES, np.arange(len(SENTENCES))))["contrastive"]
    assert_close(found, expected, rtol=1e-4, atol=1e-5)
