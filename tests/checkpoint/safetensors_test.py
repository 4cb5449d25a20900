#!/usr/bin/env python3
"""Python's safetensors reads what we wrote, and we read what it wrote.

Files that the package wrote are in tests/testdata/safetensors (write_testdata.py there), so that half needs no package. The other
half needs a python that has it: DLC_SAFETENSORS_PYTHON (bash tests/checkpoint/install.sh DIR); else this exits 77 when the first half
passed.
"""
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

TOOL = os.environ["DLC_CHECKPOINT_TOOL"]
TESTDATA = pathlib.Path(os.environ["DLC_TESTDATA"]) / "safetensors"
PYTHON = os.environ.get("DLC_SAFETENSORS_PYTHON", "")
READER = """
import json, sys
from safetensors import safe_open
with safe_open(sys.argv[1], framework="numpy") as file:
    tensors = {name: [file.get_tensor(name).dtype.name, list(file.get_tensor(name).shape), file.get_tensor(name).ravel().tolist()]
               for name in file.keys()}
    print(json.dumps([file.metadata(), tensors]))
"""


def has_package():
    return PYTHON != "" and subprocess.run([PYTHON, "-c", "import numpy, safetensors"], capture_output=True).returncode == 0


def read_by_us(path):
    return subprocess.run([TOOL, "read", str(path)], capture_output=True, text=True)


class WeReadTheirs(unittest.TestCase):
    def test_each_stored_file(self):
        expected = json.loads((TESTDATA / "expected.json").read_text())
        self.assertGreater(len(expected), 2)
        for name, content in expected.items():
            with self.subTest(name=name):
                done = read_by_us(TESTDATA / name)
                self.assertEqual(done.returncode, 0, done.stderr)
                data = (TESTDATA / name).read_bytes()
                tensors, metadata = {}, {}
                for line in done.stdout.splitlines():
                    kind, key, *rest = line.split("\t")
                    if kind == "metadata":
                        metadata[key] = rest[0]
                    else:
                        shape = [int(part) for part in rest[1].split(",") if part]
                        tensors[key] = [rest[0], shape, data[int(rest[2]):int(rest[3])].hex()]
                self.assertEqual(metadata, content["metadata"])
                self.assertEqual(tensors, content["tensors"])

    def test_a_cut_file_is_refused(self):
        for stored in TESTDATA.glob("*.safetensors"):
            data = stored.read_bytes()
            with self.subTest(name=stored.name), tempfile.TemporaryDirectory() as directory:
                cut = pathlib.Path(directory) / "cut"
                cut.write_bytes(data + b"x")
                self.assertEqual(read_by_us(cut).returncode, 1)
                cut.write_bytes(data[:-1])
                self.assertEqual(read_by_us(cut).returncode, 1)


class PythonReadsOurs(unittest.TestCase):
    def setUp(self):
        if not has_package():
            self.skipTest("no python with safetensors")

    def value(self, tensor, element):
        return float(1_000_000 + tensor * 100_000 + element % 99_991)  # SavedModel::Value, step 1

    def test_every_shard(self):
        shapes = {"embed.weight": [11, 4], "norm.weight": [3], "conv": [7, 2, 3], 'optimizer/exp_avg "embed"': [11, 4]}
        ranks = 4
        with tempfile.TemporaryDirectory() as root:
            done = subprocess.run([TOOL, "save", root, str(ranks)], capture_output=True, text=True)
            self.assertEqual(done.returncode, 0, done.stderr)
            rows_of = {name: [] for name in shapes}
            for rank in range(ranks):
                path = pathlib.Path(done.stdout.strip()) / f"rank-{rank:05}-of-{ranks:05}.safetensors"
                read = subprocess.run([PYTHON, "-c", READER, str(path)], capture_output=True, text=True)
                self.assertEqual(read.returncode, 0, read.stderr)
                metadata, tensors = json.loads(read.stdout)
                self.assertEqual((metadata["dlc.run_id"], metadata["dlc.step"], metadata["dlc.rank"], metadata["dlc.ranks"], metadata["seed"]),
                                 ("run", "1", str(rank), str(ranks), "7"))
                for name, (dtype, shape, values) in tensors.items():
                    self.assertEqual(dtype, "float32")
                    rows, whole = metadata["dlc.slice." + name].split(" of ")
                    first, last = map(int, rows.split(":"))
                    self.assertEqual(whole, "x".join(map(str, shapes[name])))
                    self.assertEqual(shape, [last - first] + shapes[name][1:])
                    width = len(values) // (last - first)
                    place = list(shapes).index(name)
                    self.assertEqual(values, [self.value(place, element) for element in range(first * width, last * width)])
                    rows_of[name] += range(first, last)
            self.assertEqual(rows_of, {name: list(range(shape[0])) for name, shape in shapes.items()})

    def test_python_refuses_a_cut_file_of_ours(self):
        with tempfile.TemporaryDirectory() as root:
            done = subprocess.run([TOOL, "save", root, "1"], capture_output=True, text=True)
            path = pathlib.Path(done.stdout.strip()) / "rank-00000-of-00001.safetensors"
            path.write_bytes(path.read_bytes()[:-1])
            self.assertNotEqual(subprocess.run([PYTHON, "-c", READER, str(path)], capture_output=True).returncode, 0)


if __name__ == "__main__":
    result = unittest.main(verbosity=2, exit=False).result
    sys.exit(1 if not result.wasSuccessful() or result.testsRun == 0 else 77 if result.skipped else 0)
