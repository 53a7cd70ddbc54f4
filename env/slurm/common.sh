# shellcheck shell=bash
# Shared by the job scripts slurm-*/job.sh beside this folder, in a checkout (env) or installed (share/varve).

# run_job FOLDER BUILD BACKEND [infer] NETWORK SAMPLES [options of varve infer]
# run_job FOLDER BUILD BACKEND train NETWORK SAMPLES OUTPUT [options of varve train]
# The ranks of the job share the samples, or each mini-batch. FOLDER is that of the job script; the command is $VARVE, that of the
# preset BUILD in the checkout, or that of the installation. Names of files are relative to the folder of the submission, where Slurm
# starts jobs. On clusters with GPUs every rank sees all GPUs of its node and takes the one of its local rank.
run_job() {
  local folder=$1 build=$2 backend=$3 job=infer
  shift 3
  if [[ ${1:-} == infer || ${1:-} == train ]]; then
    job=$1
    shift
  fi
  if [[ $job == infer && $# -lt 2 || $job == train && $# -lt 3 ]]; then
    echo "usage: sbatch $folder/job.sh NETWORK SAMPLES [options of varve infer]" >&2
    echo "       sbatch $folder/job.sh train NETWORK SAMPLES OUTPUT [options of varve train]" >&2
    return 2
  fi
  local varve=${VARVE:-$folder/../../build/$build/bin/varve}
  if [[ ! ${VARVE:-} && ! -x $varve ]]; then varve=$folder/../../../bin/varve; fi
  if [[ ! -x $varve ]]; then
    echo "$varve: no such command; VARVE=PATH names the command varve" >&2
    return 2
  fi

  # Two minutes before the time limit the ranks get SIGUSR1, finish their batches or their step and exit with 5; the job is then
  # queued again, and goes on from its journal or checkpoint, as it does after a node has failed.
  local kept words=(--network "$1" --input "$2")
  if [[ $job == infer ]]; then
    kept=${VARVE_JOURNAL:-varve-$SLURM_JOB_ID.journal}
    words+=(--journal "$kept" "${@:3}")
  else
    kept=${VARVE_CHECKPOINT:-varve-$SLURM_JOB_ID.checkpoint.safetensors}
    words+=(--output "$3" --checkpoint "$kept" "${@:4}")
  fi
  export OMP_NUM_THREADS=${SLURM_CPUS_PER_TASK:-8} OMP_PROC_BIND=spread OMP_PLACES=threads
  local binding=(--cpu-bind=cores) status=0
  if [[ $backend != openmp ]]; then
    binding=(--gpu-bind=none)
    words+=(--kokkos-map-device-id-by=mpi_rank)
  fi
  srun "${binding[@]}" --kill-on-bad-exit=1 --cpus-per-task="$OMP_NUM_THREADS" "$varve" "$job" --backend "$backend" "${words[@]}" || status=$?
  if ((status == 5)); then scontrol requeue "$SLURM_JOB_ID"; fi
  if ((status == 0)); then rm -f "$kept" "$kept".*; fi
  return "$status"
}
