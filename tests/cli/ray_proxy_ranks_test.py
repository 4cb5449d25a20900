"""`target: ray` through the service proxy of a real kube-apiserver: ranks in the actors of a real Ray of two nodes (ray_ranks_test.py),
whose dashboard is reached as ray_proxy_test.py has it, by an account that has the rights that `manifest rbac --ranks` prints. There is
no kubelet and no operator: the RayCluster, its head's pod and service are objects that lead to that Ray.

Needs KUBEBUILDER_ASSETS, DLC_RAY_PYTHON, the right to make nodes and an address beside loopback; else ctest skips it.
"""
import json
import re
import signal
import subprocess
import sys
import unittest

import kube_server
from harness import DLC_CHECK, INCOMPLETE, OK
from kube_server import NAMESPACE
from nodes import may_make_nodes
from ray_proxy_test import SERVICE, Behind, own_address
from ray_ranks_test import LEASE, PATIENCE, SKIPPED, TOKEN, Cluster, real_ray

ACCOUNT = f"system:serviceaccount:{NAMESPACE}:dlc-check"
PACKAGE = re.compile(r"/api/packages/gcs/dlc-check-[0-9a-f]{64}\.zip$")
VERBS = ("get", "create", "update", "delete")


class Proxied(Cluster, Behind):
    @classmethod
    def setUpClass(cls):
        cls.host = own_address()
        super().setUpClass()
        cls.start(cls.head.port)
        printed = subprocess.run([DLC_CHECK, "manifest", "rbac", "-n", NAMESPACE, "--only", "fsdp,checkpoint", "--ranks"],
                                 capture_output=True, text=True, check=True)
        cls.rules = cls.server.await_rights("dlc-check", cls.server.apply(printed.stdout))
        cls.account = cls.server.account_token("dlc-check")
        cls.kubeconfig = cls.server.kubeconfig("account", token=cls.account)

    def config(self, policy="", target=""):
        """Without the address of the dashboard: the cluster's is found."""
        text = super().config(policy, target).read_text()
        return self.write("ray.yaml", re.sub(r"(?m)^ray: .*\n", "", text))

    def command(self, command, config, *more):
        return super().command(command, config, "--kubeconfig", self.kubeconfig, *more)

    def uploads(self):
        return [event["responseStatus"]["code"] for event in self.server.asked(ACCOUNT)
                if event["verb"] == "update" and PACKAGE.search(event["requestURI"])]


class Open(Proxied):
    def test_ranks_run_with_the_printed_rights_and_the_probe_goes_up_once(self):
        self.look("cluster", self.config("stages: [fsdp, checkpoint]"), OK)
        for stage in ("fsdp", "checkpoint"):
            ranks = self.ranks(stage)
            self.assertEqual({rank["state"] for rank in ranks}, {"seen"}, ranks)
            self.assertEqual({rank["value"]["facts"]["host"] for rank in ranks}, {"ray-head", "ray-worker"})
        self.assert_clean()
        self.assertEqual(self.uploads(), [200])
        self.look("fsdp", self.config(), OK)
        self.assert_clean()
        # The cluster has it, since the first run of this class.
        self.assertEqual(self.uploads(), [200])
        through = [event for event in self.server.asked(ACCOUNT) if event.get("objectRef", {}).get("subresource") == "proxy"]
        self.assertEqual({event["objectRef"]["name"] for event in through}, {f"http:{SERVICE}:dashboard"})
        self.assertEqual({event["verb"] for event in through}, set(VERBS))
        self.assertNotIn(403, {event["responseStatus"]["code"] for event in self.server.asked(ACCOUNT)})
        said = self.told + "".join(path.read_text() for path in self.dir.rglob("*") if path.is_file())
        self.assertNotIn(self.account, said)

    def test_each_right_to_the_proxy_is_needed_and_is_named(self):
        asked = 0
        for path, role, rule in self.rules:
            if rule["resources"] != ["services/proxy"]:
                continue
            asked += 1
            verb, = rule["verbs"]
            with self.subTest(verb=verb), self.server.without_right("dlc-check", path, role, rule):
                self.look("fsdp", self.config(), INCOMPLETE)
                self.assertEqual(self.seen["fsdpRanks"]["state"], "not_looked_at")
                self.assertIn(f"{verb} on services/proxy in namespace {NAMESPACE}", json.dumps(self.seen["fsdpRanks"]))
                self.assert_clean()
        self.assertEqual(asked, len(VERBS))

    def test_a_client_that_is_killed_leaves_nothing(self):
        process, _ = self.start_run("checkpoint", self.config())
        self.read_until(process, "step-started storage-speed")
        process.kill()
        process.communicate()
        self.assertIn("dlc-probe", " ".join(self.left()))
        self.assert_clean(within=LEASE + 60)

    def test_an_interruption_stops_the_ranks(self):
        process, _ = self.start_run("fsdp", self.config())
        self.read_until(process, "step-started fsdp-layout")
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=PATIENCE)
        self.assertEqual(process.returncode, 130, err)
        self.assert_clean()


class Locked(Proxied):
    token = TOKEN

    def test_with_rays_token_and_without(self):
        self.look("fsdp", self.config(), OK, RAY_AUTH_TOKEN=TOKEN)
        self.assertEqual({rank["state"] for rank in self.ranks("fsdp")}, {"seen"})
        self.assert_clean()
        self.look("fsdp", self.config(), INCOMPLETE)
        self.assertEqual(self.seen["fsdpRanks"]["state"], "not_looked_at")
        self.assertIn("RAY_AUTH_TOKEN", json.dumps(self.seen["fsdpRanks"]))


if __name__ == "__main__":
    if not kube_server.available() or own_address() is None:
        print("SKIPPED: no real kube-apiserver (KUBEBUILDER_ASSETS), or no address but loopback")
        sys.exit(SKIPPED)
    if not real_ray.PYTHON:
        print("SKIPPED: no real Ray: set DLC_RAY_PYTHON to a python with ray[default] (bash tests/ray/install.sh DIR)")
        sys.exit(SKIPPED)
    if not may_make_nodes():
        print("SKIPPED: no right to make mount namespaces: no second node")
        sys.exit(SKIPPED)
    unittest.main(verbosity=2)
