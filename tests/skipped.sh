#!/usr/bin/env bash
# Says what the tests of this machine could not show, and why.
set -euo pipefail
echo "not run here, and not implied by a pass:"
[[ -e /dev/nvidia0 ]] || echo "  - anything on a GPU: no /dev/nvidia0 on this machine"
compgen -G '/dev/infiniband/uverbs*' >/dev/null || echo "  - EFA: no /dev/infiniband/uverbs* on this machine"
[[ -x ${KUBEBUILDER_ASSETS:-}/kube-apiserver ]] ||
  echo "  - a real kube-apiserver: KUBEBUILDER_ASSETS names no directory with etcd and kube-apiserver; its recorded answers stand in for it"
"${DLC_RAY_PYTHON:-false}" -c 'import ray' 2>/dev/null ||
  echo "  - a real Ray: DLC_RAY_PYTHON names no python that imports ray (bash tests/ray/install.sh DIR); recorded answers stand in for it"
echo "  - a real EKS cluster, Amazon ECR and AWS KMS: tests use a real registry on loopback, saved answers and local keys"
