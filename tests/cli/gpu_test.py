"""The gpu stage on nodes that we do not have: NVML and libcuda are fakes, and the CPU twin computes (tests/fakes/gpu). Each
trouble has its verdict, its exit code and its rule. And on this host as it is, which has no GPU, an honest answer."""
import json
import os
import pathlib
import shutil
import subprocess
import unittest

from harness import BIN, DLC_CHECK, FAILED, INCOMPLETE, OK, ROOT, Case, check_in

FAKES = pathlib.Path(os.environ["DLC_FAKE_GPU_DIR"])
HEAD = "apiVersion: dlc-check/v1\nkind: Config\n"
MODULE = "NVRM version: NVIDIA UNIX x86_64 Kernel Module  {}  Tue Sep 23 10:00:00 UTC 2025\n"


def unwanted(table, severity="required"):
    """(rule, verdict) of what is neither a pass nor not applicable."""
    return sorted({(rule, f["verdict"]) for rule, some in table.items() for f in some
                   if f["verdict"] in ("fail", "unknown") and f["severity"] == severity})


class Gpu(Case):
    def setUp(self):
        super().setUp()
        self.program = check_in(self.dir / "bin")
        self.program.with_name("dlc-probe").symlink_to(FAKES / "bin" / "dlc-probe")  # the one with the twin

    def node(self, gpus, driver="580.95.05"):
        """A root directory with the device files and the kernel module of a node."""
        root = self.dir / f"root{len(list(self.dir.glob('root*')))}"
        (root / "dev").mkdir(parents=True)
        for name in [f"nvidia{i}" for i in range(gpus)] + ["nvidiactl", "nvidia-uvm"]:
            (root / "dev" / name).touch()
        if driver:
            (root / "proc/driver/nvidia").mkdir(parents=True)
            (root / "proc/driver/nvidia/version").write_text(MODULE.format(driver))
        return root

    def gpu(self, pretend, expect, ranks=1, gpus=1, policy="{}", root=None, libraries=FAKES, faults=(), timeout=None, program=None,
            more=(), **env):
        """Findings by rule of `dlc-check gpu` on the node that is pretended."""
        target = {"type": "local", "ranks": ranks}
        if faults:
            target["plantedFaults"] = list(faults)
        if timeout:
            target["timeoutSeconds"] = timeout
        config = self.write("gpu.yaml", f"{HEAD}target: {json.dumps(target)}\ngpu: {{seconds: 0.1}}\npolicy: {{gpu: {policy}}}\n")
        out = self.dir / f"out{len(list(self.dir.glob('out*')))}"
        root = root or self.node(gpus)
        whole = dict(self.env, LD_LIBRARY_PATH=str(libraries), DLC_FAKE_GPU=f"gpus={gpus};root={root};{pretend}", **env)
        done = subprocess.run([program or self.program, "gpu", "-c", config, "--no-sign", "--format", "json", "--out", out, *more],
                              capture_output=True, text=True, env=whole, cwd=self.dir, timeout=self.patience)
        table = {}
        for finding in json.loads(done.stdout)["findings"] if done.stdout.startswith("{") else []:
            table.setdefault(finding["rule"], []).append(finding)
        told = [f"{f['verdict']} {f['rule']}: {f['reason']['message']}" for some in table.values() for f in some
                if f["verdict"] in ("fail", "unknown")]
        self.assertEqual(done.returncode, expect, "\n".join([*told, done.stderr]))
        self.stderr = done.stderr
        return table

    def message(self, table, rule, verdict="fail"):
        return "\n".join(f["reason"]["message"] for f in table[rule] if f["verdict"] == verdict)


class Good(Gpu):
    def test_a_healthy_node(self):
        for ranks, gpus in [(1, 1), (1, 8), (4, 4)]:
            with self.subTest(ranks=ranks, gpus=gpus):
                table = self.gpu("", OK, ranks=ranks, gpus=gpus, policy=f"{{perWorkerPod: {gpus}, model: L4}}")
                self.assertEqual(unwanted(table), [])
                for check in ("gpu-allocation/ranks-hold-limit", "gpu-visible/gpu-given", "gpu-driver/cuda-starts", "gpu-compute/computes"):
                    self.assertEqual({f["verdict"] for f in table[check]}, {"pass"}, check)
                self.assertEqual(len(table["gpu-compute/right-product"]), gpus)

    def test_a_gpu_of_another_container_is_no_fault(self):
        table = self.gpu("cuda=7;forbidden=7", OK, gpus=8, root=self.node(7), policy="{perWorkerPod: 7}")
        self.assertIn("1 more on the node", " ".join(table["gpu-visible/cuda-shows-permitted"][0]["notes"]))

    def test_a_mig_slice_passes_with_a_warning(self):
        table = self.gpu("mig=0", OK)
        self.assertIn(("gpu-visible/whole-gpus", "fail"), unwanted(table, "warn"))

    def test_no_gpu_is_asked_for(self):
        # Nothing else is asked for either, so that the run shows nothing: that is no pass.
        table = self.gpu("", INCOMPLETE, policy="{devices: no}")
        for rule, some in table.items():
            if rule.startswith("gpu-"):
                self.assertEqual([f["verdict"] for f in some], ["not_applicable"], rule)
                self.assertIn("asks for no GPU", some[0]["reason"]["message"])

    def test_what_is_only_slow_or_narrow_is_warned_of(self):
        table = self.gpu("narrow=1", OK, gpus=2)
        self.assertIn(("gpu-compute/pcie-link", "fail"), unwanted(table, "warn"))


