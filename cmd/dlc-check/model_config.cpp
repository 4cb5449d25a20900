#include "cmd/dlc-check/model_config.h"

#include <cmath>
#include <nlohmann/json.hpp>

#include "probes/observations/strict_json.h"

namespace dlc {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t kMostBytes = std::size_t{1} << 20U;
constexpr std::int64_t kLargestSize = std::int64_t{1} << 24;
constexpr std::int64_t kMostLayers = 1024;

/// Reads keys until one is wrong.
class ModelConfigReader {
 public:
  ModelConfigReader(const Json& json, const std::string& file) : json_(json), file_(file) {}

  Result<FsdpModel> Read() {
    Architecture();
    model_.name = kWorkloadModel;
    model_.hidden = Size("hidden_size", kLargestSize);
    model_.layers = Size("num_hidden_layers", kMostLayers);
    model_.heads = Size("num_attention_heads", kLargestSize);
    model_.kv_heads = Size("num_key_value_heads", kLargestSize);
    model_.intermediate = Size("intermediate_size", kLargestSize);
    model_.vocabulary = Size("vocab_size", kLargestSize);
    model_.rms_epsilon = Positive(json_, "rms_norm_eps", "");
    Heads();
    Positions();
    Others();
    return error_ ? Result<FsdpModel>(*error_) : Result<FsdpModel>(model_);
  }

 private:
  void Refuse(const std::string& message, std::string hint = "") {
    if (!error_) {
      error_ = Error{ErrorCode::kInvalidInput, file_ + ": " + message, std::move(hint)};
    }
  }

  /// nullptr where it is absent or null.
  static const Json* Find(const Json& in, const char* key) {
    const auto it = in.find(key);
    return it == in.end() || it->is_null() ? nullptr : &*it;
  }

  void Architecture() {
    const Json* type = Find(json_, "model_type");
    if (type == nullptr || *type != "qwen2") {
      Refuse("model_type: " + (type == nullptr ? "is missing" : "is " + type->dump()) +
                 ", and must be \"qwen2\"",
             "workload.modelConfig takes the config.json of a Qwen2 or Qwen2.5 model");
    }
  }

  std::int64_t Size(const char* key, std::int64_t most) {
    const Json* value = Find(json_, key);
    if (value == nullptr) {
      Refuse(std::string(key) + ": is missing");
      return 1;
    }
    if (!value->is_number_integer() || *value < 1 || *value > most) {
      Refuse(std::string(key) + ": must be a whole number from 1 to " + std::to_string(most) +
             ", not " + value->dump());
      return 1;
    }
    return value->get<std::int64_t>();
  }

  double Positive(const Json& in, const char* key, const std::string& where) {
    const Json* value = Find(in, key);
    if (value == nullptr || !value->is_number() || !(value->get<double>() > 0)) {
      Refuse(where + key + ": " +
             (value == nullptr ? "is missing"
                               : "must be a number greater than 0, not " + value->dump()));
      return 1;
    }
    return value->get<double>();
  }

  void Heads() {
    if (model_.heads % model_.kv_heads != 0) {
      Refuse("num_key_value_heads: " + std::to_string(model_.kv_heads) +
             " does not divide num_attention_heads, " + std::to_string(model_.heads));
    }
    if (Find(json_, "head_dim") != nullptr) {
      model_.head_size = Size("head_dim", kLargestSize);
    } else if (model_.hidden % model_.heads != 0) {
      Refuse("num_attention_heads: " + std::to_string(model_.heads) +
             " does not divide hidden_size, " + std::to_string(model_.hidden) +
             ", and there is no head_dim");
    } else {
      model_.head_size = model_.hidden / model_.heads;
    }
    if (model_.head_size % 2 != 0) {
      Refuse("head_dim: must be even, not " + std::to_string(model_.head_size));
    }
  }

  void Positions() {
    const Json* rope = Find(json_, "rope_parameters");
    if (rope != nullptr && !rope->is_object()) {
      Refuse("rope_parameters: must be an object");
      return;
    }
    const Json* type = rope == nullptr ? nullptr : Find(*rope, "rope_type");
    if (type != nullptr && *type != "default") {
      Refuse("rope_parameters.rope_type: is " + type->dump() +
             "; only positions that are not scaled (\"default\") are computed here");
    }
    if (Find(json_, "rope_scaling") != nullptr) {
      Refuse("rope_scaling: only positions that are not scaled (null) are computed here");
    }
    const bool nested = rope != nullptr && Find(*rope, "rope_theta") != nullptr;
    model_.rope_theta = nested ? Positive(*rope, "rope_theta", "rope_parameters.")
                               : Positive(json_, "rope_theta", "");
  }

  void Others() {
    const Json* tied = Find(json_, "tie_word_embeddings");
    if (tied != nullptr && !tied->is_boolean()) {
      Refuse("tie_word_embeddings: must be true or false");
      return;
    }
    model_.tied_embedding = tied != nullptr && tied->get<bool>();
    if (const Json* act = Find(json_, "hidden_act"); act != nullptr && *act != "silu") {
      Refuse("hidden_act: is " + act->dump() + ", and must be \"silu\"");
    }
    if (const Json* window = Find(json_, "use_sliding_window");
        window != nullptr && *window != false) {
      Refuse("use_sliding_window: attention is to all that came before here, and must be false");
    }
    if (const Json* drop = Find(json_, "attention_dropout"); drop != nullptr && *drop != 0) {
      Refuse("attention_dropout: must be 0, not " + drop->dump());
    }
  }

  const Json& json_;
  const std::string& file_;
  FsdpModel model_;
  std::optional<Error> error_;
};

}  // namespace

Result<FsdpModel> ParseModelConfig(std::string_view bytes, const std::string& file) {
  JsonLimits limits;
  limits.max_bytes = kMostBytes;
  const auto json = ParseStrictJson(bytes, limits);
  if (!json) {
    Error error = json.error();
    error.message = file + ": " + error.message;
    return error;
  }
  if (!json->is_object()) {
    return Error{ErrorCode::kInvalidInput, file + ": must be an object, as config.json is", ""};
  }
  return ModelConfigReader(*json, file).Read();
}

}  // namespace dlc
