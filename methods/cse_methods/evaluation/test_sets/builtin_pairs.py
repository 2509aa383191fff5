"""The built-in test pairs, drawn from the grammar with fixed seeds: no file, no network.

For offline tests and the quickstart only: they say whether an encoder has learned the grammar.
"""

from collections.abc import Mapping
from functools import cache
from itertools import islice

from cse_methods.data.builtin.pairs import PairKind, draw_pairs, refuse_other_draw
from cse_methods.data.pairs import GradedPair, sha256_of_pairs

SUBSETS: dict[str, dict[PairKind, int]] = {
    "contrast": {"near": 18, "far": 6, "traded": 12, "opposed": 12},
    "graded": {"graded": 72},
}
# With these seeds, no sentence of a built-in dev set or of the built-in corpus is drawn.
TEST_PAIR_SEEDS = {
    "sts12": 31,
    "sts13": 32,
    "sts14": 33,
    "sts15": 34,
    "sts16": 35,
    "stsb": 36,
    "sickr": 37,
}
TEST_PAIR_SHA256 = {
    "sts12": "ab55ca9c1ca8eac9679141fc1fc9ee457d0c11a7947e98d62fdb06209d0cccf8",
    "sts13": "31427d2781468d6b367d95414bdc639e952df6ca58ee932fae38af617e8b9361",
    "sts14": "0a8d67d04a5a6a78cc1142674897cf7992ac5962b8f6407adaff9f01a642de94",
    "sts15": "5dab0fc7f2b05626ce4a99c436bb96910594c13c723418ff9b7d451433f5cb23",
    "sts16": "4d337770ea92a88ff42e072ea3bcf9361e6ba83a016f18e962fc63d360e6e2e4",
    "stsb": "b9b8d7b48f5c0ba3ca71bea55432bbc7339d5b0b874a7526c27255a2f0ee160a",
    "sickr": "ef3dffeda00af553628416170b9f53880673e6680461a10dfb39195e09fc2f88",
}


@cache
def builtin_test_pairs(task: str) -> Mapping[str, tuple[GradedPair, ...]]:
    """120 pairs of a task, by subset.

    sickr is in the progressive with gold from 1 to 5, the others in the simple present with gold
    from 0 to 5. No sentence stands in a built-in dev set or in the built-in corpus.
    """
    pairs = draw_pairs(
        {kind: count for mix in SUBSETS.values() for kind, count in mix.items()},
        like="sickr" if task == "sickr" else "stsb",
        seed=TEST_PAIR_SEEDS[task],
    )
    refuse_other_draw(f"{task} test pairs", sha256_of_pairs(pairs), TEST_PAIR_SHA256[task])
    rest = iter(pairs)
    return {name: tuple(islice(rest, sum(mix.values()))) for name, mix in SUBSETS.items()}