class Peers(Gpu):
    def test_joined_gpus_pass_once_for_a_node(self):
        table = self.gpu("nvlinks=18", OK, ranks=4, gpus=4, policy="{peerAccess: required, minNvLinks: 18}")
        self.assertEqual([f["verdict"] for f in table["gpu-peers/nvlinks-active"] + table["gpu-peers/peer-access"]], ["pass", "pass"])
        self.assertIn("6 of 6 pairs", table["gpu-peers/peer-access"][0]["notes"][0])

    def test_one_gpu_has_no_peer(self):
        table = self.gpu("", OK)
        self.assertEqual([f["verdict"] for f in table["gpu-peers/nvlinks-active"] + table["gpu-peers/peer-access"]], ["not_applicable"] * 2)

    def test_a_link_that_is_down(self):
        table = self.gpu("nvlinks=4;linkdown=2", FAILED, gpus=4)
        self.assertEqual(unwanted(table), [("gpu-peers/nvlinks-active", "fail")])
        self.assertRegex(self.message(table, "gpu-peers/nvlinks-active"), r"^GPU 2 \(GPU-.*\): 3 of 4 NVLinks active, not 4$")

    def test_links_that_do_not_answer_are_no_pass(self):
        table = self.gpu("nvlinks=4;linkloss=1", INCOMPLETE, gpus=2)
        self.assertEqual(unwanted(table), [("gpu-peers/nvlinks-active", "unknown")])

    def test_a_gpu_that_reaches_no_other(self):
        table = self.gpu("nvlinks=4;nopeer=1", FAILED, gpus=3)
        self.assertEqual(unwanted(table), [("gpu-peers/peer-access", "fail")])
        self.assertIn("GPU 0 and GPU 1: read disabled", self.message(table, "gpu-peers/peer-access"))
        self.assertIn("1 of 3 pairs", table["gpu-peers/peer-access"][0]["notes"][0])
        # Where NVLink joins none, only who asks for it is told that it fails.
        self.assertEqual(unwanted(self.gpu("nopeer=1", OK, gpus=3)), [])
        self.assertEqual(unwanted(self.gpu("nopeer=1", FAILED, gpus=3, policy="{peerAccess: required}")), [("gpu-peers/peer-access", "fail")])

    def test_more_links_than_there_are(self):
        self.assertEqual(unwanted(self.gpu("", FAILED, policy="{minNvLinks: 1}")), [("gpu-peers/nvlinks-active", "fail")])


class Visible(Gpu):
    def test_seven_of_eight(self):
        table = self.gpu("cuda=7", FAILED, gpus=8, policy="{perWorkerPod: 8}")
        self.assertIn(("gpu-visible/cuda-shows-permitted", "fail"), unwanted(table))
        self.assertIn(("gpu-allocation/ranks-hold-limit", "fail"), unwanted(table))

    def test_mixed_models(self):
        table = self.gpu("mixed=2", FAILED, gpus=4)
        self.assertEqual(unwanted(table), [("gpu-visible/one-kind", "fail")])
        self.assertRegex(self.message(table, "gpu-visible/one-kind"), r"^NVIDIA T4 .*; NVIDIA L4 ")

    def test_another_model_than_the_policy_s(self):
        self.assertEqual(unwanted(self.gpu("", FAILED, policy="{model: H200}")), [("gpu-visible/as-policy", "fail")])

    def test_a_lost_gpu(self):
        table = self.gpu("lost=1", FAILED, gpus=2)
        self.assertRegex(self.message(table, "gpu-visible/gpus-answer"), r"^GPU 1 GPU-\S+: .*GPU is lost \(15\)")
        self.assertIn("(999)", self.message(table, "gpu-driver/cuda-starts"))

    def test_a_forbidden_gpu_that_the_policy_counts_on(self):
        table = self.gpu("cuda=1;forbidden=1", FAILED, gpus=2, root=self.node(1), policy="{perWorkerPod: 2}")
        self.assertEqual([rule for rule, _ in unwanted(table)], ["gpu-allocation/ranks-hold-limit"])

    def test_cuda_visible_devices(self):
        table = self.gpu("cuda=0", FAILED, gpus=2, CUDA_VISIBLE_DEVICES="")
        self.assertIn("every device is hidden", self.message(table, "gpu-visible/visible-devices-list"))
        table = self.gpu("cuda=1", FAILED, gpus=2, CUDA_VISIBLE_DEVICES="1,7,0")
        self.assertIn("CUDA_VISIBLE_DEVICES='1,7,0': entry 2 '7'", self.message(table, "gpu-visible/visible-devices-list"))

    def test_a_device_file_is_missing(self):
        table = self.gpu("", FAILED, gpus=2, root=self.node(1))
        self.assertEqual(unwanted(table), [("gpu-visible/device-files", "fail")])

    def test_more_ranks_than_gpus(self):
        table = self.gpu("", FAILED, ranks=3, gpus=2)
        self.assertRegex(self.message(table, "gpu-visible/own-gpu"), r"rank 2 on \S+: .*no GPU of its own")
        table = self.gpu("", FAILED, ranks=2, gpus=1)
        self.assertRegex(self.message(table, "gpu-visible/own-gpu"), r"ranks 0 and 1 share GPU-")


