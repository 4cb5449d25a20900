"""nccl-collectives on ranks whose NCCL and libcuda are fakes (tests/fakes/nccl): no GPU is needed."""

import hashlib
import shutil
import threading

from ranks import *

FAKES = os.environ["DLC_FAKE_NCCL_DIR"]
ALL = ["all_reduce", "all_gather", "reduce_scatter", "broadcast", "send_recv"]


def nccl_step(deadline_ms=20000, **parameters):
    whole = {"collectives": ALL, "sizesBytes": [8, 4096, 65536], "warmUp": 1, "iterations": 5}
    return step("nccl-collectives", deadline_ms, "nccl", **dict(whole, **parameters))


def value(observed):
    return observed["value"] if observed["state"] == "seen" else None


class FakeRas:
    """NCCL's RAS for any number of clients: `answer` to "VERBOSE STATUS", or silence."""

    def __init__(self, answer):
        self.answer, self.clients, self.threads = answer, [], []
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.address = "127.0.0.1:%d" % self.listener.getsockname()[1]

    def __enter__(self):
        self.start(self.accept)
        return self

    def __exit__(self, *_):
        self.listener.shutdown(socket.SHUT_RDWR)
        for thread in self.threads:
            thread.join()
        self.listener.close()

    def start(self, work, *arguments):
        self.threads.append(threading.Thread(target=work, args=arguments))
        self.threads[-1].start()

    def accept(self):
        while True:
            try:
                client = self.listener.accept()[0]
            except OSError:
                return
            self.start(self.serve, client)

    def serve(self, client):
        lines = []
        self.clients.append(lines)
        with client, client.makefile("rw") as stream:
            for line in stream:
                lines.append(line.rstrip("\n"))
                if lines[-1] == "VERBOSE STATUS" and self.answer is not None:
                    client.sendall(self.answer)
                    return
                if self.answer is not None:
                    client.sendall(b"SERVER PROTOCOL 2\n" if lines[-1].startswith("CLIENT") else b"OK\n")


