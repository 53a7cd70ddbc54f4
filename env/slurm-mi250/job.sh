#!/usr/bin/env bash
#SBATCH --job-name=varve
#SBATCH --nodes=1
#SBATCH --ntasks-per-node=8
#SBATCH --gpus-per-node=8
#SBATCH --cpus-per-task=8
#SBATCH --time=00:30:00
#SBATCH --output=varve-%j.log
#SBATCH --open-mode=append
#SBATCH --signal=USR1@120
#SBATCH --requeue

# One rank per GPU on nodes of four MI250, which are eight GPUs: sbatch env/slurm-mi250/job.sh NETWORK SAMPLES [options of varve infer]
set -euo pipefail
cd "${SLURM_SUBMIT_DIR:-.}"

if (($# < 2)); then
  echo "usage: sbatch env/slurm-mi250/job.sh NETWORK SAMPLES [options of varve infer]" >&2
  exit 2
fi
network=$1
samples=$2
shift 2

export OMP_NUM_THREADS=${SLURM_CPUS_PER_TASK:-8} OMP_PROC_BIND=spread OMP_PLACES=threads
# Two minutes before the time limit the ranks get SIGUSR1, finish their batches and exit with 5; the job is then queued again,
# and goes on from its journal, as it does after a node has failed.
journal=${VARVE_JOURNAL:-varve-${SLURM_JOB_ID:-0}.journal}
status=0
# Every rank sees all GPUs of its node and takes the one of its local rank.
srun --gpu-bind=none --kill-on-bad-exit=1 --cpus-per-task="$OMP_NUM_THREADS" build/hip-mi250/bin/varve infer --backend hip \
  --network "$network" --input "$samples" --journal "$journal" "$@" --kokkos-map-device-id-by=mpi_rank || status=$?
if ((status == 5)); then scontrol requeue "$SLURM_JOB_ID"; fi
if ((status == 0)); then rm -f "$journal" "$journal".*; fi
exit "$status"