class Driver(Gpu):
    def test_codes_of_cuda(self):
        for code, meaning in ((802, "fabricmanager"), (803, "different versions"), (804, "forward compat"), (999, "recreate the pod")):
            with self.subTest(code=code):
                table = self.gpu(f"cuinit={code}", FAILED)
                self.assertIn(f"({code})", self.message(table, "gpu-driver/cuda-starts"))
                self.assertIn(meaning, table["gpu-driver/cuda-starts"][0]["hint"])
                self.assertIn(f"({code})", self.message(table, "gpu-compute/computes"))

    def test_a_missing_function(self):
        directory = self.dir / "odd"
        directory.mkdir()
        (directory / "libcuda.so.1").symlink_to(FAKES / "libnvidia-ml.so.1")
        (directory / "libnvidia-ml.so.1").symlink_to(FAKES / "libnvidia-ml.so.1")
        table = self.gpu("", FAILED, libraries=directory)
        self.assertIn("cuInit", self.message(table, "gpu-driver/cuda-starts"))

    def test_no_libcuda_beside_gpus(self):
        directory = self.dir / "half"
        directory.mkdir()
        (directory / "libnvidia-ml.so.1").symlink_to(FAKES / "libnvidia-ml.so.1")
        (directory / "libcuda.so.1").write_text("no library, and longer than the header of one " * 20)
        table = self.gpu("", FAILED, libraries=directory)
        self.assertIn("cannot load libcuda.so.1", self.message(table, "gpu-driver/cuda-starts"))

    def test_no_nvml_leaves_the_rest_judged_and_the_run_incomplete(self):
        directory = self.dir / "half"
        directory.mkdir()
        (directory / "libcuda.so.1").symlink_to(FAKES / "libcuda.so.1")
        (directory / "libnvidia-ml.so.1").write_text("no library, and longer than the header of one " * 20)
        table = self.gpu("", INCOMPLETE, libraries=directory)
        self.assertEqual({verdict for _, verdict in unwanted(table)}, {"unknown"})
        self.assertIn(("gpu-visible/cuda-shows-permitted", "unknown"), unwanted(table))
        self.assertEqual(table["gpu-compute/right-memory"][0]["verdict"], "pass")

    def test_library_and_kernel_module_differ(self):
        table = self.gpu("init=18", FAILED)
        self.assertIn("the module is 580.95.05", self.message(table, "gpu-driver/library-matches-module"))
        table = self.gpu("", FAILED, root=self.node(1, driver="570.1.2"))
        self.assertEqual(unwanted(table), [("gpu-driver/library-matches-module", "fail")])

    def test_a_libcuda_without_a_version_in_its_name(self):
        directory = self.dir / "nameless"
        directory.mkdir()
        shutil.copy(FAKES / "libcuda.so.1", directory)
        (directory / "libnvidia-ml.so.1").symlink_to(FAKES / "libnvidia-ml.so.1")
        self.assertEqual(unwanted(self.gpu("", INCOMPLETE, libraries=directory)), [("gpu-driver/library-matches-module", "unknown")])

    def test_an_older_driver_than_the_policy_s(self):
        self.assertEqual(unwanted(self.gpu("", FAILED, policy="{minDriver: 580.95.06}")), [("gpu-driver/min-version", "fail")])
        self.gpu("", OK, policy="{minDriver: 580.95.05}")

    def test_a_driver_that_hangs_is_ended_by_the_deadline(self):
        table = self.gpu("cuinit=hang", INCOMPLETE, timeout=5)
        self.assertIn("did not end before its deadline", self.message(table, "gpu-visible/gpu-given", "unknown"))
        self.assertNotIn("fail", {verdict for _, verdict in unwanted(table)})


