#include "checks/policy_fsdp.h"

#include "checks/policy_words.h"
#include "probes/documents/strict_map.h"

namespace dlc {

Result<void> ReadFsdpPolicy(const std::string& file, const DocNode& node, const std::string& where,
                            FsdpPolicy& fsdp) {
  const FsdpPolicy all;  // of its layouts the default holds all that there are
  StrictMap map(file, node, where);
  map.Choice("measure", fsdp.measure, {"required", "with-ranks", "no"});
  ReadPolicyWords(map, "layouts", all.layouts, fsdp.layouts);
  ReadPolicyWords(map, "models", {"qwen2-tiny", "qwen2.5-0.5b", "qwen2.5-1.5b"}, fsdp.models);
  map.Bool("everyUnit", fsdp.every_unit);
  return map.Finish();
}

}  // namespace dlc
