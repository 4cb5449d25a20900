#!/usr/bin/env bash
# Says what the tests of this machine could not show, and why.
set -euo pipefail
cosign=$HOME/.cache/dlc-check/cosign  # where fetch_cosign.sh puts it
echo "not run here, and not implied by a pass:"
# Even where there is one: ctest runs neither of these.
echo "  - dlc-check and dlc-probe on a GPU: python3 tests/gpu/device.py, tests/nccl/device.py and tests/fsdp/device.py do that, on a machine with one"
echo "  - several GPUs of one host: tests/gpu/several.py, and those with --own-gpus, on a machine that has them"
echo "  - EFA: no test of ours needs or uses an EFA device"
if ! unshare -m true 2>/dev/null; then
  echo "  - file systems that are read-only, full or another directory at the path: no right to mount (unshare -m)"
fi
probe=dlc-skipped-$$
if ip netns add "$probe" 2>/dev/null; then
  ip netns del "$probe"
else
  echo "  - ranks of two hosts, and a cut link between them: no right to make network namespaces (ip netns)"
fi
if [[ $EUID != 0 || ! -w /dev/fuse ]] || ! unshare -m true 2>/dev/null; then
  echo "  - a checkpoint path with faults or on GlusterFS: no right to mount FUSE file systems (root and /dev/fuse)"
else
  pkg-config --exists fuse3 2>/dev/null || echo "  - a checkpoint path with faults: no libfuse 3 to build tests/fakes/storage with"
  [[ -n $(command -v glusterd) ]] || echo "  - a checkpoint path on a network file system: no GlusterFS (glusterfs-server)"
fi
[[ -e /dev/loop-control ]] || echo "  - a checkpoint path on an ext4 of its own: no loop devices"
for major in 2 3; do
  [[ -x $cosign/$major/cosign ]] || echo "  - cosign $major on our evidence: tests/fetch_cosign.sh could not fetch it"
done
[[ -x ${KUBEBUILDER_ASSETS:-}/kube-apiserver ]] ||
  echo "  - a real kube-apiserver: KUBEBUILDER_ASSETS names no directory with etcd and kube-apiserver; its recorded answers stand in for it"
"${DLC_RAY_PYTHON:-false}" -c 'import ray' 2>/dev/null ||
  echo "  - a real Ray: DLC_RAY_PYTHON names no python that imports ray (bash tests/ray/install.sh DIR); recorded answers stand in for it"
"${DLC_RAY_PYTHON:-false}" -c 'import ray.train.torch' 2>/dev/null ||
  echo "  - Ray Train's TorchTrainer: DLC_RAY_PYTHON names no python that imports ray.train.torch (pip install 'ray[train]' torch numpy)"
"${DLC_TORCH_PYTHON:-false}" -c 'import numpy, torch' 2>/dev/null ||
  echo "  - a real PyTorch as the image's framework: DLC_TORCH_PYTHON names no python that imports torch and numpy (pip install torch numpy); programs that fail stand in for it"
"${DLC_SAFETENSORS_PYTHON:-false}" -c 'import numpy, safetensors' 2>/dev/null ||
  echo "  - Python's safetensors on our checkpoints: DLC_SAFETENSORS_PYTHON names no python that imports it and numpy (bash tests/checkpoint/install.sh DIR); we read stored files of it all the same"
echo "  - a real EKS cluster, Amazon ECR and AWS KMS: tests use a real registry on loopback, saved answers and local keys"
