#include "cmd/dlc-check/manifest_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "probes/control/kubernetes/rights.h"
#include "probes/control/ray/ray_route.h"

namespace dlc {
namespace {

constexpr std::string_view kStandsFor =
    R"(# The least rights that 'dlc-check' needs for these stages: {stages}.
{what_it_does} The Role is for the namespace of the RayCluster; nodes belong to no namespace.
{dashboard}apiVersion: v1
kind: ServiceAccount
metadata:
  name: {name}
  namespace: {namespace}
)";

constexpr std::string_view kReadsOnly = "# It reads; it creates and changes nothing.";
constexpr std::string_view kStartsRanks =
    "# For target ray: create, update and delete on services/proxy let who has them run code in "
    "the "
    "Ray cluster,\n"
    "# which is what ranks are, and send any request to every service of the namespace.\n#";

constexpr std::string_view kOfTheDashboard =
    "# get on services/proxy is the way to Ray's dashboard: it lets who has it send GET to every "
    "service of the namespace.\n"
    "# Without the rule the dashboard is not looked at, unless --ray-address names another way to "
    "it.\n";

constexpr std::string_view kBound = R"(---
apiVersion: rbac.authorization.k8s.io/v1
kind: {kind}
metadata:
  name: {rbac_name}
{namespace_line}rules:
{rules}---
apiVersion: rbac.authorization.k8s.io/v1
kind: {kind}Binding
metadata:
  name: {rbac_name}
{namespace_line}roleRef:
  apiGroup: rbac.authorization.k8s.io
  kind: {kind}
  name: {rbac_name}
subjects:
- kind: ServiceAccount
  name: {name}
  namespace: {namespace}
)";

/// The rules that the tests have seen unknown, and no other.
constexpr std::string_view kWithImage =
    R"(# Of stage image, what runs inside the pods cannot be looked at from here. To let the Job pass, its policy has to say so:
#   severity:
#     image-release/efa-installer: warn
#     ray-version/one-running-version: warn
#     ray-version/running-matches-expected: warn
#     ray-version/python-matches-expected: warn
)";
constexpr std::string_view kWithoutImage =
    "# Stage image is left out: some of its rules are about what runs inside the pods, which "
    "cannot be looked at from here.\n"
    "# 'dlc-check manifest job --only image,gpu,nccl' says what the policy needs then.\n";

constexpr std::string_view kJob =
    R"(# Runs dlc-check in the cluster, with the rights of 'dlc-check manifest rbac'. The Job fails unless the run passed:
#   kubectl wait --for=condition=complete job/{name} -n {namespace} --timeout=15m
# Before it: a PersistentVolumeClaim '{claim}' for the evidence and, to judge by a policy of your own,
#   kubectl create configmap {name} -n {namespace} --from-file=policy.yaml
{image_note}apiVersion: batch/v1
kind: Job
metadata:
  name: {name}
  namespace: {namespace}
spec:
  backoffLimit: 0                  # what was found once is found again; every run has a report of its own
  activeDeadlineSeconds: 1800
  template:
    metadata:
      labels:
        app.kubernetes.io/name: dlc-check
    spec:
      restartPolicy: Never
      serviceAccountName: {name}
      automountServiceAccountToken: true
      securityContext:
        runAsNonRoot: true
        runAsUser: 65532
        runAsGroup: 65532
        fsGroup: 65532             # so that the evidence can be written
        seccompProfile:
          type: RuntimeDefault
      containers:
      - name: dlc-check
        image: {image}
        command:
        - /bin/sh
        - -c
        - >-
          if [ -e /config/policy.yaml ]; then set -- --policy /config/policy.yaml; fi;
          exec dlc-check cluster --only {stages} --namespace {namespace} --out "/evidence/$POD_NAME" --no-sign "$@"
        - dlc-check
        env:
        - name: POD_NAME
          valueFrom:
            fieldRef:
              fieldPath: metadata.name
        - name: HOME
          value: /tmp
        securityContext:
          allowPrivilegeEscalation: false
          readOnlyRootFilesystem: true
          capabilities:
            drop:
            - ALL
        resources:
          requests:
            cpu: 100m
            memory: 128Mi
          limits:
            memory: 512Mi
        volumeMounts:
        - name: evidence
          mountPath: /evidence
        - name: config
          mountPath: /config
          readOnly: true
        - name: tmp
          mountPath: /tmp
      volumes:
      - name: evidence
        persistentVolumeClaim:
          claimName: {claim}
      - name: config
        configMap:
          name: {name}
          optional: true
      - name: tmp
        emptyDir: {{}}
)";

