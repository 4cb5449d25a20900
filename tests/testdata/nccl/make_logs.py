#!/usr/bin/env python3
"""Writes the logs beside it. Run it again after a change; the files are kept in the repository."""
import pathlib

HERE = pathlib.Path(__file__).resolve().parent


def write(name, lines, end="\n"):
    path = HERE / name
    path.parent.mkdir(exist_ok=True)
    path.write_text("\n".join(lines) + end)


class Rank:
    """Lines of one process. Two pods of `local` ranks each."""

    def __init__(self, rank, ranks, local):
        self.rank, self.ranks, self.local = rank, ranks, local
        self.device = rank % local
        self.pod = rank // local
        self.pid = 80 + rank
        self.lines = []

    def info(self, text, thread=2554):
        self.lines.append(f"trainer-{self.pod}:{self.pid}:{thread} [{self.device}] NCCL INFO {text}")

    def warn(self, source, text):
        self.lines += ["", f"trainer-{self.pod}:{self.pid}:2554 [{self.device}] {source} NCCL WARN {text}"]

    def start(self):
        # NVIDIA/nccl v2.26.5 src/init.cc
        self.info("cudaDriverVersion 12080", self.pid)
        self.info("NCCL_SOCKET_IFNAME set by environment to eth0", self.pid)
        self.info(f"Bootstrap: Using eth0:10.0.{self.pod}.5<0>", self.pid)
        self.info("NCCL version 2.26.5+cuda12.8", self.pid)

    def plugin(self, nics):
        # aws/aws-ofi-nccl issue 889 and src/nccl_ofi_net.cpp at v1.14
        self.info("NET/OFI Initializing aws-ofi-nccl 1.14.1-aws")
        self.info("NET/OFI Using Libfabric version 2.1")
        self.info("NET/OFI Using CUDA driver version 12080 with runtime 12080")
        self.info("NET/OFI Setting FI_EFA_FORK_SAFE environment variable to 1")
        self.info(f"NET/OFI Selected provider is efa, fabric is efa (found {nics} nics)")
        self.info("NET/OFI Using transport protocol RDMA (platform set)")

    def communicator(self):
        comm = f"0x55{self.rank:02x}80e120bac0"
        self.info(f"ncclCommInitRank comm {comm} rank {self.rank} nranks {self.ranks} cudaDev {self.device} "
                  f"nvmlDev {self.device} busId a01d0 commId 0x3b7f2a15cbb2c1e4 - Init START")
        self.info(f"comm {comm} rank {self.rank} nRanks {self.ranks} nNodes {self.ranks // self.local} "
                  f"localRanks {self.local} localRank {self.device} MNNVL 0")
        self.info(f"ncclCommInitRank comm {comm} rank {self.rank} nranks {self.ranks} cudaDev {self.device} "
                  f"nvmlDev {self.device} busId a01d0 commId 0x3b7f2a15cbb2c1e4 - Init COMPLETE")

    def ring(self, network, channels=4):
        before, after = (self.rank - 1) % self.ranks, (self.rank + 1) % self.ranks
        name = lambda rank: f"{rank}[{rank % self.local}]"
        for channel in range(channels):
            if before // self.local != self.pod:
                self.info(f"Channel {channel:02d}/0 : {name(before)} -> {name(self.rank)} [receive] via NET/{network}")
            if after // self.local != self.pod:
                self.info(f"Channel {channel:02d}/0 : {name(self.rank)} -> {name(after)} [send] via NET/{network}")
            else:
                self.info(f"Channel {channel:02d}/0 : {name(self.rank)} -> {name(after)} via P2P/CUMEM/read")
        # A tree besides, so that every rank has a peer on the other pod.
        peer = (self.rank + self.local) % self.ranks
        self.info(f"Channel 00/0 : {name(peer)} -> {name(self.rank)} [receive] via NET/{network}")
        self.info(f"Channel 00/0 : {name(self.rank)} -> {name(peer)} [send] via NET/{network}")
        self.info("Connected all rings, use ring PXN 0 GDR 1")


def healthy(rank, ranks=8, local=4, network="AWS Libfabric/0/GDRDMA", extra=()):
    one = Rank(rank, ranks, local)
    one.start()
    for text in extra:
        one.info(text)
    one.plugin(4)
    one.info("Using network " + network.split("/")[0])
    one.communicator()
    one.ring(network)
    return one.lines


