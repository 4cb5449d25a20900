#include "probes/node/nccl/nccl_settings.h"

#include <doctest/doctest.h>
#include <stdlib.h>

#include <string>
#include <vector>

namespace dlc {
namespace {

TEST_CASE("nccl settings of a step: what may be set") {
  const auto settings =
      ParseNcclSettings({"NCCL_NET=AWS Libfabric", "FI_PROVIDER=", "OFI_NCCL_PROTOCOL=RDMA=x"});
  REQUIRE(settings.has_value());
  CHECK(*settings == std::vector<NcclSetting>{{"NCCL_NET", "AWS Libfabric", "dlc-probe"},
                                              {"FI_PROVIDER", "", "dlc-probe"},
                                              {"OFI_NCCL_PROTOCOL", "RDMA=x", "dlc-probe"}});
  CHECK(ParseNcclSettings({})->empty());
}

TEST_CASE("nccl settings of a step: what may not is refused by name") {
  const auto refusal = [](const std::vector<std::string>& lines) {
    const auto settings = ParseNcclSettings(lines);
    return settings ? "accepted" : settings.error().message + " | " + settings.error().hint;
  };
  for (const std::string line :
       {"LD_PRELOAD=/x.so", "PATH=/x", "NCCL_=1", "NCCL_NET", "=1", "", "nccl_net=Socket",
        "NCCL_NET =Socket", "CUDA_VISIBLE_DEVICES=0", "XNCCL_NET=1", "FI_=1"}) {
    CAPTURE(line);
    CHECK(refusal({"NCCL_A=1", line}) ==
          "$.settings[1]: '" + line + "' sets no variable of NCCL, its plugin or libfabric | " +
              "NCCL_NAME=VALUE, FI_NAME=VALUE or OFI_NCCL_NAME=VALUE");
  }
  for (const std::string name :
       {"NCCL_DEBUG", "NCCL_DEBUG_FILE", "NCCL_DEBUG_SUBSYS", "NCCL_DEBUG_TIMESTAMP_FORMAT",
        "NCCL_HOSTID", "NCCL_COMM_ID", "NCCL_CONF_FILE"}) {
    CAPTURE(name);
    CHECK(refusal({name + "=x"})
              .starts_with("$.settings[0]: " + name + " is the experiment's own | "));
  }
  CHECK(refusal({"NCCL_NET=a\nb"}).starts_with("$.settings[0]: the value of NCCL_NET holds"));
  CHECK(refusal({"NCCL_NET=a", "NCCL_NET=a"}) == "$.settings[1]: NCCL_NET is set twice | ");
  std::vector<std::string> many;
  for (int i = 0; i < 65; ++i) {
    many.push_back("NCCL_X" + std::to_string(i) + "=1");
  }
  CHECK(refusal(many) == "$.settings[64]: these are more than 64 | ");
}

TEST_CASE("nccl settings of a step: set, named, and the job's own kept beside them") {
  const std::vector<NcclSetting> ours = {{"NCCL_TEST_A", "1", "dlc-probe"},
                                         {"NCCL_TEST_B", "2", "dlc-probe"}};
  SetNcclSettings(ours);
  // NOLINTBEGIN(concurrency-mt-unsafe)
  CHECK(std::string(getenv("NCCL_TEST_A")) == "1");
  CHECK(std::string(getenv("NCCL_TEST_B")) == "2");
  // NOLINTEND(concurrency-mt-unsafe)
  std::vector<NcclSetting> settings = {{"NCCL_TEST_A", "1", "environment"},
                                       {"NCCL_TEST_C", "3", "/etc/nccl.conf"}};
  NameOurSettings(ours, settings);
  CHECK(settings == std::vector<NcclSetting>{{"NCCL_TEST_A", "1", "dlc-probe"},
                                             {"NCCL_TEST_C", "3", "/etc/nccl.conf"}});
  // The same value is no conflict.
  CHECK(ReplacedSettings({{"NCCL_TEST_A", "1", "environment"},
                          {"NCCL_TEST_B", "x", "/etc/nccl.conf"},
                          {"NCCL_TEST_C", "3", "environment"}},
                         ours) == std::vector<NcclSetting>{{"NCCL_TEST_B", "x", "/etc/nccl.conf"}});
  CHECK(NcclHostIdOf(3) == NcclSetting{"NCCL_HOSTID", "dlc-check-3", "dlc-probe"});
}

}  // namespace
}  // namespace dlc
