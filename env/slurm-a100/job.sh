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

# One rank per GPU on nodes of four A100: sbatch env/slurm-a100/job.sh NETWORK SAMPLES [options of varve infer]
set -euo pipefail
cd "${SLURM_SUBMIT_DIR:-.}"
source env/slurm/common.sh
run_job cuda-a100 cuda "$@"
