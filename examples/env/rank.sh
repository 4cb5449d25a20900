#!/usr/bin/env bash
# One rank, in the words of target env: says RANK, WORLD_SIZE, LOCAL_RANK, MASTER_ADDR and MASTER_PORT for who started it and becomes
# the command. torchrun sets them itself and needs this not. Each rank needs the same DLC_CHECK_RUN_SECRET, fresh for each run:
#
#   export DLC_CHECK_RUN_SECRET=$(openssl rand -hex 32)
#   srun --ntasks-per-node=8 --kill-on-bad-exit=0 bash examples/env/rank.sh dlc-check nccl -c examples/env/dlc-check.yaml
#   mpirun -x DLC_CHECK_RUN_SECRET -x MASTER_ADDR bash examples/env/rank.sh dlc-check nccl -c examples/env/dlc-check.yaml
#
# Slurm (sbatch, srun), Open MPI and MPICH are known. mpirun over several hosts needs MASTER_ADDR, the host of rank 0.
set -euo pipefail
first() { # of the variables that are named, the first that is set; else nothing
  local name
  for name in "$@"; do
    if [[ -n ${!name:-} ]]; then
      printf %s "${!name}"
      return
    fi
  done
}
RANK=$(first RANK SLURM_PROCID OMPI_COMM_WORLD_RANK PMI_RANK)
WORLD_SIZE=$(first WORLD_SIZE SLURM_NTASKS OMPI_COMM_WORLD_SIZE PMI_SIZE)
LOCAL_RANK=$(first LOCAL_RANK SLURM_LOCALID OMPI_COMM_WORLD_LOCAL_RANK MPI_LOCALRANKID)
if [[ -z $RANK || -z $WORLD_SIZE ]]; then
  echo "rank.sh: neither torchrun nor srun nor mpirun started this: no RANK, SLURM_PROCID, OMPI_COMM_WORLD_RANK or PMI_RANK" >&2
  exit 2
fi
if [[ -z ${MASTER_ADDR:-} && -n ${SLURM_JOB_NODELIST:-} ]]; then
  MASTER_ADDR=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)
fi
LOCAL_SIZE=$(first SLURM_NTASKS_PER_NODE OMPI_COMM_WORLD_LOCAL_SIZE MPI_LOCALNRANKS)
if [[ -z ${MASTER_ADDR:-} && ${LOCAL_SIZE:-} == "$WORLD_SIZE" ]]; then
  MASTER_ADDR=127.0.0.1 # all are here
fi
if [[ -z ${MASTER_ADDR:-} ]]; then
  echo "rank.sh: set MASTER_ADDR to the host of rank 0" >&2
  exit 2
fi
export RANK WORLD_SIZE LOCAL_RANK=${LOCAL_RANK:-0} MASTER_ADDR MASTER_PORT=${MASTER_PORT:-29500}
exec "$@"
