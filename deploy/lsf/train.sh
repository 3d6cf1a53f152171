#!/usr/bin/env bash
# One LSF job on one host, with one worker process per slot; requeued before its walltime ends:
#
#   bsub < train.sh        with CORPUS, MODEL, CHECKPOINTS and OPTIONS in the environment
#BSUB -J sdem
#BSUB -n 8
#BSUB -R "span[hosts=1]"
#BSUB -M 24GB
#BSUB -W 01:00
#BSUB -wa USR2 -wt 5
#BSUB -Q 99
#BSUB -r
set -euo pipefail
# -wa sends this signal five minutes before the end; -Q requeues a job that exits with 99.
trap 'kill -TERM $driver; wait $driver || true; exit 99' USR2
# shellcheck disable=SC2086
sdem train "$CORPUS" "$MODEL" --workers "${LSB_DJOB_NUMPROC:-8}" --checkpoint "$CHECKPOINTS" --resume ${OPTIONS:-} &
driver=$!
wait $driver
