"""What dashboards/ holds for Prometheus and Grafana; queries are tried where promtool is."""

import json
import shutil
import subprocess
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[2] / "dashboards"
BOARD = json.loads((FOLDER / "grafana/dashboards/sweeps-on-ray.json").read_text())
PANELS = [panel for panel in BOARD["panels"] if panel["type"] != "row"]

SECONDS = 60
"""A program that takes longer hangs."""


def queries(session: str = ".*") -> list[tuple[str, str]]:
    """(panel's title and query's letter, query over all nodes)."""
    targets = [(panel["title"], target) for panel in PANELS for target in panel["targets"]]
    return [
        (f"{title} {one['refId']}", one["expr"].replace("$session", session).replace("$node", ".*"))
        for title, one in targets
    ]


def promtool(*arguments: str) -> subprocess.CompletedProcess[str]:
    program = shutil.which("promtool")
    if program is None:
        pytest.skip("no promtool here; apt-get install prometheus")
    return subprocess.run(
        [program, *arguments], capture_output=True, text=True, timeout=SECONDS, check=False
    )


# A head node, and a node that runs two trials on one of its two GPUs while a third waits. Names,
# labels and units are Ray's: GPU memory in MiB, CPU and GPU use in per cent of one. The values are
# hand-made, one a minute.
HEAD, WORKER = 'SessionName="s",instance="head"', 'SessionName="s",instance="worker"'
GPU = f'{WORKER},GpuIndex="0"'
TRIAL = f'{WORKER},Component="ray::ImplicitFunc.train"'
STEP = 'Name="ImplicitFunc.train"'
SERIES = {
    f'ray_actors{{{HEAD},Name="ImplicitFunc",Source="gcs",State="ALIVE"}}': "2x10",
    f'ray_actors{{{HEAD},Name="ImplicitFunc",Source="gcs",State="PENDING_CREATION"}}': "1x10",
    f'ray_actors{{{HEAD},Name="ImplicitFunc",Source="gcs",State="DEAD"}}': "5x10",
    f'ray_actors{{{WORKER},Name="ImplicitFunc",Source="executor",State="ALIVE_RUNNING_TASKS"}}': (
        "2x10"
    ),
    f'ray_actors{{{WORKER},Name="other",Source="executor",State="ALIVE_RUNNING_TASKS"}}': "7x10",
    # What the driver has submitted and the worker has taken is counted by both, and cancels out.
    f'ray_tasks{{{HEAD},{STEP},Source="owner",State="SUBMITTED_TO_WORKER"}}': "2x10",
    f'ray_tasks{{{WORKER},{STEP},Source="executor",State="SUBMITTED_TO_WORKER"}}': "-2x10",
    f'ray_tasks{{{WORKER},{STEP},Source="executor",State="RUNNING"}}': "2x10",
    f'ray_tasks{{{HEAD},{STEP},Source="owner",State="FINISHED"}}': "0+3x10",
    f'ray_resources{{{HEAD},Name="CPU",State="AVAILABLE"}}': "2x10",
    f'ray_resources{{{HEAD},Name="CPU",State="USED"}}': "0x10",
    f'ray_resources{{{WORKER},Name="CPU",State="USED"}}': "6x10",
    f'ray_resources{{{WORKER},Name="GPU",State="AVAILABLE"}}': "1x10",
    f'ray_resources{{{WORKER},Name="GPU",State="USED"}}': "1x10",
    f"ray_node_manager_unexpected_worker_failure_total{{{WORKER}}}": "1x10",
    f"ray_node_cpu_count{{{HEAD}}}": "2x10",
    f"ray_node_cpu_count{{{WORKER}}}": "6x10",
    f"ray_node_cpu_utilization{{{WORKER}}}": "40x10",
    f"ray_node_mem_used{{{WORKER}}}": "4e9x10",
    f"ray_node_mem_total{{{WORKER}}}": "16e9x10",
    f"ray_node_disk_usage{{{WORKER}}}": "30e9x10",
    f"ray_node_disk_free{{{WORKER}}}": "10e9x10",
    f"ray_node_gpus_utilization{{{GPU}}}": "80x10",
    f"ray_node_gram_used{{{GPU}}}": "20000x10",
    f"ray_node_gram_available{{{GPU}}}": "60000x10",
    f"ray_component_gpu_memory_mb{{{TRIAL}}}": "512x10",
    f"ray_component_uss_bytes{{{TRIAL}}}": "4e9x10",
    f'ray_component_uss_bytes{{{WORKER},Component="raylet"}}': "1e9x10",
    f"ray_component_cpu_percentage{{{TRIAL}}}": "350x10",
    f'ray_object_store_memory{{{WORKER},Location="MMAP_SHM",ObjectState="SEALED"}}': "6e7x10",
    f'ray_object_store_memory{{{WORKER},Location="MMAP_SHM",ObjectState="UNSEALED"}}': "4e7x10",
    f"ray_object_store_used_memory{{{WORKER}}}": "1e8x10",
    f"ray_object_store_available_memory{{{WORKER}}}": "3e8x10",
}
EXPECTED = {
    "Trials running A": {"{}": 2},
    "Trials ended A": {"{}": 5},
    "Nodes A": {"{}": 2},
    "CPUs given to trials A": {"{}": 0.75},
    "GPUs given to trials A": {"{}": 0.5},
    "Worker deaths A": {"{}": 1},
    "Trials by state A": {'{State="ALIVE"}': 2, '{State="PENDING_CREATION"}': 1},
    "Trial steps by state A": {'{State="RUNNING"}': 2},
    "Dev points per minute A": {"{}": 3},
    "CPU A": {f"ray_node_cpu_utilization{{{WORKER}}}": 40},
    "Memory A": {f"{{{WORKER}}}": 0.25},
    "Disk A": {f"{{{WORKER}}}": 0.75},
    "GPU utilisation A": {f"ray_node_gpus_utilization{{{GPU}}}": 80},
    "GPU memory A": {f"{{{GPU}}}": 0.25},
    "GPU memory of trials A": {'{instance="worker"}': 2**29},
    "Memory of trials A": {'{instance="worker"}': 4e9},
    "Memory per trial A": {'{instance="worker"}': 2e9},
    "CPU cores of trials A": {'{instance="worker"}': 3.5},
    "CPU cores of trials B": {'{instance="head"}': 0, '{instance="worker"}': 6},
    "Object store A": {'{Location="MMAP_SHM"}': 1e8},
    "Object store in use A": {f"{{{WORKER}}}": 0.25},
}


def test_every_query_computes_what_its_panel_says(tmp_path) -> None:
    checks = []
    for name, query in queries(session="s"):
        samples = [{"labels": of, "value": value} for of, value in EXPECTED[name].items()]
        checks.append({"expr": query, "eval_time": "10m", "exp_samples": samples})
    another = {name.replace('="s"', '="t"'): values for name, values in SERIES.items()}
    series = [{"series": name, "values": values} for name, values in (SERIES | another).items()]
    cluster = {"interval": "1m", "input_series": series, "promql_expr_test": checks}
    file = tmp_path / "cluster.yml"
    file.write_text(json.dumps({"rule_files": [], "tests": [cluster]}))  # JSON is YAML
    tried = promtool("test", "rules", str(file))
    assert tried.returncode == 0, tried.stdout + tried.stderr
