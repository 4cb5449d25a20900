#pragma once

#include <array>
#include <cstddef>

#include "probes/control/http/http_message.h"
#include "probes/control/http/transport_error.h"
#include "probes/observations/deadline.h"

struct curl_slist;

namespace dlc {

/// One transfer over a libcurl handle: its options, and what its callbacks collect. Settings,
/// request and handle must outlive it.
class HttpTransfer {
 public:
  HttpTransfer(void* curl, const HttpSettings& settings, const HttpRequest& request,
               Deadline deadline);
  /// The handle, which outlives this, keeps no pointer into it.
  ~HttpTransfer();
  HttpTransfer(const HttpTransfer&) = delete;
  HttpTransfer& operator=(const HttpTransfer&) = delete;

  /// The transfer, to its end. The CURLcode.
  int Run();
  /// Connection and TLS handshake alone.
  int Connect();

  /// Precondition: Run or Connect ended with `code`, not 0.
  TransportFailure Failure(int code) const;
  HttpResponse& Response() { return response_; }
  bool TooLong() const { return too_long_; }
  bool Cut() const { return cut_; }          ///< a failure's body, on purpose
  bool Refused() const { return refused_; }  ///< on_body did not want more
  bool Delivered() const { return delivered_ > 0; }

 private:
  void SetBasics(Deadline deadline);
  void SetTrust();
  void SetRoute();
  void SetMessage();
  void AddHeader(const std::string& line);
  std::size_t TakeHeader(const char* data, std::size_t bytes);
  std::size_t TakeBody(const char* data, std::size_t bytes);
  static std::size_t OnHeader(char* data, std::size_t size, std::size_t count, void* self);
  static std::size_t OnBody(char* data, std::size_t size, std::size_t count, void* self);

  void* curl_;
  const HttpSettings& settings_;
  const HttpRequest& request_;
  HttpResponse response_;
  curl_slist* headers_ = nullptr;
  curl_slist* connect_to_ = nullptr;
  std::size_t header_bytes_ = 0;
  std::size_t delivered_ = 0;  ///< bytes that on_body was given
  bool too_long_ = false;
  bool cut_ = false;
  bool refused_ = false;
  std::array<char, 256> error_text_{};  ///< CURL_ERROR_SIZE
};

}  // namespace dlc
