#!/usr/bin/env bash
#SBATCH --job-name=varve
#SBATCH --nodes=1
#SBATCH --ntasks-per-node=4
#SBATCH --gpus-per-node=4
#SBATCH --cpus-per-task=8
#SBATCH --time=00:30:00
#SBATCH --output=varve-%j.log

# One rank per GPU on nodes of four H100/H200: sbatch env/slurm-h100/job.sh NETWORK SAMPLES [options of varve infer]
set -euo pipefail
cd "${SLURM_SUBMIT_DIR:-.}"

if (($# < 2)); then
  echo "usage: sbatch env/slurm-h100/job.sh NETWORK SAMPLES [options of varve infer]" >&2
  exit 2
fi
network=$1
samples=$2
shift 2

export OMP_NUM_THREADS=${SLURM_CPUS_PER_TASK:-8} OMP_PROC_BIND=spread OMP_PLACES=threads
# Every rank sees all GPUs of its node and takes the one of its local rank.
srun --gpu-bind=none --cpus-per-task="$OMP_NUM_THREADS" build/cuda-h100/bin/varve infer --backend cuda --network "$network" --input "$samples" \
  "$@" --kokkos-map-device-id-by=mpi_rank
