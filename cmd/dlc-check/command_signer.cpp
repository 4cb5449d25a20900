#include "cmd/dlc-check/command_signer.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <system_error>
#include <utility>

#include "probes/control/process/file_descriptor.h"
#include "probes/control/process/run_process.h"
#include "reports/evidence/base64.h"

namespace dlc {
namespace {

/// A DER signature of P-256 has 72 bytes at most; the rest is room for base64 and line ends.
constexpr std::size_t kMaxAnswerBytes = 4096;

std::string BytesOfHex(const std::string& hex) {
  const auto digit = [](char c) {
    return static_cast<unsigned>(c <= '9' ? c - '0' : c - 'a' + 10);
  };
  std::string bytes;
  for (std::size_t i = 0; i + 1 < hex.size(); i += 2) {
    bytes += static_cast<char>(digit(hex[i]) << 4U | digit(hex[i + 1]));
  }
  return bytes;
}

/// A file of mode 0600 in the temporary directory, removed when it goes out of scope.
class DigestFile {
 public:
  static Result<std::unique_ptr<DigestFile>> Write(const std::string& bytes) {
    // NOLINTNEXTLINE(concurrency-mt-unsafe): nothing here changes the environment
    const char* directory = std::getenv("TMPDIR");
    std::string path =
        std::string(directory == nullptr || *directory == '\0' ? "/tmp" : directory) +
        "/dlc-check-digest-XXXXXX";
    const FileDescriptor file(mkostemp(path.data(), O_CLOEXEC));
    if (file.Get() < 0) {
      return Failed(path);
    }
    auto written = std::unique_ptr<DigestFile>(new DigestFile(path));
    if (write(file.Get(), bytes.data(), bytes.size()) != static_cast<ssize_t>(bytes.size())) {
      return Failed(path);
    }
    return written;
  }
  ~DigestFile() { unlink(path_.c_str()); }
  DigestFile(const DigestFile&) = delete;
  DigestFile& operator=(const DigestFile&) = delete;

  const std::string& Path() const { return path_; }

 private:
  explicit DigestFile(std::string path) : path_(std::move(path)) {}
  static Error Failed(const std::string& path) {
    return Error{ErrorCode::kUnavailable,
                 "cannot write '" + path + "': " + std::generic_category().message(errno), ""};
  }

  std::string path_;
};

std::string WithoutSpace(const std::string& text) {
  std::string kept;
  for (const char c : text) {
    if (c != ' ' && c != '\t' && c != '\r' && c != '\n') {
      kept += c;
    }
  }
  return kept;
}

class CommandSigner : public Signer {
 public:
  explicit CommandSigner(SignCommand command) : command_(std::move(command)) {}

  const PublicKey& Key() const override { return command_.key; }

  Result<std::string> Sign(std::string_view pae) override {
    auto answer = Ask(BytesOfHex(DigestOfBytes(pae).hex));
    if (!answer) {
      return answer;
    }
    if (SignatureVerifies(command_.key, pae, *answer)) {
      return answer;
    }
    // Base64 of a DER sequence starts with 'M', DER itself with 0x30: never both.
    auto decoded = DecodeBase64(WithoutSpace(*answer));
    if (decoded && SignatureVerifies(command_.key, pae, *decoded)) {
      return decoded;
    }
    return Error{ErrorCode::kInvalidInput,
                 "what the signing command printed (" + std::to_string(answer->size()) +
                     " bytes) is no signature of key " + command_.key.fingerprint,
                 "it must sign the 32-byte digest as it is with ECDSA P-256, print DER raw or in "
                 "base64, and --sign-pub must be its public half"};
  }

 private:
  Result<std::string> Ask(const std::string& digest) const {
    auto file = DigestFile::Write(digest);
    if (!file) {
      return std::move(file).error();
    }
    ProcessRequest request;
    request.argv = {"/bin/sh", "-c", command_.command};
    request.stdin_bytes = digest;
    request.extra_env = {{kDigestFileVariable, (*file)->Path()}};
    request.max_stdout_bytes = kMaxAnswerBytes;
    request.interrupted = command_.interrupted;
    auto output = RunProcess(request, Deadline::After(command_.timeout));
    if (!output) {
      return Error{output.error().code, "signing command: " + output.error().message,
                   output.error().hint};
    }
    if (output->exit_code != 0) {
      const std::string ended = output->term_signal != 0
                                    ? "was ended by signal " + std::to_string(output->term_signal)
                                    : "failed with exit code " + std::to_string(output->exit_code);
      return Error{ErrorCode::kUnavailable,
                   "signing command " + ended + ": " + OneLine(output->stderr_bytes), ""};
    }
    return std::move(output->stdout_bytes);
  }

  SignCommand command_;
};

}  // namespace

Result<std::unique_ptr<Signer>> MakeCommandSigner(SignCommand command) {
  if (command.key.type != KeyType::kP256) {
    return Error{ErrorCode::kUnsupported,
                 std::string("a signing command cannot be used with an ") +
                     KeyTypeName(command.key.type) + " key: it signs a digest",
                 "use an ECDSA P-256 key (AWS KMS: ECC_NIST_P256)"};
  }
  return std::unique_ptr<Signer>(std::make_unique<CommandSigner>(std::move(command)));
}

}  // namespace dlc
