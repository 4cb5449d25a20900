"""Nodes on one machine: mount namespaces, and network namespaces where a test wants them, with the ranks of `target: local` in them.

A node has its own boot id and host name, so that dlc-check takes it for a machine; it is one kernel all the same, and what such a
run says of several machines is said of the namespaces. With a node end its mounts: nothing is mounted outside.
"""
import ctypes
import os
import pathlib
import subprocess
import uuid

from harness import BIN, check_in

RENDEZVOUS_PORT = 29500  # of rank 0's node, whose network is its own
DEATH_SIGNAL, SIGKILL = 1, 9  # prctl(2)


def _die_with_us():
    ctypes.CDLL(None).prctl(DEATH_SIGNAL, SIGKILL)


def may_make_nodes():
    """Whether there is the right to: else the tests are skipped, as tests/skipped.sh says."""
    return subprocess.run(["unshare", "--mount", "--uts", "true"], capture_output=True).returncode == 0


class Node:
    """`network`: a name of `ip netns`; None: the machine's network. With `own_processes` all that was started in it ends with it,
    daemons too; ranks cannot be in such a one."""

    def __init__(self, case, name, network=None, own_processes=False):
        self.case, self.name, self.network, self.own_processes = case, name, network, own_processes
        inside = ["nsenter", f"--net=/run/netns/{network}"] if network else []
        processes = ["--pid", "--fork", "--kill-child", "--mount-proc"] if own_processes else []
        # Its namespaces live as long as it; it ends with its standard input.
        self.holder = subprocess.Popen([*inside, "unshare", "--mount", "--uts", "--propagation", "private", *processes, "sh", "-c", "echo there; exec cat"],
                                       stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        case.addCleanup(self.leave)
        case.assertEqual(self.holder.stdout.readline(), "there\n")
        self.pid = self.holder.pid
        if own_processes:
            self.pid = int(pathlib.Path(f"/proc/{self.pid}/task/{self.pid}/children").read_text())
        boot_id = case.dir / f"boot-id-{name}"
        boot_id.write_text(f"{uuid.uuid4()}\n")
        self.run("mount", "--bind", boot_id, "/proc/sys/kernel/random/boot_id")
        self.run("sh", "-c", f"echo {name} > /proc/sys/kernel/hostname")

    def leave(self):
        self.holder.stdin.close()
        self.holder.wait(timeout=30)
        self.holder.stdout.close()

    def enter(self):
        """What a command starts with to run here."""
        more = ["--net"] * bool(self.network) + ["--pid"] * self.own_processes
        return ["nsenter", "--target", str(self.pid), "--mount", "--uts", *more]

    def run(self, *command, check=True):
        done = subprocess.run([*self.enter(), *map(str, command)], capture_output=True, text=True, timeout=60)
        if check:
            self.case.assertEqual(done.returncode, 0, f"{self.name}$ {command}\n{done.stdout}{done.stderr}")
        return done

    def start(self, *command, **more):
        """A process here that does not outlive the test."""
        return subprocess.Popen([*self.enter(), *map(str, command)], text=True, preexec_fn=_die_with_us, **more)

    def mount_tmpfs(self, path):
        self.run("mount", "-t", "tmpfs", "tmpfs", path)


class Network:
    """Network namespaces on one bridge: the first has the bridge and 10.214.0.1, the others 10.214.0.2 and so on."""

    def __init__(self, case, size):
        self.names = [f"dlc-{number}-{os.getpid()}" for number in range(size)]
        self.addresses = [f"10.214.0.{number + 1}" for number in range(size)]
        first = self.names[0]
        for name in self.names:
            self._ip("netns", "add", name)
            case.addCleanup(subprocess.run, ["ip", "netns", "del", name])
            self._ip("-n", name, "link", "set", "lo", "up")
        self._ip("-n", first, "link", "add", "bridge", "type", "bridge")
        self._ip("-n", first, "address", "add", f"{self.addresses[0]}/24", "dev", "bridge")
        self._ip("-n", first, "link", "set", "bridge", "up")
        for number, name in enumerate(self.names[1:], 1):
            self._ip("link", "add", f"to{number}", "netns", first, "type", "veth", "peer", "name", "net", "netns", name)
            self._ip("-n", first, "link", "set", f"to{number}", "master", "bridge", "up")
            self._ip("-n", name, "address", "add", f"{self.addresses[number]}/24", "dev", "net")
            self._ip("-n", name, "link", "set", "net", "up")

    @staticmethod
    def _ip(*arguments):
        subprocess.run(["ip", *arguments], check=True)


class Programs:
    """dlc-check and, beside it, a dlc-probe that goes to its rank's node first: ranks take turns over the nodes."""

    def __init__(self, directory, nodes, rendezvous=None):
        """`rendezvous`: the address of the first node, where they do not share a network."""
        self.nodes = nodes
        self.check = check_in(directory)
        lines = ["#!/bin/sh"]
        if rendezvous:
            # Not the launcher's listener: that is on its own loopback.
            lines += ["unset DLC_CHECK_LISTEN_FD", f"export MASTER_ADDR={rendezvous} MASTER_PORT={RENDEZVOUS_PORT}"]
        lines.append(f"case $((RANK % {len(nodes)})) in")
        for number, node in enumerate(nodes):
            lines.append(f"{number}) exec {' '.join(node.enter())} {BIN / 'dlc-probe'} \"$@\" ;;")
        lines.append("esac")
        probe = directory / "dlc-probe"
        probe.write_text("\n".join(lines) + "\n")
        probe.chmod(0o755)

    def command(self, *arguments):
        return [*self.nodes[0].enter(), str(self.check), *map(str, arguments)]


class FaultyMount:
    """A directory of a node shows `backing` with a fault; see tests/fakes/storage/faulty_fs.cpp."""

    def __init__(self, node, backing, path, options=("--fault", "none")):
        self.node = node
        program = pathlib.Path(os.environ["DLC_FAULTY_FS"])
        self.process = node.start(program, "--backing", backing, *options, path, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        node.case.addCleanup(self.unmount)
        node.case.assertEqual(self.process.stdout.readline(), "ready\n", self.process.stderr)

    def unmount(self):
        """How often the fault struck."""
        if self.process.returncode is None:
            self.process.terminate()
            out, err = self.process.communicate(timeout=60)
            self.node.case.assertEqual(self.process.returncode, 0, err)
            self.struck = int(out.split()[-2])
        return self.struck
