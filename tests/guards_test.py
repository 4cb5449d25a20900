#!/usr/bin/env python3
"""The guards of the source tree, each seen to pass on the tree and to fail on a planted breach."""
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[1]
SOURCE_FOLDERS = ["cmd", "checks", "probes", "kernels", "reports"]


def sources():
    listed = subprocess.run(["git", "ls-files", "-co", "--exclude-standard", "*.h", "*.cpp", "*.cu", "*.cuh"], cwd=ROOT, capture_output=True, text=True, check=True)
    return [ROOT / name for name in listed.stdout.split() if (ROOT / name).exists()]


class Layering(unittest.TestCase):
    def run_layering(self, root):
        return subprocess.run([sys.executable, str(ROOT / "tests" / "layering.py"), str(root)], capture_output=True, text=True)

    def test_the_tree_keeps_its_layers(self):
        done = self.run_layering(ROOT)
        self.assertEqual(done.returncode, 0, done.stdout)

    def test_a_breach_is_named(self):
        for folder, line, text, *kind in [
            ("checks", '#include "probes/control/registry/observe_image.h"', "checks may not include probes/control/registry"),
            ("reports", "#include <curl/curl.h>", "only ['probes/control/http'] may include <curl/curl.h>"),
            ("probes/observations", '#include "checks/check.h"', "probes/observations may not include checks/check.h"),
            ("probes/node", '#include "node.h"', "include our headers from the repository root"),
            ("probes/newcomer", "#include <vector>", "has no row"),
            ("probes/node", "#include <cuda_runtime.h>", "only ['kernels'] may include <cuda_runtime.h>", ".cuh"),
        ]:
            suffix = kind[0] if kind else ".cpp"
            with self.subTest(folder=folder), tempfile.TemporaryDirectory() as planted:
                for source in SOURCE_FOLDERS:
                    (pathlib.Path(planted) / source).mkdir()
                (pathlib.Path(planted) / folder).mkdir(parents=True, exist_ok=True)
                (pathlib.Path(planted) / folder / f"planted{suffix}").write_text(line + "\n")
                done = self.run_layering(planted)
                self.assertEqual(done.returncode, 1)
                self.assertIn(text, done.stdout)
                self.assertIn(f"{folder}/planted{suffix}", done.stdout)

    def test_a_source_that_does_not_include_its_header_first_is_named(self):
        own, other = '#include "checks/planted.h"\n', "#include <vector>\n"
        for text, code in [(own + other, 0), (other + own, 1), (other, 1), ("", 1)]:
            with self.subTest(text=text), tempfile.TemporaryDirectory() as planted:
                for source in SOURCE_FOLDERS:
                    (pathlib.Path(planted) / source).mkdir()
                (pathlib.Path(planted) / "checks" / "planted.h").write_text("#pragma once\n")
                (pathlib.Path(planted) / "checks" / "planted.cpp").write_text(text)
                done = self.run_layering(planted)
                self.assertEqual(done.returncode, code, done.stdout)
                self.assertEqual("checks/planted.cpp: include its own header first" in done.stdout, code == 1)

    def test_an_empty_tree_is_no_pass(self):
        with tempfile.TemporaryDirectory() as planted:
            self.assertEqual(self.run_layering(planted).returncode, 1)


class Format(unittest.TestCase):
    def check(self, files):
        return subprocess.run(["clang-format", "--dry-run", "-Werror", *map(str, files)], capture_output=True, text=True, cwd=ROOT)

    def test_every_source_is_formatted(self):
        files = sources()
        self.assertGreater(len(files), 20)
        done = self.check(files)
        self.assertEqual(done.returncode, 0, done.stderr[-3000:])

    def test_a_badly_formatted_file_is_seen(self):
        with tempfile.TemporaryDirectory(dir=ROOT, prefix=".format-") as planted:
            path = pathlib.Path(planted) / "planted.cpp"
            path.write_text("int  main( ){return 0 ;}\n")
            self.assertNotEqual(self.check([path]).returncode, 0)


