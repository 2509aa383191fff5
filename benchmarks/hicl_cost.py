"""Compare a step's cost by text length: SimCSE reads texts whole, HiCL in segments.

Launch: make bench-hicl. Both methods run in one process, on `mini`, with one thread; the fastest of
three steps counts.
"""

import sys
import time
from random import Random

import numpy as np
import torch

from cse_methods.data.builtin.pairs import builtin_corpus
from cse_methods.papers.hicl import HiCL, HiCLConfig
from cse_methods.papers.simcse import SimCSE, SimCSEConfig
from cse_methods.training.objective import Objective
from cse_methods.training.student import Batch, Student

SENTENCES, STEPS, SEGMENT = 8, 3, 32
ORIGIN = {"backbone": "mini", "corpus": "builtin"}


def texts_of(pieces: int) -> Batch:
    """Make texts that fill rows of `pieces` word pieces."""
    rng, words = Random(0), [word for sentence in builtin_corpus() for word in sentence.split()]
    texts = [" ".join(rng.choices(words, k=pieces)) for _ in range(SENTENCES)]
    return Batch(texts, np.arange(SENTENCES))


def seconds_a_step(student: Student, objective: Objective, batch: Batch) -> float:
    """Measure the fastest of several forward and backward passes, in seconds."""
    taken = []
    for _ in range(STEPS):
        started = time.perf_counter()
        torch.autograd.backward(torch.stack(list(objective(student, batch).values())).sum())
        taken.append(time.perf_counter() - started)
    return min(taken)


def main() -> None:
    """Print a line for each length: seconds of both, and how many times faster HiCL is."""
    torch.set_num_threads(1)
    sys.stdout.write("pieces  simcse s  hicl s  times faster\n")
    for pieces in (64, 128, 256, 512):
        settings = ORIGIN | {"max_length": pieces}
        whole = SimCSEConfig.model_validate(settings)
        sliced = HiCLConfig.model_validate(settings | {"slicing_length": SEGMENT})
        batch = texts_of(pieces)
        simcse = seconds_a_step(Student.from_config(whole).train(), SimCSE(whole), batch)
        student = Student.from_config(sliced).train()
        hicl = seconds_a_step(student, HiCL(sliced, SimCSE(sliced)), batch)
        sys.stdout.write(f"{pieces:6}  {simcse:8.3f}  {hicl:6.3f}  {simcse / hicl:12.2f}\n")


if __name__ == "__main__":
    main()
