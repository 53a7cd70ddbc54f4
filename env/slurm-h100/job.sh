#!/usr/bin/env bash
#SBATCH --job-name=varve
#SBATCH --nodes=1
#SBATCH --ntasks-per-node=4
#SBATCH --gpus-per-node=4
#SBATCH --cpus-per-task=8
#SBATCH --time=00:30:00
#SBATCH --output=varve-%j.log
#SBATCH --open-mode=append
#SBATCH --signal=USR1@120
#SBATCH --requeue

# One rank per GPU on nodes of four H100/H200: sbatch env/slurm-h100/job.sh NETWORK SAMPLES [options of varve infer]
# or, with a checkpoint: sbatch env/slurm-h100/job.sh train NETWORK SAMPLES OUTPUT [options of varve train]
set -euo pipefail
command=$(scontrol show job "${SLURM_JOB_ID:?sbatch submits this script}" | sed -n 's/^ *Command=//p') # Slurm runs a copy
folder=${command%%/job.sh*}
# shellcheck source=env/slurm/common.sh
source "$folder/../slurm/common.sh"
run_job "$folder" cuda-h100 cuda "$@"