class Types(unittest.TestCase):
    """Of the Python that goes to a cluster. Its tests may do without."""

    def check(self, files, cache):
        # Neither Ray nor PyTorch is looked at: what they give is Any.
        places = os.pathsep.join({str(file.parent) for file in files})
        return subprocess.run(["mypy", "--strict", "--ignore-missing-imports", "--allow-subclassing-any", "--no-site-packages",
                               "--cache-dir", cache, *map(str, files)],
                              capture_output=True, text=True, cwd=ROOT, env=os.environ | {"MYPYPATH": places})

    def test_they_are_given_and_agree(self):
        files = sorted((ROOT / "probes").rglob("*.py"))
        self.assertGreater(len(files), 3)
        with tempfile.TemporaryDirectory() as cache:
            done = self.check(files, cache)
        self.assertEqual(done.returncode, 0, done.stdout[-3000:] + done.stderr)

    def test_one_that_is_not_given_is_named(self):
        with tempfile.TemporaryDirectory() as planted:
            path = pathlib.Path(planted) / "planted.py"
            path.write_text("def one():\n    return 1\n")
            done = self.check([path], planted)
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertIn("planted.py:1: error: Function is missing a return type annotation", done.stdout)


class CheckList(unittest.TestCase):
    """A check that is not in DLC_CHECKS would never run: the configure step must stop on it."""

    def configure(self, plant):
        with tempfile.TemporaryDirectory() as directory:
            checks = pathlib.Path(directory) / "checks"
            shutil.copytree(ROOT / "checks", checks)
            if plant:
                (checks / "forgotten_check.cpp").write_text("// planted\n")
            # Only the folder's own CMakeLists.txt is under test: dlc_module is a stand-in that builds nothing.
            (pathlib.Path(directory) / "CMakeLists.txt").write_text(
                "cmake_minimum_required(VERSION 3.25)\nproject(planted LANGUAGES NONE)\nfunction(dlc_module)\nendfunction()\nadd_subdirectory(checks)\n")
            return subprocess.run(["cmake", "-G", "Ninja", "-S", directory, "-B", os.path.join(directory, "build")], capture_output=True, text=True)

    def test_the_list_is_whole(self):
        done = self.configure(plant=False)
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_a_forgotten_check_stops_the_configure_step(self):
        done = self.configure(plant=True)
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("checks/forgotten_check.cpp is not listed", done.stderr)


class TestNames(unittest.TestCase):
    """CMake takes a semicolon for the end of a list's element: ctest would run two names that no test has, and both pass."""

    SPLIT = re.compile(r'TEST_CASE\(\s*(?:"[^"]*"\s*)*"[^"]*;')  # a long name is wrapped, or goes on in a second literal

    def test_no_name_is_split(self):
        for path in sources():
            match = self.SPLIT.search(path.read_text())
            self.assertIsNone(match, f"{path}: {match and match.group(0)}")

    def test_a_split_name_is_seen(self):
        for name in ('TEST_CASE("one; two") {', 'TEST_CASE(\n    "one; two") {', 'TEST_CASE(\n    "one "\n    "and; two") {'):
            self.assertIsNotNone(self.SPLIT.search(name), name)
        self.assertIsNone(self.SPLIT.search('TEST_CASE("one") {\n  Say("a; b");'))


class Text(unittest.TestCase):
    def test_no_path_of_a_developer_machine(self):
        listed = subprocess.run(["git", "ls-files", "-co", "--exclude-standard"], cwd=ROOT, capture_output=True, text=True, check=True)
        needle = re.compile(r"(?<![\w$/.-])/(work|root)/")
        for name in listed.stdout.split():
            path = ROOT / name
            if path.is_file() and path != pathlib.Path(__file__).resolve():
                text = path.read_bytes().decode("utf-8", "replace")
                self.assertIsNone(needle.search(text), f"{name}: {needle.search(text)}")


if __name__ == "__main__":
    unittest.main(verbosity=2)
