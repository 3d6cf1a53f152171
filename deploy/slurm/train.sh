#!/usr/bin/env bash
# One Slurm job with everything in it: scheduler, driver and workers.  When requeued, it resumes from its checkpoint.
#
#   sbatch train.sh CORPUS MODEL CHECKPOINTS [options of sdem train]
#
# One task is one worker.  More than one node needs SDEM_INTERFACE, the network between them (ib0, say).
#SBATCH --job-name=sdem
#SBATCH --nodes=1
#SBATCH --ntasks-per-node=8
#SBATCH --cpus-per-task=1
#SBATCH --mem-per-cpu=3G
#SBATCH --time=01:00:00
#SBATCH --requeue
#SBATCH --open-mode=append
#SBATCH --signal=B:USR1@120
set -euo pipefail
if [ $# -lt 3 ]; then
  echo "usage: sbatch train.sh CORPUS MODEL CHECKPOINTS [options of sdem train]" >&2
  exit 2
fi
corpus=$1 model=$2 checkpoints=$3
shift 3
if [ -n "${SDEM_INTERFACE:-}" ]; then
  listen=(--interface "$SDEM_INTERFACE")
elif [ "$SLURM_JOB_NUM_NODES" = 1 ]; then
  listen=(--host 127.0.0.1)
else
  echo "set SDEM_INTERFACE to the network between the nodes, such as ib0" >&2
  exit 2
fi
mkdir -p "$checkpoints"
file=$checkpoints/scheduler-$SLURM_JOB_ID-${SLURM_RESTART_COUNT:-0}.json

# Slurm sends this signal shortly before the walltime ends.
trap 'echo "the walltime ends: requeued" >&2; scontrol requeue "$SLURM_JOB_ID"' USR1
trap 'rm -f "$file"' EXIT
# What this script starts dies with it, whatever Slurm's way of tracking processes: a requeued job begins alone.
tied=()
if command -v setpriv >/dev/null; then tied=(setpriv --pdeathsig KILL); fi

eval "$(sdem cluster environment)" # the memory allocator's settings, and how often Dask looks at itself
export DASK_LOGGING__DISTRIBUTED=warning
"${tied[@]}" dask scheduler "${listen[@]}" --port 0 --dashboard-address 127.0.0.1:0 --scheduler-file "$file" &
for _ in $(seq 120); do
  if [ -s "$file" ]; then break; fi
  sleep 0.5
done
"${tied[@]}" srun --ntasks="$SLURM_NTASKS" dask worker "${listen[@]}" --dashboard-address 127.0.0.1:0 --nthreads 1 \
  --memory-limit "${SLURM_MEM_PER_CPU:-0}MiB" --local-directory "${TMPDIR:-/tmp}" --scheduler-file "$file" &
"${tied[@]}" sdem train "$corpus" "$model" --scheduler "$file" --checkpoint "$checkpoints" --resume "$@" &
driver=$!
# A signal ends `wait`, not the driver: wait until it is really gone.
status=0
while kill -0 $driver 2>/dev/null; do
  status=0
  wait $driver || status=$?
done
exit $status
