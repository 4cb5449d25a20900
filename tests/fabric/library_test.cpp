#include <doctest/doctest.h>
#include <signal.h>

#include <string>

#include "probes/node/fabric/libfabric.h"
#include "probes/node/fabric/node_facts.h"
#include "probes/node/fabric/provider.h"
#include "tests/fabric/forked_ranks.h"

namespace dlc {
namespace {

bool Contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("the system's libfabric is loaded by versioned symbols, and told by path and build id") {
  const auto libfabric = Libfabric::Load("");
  REQUIRE(libfabric.has_value());
  const LoadedLibrary library = (*libfabric)->Describe();
  CHECK(library.path.front() == '/');
  CHECK(Contains(library.path, "libfabric.so.1."));  // the file, not the link
  CHECK(Contains(library.version, "."));
  CHECK(library.build_id.size() == 40);
}

TEST_CASE("the EFA installer's copy is looked for before the system's") {
  const auto candidates = LibfabricCandidates();
  REQUIRE(candidates.size() == 3);
  CHECK(candidates[0] == "/opt/amazon/efa/lib64/libfabric.so.1");
  CHECK(candidates[1] == "/opt/amazon/efa/lib/libfabric.so.1");
  CHECK(candidates[2] == "libfabric.so.1");
}

TEST_CASE("a library that is not there is not found, and named") {
  const auto libfabric = Libfabric::Load("/nowhere/libfabric.so.1");
  REQUIRE_FALSE(libfabric.has_value());
  CHECK(libfabric.error().code == ErrorCode::kNotFound);
  CHECK(Contains(libfabric.error().message, "/nowhere/libfabric.so.1"));
}

TEST_CASE("loading libfabric leaves the process's signal handlers alone") {
  // In a process of its own: here other tests have loaded it already.
  const auto body = [](Exchange& /*exchange*/) -> std::string {
    const auto handler = [](int number) {
      struct sigaction action {};
      sigaction(number, nullptr, &action);
      return action.sa_handler;
    };
    const auto before = handler(SIGTERM);
    if (auto libfabric = Libfabric::Load(""); !libfabric) {
      return libfabric.error().message;
    }
    for (const int number : {SIGINT, SIGTERM, SIGSEGV, SIGABRT}) {
      if (handler(number) != before) {
        return "signal " + std::to_string(number) + " was taken";
      }
    }
    return "";
  };
  CHECK(Trouble(RunRanks(1, body)) == "");
}

TEST_CASE("a missing symbol is named with its version and the file") {
  const auto libfabric = Libfabric::Load(DLC_FAKE_FABRIC_WITHOUT_GETINFO);
  REQUIRE_FALSE(libfabric.has_value());
  CHECK(libfabric.error().code == ErrorCode::kUnsupported);
  CHECK(Contains(libfabric.error().message, "fi_getinfo@FABRIC_1.3"));
  CHECK(Contains(libfabric.error().message, DLC_FAKE_FABRIC_WITHOUT_GETINFO));
}

TEST_CASE("an error of fi_getinfo is an unavailable observation, not an empty list") {
  FabricOptions options;
  options.library_path = DLC_FAKE_FABRIC_ERROR;
  const NodeFabric node = ObserveFabric(options, "/nowhere");
  REQUIRE(node.libfabric.seen());
  CHECK(node.libfabric.value().version == "9.1");
  REQUIRE(node.providers.failed());
  CHECK(Contains(node.providers.error().message, "out of memory, says the fake"));
}

TEST_CASE("a provider that does not exist is an error that names it") {
  const auto libfabric = Libfabric::Load("");
  REQUIRE(libfabric.has_value());
  FabricOptions options;
  options.provider = "no-such-provider";
  const auto list = QueryProviders(**libfabric, options);
  REQUIRE_FALSE(list.has_value());
  CHECK(list.error().code == ErrorCode::kNotFound);
  CHECK(Contains(list.error().message, "no-such-provider"));
}

TEST_CASE("neither udp, sockets nor shm is chosen unless asked for") {
  const auto libfabric = Libfabric::Load("");
  REQUIRE(libfabric.has_value());
  const auto list = QueryProviders(**libfabric, {});
  REQUIRE(list.has_value());
  const auto chosen = ChooseProvider(list->get(), {});
  REQUIRE(chosen.has_value());
  const std::string name = DescribeProvider(**libfabric, **chosen).name;
  CHECK((name == "efa" || name == "tcp" || name == "net" || name == "tcp;ofi_rxm"));
  FabricOptions shm;
  shm.provider = "shm";
  const auto asked = QueryProviders(**libfabric, shm);
  REQUIRE(asked.has_value());
  const auto local = ChooseProvider(asked->get(), shm);
  REQUIRE(local.has_value());
  CHECK(DescribeProvider(**libfabric, **local).name == "shm");
}

}  // namespace dlc