class Nccl(unittest.TestCase):
    def experiments(self, ranks, the_step=None, faults=(), env=None):
        """What each rank saw, in the order of ranks: {"seen": .., "end": ..}. `env` may be a function of the rank."""
        def whole(rank):
            return dict({"LD_LIBRARY_PATH": FAKES, "PATH": "/nowhere", "VIRTUAL_ENV": "", "PYTHONPATH": ""},
                        **((env(rank) if callable(env) else env) or {}))
        done = run(ranks, plan([the_step or nccl_step()], faults), env=whole)
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
                    self.assertEqual(len(rows), 3 * (2 * 4 + 1))  # send_recv is never in place
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
                elif row["collective"] == "send_recv":
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
        one = self.seen(2, nccl_step(settings=["NCCL_NET=AWS Libfabric"]))[0]
        self.assertIn("invalid usage", one["measured"]["stoppedBy"]["message"])
        settings = {s["name"]: (s["value"], s["source"]) for s in one["settings"]}
        self.assertEqual(settings["NCCL_NET"], ("AWS Libfabric", "dlc-probe"))
        # And where it is not, the run goes on over sockets, and says so.
        self.assertEqual(value(self.seen(2)[0]["log"])["networks"], ["Socket"])

    def environments(self, ranks, the_step, env=None):
        """The environment of each rank's NCCL when it was loaded, and what the ranks saw."""
        with tempfile.TemporaryDirectory() as directory:
            seen = self.seen(ranks, the_step, env=dict(env or {}, FAKE_NCCL_ENVIRONMENT=directory))
            found = []
            for rank in range(ranks):
                with open(os.path.join(directory, str(rank))) as file:
                    found.append(dict(entry.split("=", 1) for entry in file.read().split("\0") if entry))
            return found, seen

    OWN = {"NCCL_DEBUG", "NCCL_DEBUG_FILE", "NCCL_DEBUG_SUBSYS"}

    def test_without_settings_the_environment_is_the_jobs_but_for_the_log(self):
        with tempfile.TemporaryDirectory() as home:
            with open(os.path.join(home, ".nccl.conf"), "w") as file:
                file.write("NCCL_DEBUG_SUBSYS=NET\nNCCL_ALGO=Tree\n")
            jobs = {"HOME": home, "NCCL_DEBUG": "WARN", "NCCL_NET": "Socket", "FI_PROVIDER": "efa", "OFI_NCCL_X": "",
                    "NCCL_HOSTID": "mine"}
            environments, seen = self.environments(2, nccl_step(), jobs)
            conf = os.path.join(home, ".nccl.conf")
        for rank, (environment, one) in enumerate(zip(environments, seen)):
            given = dict(os.environ, LD_LIBRARY_PATH=FAKES, PATH="/nowhere", VIRTUAL_ENV="", PYTHONPATH="", RANK=str(rank), **jobs)
            ours = {"WORLD_SIZE", "LOCAL_RANK", "MASTER_ADDR", "MASTER_PORT", "DLC_CHECK_RUN_SECRET", "FAKE_NCCL_ENVIRONMENT"}
            names = {name for name in set(environment) | set(given) if environment.get(name) != given.get(name)}
            self.assertEqual(names - ours, self.OWN)
            self.assertNotIn("DLC_CHECK_RUN_SECRET", environment)
            self.assertEqual(environment["NCCL_DEBUG"], "INFO")
            settings = {s["name"]: (s.get("value", ""), s["source"]) for s in one["settings"]}
            self.assertEqual({name for name, (_, source) in settings.items() if source == "dlc-probe"}, self.OWN)
            self.assertEqual(settings["NCCL_NET"], ("Socket", "environment"))
            # What the log took the place of is told, the file's as well.
            self.assertEqual([(s["name"], s["value"], s["source"]) for s in one["replacedSettings"]],
                             [("NCCL_DEBUG", "WARN", "environment"), ("NCCL_DEBUG_SUBSYS", "NET", conf)])

    def test_settings_are_there_when_nccl_is_loaded_and_told_as_ours(self):
        jobs = {"NCCL_NET": "Socket", "FI_PROVIDER": "efa", "FAKE_NCCL_NETWORK": "Libfabric", "NCCL_PROTO": "LL"}
        wanted = ["NCCL_NET=Libfabric", "FI_EFA_USE_HUGE_PAGE=0", "OFI_NCCL_PROTOCOL=SENDRECV", "NCCL_PROTO=LL"]
        environments, seen = self.environments(2, nccl_step(settings=wanted), jobs)
        for environment, one in zip(environments, seen):
            for setting in wanted:
                name, wanted_value = setting.split("=", 1)
                self.assertEqual(environment[name], wanted_value)
                self.assertIn({"name": name, "value": wanted_value, "source": "dlc-probe"}, one["settings"])
            self.assertEqual(environment["FI_PROVIDER"], "efa")
            self.assertIn({"name": "FI_PROVIDER", "value": "efa", "source": "environment"}, one["settings"])
            self.assertEqual(one["replacedSettings"], [{"name": "NCCL_NET", "value": "Socket", "source": "environment"}])
            self.assertEqual(value(one["log"])["networks"], ["Libfabric"])

    def test_each_rank_has_a_host_id_of_its_own_where_that_is_asked_for(self):
        environments, seen = self.environments(3, nccl_step(hostIdPerRank=True), {"NCCL_HOSTID": "mine"})
        for rank, (environment, one) in enumerate(zip(environments, seen)):
            self.assertEqual(environment["NCCL_HOSTID"], f"dlc-check-{rank}")
            self.assertIn({"name": "NCCL_HOSTID", "value": f"dlc-check-{rank}", "source": "dlc-probe"}, one["settings"])
            self.assertEqual(one["replacedSettings"], [{"name": "NCCL_HOSTID", "value": "mine", "source": "environment"}])
            self.rows(one)  # and that they differ is no reason to refuse
        environments, _ = self.environments(2, nccl_step())
        self.assertFalse([e for e in environments if "NCCL_HOSTID" in e])

    def test_a_fallback_is_silent_unless_the_network_is_asked_for(self):
        env = {"NCCL_NET_PLUGIN": "/nowhere.so"}
        for one in self.seen(2, env=env):
            self.rows(one)
            self.assertEqual(value(one["log"])["networks"], ["Socket"])
            self.assertEqual(value(one["log"])["pluginNotLoaded"], "Could not find: /nowhere.so")
        for one in self.seen(2, nccl_step(settings=["NCCL_NET=AWS Libfabric"]), env=env):
            self.assertIn("invalid usage", one["measured"]["stoppedBy"]["message"])
            self.assertEqual(value(one["log"])["pluginNotLoaded"], "Could not find: /nowhere.so")

    def test_a_rank_that_cannot_begin_is_named_by_those_who_wait_for_it(self):
        def env(rank):
            return {"NCCL_SOCKET_IFNAME": "wrong0" if rank == 1 else "lo"}
        found = self.seen(3, nccl_step(deadline_ms=6000), env=env)
        self.assertEqual(found[1]["measured"]["stoppedBy"]["message"], "ncclCommInitRankConfig: internal error")
        for one in (found[0], found[2]):
            self.assertRegex(one["measured"]["stoppedBy"]["message"],
                             r"^ncclCommInitRankConfig did not end by its deadline; "
                             r"rank 1 on \S+ stopped: ncclCommInitRankConfig: internal error$")
        for one in self.seen(2, env={"NCCL_SOCKET_IFNAME": "wrong0"}):
            self.assertIn("rank 0: ncclGetUniqueId: internal error", one["measured"]["stoppedBy"]["message"])

    def test_settings_that_differ_between_ranks_name_the_rank(self):
        for one in self.seen(3, env=lambda rank: {"NCCL_PROTO": "LL" if rank == 1 else "Simple"}):
            stopped = one["measured"]["stoppedBy"]["message"]
            self.assertIn("rank 1 on", stopped)
            self.assertIn("'NCCL_PROTO=LL', rank 0 has 'NCCL_PROTO=Simple'", stopped)

    def test_every_operation_is_counted(self):
        for warm_up in (0, 3):
            with self.subTest(warm_up=warm_up):
                for row in self.rows(self.seen(2, nccl_step(warmUp=warm_up))[0]):
                    # 5 are timed and one is compared; the warm-up is out of place
                    self.assertEqual(row["operations"], 6 + (0 if row.get("inPlace") else warm_up), row)

    def test_ranks_without_efa_devices_look_at_no_counters(self):
        one = self.seen(2)[0]
        for key in ("efaCountersBefore", "efaCountersAfter"):
            self.assertEqual(one[key]["state"], "not_looked_at")

    def test_a_rank_that_stops_in_an_operation_ends_by_the_deadline(self):
        found = self.experiments(2, nccl_step(deadline_ms=6000), env={"FAKE_NCCL_STOP_RANK": "1"})
        for one in found:
            self.assertEqual(one["end"]["how"], "finished")
            stopped = value(one["seen"])["measured"]["stoppedBy"]
            self.assertEqual(stopped["code"], "timed_out")
            self.assertEqual(value(value(one["seen"])["log"])["networks"], ["Socket"])

    def test_ranks_that_hang_tell_how_far_each_came_and_what_ras_says(self):
        # Of all_reduce a warm-up of 8 bytes, 4096 and 65536; a check; then 5 timed, of which the third never ends.
        the_step = nccl_step(deadline_ms=6000, collectives=["all_reduce"])
        with FakeRas(b'{"communicators": []}\n') as ras:
            found = self.experiments(2, the_step, env={"FAKE_NCCL_STOP_RANK": "1", "FAKE_NCCL_AFTER": "6",
                                                       "NCCL_RAS_ADDR": ras.address})
        for one in found:
            self.assertEqual(one["end"]["how"], "finished")
            seen = value(one["seen"])
            self.assertEqual(seen["reached"], {"phase": "timed", "collective": "all_reduce", "askedBytes": 8, "started": 5})
            self.assertEqual(seen["measured"]["stoppedBy"]["message"],
                             "all_reduce of 8 bytes out of place, timed: the operation did not end by its deadline")
            self.assertEqual(value(seen["ras"]), '{"communicators": []}\n')
        self.assertEqual([lines[0] for lines in ras.clients], ["CLIENT PROTOCOL 2"] * 2)
        self.assertEqual([lines[2:] for lines in ras.clients], [["SET FORMAT json", "VERBOSE STATUS"]] * 2)

    def test_a_ras_that_does_not_answer_holds_up_nobody(self):
        with FakeRas(None) as ras:
            found = self.experiments(2, nccl_step(deadline_ms=6000), env={"FAKE_NCCL_STOP_RANK": "1",
                                                                         "NCCL_RAS_ADDR": ras.address})
        for one in found:
            self.assertEqual(one["end"]["how"], "finished")
            self.assertEqual(value(one["seen"])["ras"]["error"]["code"], "timed_out")

    def test_a_communicator_that_is_never_made_ends_by_the_deadline(self):
        with FakeRas(b"{}") as ras:
            found = self.seen(2, nccl_step(deadline_ms=6000), env={"FAKE_NCCL_NO_INIT_RANK": "1", "NCCL_RAS_ADDR": ras.address})
        for one in found:
            self.assertEqual(one["reached"], {"phase": "init"})
            self.assertEqual(one["measured"]["stoppedBy"]["code"], "timed_out")
            self.assertIn("ncclCommInitRankConfig did not end", one["measured"]["stoppedBy"]["message"])
            self.assertEqual(value(one["ras"]), "{}")

    def test_a_run_that_ends_well_asks_no_ras(self):
        for one in self.seen(2, env={"NCCL_RAS_ADDR": "127.0.0.1:1"}):
            self.assertEqual(one["reached"], {"phase": "done"})
            self.assertEqual(one["ras"]["state"], "not_looked_at")

    def test_a_rank_that_dies_in_an_operation_is_named_by_the_others(self):
        found = self.experiments(3, nccl_step(deadline_ms=6000), env={"FAKE_NCCL_DIE_RANK": "2", "FAKE_NCCL_AFTER": "4"})
        self.assertEqual((found[2]["end"]["how"], found[2]["end"]["signalName"]), ("killed", "SIGKILL"))
        self.assertEqual(found[2]["end"]["lastProgress"], "measuring all_reduce")
        for one in found[:2]:
            self.assertEqual(one["end"]["how"], "finished")
            self.assertRegex(value(one["seen"])["measured"]["stoppedBy"]["message"],
                             r"^all_reduce of 8 bytes out of place, .*; rank 2 on \S+ was lost")

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
                    dict(sizesBytes=[]), dict(networks="x"), dict(settings=["NCCL_DEBUG_FILE=/x"]),
                    dict(settings=["LD_PRELOAD=/x.so"]), dict(hostIdPerRank=1)):
            with self.subTest(bad=bad):
                rank = run(1, plan([nccl_step(**bad)]))[0]
                self.assertEqual(rank.code, 2)
                self.assertIn("parameters of step 'nccl'", rank.err)


if __name__ == "__main__":
    unittest.main()
