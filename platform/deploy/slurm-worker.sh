#!/usr/bin/env bash
# Nodes of Slurm that join a Ray cluster whose head runs elsewhere, each as soon as it is free.
#
#   sbatch --array=1-64 platform/deploy/slurm-worker.sh head.lab:6379
#
# The cluster's token is in ~/.ray/auth_token. A node joins again when the head is back, and ends when
# the head has been away for five minutes.
#SBATCH --job-name=cse-worker
#SBATCH --nodes=1
#SBATCH --cpus-per-task=8
#SBATCH --gpus-per-node=1
#SBATCH --time=24:00:00
#SBATCH --requeue
set -euo pipefail

export RAY_AUTH_MODE=${RAY_AUTH_MODE:-token}
SECONDS=0
while [ "$SECONDS" -lt 300 ]; do
  if ray health-check --address "$1"; then
    # Returns when the head, or the Ray of this node, has died.
    ray start --address "$1" --block \
      --num-cpus "$SLURM_CPUS_PER_TASK" --num-gpus "${SLURM_GPUS_ON_NODE:-0}" || true
    SECONDS=0
  fi
  sleep 5
done
