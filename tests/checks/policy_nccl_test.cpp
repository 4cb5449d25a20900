#include <doctest/doctest.h>

#include <string>

#include "checks/policy_yaml.h"

namespace dlc {
namespace {

Result<Policy> Read(const std::string& nccl) {
  return ParsePolicy("apiVersion: dlc-check/v1\nkind: Policy\nnccl:\n" + nccl, "p.yaml");
}

std::string Refused(const std::string& nccl) {
  const auto policy = Read(nccl);
  REQUIRE_FALSE(policy.has_value());
  CHECK(policy.error().code == ErrorCode::kInvalidInput);
  CHECK(policy.error().message.starts_with("p.yaml: line "));
  return policy.error().message;
}

bool Has(const std::string& text, const std::string& part) {
  CAPTURE(text);
  return text.find(part) != std::string::npos;
}

TEST_CASE("policy nccl: every key is read") {
  const auto policy = Read(
      "  measure: required\n"
      "  transport: EFA_LOGGED\n"
      "  transportByInstanceType: {g6.4xlarge: any, p5.48xlarge: EFA_PROVEN}\n"
      "  gpuDirect: required\n"
      "  insideNode: P2P\n"
      "  collectives: [all_reduce, broadcast]\n"
      "  types: [bfloat16]\n"
      "  sizes: [8, 1048576, 268435456]\n"
      "  tcpControl: true\n"
      "  minBusBandwidth:\n"
      "    - {collective: all_reduce, type: bfloat16, sizeBytes: 1073741824, shareOfLineRate: "
      "0.7}\n"
      "    - {collective: broadcast, type: bfloat16, sizeBytes: 8, bytesPerSecond: 2.5e+9}\n");
  REQUIRE_MESSAGE(policy.has_value(), policy.error().message);
  const NcclPolicy& nccl = policy->nccl;
  CHECK(nccl.measure == "required");
  CHECK(nccl.transport == "EFA_LOGGED");
  CHECK(nccl.transport_of_type.at("g6.4xlarge") == "any");
  CHECK(nccl.transport_of_type.at("p5.48xlarge") == "EFA_PROVEN");
  CHECK(nccl.gpu_direct == "required");
  CHECK(nccl.inside_node == "P2P");
  CHECK(nccl.collectives == std::vector<std::string>{"all_reduce", "broadcast"});
  CHECK(nccl.types == std::vector<std::string>{"bfloat16"});
  CHECK(nccl.sizes_bytes == std::vector<std::int64_t>{8, 1048576, 268435456});
  CHECK(nccl.tcp_control);
  REQUIRE(nccl.min_bus_bandwidth.size() == 2);
  CHECK(nccl.min_bus_bandwidth[0].size_bytes == 1073741824);
  CHECK(nccl.min_bus_bandwidth[0].share_of_line_rate == 0.7);
  CHECK(nccl.min_bus_bandwidth[1].bytes_per_second == 2.5e9);
}

TEST_CASE("policy nccl: what cannot be meant is refused, with the line") {
  CHECK(Has(Refused("  transport: EFA\n"), "line 4"));
  CHECK(Has(Refused("  transport: TCP_PROVEN\n"), "transport"));
  CHECK(Has(Refused("  transportByInstanceType: {g6.12xlarge: yes}\n"), "g6.12xlarge"));
  CHECK(Has(Refused("  insideNode: NVLink\n"), "insideNode"));
  CHECK(Has(Refused("  collectives: []\n"), "must not be empty"));
  CHECK(Has(Refused("  collectives: [all_reduce, allgather]\n"), "allgather"));
  CHECK(Has(Refused("  collectives: [broadcast, broadcast]\n"), "twice"));
  CHECK(Has(Refused("  types: [float16]\n"), "float16"));
  CHECK(Has(Refused("  sizes: [8, 8]\n"), "ascend"));
  CHECK(Has(Refused("  sizes: [0]\n"), "whole number of bytes"));
  CHECK(Has(Refused("  sizes: [1.5]\n"), "whole number of bytes"));
  CHECK(Has(Refused("  sizes: [99999999999]\n"), "whole number of bytes"));
  CHECK(Has(Refused("  minBusBandwidth: [{collective: all_reduce, sizeBytes: 8}]\n"), "one of"));
  CHECK(Has(Refused("  minBusBandwidth:\n    - {collective: all_reduce, sizeBytes: 8, "
                    "bytesPerSecond: 1, shareOfLineRate: 0.5}\n"),
            "one of"));
  CHECK(Has(Refused("  minBusBandwidth: [{collective: all_reduce, sizeBytes: 8, shareOfLineRate: "
                    "1.5}]\n"),
            "shareOfLineRate"));
  CHECK(Has(Refused("  collectives: [broadcast]\n  minBusBandwidth: [{collective: all_reduce, "
                    "sizeBytes: 8, bytesPerSecond: 1}]\n"),
            "leave out"));
  CHECK(Has(Refused("  measure: no\n  minBusBandwidth: [{collective: all_reduce, sizeBytes: 8, "
                    "bytesPerSecond: 1}]\n"),
            "measure: no"));
  CHECK(Has(Refused("  measure: no\n  transport: EFA_LOGGED\n"), "measure: no"));
  CHECK(Has(Refused("  transprot: any\n"), "unknown key 'transprot'"));
}

}  // namespace
}  // namespace dlc
