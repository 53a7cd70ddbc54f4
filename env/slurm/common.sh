# shellcheck shell=bash
# Shared by env/slurm-*/job.sh, which source it from the folder of the submission, the top level of the checkout.

# run_job BUILD BACKEND NETWORK SAMPLES [options of varve infer]: the ranks of the job share the samples. BUILD is a preset. On
# clusters with GPUs every rank sees all GPUs of its node and takes the one of its local rank.
run_job() {
  local build=$1 backend=$2 folder=${1##*-}
  shift 2
  if (($# < 2)); then
    echo "usage: sbatch env/slurm-${folder/openmp/cpu}/job.sh NETWORK SAMPLES [options of varve infer]" >&2
    return 2
  fi
  local network=$1 samples=$2
  shift 2

  export OMP_NUM_THREADS=${SLURM_CPUS_PER_TASK:-8} OMP_PROC_BIND=spread OMP_PLACES=threads
  local binding=(--cpu-bind=cores) placing=()
  if [[ $backend != openmp ]]; then
    binding=(--gpu-bind=none)
    placing=(--kokkos-map-device-id-by=mpi_rank)
  fi
  # Two minutes before the time limit the ranks get SIGUSR1, finish their batches and exit with 5; the job is then queued again,
  # and goes on from its journal, as it does after a node has failed.
  local journal=${VARVE_JOURNAL:-varve-${SLURM_JOB_ID:-0}.journal} status=0
  srun "${binding[@]}" --kill-on-bad-exit=1 --cpus-per-task="$OMP_NUM_THREADS" "build/$build/bin/varve" infer --backend "$backend" \
    --network "$network" --input "$samples" --journal "$journal" "$@" "${placing[@]}" || status=$?
  if ((status == 5)); then scontrol requeue "$SLURM_JOB_ID"; fi
  if ((status == 0)); then rm -f "$journal" "$journal".*; fi
  return "$status"
}