def fallen_back(rank):
    one = Rank(rank, 8, 4)
    one.start()
    one.plugin(4)
    # aws/aws-ofi-nccl issue 889
    one.warn("nccl_net_ofi_rdma_init:7740", "NET/OFI GDR disabled on GDR-supported instance type p4d.24xlarge")
    one.warn("nccl_net_ofi_create_plugin:335", "NET/OFI aws-ofi-nccl initialization failed")
    one.warn("nccl_net_ofi_init:155", "NET/OFI Initializing plugin failed")
    one.info("NET/IB : No device found.")
    one.info(f"NET/Socket : Using [0]eth0:10.0.{one.pod}.5<0>")
    one.info("Using non-device net plugin version 0")
    one.info("Using network Socket")
    one.communicator()
    one.ring("Socket/0")
    return one.lines


def old(rank):
    """NVIDIA/nccl v2.18.5 (as in its issue 1052) and aws-ofi-nccl v1.7.4."""
    one = Rank(rank, 2, 1)
    one.info("cudaDriverVersion 12020", one.pid)
    one.info(f"Bootstrap : Using eth0:10.0.{one.pod}.5<0>", one.pid)
    one.lines.append("NCCL version 2.18.5+cuda12.2")
    one.info("NET/OFI Initializing aws-ofi-nccl 1.7.4-aws")
    one.info('NET/OFI Setting NCCL_PROTO to "simple"')
    one.info("NET/OFI Selected Provider is efa (found 1 nics)")
    one.info("Using network AWS Libfabric")
    comm = f"0x5630c1f2a0{rank:02x}"
    one.info(f"comm {comm} rank {rank} nranks 2 cudaDev 0 nvmlDev 0 busId 1e0 commId 0x1d8e1c5f2f0c6c4b - Init START")
    one.info("Channel 00/02 :    0   1")
    one.info(f"comm {comm} rank {rank} nranks 2 cudaDev 0 nvmlDev 0 busId 1e0 commId 0x1d8e1c5f2f0c6c4b - Init COMPLETE")
    one.ring("AWS Libfabric/0", 2)
    return one.lines


def new(rank):
    """NVIDIA/nccl v2.29.7 and aws-ofi-nccl v1.20.0."""
    one = Rank(rank, 2, 1)
    one.info("NCCL version 2.29.7+cuda13.0", one.pid)
    one.info("Successfully loaded external network plugin libnccl-net-ofi.so")
    one.info("NET/OFI Initializing aws-ofi-nccl 1.20.0")
    one.info("NET/OFI Using Libfabric version 2.4")
    one.info("NET/OFI Plugin selected platform: AWS")
    one.info("NET/OFI Selected provider is efa, fabric is efa-direct (found 32 nics)")
    one.info("NET/OFI Using transport protocol RDMA (platform set)")
    one.info("NET/OFI Support for DMA-BUF registrations: true")
    one.info("Initialized NET plugin Libfabric")
    one.info("Assigned NET plugin Libfabric to comm")
    one.info("Using network Libfabric")
    comm = f"0x7f01c2a0{rank:02x}"
    one.info(f"[Rank {rank}] ncclCommInitRankConfig comm {comm} rank {rank} nranks 2 cudaDev 0 nvmlDev 0 busId 53000 "
             "commId 0x9a1 - Init START")
    one.info(f"comm {comm} rank {rank} nRanks 2 nNodes 2 localRanks 1 localRank 0 MNNVL 0")
    one.info(f"ncclCommInitRankConfig comm {comm} rank {rank} nranks 2 cudaDev 0 nvmlDev 0 busId 53000 commId 0x9a1 "
             "- Init COMPLETE")
    one.ring("Libfabric/3(1)/GDRDMA(PCI)/Shared", 2)
    return one.lines


def main():
    for rank in range(8):
        write(f"provider_selected_then_sockets/rank{rank}.log", fallen_back(rank) if rank < 4 else healthy(rank))
    for rank in range(2):
        write(f"no_gpu_direct/rank{rank}.log", healthy(rank, 2, 1, "Libfabric/0"))
        write(f"old/rank{rank}.log", old(rank))
        write(f"new/rank{rank}.log", new(rank))
        symbols = ["NET/Plugin: Failed to find ncclCollNetPlugin_v10 symbol.",
                   "NET/Plugin: Failed to find ncclCollNetPlugin symbol (v4 or v5)."]
        write(f"collnet_symbols/rank{rank}.log", healthy(rank, 2, 1, extra=symbols))
    # A Ray driver shows a line once, and how often it came (awsome-distributed-ai issue 386).
    folded = [f"(TrainWorker pid={pid}, ip=10.0.{pod}.5) {line}"
              for pod, pid in ((0, 80), (1, 81)) for line in healthy(pod, 2, 1) if line][:36]
    folded[-1] += " [repeated 15x across cluster]"
    write("folded_by_ray.log", folded)


if __name__ == "__main__":
    main()
