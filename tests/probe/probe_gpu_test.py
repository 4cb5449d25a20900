"""gpu-node and gpu-compute on nodes that we do not have: NVML and libcuda are fakes (tests/fakes/gpu)."""

from ranks import *

FAKES = os.environ["DLC_FAKE_GPU_DIR"]


def value(observed):
    return observed["value"] if observed["state"] == "seen" else None


class Gpu(unittest.TestCase):
    def look(self, pretend, kinds=("gpu-node",), directory=FAKES, deadline_ms=20000, **env):
        env = dict(env, LD_LIBRARY_PATH=directory, DLC_FAKE_GPU=pretend)
        rank = run(1, plan([step(kind, deadline_ms) for kind in kinds]), env=env)[0]
        self.assertEqual((rank.code, rank.err), (0, ""))
        return rank.seen()

    def node(self, pretend, **more):
        return value(self.look(pretend, **more)["gpuNode"][0]["seen"])

    def failure(self, pretend, **more):
        """Of gpu-node and of gpu-compute."""
        seen = self.look(pretend, kinds=("gpu-node", "gpu-compute"), **more)
        return (value(seen["gpuNode"][0]["seen"])["cuda"],
                value(seen["gpuCompute"][0]["seen"])["failure"])

    def test_a_healthy_node(self):
        node = self.node("gpus=8")
        gpus = value(node["nvml"]["gpus"])
        self.assertEqual(value(node["nvml"]["counted"]), 8)
        self.assertEqual([value(gpu["uuid"]) for gpu in gpus],
                         [gpu["uuid"] for gpu in value(node["cuda"]["gpus"])])
        self.assertEqual(node["cudaVisibleDevices"]["expected"], 8)
        self.assertEqual(len(value(node["nvml"]["peers"])), 28)
        self.assertEqual(value(node["nvml"]["peers"])[0]["nvlink"]["value"], "not-supported")
        self.assertEqual(node["cuda"]["mapped"], [os.path.join(FAKES, "libcuda.so.580.95.05")])
        self.assertEqual(value(gpus[0]["memory"])["totalBytes"], 24152899584)
        self.assertEqual(value(gpus[0]["powerLimitWatts"]), 72)
        self.assertEqual(value(gpus[0]["maxSmClockHz"]), 2040000000)
        # What an L4 does not have is not an unknown.
        for lacking in ("mig", "retiredPages", "nvlinks"):
            self.assertEqual(gpus[0][lacking]["error"]["code"], "unsupported")

    def test_what_is_wrong_with_one_gpu_is_told_of_that_one(self):
        for pretend, pick, bad, good in (
                ("mixed=5", lambda g: value(g["name"]), "NVIDIA T4", "NVIDIA L4"),
                ("pending=5", lambda g: value(g["remappedRows"]).get("pending", False), True, False),
                ("narrow=5", lambda g: value(g["state"]["pcieWidth"]), 8, 16),
                ("ecc=5", lambda g: value(g["ecc"]).get("volatileUncorrected", 0), 3, 0),
                ("ecc=5", lambda g: value(g["ecc"]).get("aggregateUncorrected", 0), 4, 0),
                ("busy=5", lambda g: len(value(g["processes"])), 1, 0),
                ("busy=5", lambda g: value(g["utilizationPercent"]), 97, 0)):
            with self.subTest(pretend=pretend):
                gpus = value(self.node("gpus=8;" + pretend)["nvml"]["gpus"])
                self.assertEqual([pick(gpu) for gpu in gpus], [good] * 5 + [bad] + [good] * 2)

    def test_a_gpu_that_this_container_may_not_use_is_counted_and_named_as_that(self):
        node = self.node("gpus=8;cuda=7;forbidden=7")
        self.assertEqual(value(node["nvml"]["counted"]), 8)
        error = value(node["nvml"]["gpus"])[7]["uuid"]["error"]
        self.assertEqual(error["code"], "permission_denied")
        self.assertEqual(node["cudaVisibleDevices"]["expected"], 7)

    def test_a_lost_gpu_costs_its_own_facts_and_all_of_cuda(self):
        node = self.node("gpus=8;lost=3")
        gpus = value(node["nvml"]["gpus"])
        self.assertIn("GPU is lost (15)", gpus[3]["memory"]["error"]["message"])
        self.assertIn("Xid 79", gpus[3]["memory"]["error"]["hint"])
        self.assertEqual(gpus[4]["memory"]["state"], "seen")
        self.assertEqual((node["cuda"]["failure"]["call"], node["cuda"]["failure"]["code"]),
                         ("cuDeviceGet", 999))

    def test_a_mig_slice_is_joined_to_its_gpu(self):
        node = self.node("gpus=1;mig=0")
        gpu = value(node["nvml"]["gpus"])[0]
        self.assertTrue(value(gpu["mig"])["enabled"])
        slices = value(gpu["migDevices"])
        self.assertEqual([one["uuid"] for one in slices],
                         [one["uuid"] for one in value(node["cuda"]["gpus"])])
        self.assertTrue(slices[0]["uuid"].startswith("MIG-"))
        self.assertNotIn("expected", node["cudaVisibleDevices"])

    def test_every_failure_of_nvml_keeps_its_number_and_advice(self):
        for code, hint in ((9, "no NVIDIA driver loaded"), (18, "reboot the node"),
                           (999, "recreate the pod")):
            with self.subTest(code=code):
                node = self.node(f"gpus=1;init={code}")
                self.assertEqual(node["nvml"]["failureCode"], code)
                for member in ("driverVersion", "counted", "gpus"):
                    error = node["nvml"][member]["error"]
                    self.assertIn(f"({code})", error["message"])
                    self.assertIn(hint, error["hint"])
                self.assertEqual(node["cuda"]["gpus"]["state"], "seen")
                self.assertNotIn("expected", node["cudaVisibleDevices"])

    def test_every_failure_of_cuda_keeps_its_number_name_and_meaning(self):
        for code, name, meaning in ((802, "SYSTEM_NOT_READY", "fabricmanager"),
                                    (803, "SYSTEM_DRIVER_MISMATCH", "different versions"),
                                    (804, "COMPAT_NOT_SUPPORTED_ON_DEVICE", "forward compat"),
                                    (999, "UNKNOWN", "recreate the pod")):
            with self.subTest(code=code):
                cuda, compute = self.failure(f"gpus=1;cuinit={code}")
                self.assertEqual((cuda["failure"]["code"], cuda["failure"]["name"]),
                                 (code, "CUDA_ERROR_" + name))
                self.assertIn(meaning, cuda["failure"]["meaning"])
                self.assertIn(f"({code})", cuda["gpus"]["error"]["message"])
                if WITH_CUDA:
                    self.assertEqual(compute["code"], code)
                    self.assertEqual(compute["meaning"], cuda["failure"]["meaning"])

    def test_cuda_without_a_gpu(self):
        cuda, compute = self.failure("gpus=1;cuda=0")
        self.assertEqual(cuda["failure"]["code"], 100)
        self.assertEqual(cuda["gpus"]["error"]["code"], "not_found")
        if WITH_CUDA:
            self.assertEqual(compute["code"], 100)

    def test_the_variable_that_hides_gpus_is_read_as_cuda_reads_it(self):
        node = self.node("gpus=4", CUDA_VISIBLE_DEVICES="0,9,1")
        visible = node["cudaVisibleDevices"]
        self.assertEqual(visible["expected"], 1)
        self.assertIn("entry 2 '9' is out of range", visible["problem"])
        self.assertIn("1 after it are hidden", visible["problem"])

    def test_no_library_at_all(self):
        with tempfile.TemporaryDirectory() as nothing:
            cuda, compute = self.failure("", directory=nothing)
            if cuda["library"]["state"] == "seen":
                self.skipTest("a real libcuda is installed")
            self.assertIn("libcuda.so.1", cuda["library"]["error"]["message"])
            self.assertEqual(compute["code"], 35 if WITH_CUDA else -1)

    def test_a_library_without_a_function_names_it(self):
        with tempfile.TemporaryDirectory() as directory:
            # NVML's fake has none of libcuda's functions, and the other way round.
            os.symlink(os.path.join(FAKES, "libnvidia-ml.so.1"),
                       os.path.join(directory, "libcuda.so.1"))
            os.symlink(os.path.join(FAKES, "libcuda.so.1"),
                       os.path.join(directory, "libnvidia-ml.so.1"))
            node = self.node("gpus=1", directory=directory)
            self.assertIn("cuInit", node["cuda"]["failure"]["text"])
            self.assertIn("has no nvmlInit_v2", node["nvml"]["gpus"]["error"]["message"])

    def test_a_driver_that_hangs_costs_the_step(self):
        seen = self.look("gpus=1;cuinit=hang", kinds=("gpu-node", "meet"), deadline_ms=1500)
        self.assertEqual(seen["gpuNode"][0]["end"]["how"], "timed-out")
        self.assertIn("asking the driver's libraries", seen["gpuNode"][0]["seen"]["error"]["message"])
        self.assertEqual(seen["meet"][0]["seen"]["state"], "seen")

    def test_parameters_are_checked_before_anything_runs(self):
        for parameters, text in ((dict(seconds=-1), "$.seconds"), (dict(seconds=601), "$.seconds"),
                                 (dict(memoryShare=0.95), "$.memoryShare"),
                                 (dict(plant="x"), "$.plant"), (dict(share=1), "unknown key 'share'")):
            with self.subTest(parameters=parameters):
                rank = run(1, plan([step("gpu-compute", **parameters)]))[0]
                self.assertEqual(rank.code, 2)
                self.assertIn(text, rank.err)


WITH_CUDA = "\nwith CUDA" in subprocess.run([probe(), "--version"], text=True, capture_output=True,
                                            timeout=PLENTY, check=True).stdout

if __name__ == "__main__":
    unittest.main()
