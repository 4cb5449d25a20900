#include "probes/control/ray_ranks/probe_package.h"

#include <array>
#include <cstdint>

#include "probes/control/ray_ranks/driver_text.h"
#include "probes/control/sha256/sha256.h"
#include "probes/input/read_file.h"

namespace dlc {
namespace {

/// aiohttp's limit of Ray's dashboard, less what is around dlc-probe.
constexpr std::size_t kMaxProbeBytes = 99U << 20U;

std::uint32_t Crc32(std::string_view bytes) {
  static const auto table = [] {
    std::array<std::uint32_t, 256> made{};
    for (std::uint32_t i = 0; i < made.size(); ++i) {
      std::uint32_t value = i;
      for (int bit = 0; bit < 8; ++bit) {
        value = (value & 1U) != 0 ? 0xEDB88320U ^ (value >> 1U) : value >> 1U;
      }
      made[i] = value;
    }
    return made;
  }();
  std::uint32_t crc = 0xFFFFFFFFU;
  for (const char byte : bytes) {
    crc = table[(crc ^ static_cast<unsigned char>(byte)) & 0xFFU] ^ (crc >> 8U);
  }
  return ~crc;
}

void Put(std::string& out, std::uint32_t value, int bytes) {
  for (int i = 0; i < bytes; ++i) {
    out += static_cast<char>((value >> (8 * i)) & 0xFFU);
  }
}

// APPNOTE.TXT of the zip format, sections 4.3.7, 4.3.12 and 4.3.16.
constexpr std::uint32_t kLocalHeader = 0x04034B50;
constexpr std::uint32_t kCentralHeader = 0x02014B50;
constexpr std::uint32_t kEnd = 0x06054B50;
constexpr std::uint32_t kVersion = 20;
constexpr std::uint32_t kMadeOnUnix = (3U << 8U) | kVersion;
constexpr std::uint32_t kFirstDay = (1U << 5U) | 1U;  // 1980-01-01
constexpr std::uint32_t kMode = 0100755U << 16U;      // Ray drops it; other unzips do not

/// What the two headers of a member share.
std::string Common(const ZipMember& member) {
  std::string out;
  Put(out, kVersion, 2);
  Put(out, 0, 2);  // flags
  Put(out, 0, 2);  // stored
  Put(out, 0, 2);  // midnight
  Put(out, kFirstDay, 2);
  Put(out, Crc32(member.bytes), 4);
  Put(out, static_cast<std::uint32_t>(member.bytes.size()), 4);
  Put(out, static_cast<std::uint32_t>(member.bytes.size()), 4);
  Put(out, static_cast<std::uint32_t>(member.name.size()), 2);
  Put(out, 0, 2);  // extra
  return out;
}

}  // namespace

std::string MakeZip(const std::vector<ZipMember>& members) {
  std::string zip;
  std::string directory;
  for (const ZipMember& member : members) {
    const std::string common = Common(member);
    Put(directory, kCentralHeader, 4);
    Put(directory, kMadeOnUnix, 2);
    directory += common;
    Put(directory, 0, 4);  // comment, disk
    Put(directory, 0, 2);  // internal attributes
    Put(directory, kMode, 4);
    Put(directory, static_cast<std::uint32_t>(zip.size()), 4);
    directory += member.name;
    Put(zip, kLocalHeader, 4);
    zip += common;
    zip += member.name;
    zip += member.bytes;
  }
  const auto start = static_cast<std::uint32_t>(zip.size());
  zip += directory;
  Put(zip, kEnd, 4);
  Put(zip, 0, 4);  // disks
  Put(zip, static_cast<std::uint32_t>(members.size()), 2);
  Put(zip, static_cast<std::uint32_t>(members.size()), 2);
  Put(zip, static_cast<std::uint32_t>(directory.size()), 4);
  Put(zip, start, 4);
  Put(zip, 0, 2);  // comment
  return zip;
}

Result<ProbePackage> MakeProbePackage(const std::string& probe) {
  auto bytes = ReadFileBytes(probe, kMaxProbeBytes);
  if (!bytes) {
    return std::move(bytes).error();
  }
  ProbePackage package;
  package.probe_digest = Sha256Of(*bytes);
  package.bytes = MakeZip({{"dlc-probe", *bytes},
                           {"dlc_check_driver.py", kDriverText},
                           {"dlc_check_trainer.py", kTrainerText},
                           {"dlc_check_fit.py", kFitText},
                           {"train_framework.py", kFrameworkText}});
  package.name = "dlc-check-" + Sha256Of(package.bytes).hex + ".zip";
  return package;
}

}  // namespace dlc
