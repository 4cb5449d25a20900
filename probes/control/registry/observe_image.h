#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <string>

#include "probes/observations/deadline.h"
#include "probes/observations/digest.h"
#include "probes/observations/image.h"
#include "probes/observations/result.h"

namespace dlc {

struct RegistryOptions {
  /// PEM file of certificate authorities; replaces the system's. Empty: the system's.
  std::string ca_file;
  /// Plain http, and nothing else, to the registry of the reference, and redirects and token
  /// servers in plain http. Without it a registry on a loopback host is asked in https first and in
  /// http if it does not speak TLS (as docker does), and any other in https only.
  bool plain_http = false;
  std::chrono::milliseconds timeout = timeouts::kHttpRequest;  ///< one request
  /// Folder of docker's config.json: $DOCKER_CONFIG, else ~/.docker; the caller decides. Empty: no
  /// credentials are looked for.
  std::string docker_config_dir;
  /// Set from a signal handler; looked at several times a second. May be null.
  const std::atomic<bool>* interrupted = nullptr;
};

/// One line for `-v`: requests, retries, where credentials were found. Never a secret. May be
/// empty.
using RegistryLog = std::function<void(const std::string&)>;

/// What the reference names, read from its registry or OCI layout: the manifest's digest computed
/// from the bytes received, agreeing with the digest that was asked for and with the one that the
/// server claims; the members of an index with the config digest of each runnable one; and the
/// config of linux/amd64. With both a tag and a digest the digest decides and the tag is not asked
/// for, as containerd does it. All documents are verified against the digest that named them.
///
/// What could not be seen beyond the manifest itself is an Error inside the ServedImage. Errors of
/// the whole: kInvalidInput (reference without tag or digest, CA file, docker config, layout),
/// kNotFound (tag, repository, layout, credential helper), kPermissionDenied (names the registry
/// and where credentials were looked for), kUnavailable (network, TLS, 429, 5xx, digests that
/// disagree), kTimedOut, kUnsupported (plain http, too long, schema 1, nested index), kInterrupted.
Result<ServedImage> ObserveImage(const ImageReference& reference, const RegistryOptions& options,
                                 Deadline deadline, const RegistryLog& log);

}  // namespace dlc
