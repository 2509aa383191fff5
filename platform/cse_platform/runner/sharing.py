"""Measure how many trials should share a device, where `resources:` says `auto`."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import IO, Any

import ray
from ray.exceptions import RayError
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from cse_methods.contract import TrainingConfig
from cse_methods.files.cache import cache_folder, cache_key, written_once
from cse_platform.runner.measuring import StartLine, TimedTrial
from cse_platform.runner.state import SweepState
from cse_platform.sweep.blocks import Resources, Slot
from cse_platform.sweep.checks import list_representatives
from cse_platform.sweep.identity import code_hash

TRIED_AT_ONCE = (1, 2, 4, 8)
"""Numbers of simultaneous trials that are measured."""
NEAR_BEST = 0.95
"""Fewer simultaneous trials are chosen if they reach this share of the best throughput: a search
learns more from trials that run one after another."""
ROOM = 0.9
"""The share of a device's memory that trials may fill."""


@dataclass(frozen=True)
class Throughput:
    """The throughput of several simultaneous trials on one device."""

    trials: int
    sentences_per_second: float
    """The speed of all trials together."""
    memory: float
    """The share of the device's memory that they filled, in [0, 1]."""

    def fit(self, trials: int) -> bool:
        """Whether this many trials fit into the memory, at the measured use per trial."""
        return self.memory / self.trials * trials <= ROOM


def fewest_near_best(measured: Sequence[Throughput]) -> Throughput:
    """Find the fewest simultaneous trials whose throughput is nearly the best."""
    best = max(each.sentences_per_second for each in measured)
    near = [each for each in measured if each.sentences_per_second >= NEAR_BEST * best]
    return min(near, key=lambda throughput: throughput.trials)


def slots_of(resources: Resources, *, cores: float, gpus: float) -> dict[int, Slot]:
    """Compute the slots that a trial can occupy, by the number of trials that share a device.

    The device is a GPU, or the machine if trials use none. What the file leaves open is divided
    evenly. `cores` and `gpus` are those of one machine; if it has fewer cores than trials, each
    trial still gets one.
    """
    if resources.gpu == "auto":
        gpu = {trials: 1 / trials for trials in TRIED_AT_ONCE}
    elif resources.gpu > 0:
        gpu = {int(1 / resources.gpu + 1e-9): resources.gpu}
    else:
        gpu = dict.fromkeys(TRIED_AT_ONCE, 0.0)
    devices = max(int(gpus), 1) if any(gpu.values()) else 1
    slots = {}
    for trials, share in gpu.items():
        cpu = cores // (trials * devices) if resources.cpu == "auto" else resources.cpu
        if cpu > 0 and cpu * trials * devices <= cores:
            slots[trials] = Slot(cpu, share)
    least = min(gpu)
    return slots or {least: Slot(1.0 if resources.cpu == "auto" else resources.cpu, gpu[least])}


_TIMEOUT_SECONDS = 600.0
"""Seconds after which simultaneous trials count as too many."""