class Compute(Gpu):
    def test_wrong_results_fail_where_they_are(self):
        for experiment, rule in (("memory", "right-memory"), ("transfer", "right-transfers"), ("host-copy", "right-transfers"),
                                 ("product", "right-product")):
            with self.subTest(experiment=experiment):
                table = self.gpu(f"bad=1;wrong={experiment}", FAILED, gpus=2)
                self.assertEqual(unwanted(table), [(f"gpu-compute/{rule}", "fail")])
                bad = [f["subject"]["name"] for f in table[f"gpu-compute/{rule}"] if f["verdict"] == "fail"]
                self.assertEqual(len(bad), 1)
                self.assertRegex(bad[0], r"^GPU-\S+01 of rank 0 on ")

    def test_work_that_ends_early_is_a_failure_and_the_rest_unknown(self):
        table = self.gpu("bad=0;stop=product", FAILED)
        self.assertIn("(719)", self.message(table, "gpu-compute/computes"))
        self.assertIn(("gpu-compute/right-product", "unknown"), unwanted(table))
        self.assertEqual(table["gpu-compute/right-memory"][0]["verdict"], "pass")

    def test_planted_flips_are_found_and_such_a_run_is_never_passed(self):
        for kind, rule in (("flip-bit", "right-memory"), ("flip-transfer", "right-transfers"), ("flip-host-copy", "right-transfers"),
                           ("flip-product", "right-product")):
            with self.subTest(kind=kind):
                table = self.gpu("", FAILED, ranks=2, gpus=2, faults=[{"rank": 1, "step": "gpu-compute", "kind": kind}])
                bad = [f for f in table[f"gpu-compute/{rule}"] if f["verdict"] == "fail"]
                self.assertEqual(len(bad), 1)
                self.assertIn("rank 1", bad[0]["subject"]["name"])
                self.assertEqual(table["coverage/no-planted-faults"][0]["verdict"], "unknown")

    def test_a_step_that_dies_is_unknown_and_costs_no_other(self):
        table = self.gpu("", INCOMPLETE, ranks=2, gpus=2, faults=[{"rank": 1, "step": "gpu-compute", "kind": "crash"}])
        self.assertIn("SIGSEGV", self.message(table, "gpu-compute/computes", "unknown"))
        self.assertEqual([f["verdict"] for f in table["gpu-compute/right-memory"]], ["pass"])

    def test_a_busy_gpu_fails_and_its_speed_is_not_judged(self):
        table = self.gpu("busy=0", FAILED, policy="{minCopyBytesPerSecond: 1}")
        self.assertIn("1 process before ours", self.message(table, "gpu-compute/unoccupied"))
        self.assertIn("would say nothing of the GPU", self.message(table, "gpu-compute/speed", "unknown"))

    def test_memory_errors_that_wait(self):
        for pretend in ("ecc=0", "pending=0"):
            with self.subTest(pretend=pretend):
                self.assertEqual(unwanted(self.gpu(pretend, FAILED)), [("gpu-compute/health", "fail")])

    def test_a_speed_that_is_not_reached(self):
        self.assertEqual(unwanted(self.gpu("", FAILED, policy="{minProductOperationsPerSecond: 1e17}")), [("gpu-compute/speed", "fail")])


class Here(Gpu):
    def test_a_host_without_a_gpu_is_told_what_is_missing(self):
        if os.path.exists("/dev/nvidiactl"):
            self.skipTest("this host has a GPU")
        empty = self.dir / "nothing"
        empty.mkdir()
        table = self.gpu("", FAILED, program=DLC_CHECK, libraries=empty)
        text = self.message(table, "gpu-visible/gpu-given")
        for part in ("/dev/nvidia0", "libcuda.so.1"):
            self.assertIn(part, text)
        # One finding of the missing GPU; that it does not compute follows and is no second failure.
        self.assertEqual([rule for rule, verdict in unwanted(table) if verdict == "fail"], ["gpu-visible/gpu-given"])

    def test_the_example_names_the_gpu_stage(self):
        example = (ROOT / "examples/local/gpu.yaml").read_text()
        self.assertIn("stages: [gpu]", example)
        if not os.path.exists("/dev/nvidiactl"):
            done = self.run_cli("gpu", "-c", ROOT / "examples/local/gpu.yaml", "--no-sign", "--out", self.dir / "example", expect=FAILED)
            self.assertIn("/dev/nvidia0", done.stdout)

    def test_it_is_the_real_probe_that_ships(self):
        self.assertNotEqual((FAKES / "bin" / "dlc-probe").read_bytes(), (BIN / "dlc-probe").read_bytes())


if __name__ == "__main__":
    unittest.main(verbosity=2)
