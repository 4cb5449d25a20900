"""Target env: ranks that somebody else starts. By hand, by Open MPI's mpirun where it is installed, and by a real torchrun where
DLC_TORCH_PYTHON names a python that imports torch.
"""
import json
import os
import pathlib
import re
import secrets
import shutil
import signal
import socket
import subprocess
import unittest

from harness import DLC_CHECK, FAILED, INCOMPLETE, OK, ROOT, USAGE, Case

EXAMPLE = ROOT / "examples" / "env"
TORCH_PYTHON = os.environ.get("DLC_TORCH_PYTHON", "")


class EnvRanks(Case):
    def config(self, target="", policy="stages: [fsdp]\n  fsdp: {models: [qwen2-tiny], layouts: [fsdp2]}", more=""):
        return self.write("env.yaml", f"apiVersion: dlc-check/v1\nkind: Config\ntarget: {{type: env{target}}}\n{more}policy:\n  {policy}\n")

    def surroundings(self, ranks=2):
        """What all ranks of one run have. The port is free when it is chosen, as an operator would choose one."""
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        return {"WORLD_SIZE": str(ranks), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "DLC_CHECK_RUN_SECRET": secrets.token_hex(32)}

    def start(self, rank, around, command, config, *more):
        arguments = [command, "-c", config, "--no-sign", "--format", "json", "--out", self.dir / f"out{rank}", *more]
        process = subprocess.Popen([str(DLC_CHECK), *map(str, arguments)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                   env=self.env | around | {"RANK": str(rank), "LOCAL_RANK": str(rank)}, cwd=self.dir)
        self.addCleanup(process.kill)
        return process

    def run_all(self, command, config, expect, ranks=2, only=None):
        """(report of rank 0, (stdout, stderr) of each); `expect`: the exit code of each."""
        around = self.surroundings(ranks)
        processes = [self.start(rank, around, command, config) for rank in (only or range(ranks))]
        said = [process.communicate(timeout=self.patience) for process in processes]
        self.assertEqual([process.returncode for process in processes], expect, said)
        return json.loads(said[0][0]), said

    def seen(self, stage):
        statement = json.loads((self.dir / "out0" / "evidence.statement.json").read_text())
        return statement["predicate"]["observations"][f"{stage}Ranks"]["value"]


class ByHand(EnvRanks):
    def test_rank_0_writes_what_all_ranks_saw(self):
        shared = self.dir / "shared"
        shared.mkdir()
        config = self.config(policy="stages: [fsdp, checkpoint]\n  fsdp: {models: [qwen2-tiny], layouts: [fsdp2]}",
                             more=f"checkpoint: {{path: {shared}}}\n")
        report, said = self.run_all("cluster", config, [OK, OK, OK], ranks=3)
        for stage in ("fsdp", "checkpoint"):
            self.assertEqual(self.seen(stage)["launcher"], "env")
            self.assertEqual([rank["state"] for rank in (one["seen"] for one in self.seen(stage)["ranks"])], ["seen"] * 3)
        for rank in (1, 2):
            self.assertEqual(said[rank][0], "")
            self.assertIn(f"rank {rank} of 3 took part; rank 0 writes the evidence", said[rank][1])
            self.assertFalse((self.dir / f"out{rank}").exists())
        self.assertEqual(list(shared.iterdir()), [])

    def test_a_finding_is_rank_0s_to_say(self):
        """torchrun ends all ranks when one fails: the others must not be the first."""
        config = self.config(target=", plantedFaults: [{rank: 1, step: fsdp-training, kind: flip-bit}]")
        report, _ = self.run_all("fsdp", config, [FAILED, OK])
        self.assertIn("fail", {f["verdict"] for f in report["findings"] if f["check"] == "fsdp-training"})

    def test_a_step_that_dies_is_in_the_ranks_document(self):
        config = self.config(target=", plantedFaults: [{rank: 1, step: fsdp-training, kind: kill}]")
        self.run_all("fsdp", config, [INCOMPLETE, OK])
        training = self.seen("fsdp")["ranks"][1]["seen"]["value"]["fsdpTraining"][0]
        self.assertEqual((training["end"]["how"], training["end"]["signal"]), ("killed", signal.SIGKILL), training["end"])

    def test_a_rank_that_dies_is_told_by_both(self):
        config = self.config(target=", plantedFaults: [{rank: 0, step: fsdp-training, kind: sleep}], timeoutSeconds: 30")
        around = self.surroundings()
        zero, one = (self.start(rank, around, "fsdp", config) for rank in range(2))
        for line in one.stderr:
            if "step-started fsdp-training" in line:
                break
        for pid in pathlib.Path(f"/proc/{one.pid}/task/{one.pid}/children").read_text().split():
            os.kill(int(pid), signal.SIGKILL)
        out, err = one.communicate(timeout=self.patience)
        self.assertEqual((one.returncode, out), (INCOMPLETE, ""), err)
        self.assertRegex(err, "warning: fsdp: rank 1 was killed by SIGKILL")
        self.assertIn("rank 1 of 2 could not take part", err)
        out, err = zero.communicate(timeout=self.patience)
        self.assertEqual(zero.returncode, INCOMPLETE, err)
        self.assertIn("rank 1", out)

    def test_a_rank_that_never_comes(self):
        report, _ = self.run_all("fsdp", self.config(target=", timeoutSeconds: 3"), [INCOMPLETE], only=[0])
        self.assertNotIn("pass", {f["verdict"] for f in report["findings"] if f["check"].startswith("fsdp-")})

    def test_a_rank_0_that_never_comes(self):
        around = self.surroundings()
        process = self.start(1, around, "fsdp", self.config(target=", timeoutSeconds: 3"))
        out, err = process.communicate(timeout=self.patience)
        self.assertEqual((process.returncode, out), (INCOMPLETE, ""), err)
        self.assertRegex(err, "warning: fsdp: rank 0 at 127.0.0.1:[0-9]* never answered")
        self.assertIn("rank 1 of 2 could not take part", err)

    def test_another_secret_is_another_run(self):
        around = self.surroundings()
        config = self.config(target=", timeoutSeconds: 5")
        zero = self.start(0, around, "fsdp", config)
        one = self.start(1, around | {"DLC_CHECK_RUN_SECRET": secrets.token_hex(32)}, "fsdp", config)
        self.assertEqual([(process.communicate(timeout=self.patience), process.returncode)[1] for process in (zero, one)], [INCOMPLETE, INCOMPLETE])

    def test_what_the_environment_lacks_is_named(self):
        whole = self.surroundings() | {"RANK": "1"}
        config = self.config()
        for name in whole:
            with self.subTest(name=name):
                less = {key: value for key, value in whole.items() if key != name}
                done = self.run_cli("fsdp", "-c", config, "--no-sign", "--out", self.dir / "out", env=self.env | less, expect=USAGE)
                self.assertIn(f"env.yaml: target env: {name} is not set", done.stderr)
        for name, value, message in (("RANK", "2", "RANK 2 is not below WORLD_SIZE 2"), ("WORLD_SIZE", "two", "WORLD_SIZE is 'two', not a whole number")):
            done = self.run_cli("fsdp", "-c", config, "--no-sign", "--out", self.dir / "out", env=self.env | whole | {name: value}, expect=USAGE)
            self.assertIn(message, done.stderr)
        done = self.run_cli("fsdp", "-c", self.config(target=", plantedFaults: [{rank: 2, step: fsdp-training, kind: kill}]"), "--no-sign",
                            "--out", self.dir / "out", env=self.env | whole, expect=USAGE)
        self.assertIn("env.yaml: line 3: there is no rank 2 to plant a fault in: WORLD_SIZE is 2", done.stderr)
        done = self.run_cli("fsdp", "-c", self.config(target=", ranks: 4"), "--no-sign", "--out", self.dir / "out", env=self.env | whole, expect=USAGE)
        self.assertIn("env.yaml: line 3: target.ranks is 4, and WORLD_SIZE is 2", done.stderr)
        self.assertFalse((self.dir / "out").exists())

    def test_beside_torchruns_own_store(self):
        """The agent of torchrun listens at MASTER_PORT itself, and says so."""
        with socket.create_server(("127.0.0.1", 0)) as agent:
            around = self.surroundings() | {"MASTER_PORT": str(agent.getsockname()[1]), "TORCHELASTIC_USE_AGENT_STORE": "True"}
            own = self.surroundings()["MASTER_PORT"]
            for more in ({}, {"DLC_CHECK_MASTER_PORT": own}):
                with self.subTest(more=more):
                    processes = [self.start(rank, around | more, "fsdp", self.config()) for rank in range(2)]
                    said = [process.communicate(timeout=self.patience) for process in processes]
                    self.assertEqual([process.returncode for process in processes], [OK, OK], said)
                    shutil.rmtree(self.dir / "out0")
                    around["DLC_CHECK_RUN_SECRET"] = secrets.token_hex(32)


class Examples(EnvRanks):
    def as_slurm(self, rank, around):
        kept = {key: value for key, value in around.items() if key in ("DLC_CHECK_RUN_SECRET", "MASTER_PORT")}
        return self.env | kept | {"SLURM_PROCID": str(rank), "SLURM_NTASKS": "2", "SLURM_LOCALID": str(rank), "SLURM_NTASKS_PER_NODE": "2"}

    def test_rank_sh_reads_what_srun_says(self):
        around = self.surroundings()
        command = ["bash", EXAMPLE / "rank.sh", DLC_CHECK, "fsdp", "-c", EXAMPLE / "dlc-check.yaml", "--no-sign", "--quiet"]
        processes = [subprocess.Popen([*map(str, command), "--out", str(self.dir / "out0")], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                      text=True, env=self.as_slurm(rank, around), cwd=self.dir) for rank in range(2)]
        said = [process.communicate(timeout=self.patience) for process in processes]
        self.assertEqual([process.returncode for process in processes], [OK, OK], said)
        self.assertEqual(len(self.seen("fsdp")["ranks"]), 2)

    def test_rank_sh_asks_for_the_host_of_rank_0_and_for_a_rank(self):
        env = self.as_slurm(0, self.surroundings())
        for name, message in (("SLURM_NTASKS_PER_NODE", "set MASTER_ADDR to the host of rank 0"), ("SLURM_PROCID", "neither torchrun nor srun nor mpirun")):
            done = subprocess.run(["bash", str(EXAMPLE / "rank.sh"), "true"], capture_output=True, text=True, check=False,
                                  env={key: value for key, value in env.items() if key != name})
            self.assertEqual(done.returncode, USAGE)
            self.assertIn(message, done.stderr)

    @unittest.skipUnless(shutil.which("mpirun"), "no mpirun (openmpi-bin)")
    def test_mpirun(self):
        around = self.surroundings()
        env = self.env | {key: around[key] for key in ("DLC_CHECK_RUN_SECRET", "MASTER_PORT")}
        done = subprocess.run(["mpirun", "--allow-run-as-root", "--oversubscribe", "-np", "2", "bash", str(EXAMPLE / "rank.sh"), str(DLC_CHECK), "fsdp",
                               "-c", str(EXAMPLE / "dlc-check.yaml"), "--no-sign", "--out", str(self.dir / "out0")],
                              capture_output=True, text=True, timeout=self.patience, env=env, cwd=self.dir, check=False)
        self.assertEqual(done.returncode, OK, done.stdout + done.stderr)
        self.assertEqual(self.seen("fsdp")["launcher"], "env")
        self.assertEqual(len(self.seen("fsdp")["ranks"]), 2)

    @unittest.skipUnless(TORCH_PYTHON, "no torchrun: DLC_TORCH_PYTHON names no python")
    def test_torchrun(self):
        env = self.env | {"DLC_CHECK_RUN_SECRET": secrets.token_hex(32)}
        done = subprocess.run([TORCH_PYTHON, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2", "--no-python", str(DLC_CHECK), "fsdp",
                               "-c", str(EXAMPLE / "dlc-check.yaml"), "--no-sign", "--out", str(self.dir / "out0")],
                              capture_output=True, text=True, timeout=self.patience, env=env, cwd=self.dir, check=False)
        self.assertEqual(done.returncode, OK, done.stdout + done.stderr)
        self.assertEqual(len(self.seen("fsdp")["ranks"]), 2)

    def test_the_pods_say_one_run(self):
        """That an API server takes them is cli.kubernetes's to show."""
        pods = [text for text in (EXAMPLE / "pods.yaml").read_text().split("\n---\n") if "kind: Pod\n" in text]
        config = re.search(r"dlc-check.yaml: \|\n((?:    .*\n)+)", (EXAMPLE / "pods.yaml").read_text()).group(1)
        self.write("etc/dlc-check.yaml", re.sub("^    ", "", config, flags=re.MULTILINE))
        around = self.surroundings()
        said = []
        for rank, pod in enumerate(pods):
            variables = dict(re.findall(r'{name: (\w+), value: "?([^"}]+)"?}', pod))
            self.assertEqual({"RANK": str(rank), "WORLD_SIZE": "2", "MASTER_ADDR": "dlc-check-0.dlc-check", "MASTER_PORT": "29500"}, variables)
            self.assertIn(f"hostname: dlc-check-{rank}\n  subdomain: dlc-check\n", pod)
            # Without GPUs: the nccl stage says so, on all ranks.
            command = re.search(r"command: \[dlc-check, (.*)\]", pod).group(1).split(", ")
            command = [str(self.dir / "etc" / "dlc-check.yaml") if word.startswith("/etc/") else word for word in command if not word.startswith("--out")]
            command = [word if word != "/tmp/dlc-check" else f"--out={self.dir}/out{rank}" for word in command]
            said.append(subprocess.Popen([str(DLC_CHECK), *command], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                         env=self.env | around | {"RANK": str(rank)}, cwd=self.dir))
        ends = [(process.communicate(timeout=self.patience), process.returncode) for process in said]
        self.assertEqual(ends[1][1], OK, ends)
        self.assertEqual(len(self.seen("nccl")["ranks"]), 2, ends)


if __name__ == "__main__":
    unittest.main(verbosity=2)