std::string StageList(const std::vector<Stage>& stages) {
  std::string list;
  for (const Stage stage : stages) {
    list += (list.empty() ? "" : ",") + std::string(StageName(stage));
  }
  return list;
}

/// One rule a resource: each can be taken away alone.
std::string Rule(const KubeRight& right) {
  const std::string names = right.name.empty() ? "" : "  resourceNames: [\"" + right.name + "\"]\n";
  return fmt::format("- apiGroups: [\"{}\"]\n  resources: [\"{}\"]\n{}  verbs: [\"{}\"]\n",
                     right.group,
                     right.resource + (right.subresource.empty() ? "" : "/" + right.subresource),
                     names, right.verb);
}

std::string Bound(const ManifestOptions& options, bool cluster_wide, const std::string& rules) {
  const std::string kind = cluster_wide ? "ClusterRole" : "Role";
  // A name that is the cluster's must not meet another namespace's.
  const std::string name = cluster_wide ? options.name + "-" + options.name_space : options.name;
  return fmt::format(
      fmt::runtime(kBound), fmt::arg("kind", kind), fmt::arg("rbac_name", name),
      fmt::arg("namespace_line",
               cluster_wide ? std::string() : "  namespace: " + options.name_space + "\n"),
      fmt::arg("rules", rules), fmt::arg("name", options.name),
      fmt::arg("namespace", options.name_space));
}

}  // namespace

std::string RbacManifest(const ManifestOptions& options) {
  std::string namespaced;
  std::string cluster_wide;
  for (const KubeRight& right : RightsOf(options.stages, options.name_space)) {
    (right.name_space.empty() ? cluster_wide : namespaced) += Rule(right);
  }
  if (options.ranks) {
    const KubeRight get = ServiceProxyRight(options.name_space);
    namespaced += namespaced.find("services/proxy") == std::string::npos ? Rule(get) : "";
    for (const KubeRight& right : RankRights(options.name_space)) {
      namespaced += Rule(right);
    }
  }
  const bool dashboard = namespaced.find("services/proxy") != std::string::npos;
  if (dashboard && !options.token_secret.empty()) {
    namespaced += Rule({"get", "", "secrets", "", options.name_space, options.token_secret});
  }
  std::string text =
      fmt::format(fmt::runtime(kStandsFor), fmt::arg("stages", StageList(options.stages)),
                  fmt::arg("what_it_does", options.ranks ? kStartsRanks : kReadsOnly),
                  fmt::arg("dashboard", dashboard ? kOfTheDashboard : ""),
                  fmt::arg("name", options.name), fmt::arg("namespace", options.name_space));
  text += namespaced.empty() ? "" : Bound(options, false, namespaced);
  text += cluster_wide.empty() ? "" : Bound(options, true, cluster_wide);
  return text;
}

std::string JobManifest(const ManifestOptions& options) {
  const bool image = std::find(options.stages.begin(), options.stages.end(), Stage::kImage) !=
                     options.stages.end();
  return fmt::format(fmt::runtime(kJob), fmt::arg("name", options.name),
                     fmt::arg("namespace", options.name_space), fmt::arg("image", options.image),
                     fmt::arg("stages", StageList(options.stages)),
                     fmt::arg("image_note", image ? kWithImage : kWithoutImage),
                     fmt::arg("claim", options.volume_claim));
}

}  // namespace dlc
