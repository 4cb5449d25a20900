#pragma once

#include <string>
#include <string_view>

#include "probes/observations/nccl_tests.h"
#include "probes/observations/result.h"

namespace dlc {

/// What `-J FILE` of nccl-tests writes (src/util.cu, file versions 1 to 3). Its booleans are the
/// strings "true" and "false", its root is padded text, and `env` holds the whole environment,
/// which is not read. Of a process with several GPUs only the first is recorded; the others are
/// filled in from config. kInvalidInput with file, line and path for what is no such file.
Result<NcclTestsOutput> ParseNcclTestsJson(std::string_view bytes, const std::string& file);

/// Either form: text, or JSON where the first character that is no blank is a brace.
Result<NcclTestsOutput> ParseNcclTestsFile(std::string_view bytes, const std::string& file);

}  // namespace dlc
