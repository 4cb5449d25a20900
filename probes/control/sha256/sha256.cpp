#include "probes/control/sha256/sha256.h"

#include <openssl/evp.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <system_error>
#include <vector>

namespace dlc {
namespace {

struct CloseFile {
  void operator()(std::FILE* file) const { static_cast<void>(std::fclose(file)); }
};

struct FreeContext {
  void operator()(EVP_MD_CTX* context) const { EVP_MD_CTX_free(context); }
};

Error NotRead(const std::string& path) {
  return {ErrorCode::kUnavailable, path + ": " + std::generic_category().message(errno), ""};
}

}  // namespace

Digest Sha256Of(std::string_view bytes) {
  std::array<unsigned char, EVP_MAX_MD_SIZE> hash{};
  unsigned int size = 0;
  if (EVP_Digest(bytes.data(), bytes.size(), hash.data(), &size, EVP_sha256(), nullptr) != 1 ||
      size != 32) {
    std::abort();
  }
  return {HexText({hash.data(), size})};
}

Result<Digest> Sha256OfFile(const std::string& path) {
  constexpr std::size_t kPiece = std::size_t{1} << 20U;
  const std::unique_ptr<std::FILE, CloseFile> file(std::fopen(path.c_str(), "rbe"));
  if (file == nullptr) {
    return NotRead(path);
  }
  const std::unique_ptr<EVP_MD_CTX, FreeContext> context(EVP_MD_CTX_new());
  if (context == nullptr || EVP_DigestInit_ex(context.get(), EVP_sha256(), nullptr) != 1) {
    std::abort();
  }
  std::vector<unsigned char> piece(kPiece);
  std::size_t got = 0;
  while ((got = std::fread(piece.data(), 1, piece.size(), file.get())) > 0) {
    if (EVP_DigestUpdate(context.get(), piece.data(), got) != 1) {
      std::abort();
    }
  }
  if (std::ferror(file.get()) != 0) {
    return NotRead(path);
  }
  std::array<unsigned char, EVP_MAX_MD_SIZE> hash{};
  unsigned int size = 0;
  if (EVP_DigestFinal_ex(context.get(), hash.data(), &size) != 1 || size != 32) {
    std::abort();
  }
  return Digest{HexText({hash.data(), size})};
}

}  // namespace dlc
