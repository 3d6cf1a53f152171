#!/usr/bin/env bash
# One Grid Engine job on one node, with one worker process per slot; requeued before its walltime ends:
#
#   qsub train.sh CORPUS MODEL CHECKPOINTS [options of sdem train]
#$ -N sdem
#$ -cwd
#$ -j y
#$ -pe smp 8
#$ -l h_vmem=3G
#$ -l s_rt=00:55:00
#$ -l h_rt=01:00:00
#$ -r y
set -euo pipefail
corpus=$1 model=$2 checkpoints=$3
shift 3
# s_rt sends this signal; a job that exits with 99 is requeued.
trap 'kill -TERM $driver; wait $driver || true; exit 99' USR1
sdem train "$corpus" "$model" --workers "${NSLOTS:-8}" --checkpoint "$checkpoints" --resume "$@" &
driver=$!
wait $driver
