// libstdc++'s random_device, which std::string's object files bring along, would take glibc's
// arc4random (GLIBC_2.36); the image has glibc 2.34. <cstdlib> is not included, for its declaration
// of the same name.
#include <sys/random.h>

#include <cstdint>

// NOLINTNEXTLINE(readability-identifier-naming): glibc's name
extern "C" std::uint32_t arc4random() noexcept;

// NOLINTNEXTLINE(readability-identifier-naming): glibc's name
extern "C" std::uint32_t arc4random() noexcept {
  std::uint32_t value = 0;
  while (getrandom(&value, sizeof value, 0) != static_cast<ssize_t>(sizeof value)) {
  }
  return value;
}
