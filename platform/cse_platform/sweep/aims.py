"""Whether the objectives and constraints of a search go with the rest of its sweep."""

from collections.abc import Iterator

from cse_methods.data.dev_selection import DevSelection, dev_metric
from cse_platform.sweep.objectives import DEV_VALUE, GPU_HOURS, Constraint, metric_of, unknown_name
from cse_platform.sweep.reading.problems import Problem
from cse_platform.sweep.search_block import Search


def aim_problems(
    search: Search, dev: DevSelection, *, has_gpu: bool, pruner: str | None
) -> list[Problem]:
    """What is wrong with them; paths start at the sweep. `pruner` is the kind, if there is one."""
    found = [*_unmeasured(search, dev, has_gpu), *_repeated(search, dev)]
    for key in ("objectives", "constraints") if search.sampler.kind == "cmaes" else ():
        if getattr(search, key):
            text = f"'cmaes' knows no {key}; take 'tpe', 'gp' or 'nsgaii'"
            found.append(Problem(("search", "sampler"), text))
    if search.objectives and pruner is not None:
        text = (
            f"{pruner!r} compares trials by one value, and this search has "
            f"{len(search.objectives)} objectives; leave the pruner out"
        )
        found.append(Problem(("pruner", "kind"), text))
    return found


def _unmeasured(search: Search, dev: DevSelection, has_gpu: bool) -> Iterator[Problem]:
    """Objectives and constraints on what no trial measures."""
    named = {
        "objectives": [one.name for one in search.objectives],
        "constraints": [Constraint.parse(text).name for text in search.constraints],
    }
    for key, names in named.items():
        for place, name in enumerate(names):
            text = unknown_name(name, dev)
            if name == GPU_HOURS and not has_gpu:
                text = f"{name} is 0 for every trial without a GPU; give resources.gpu a share"
            if text:
                yield Problem(("search", key, place), text)


def _repeated(search: Search, dev: DevSelection) -> Iterator[Problem]:
    """Objectives that are one and the same."""
    climbed = dev_metric(dev.search_name)
    seen: dict[str, str] = {}
    for place, one in enumerate(search.objectives):
        meant = climbed if one.name == DEV_VALUE else metric_of(one.name)
        if first := seen.get(meant):
            text = f"{one.name!r} is what {first!r} is; name each objective once"
            yield Problem(("search", "objectives", place), text)
        seen.setdefault(meant, one.name)
