#!/usr/bin/env bash
# A sweep on the nodes of a Slurm allocation, by a Ray of its own that ends with it.
#
#   sbatch platform/deploy/slurm.sh sweeps/rankcse.yaml --runs /shared/lab/runs
#
# The same command goes on where the job was cut off; a preempted job does so by itself.
#SBATCH --job-name=cse-sweep
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=1
#SBATCH --cpus-per-task=8
#SBATCH --gpus-per-node=1
#SBATCH --time=24:00:00
#SBATCH --signal=B:INT@120
#SBATCH --requeue
set -euo pipefail

for command in ray cse-sweep; do
  command -v "$command" > /dev/null || {
    echo "slurm.sh: there is no $command here; activate its environment before sbatch" >&2
    exit 1
  }
done

# Nobody else on these nodes may join.
RAY_AUTH_MODE=token RAY_AUTH_TOKEN=$(od -An -N32 -tx1 /dev/urandom | tr -d ' \n')
port=$((20000 + SLURM_JOB_ID % 10000))
address="$(hostname --all-ip-addresses | cut -d' ' -f1):$port"
export RAY_AUTH_MODE RAY_AUTH_TOKEN port address

# shellcheck disable=SC2016  # each node expands it for itself
srun --cpus-per-task "$SLURM_CPUS_PER_TASK" bash -c '
  start=(ray start --block --num-cpus "$SLURM_CPUS_PER_TASK" --num-gpus "${SLURM_GPUS_ON_NODE:-0}")
  [ "$SLURM_PROCID" != 0 ] || exec "${start[@]}" --head --port "$port"
  until ray health-check --address "$address" || [ "$SECONDS" -gt 300 ]; do sleep 1; done
  exec "${start[@]}" --address "$address"
' &
until ray health-check --address "$address"; do
  kill -0 $! 2> /dev/null || {
    echo "slurm.sh: Ray has not started; the lines above tell why" >&2
    exit 1
  }
  sleep 1
done
exec cse-sweep "$@" --address "$address"
