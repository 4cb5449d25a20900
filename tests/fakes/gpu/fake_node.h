#pragma once

#include <cstdlib>
#include <string>

/// What the fakes of NVML and libcuda pretend, from the variable DLC_FAKE_GPU: "gpus=8;lost=3;...".
/// Keys: gpus, cuda (how many CUDA shows; as many as gpus), first (of the numbers that uuids end
/// in: GPUs of several nodes differ; 0), model, mixed (this one is another model), lost, forbidden,
/// mig, pending, narrow, busy, ecc (indices; -1: none), init (nvmlInit's code), cuinit (cuInit's
/// code; "hang": never returns), nvlinks (of each GPU; 0), linkdown (index: its link 1 is down),
/// linkloss (index: lost when asked for its link 2), nopeer (index: reaches no other GPU).
namespace fake {

inline std::string Setting(const std::string& key, const std::string& otherwise) {
  const char* all = std::getenv("DLC_FAKE_GPU");
  const std::string text = ";" + std::string(all == nullptr ? "" : all) + ";";
  const std::size_t at = text.find(";" + key + "=");
  if (at == std::string::npos) {
    return otherwise;
  }
  const std::size_t from = at + key.size() + 2;
  return text.substr(from, text.find(';', from) - from);
}

inline int Number(const std::string& key, int otherwise) {
  return std::atoi(Setting(key, std::to_string(otherwise)).c_str());
}

inline bool Is(const std::string& key, int index) {
  return Number(key, -1) == index;
}

inline std::string ModelOf(int index) {
  return Is("mixed", index) ? "NVIDIA T4" : Setting("model", "NVIDIA L4");
}

/// 16 bytes: those of GPU `index`, or of the slice on it.
inline unsigned char UuidByte(int index, int byte, bool slice) {
  return static_cast<unsigned char>(byte == 15 ? Number("first", 0) + index + (slice ? 0x80 : 0)
                                               : byte * 16 + byte);
}

inline std::string UuidText(int index, bool slice) {
  constexpr char kDigits[] = "0123456789abcdef";
  std::string text = slice ? "MIG-" : "GPU-";
  for (int i = 0; i < 16; ++i) {
    text += kDigits[UuidByte(index, i, slice) >> 4];
    text += kDigits[UuidByte(index, i, slice) & 15];
    text += i == 3 || i == 5 || i == 7 || i == 9 ? "-" : "";
  }
  return text;
}

inline constexpr unsigned long long kMemory = 24152899584ULL;

}  // namespace fake
