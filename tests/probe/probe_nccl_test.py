"""nccl-collectives on ranks whose NCCL and libcuda are fakes (tests/fakes/nccl): no GPU is needed."""

import hashlib
import shutil

from ranks import *

FAKES = os.environ["DLC_FAKE_NCCL_DIR"]
ALL = ["all_reduce", "all_gather", "reduce_scatter", "broadcast", "sendrecv"]


def nccl_step(deadline_ms=20000, **parameters):
    whole = {"collectives": ALL, "sizesBytes": [8, 4096, 65536], "warmUp": 1, "iterations": 5}
    return step("nccl-collectives", deadline_ms, "nccl", **dict(whole, **parameters))


def value(observed):
    return observed["value"] if observed["state"] == "seen" else None


class Nccl(unittest.TestCase):
    def experiments(self, ranks, the_step=None, faults=(), env=None):
        """What each rank saw, in the order of ranks: {"seen": .., "end": ..}."""
        env = dict({"LD_LIBRARY_PATH": FAKES, "PATH": "/nowhere", "VIRTUAL_ENV": "", "PYTHONPATH": ""}, **(env or {}))
        done = run(ranks, plan([the_step or nccl_step()], faults), env=env)
        for rank in done:
            self.assertEqual((rank.code, rank.err), (0, ""))
        return [rank.seen()["ncclCollectives"][0] for rank in done]

    def seen(self, ranks, the_step=None, **more):
        found = [value(one["seen"]) for one in self.experiments(ranks, the_step, **more)]
        self.assertNotIn(None, found)
        return found

    def rows(self, experiment):
        self.assertNotIn("stoppedBy", experiment["measured"])
        return experiment["measured"]["collectives"]

    def test_every_collective_is_right_on_one_rank_and_more(self):
        for ranks, kind in ((1, "float32"), (2, "float32"), (3, "bfloat16"), (4, "float32")):
            with self.subTest(ranks=ranks, type=kind):
                for rank, one in enumerate(self.seen(ranks, nccl_step(type=kind))):
                    rows = self.rows(one)
                    self.assertEqual(len(rows), 3 * (2 * 4 + 1))  # sendrecv is never in place
                    for row in rows:
                        self.assertEqual(row.get("wrong", []), [0] * ranks)
                        self.assertEqual(row["ranks"], ranks)
                        self.assertEqual(row["type"], kind)
                        if row.get("sizeBytes"):
                            self.assertGreater(row["checkedElements"], 0)
                            self.assertGreater(row["meanSeconds"], 0)
                    self.assertEqual([r.get("rank", 0) for r in one["measured"]["ranks"]], [rank])

    def test_what_ran_is_told(self):
        one = self.seen(2)[1]
        library = one["library"]
        path = os.path.realpath(os.path.join(FAKES, "libnccl.so.2"))
        self.assertEqual(library["library"]["path"], path)
        self.assertEqual((library["library"]["version"], library["versionCode"]), ("2.28.9", 22809))
        self.assertEqual(library["foundBy"], "loader")
        with open(path, "rb") as file:
            self.assertEqual(value(library["file"]), "sha256:" + hashlib.sha256(file.read()).hexdigest())
        self.assertEqual((one["gpuName"], one["gpuPciAddress"]), ("Fake GPU", "0000:53:00.0"))
        self.assertIn(path, one["mappedLibraries"])
        settings = {s["name"]: (s["value"], s["source"]) for s in one["settings"]}
        self.assertEqual(settings["NCCL_DEBUG"], ("INFO", "dlc-probe"))
        self.assertIn("lo", [i["name"] for i in value(one["interfacesBefore"])])
        self.assertIn("lo", [i["name"] for i in value(one["interfacesAfter"])])

    def test_each_rank_takes_the_gpu_of_its_local_rank(self):
        addresses = ["0000:53:00.0", "0000:54:00.0"]
        for ranks, wanted in ((2, addresses), (3, [*addresses, addresses[0]])):  # a third shares the first
            with self.subTest(ranks=ranks):
                found = self.seen(ranks, env={"FAKE_GPUS": "2"})
                self.assertEqual([one["gpuPciAddress"] for one in found], wanted)

    def test_the_log_says_which_network(self):
        for network, words in (("Socket", ["Socket"]), ("Libfabric", ["Libfabric"])):
            with self.subTest(network=network):
                for rank, one in enumerate(self.seen(2, env={"FAKE_NCCL_NETWORK": network})):
                    log = value(one["log"])
                    self.assertEqual(log["networks"], words)
                    self.assertEqual([(c["transport"], c["network"], c["sends"], c["receives"]) for c in log["connections"]],
                                     [("NET", network, 1, 1)])
                    communicator = log["communicators"][0]
                    self.assertEqual((communicator.get("rank", 0), communicator["ranks"], communicator["complete"]), (rank, 2, True))
                    self.assertTrue(one["logDigest"].startswith("sha256:"))
                    self.assertEqual(len(log["processes"]), 1)

    def test_no_log_is_not_a_good_log(self):
        one = self.seen(2, env={"FAKE_NCCL_WITHOUT_LOG": "1"})[0]
        self.assertEqual(one["log"]["state"], "error")
        self.assertNotIn("logDigest", {k: v for k, v in one.items() if v})

    def test_a_setting_is_told_with_where_it_came_from(self):
        with tempfile.TemporaryDirectory() as home:
            with open(os.path.join(home, ".nccl.conf"), "w") as file:
                file.write("# of the image\nNCCL_SOCKET_IFNAME=^docker0,lo\nNCCL_ALGO=Tree\n")
            one = self.seen(1, env={"HOME": home, "NCCL_ALGO": "Ring"})[0]
        settings = {s["name"]: (s["value"], s["source"]) for s in one["settings"]}
        self.assertEqual(settings["NCCL_ALGO"], ("Ring", "environment"))
        self.assertEqual(settings["NCCL_SOCKET_IFNAME"], ("^docker0,lo", os.path.join(home, ".nccl.conf")))

    def test_a_planted_bit_is_found_where_it_came_from(self):
        for one in self.seen(3, faults=[{"rank": 1, "step": "nccl", "kind": "flip-bit"}]):
            for row in self.rows(one):
                if row["collective"] == "all_reduce":
                    self.assertEqual(row["wrong"], [1, 1, 1])
                elif row["collective"] == "broadcast":
                    self.assertEqual(row["wrong"], [0, 0, 0])  # rank 1 gives nothing
                elif row["collective"] == "all_gather" and row.get("sizeBytes"):
                    self.assertEqual((row["wrong"], row["wrongFrom"]), ([1, 1, 1], [0, 3, 0]))
                elif row["collective"] == "reduce_scatter" and row.get("sizeBytes"):
                    self.assertEqual(sum(row["wrong"]), 1)
                elif row["collective"] == "sendrecv":
                    self.assertEqual((row["wrong"], row["wrongFrom"]), ([0, 0, 1], [0, 1, 0]))

    def test_a_wrong_result_of_nccl_is_found_at_the_rank_that_has_it(self):
        for one in self.seen(2, env={"FAKE_NCCL_CORRUPT_RANK": "1"}):
            for row in self.rows(one):
                if row.get("sizeBytes"):
                    self.assertEqual(row["wrong"], [0, 1], row)

    def test_another_version_on_one_rank_names_it(self):
        for one in self.seen(3, env={"FAKE_NCCL_OLD_RANK": "2"}):
            self.assertIn("rank 2 on", one["measured"]["stoppedBy"]["message"])
            self.assertIn("has NCCL 2.27.7", one["measured"]["stoppedBy"]["message"])

    def test_a_network_that_is_not_there_is_an_error_where_it_is_asked_for(self):
        one = self.seen(2, nccl_step(network="AWS Libfabric"))[0]
        self.assertIn("invalid usage", one["measured"]["stoppedBy"]["message"])
        settings = {s["name"]: (s["value"], s["source"]) for s in one["settings"]}
        self.assertEqual(settings["NCCL_NET"], ("AWS Libfabric", "dlc-probe"))
        # And where it is not, the run goes on over sockets, and says so.
        self.assertEqual(value(self.seen(2)[0]["log"])["networks"], ["Socket"])

    def test_a_rank_that_stops_in_an_operation_ends_by_the_deadline(self):
        found = self.experiments(2, nccl_step(deadline_ms=6000), env={"FAKE_NCCL_STOP_RANK": "1"})
        for one in found:
            self.assertEqual(one["end"]["how"], "finished")
            stopped = value(one["seen"])["measured"]["stoppedBy"]
            self.assertEqual(stopped["code"], "timed_out")
            self.assertEqual(value(value(one["seen"])["log"])["networks"], ["Socket"])

    def test_a_rank_that_is_killed_ends_the_others_by_the_deadline_and_is_named(self):
        found = self.experiments(3, nccl_step(deadline_ms=8000), faults=[{"rank": 2, "step": "nccl", "kind": "kill"}])
        self.assertEqual(found[2]["end"]["how"], "killed")
        for one in found[:2]:
            self.assertEqual(one["end"]["how"], "finished")
            self.assertIn("rank 2", value(one["seen"])["measured"]["stoppedBy"]["message"])

    def test_no_library_is_an_error(self):
        for one in self.experiments(2, nccl_step(library="/nowhere/libnccl.so.2")):
            self.assertIn("/nowhere/libnccl.so.2", one["seen"]["error"]["message"])

    def test_no_gpu_is_an_error_beside_the_library(self):
        for one in self.seen(2, env={"FAKE_GPUS": "0"}):
            self.assertIn("no GPU", one["measured"]["stoppedBy"]["message"])
            self.assertEqual(one["library"]["versionCode"], 22809)
            self.assertNotIn("collectives", one["measured"])

    def test_the_copy_beside_torch_is_taken(self):
        with tempfile.TemporaryDirectory() as venv:
            packages = os.path.join(venv, "lib", "python3.13", "site-packages")
            os.makedirs(os.path.join(packages, "torch", "lib"))
            os.makedirs(os.path.join(packages, "nvidia", "nccl", "lib"))
            copy = os.path.join(packages, "nvidia", "nccl", "lib", "libnccl.so.2")
            shutil.copy(os.path.join(FAKES, "libnccl.so.2"), copy)
            one = self.seen(2, env={"VIRTUAL_ENV": venv})[0]
        self.assertEqual((one["library"]["library"]["path"], one["library"]["foundBy"]), (os.path.realpath(copy), "torch"))

    def test_parameters_that_are_not_good_are_refused(self):
        for bad in (dict(type="float64"), dict(collectives=["all_to_all"]), dict(collectives=[]), dict(iterations=0),
                    dict(sizesBytes=[]), dict(networks="x")):
            with self.subTest(bad=bad):
                rank = run(1, plan([nccl_step(**bad)]))[0]
                self.assertEqual(rank.code, 2)
                self.assertIn("parameters of step 'nccl'", rank.err)


if __name__ == "__main__":
    unittest.main()
