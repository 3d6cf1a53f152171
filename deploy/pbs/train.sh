#!/usr/bin/env bash
# One PBS job on one node, with one worker process per core.  A second submission resumes from the checkpoint:
#
#   first=$(qsub -v CORPUS=posts.zarr,MODEL=posts.model,CHECKPOINTS=run train.sh)
#   qsub -W depend=afternotok:$first -v CORPUS=posts.zarr,MODEL=posts.model,CHECKPOINTS=run train.sh
#PBS -N sdem
#PBS -l select=1:ncpus=8:mem=24gb
#PBS -l walltime=01:00:00
#PBS -r y
set -euo pipefail
cd "${PBS_O_WORKDIR:?runs under PBS}"
# shellcheck disable=SC2086
exec sdem train "$CORPUS" "$MODEL" --workers "${NCPUS:-8}" --checkpoint "$CHECKPOINTS" --resume ${OPTIONS:-}