def share_devices(state: SweepState) -> None:
    """Measure the slot of a trial if the file leaves it open; once for each kind of machine.

    If simultaneous trials run out of memory, fail or hang, there are too many of them. If a single
    trial does, it gets a whole device, and reports its own error when it runs.
    """
    resources = state.spec.resources
    if not resources.measured:
        return
    # The machine with the fewest cores, among those with a GPU if there are any.
    alive = [node for node in ray.nodes() if node["Alive"] and node["Resources"].get("CPU")]
    if state.nodes is not None:
        alive = [node for node in alive if node["NodeID"] in state.nodes.passed]
    with_gpu = [node for node in alive if node["Resources"].get("GPU")]
    node = min(with_gpu or alive, key=lambda node: node["Resources"]["CPU"])
    has = node["Resources"]
    slots = slots_of(resources, cores=has["CPU"], gpus=has.get("GPU", 0))
    # The configuration that needs the most memory, by batch size x sentence length.
    spec = state.spec
    configs = [spec.config(assignment) for assignment in list_representatives(spec, state.method)]
    config = max(configs, key=lambda c: getattr(c, "batch_size", 0) * getattr(c, "max_length", 0))
    if len(slots) > 1 and isinstance(config, TrainingConfig):
        throughputs = _load_or_measure(state, config, node, slots)
        state.slot = (
            slots[fewest_near_best(throughputs).trials] if throughputs else slots[min(slots)]
        )
        if throughputs:
            speeds = ", ".join(
                f"{each.sentences_per_second:,.0f} by {each.trials}" for each in throughputs
            )
            gpu = f", gpu: {state.slot.gpu:g}" if state.slot.gpu else ""
            state.say(
                f"sentences a second: {speeds} at once; resources: cpu: {state.slot.cpu:g}{gpu}"
            )
    else:
        state.slot = slots[min(slots)]


def _load_or_measure(
    state: SweepState, config: TrainingConfig, node: Mapping[str, Any], slots: Mapping[int, Slot]
) -> tuple[Throughput, ...]:
    settings = config.model_dump(mode="json")
    asked = {
        "method": state.method.name,
        "code": code_hash(state.method),
        "settings": settings,
        # Hardware alone: the memory that Ray manages differs between starts.
        "machine": {
            name: n
            for name, n in node["Resources"].items()
            if name in ("CPU", "GPU") or name.startswith("accelerator_type:")
        },
        "slots": {trials: asdict(slot) for trials, slot in slots.items()},
    }

    def write(stream: IO[bytes]) -> None:
        nodes = state.nodes
        environment = {} if nodes is None else nodes.environment_on(node["NodeID"])
        measured = _measure_throughputs(state.method.name, settings, node, slots, environment)
        if not measured:
            raise _NothingMeasuredError
        stream.write(json.dumps([asdict(each) for each in measured]).encode())

    file = cache_folder("throughput") / f"{cache_key(asked)}.json"
    try:
        return written_once(file, read=_read_throughputs, write=write)
    except _NothingMeasuredError:
        return ()  # the trial itself will report the error, and the next start measures again


class _NothingMeasuredError(Exception):
    """Not even a single trial ran to its end."""


def _read_throughputs(file: Path) -> tuple[Throughput, ...] | None:
    try:
        return tuple(Throughput(**fields) for fields in json.loads(file.read_text()))
    except (OSError, ValueError, TypeError):
        return None


def _measure_throughputs(
    method: str,
    settings: dict[str, Any],
    node: Mapping[str, Any],
    slots: Mapping[int, Slot],
    environment: dict[str, Any],
) -> list[Throughput]:
    """Measure increasing numbers of trials until the next number would not fit."""
    actors: list[Any] = []
    throughputs: list[Throughput] = []
    start = ray.remote(TimedTrial).options(
        runtime_env=environment,
        num_cpus=0,
        num_gpus=min(slot.gpu for slot in slots.values()),
        scheduling_strategy=NodeAffinitySchedulingStrategy(node["NodeID"], soft=False),
    )
    try:
        for trials, slot in slots.items():
            if throughputs and not throughputs[-1].fit(trials):
                break
            actors += [start.remote() for _ in range(trials - len(actors))]
            line = ray.remote(StartLine).options(num_cpus=0).remote(trials)
            done = [actor.train.remote(method, settings, slot.threads, line) for actor in actors]
            speeds, filled = zip(*ray.get(done, timeout=_TIMEOUT_SECONDS), strict=True)
            own, on_gpu = zip(*filled, strict=True)
            share = float(max(sum(own), *on_gpu))  # of the machine's memory, or of a GPU's
            throughputs.append(Throughput(trials, sum(speeds), share))
    except (RayError, TimeoutError):
        pass  # this many are too many
    finally:
        for actor in actors:
            ray.kill(actor)
    return throughputs
