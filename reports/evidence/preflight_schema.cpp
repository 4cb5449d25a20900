#include "reports/evidence/preflight_schema.h"

#include <exception>
#include <nlohmann/json.hpp>
#include <string>
#include <valijson/adapters/nlohmann_json_adapter.hpp>
#include <valijson/schema.hpp>
#include <valijson/schema_parser.hpp>
#include <valijson/validation_results.hpp>
#include <valijson/validator.hpp>

namespace dlc {
namespace {

using Adapter = valijson::adapters::NlohmannJsonAdapter;

Error Mismatch(valijson::ValidationResults& results) {
  // The deepest message is the cause; the later ones are the levels above it.
  valijson::ValidationResults::Error first;
  std::string path = "$";
  std::string why = "does not match";
  if (results.popError(first)) {
    for (const std::string& step : first.context) {
      path += step == "<root>" ? "" : step;
    }
    why = first.description;
  }
  while (why.ends_with('.')) {
    why.pop_back();
  }
  return Error{ErrorCode::kInvalidInput, path + ": " + why, ""};
}

}  // namespace

Result<void> MatchPreflightSchema(std::string_view json) {
  try {
    const auto schema_json = nlohmann::json::parse(PreflightSchema());
    valijson::Schema schema;
    valijson::SchemaParser parser(valijson::SchemaParser::kDraft7);
    parser.populateSchema(Adapter(schema_json), schema);
    const auto document = nlohmann::json::parse(json);
    valijson::Validator validator(valijson::Validator::kStrongTypes);
    valijson::ValidationResults results;
    if (!validator.validate(schema, Adapter(document), &results)) {
      return Mismatch(results);
    }
    return {};
  } catch (const std::exception& problem) {
    return Error{ErrorCode::kInternal, std::string("schema check failed: ") + problem.what(), ""};
  }
}

}  // namespace dlc
