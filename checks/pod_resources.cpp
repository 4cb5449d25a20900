#include "checks/pod_resources.h"

#include <algorithm>

namespace dlc {
namespace {

std::int64_t WholeOrZero(const std::map<std::string, std::string>& quantities,
                         const std::string& key) {
  return WholeQuantity(quantities, key).value_or(0);
}

bool IsMig(std::string_view key) {
  return key.starts_with("nvidia.com/mig-");
}

}  // namespace

AssertedValue QuantityValue(const std::map<std::string, std::string>& quantities,
                            const std::string& key) {
  const auto it = quantities.find(key);
  if (it == quantities.end()) {
    return {};
  }
  const auto whole = WholeQuantity(quantities, key);
  return whole ? AssertedValue(*whole) : AssertedValue(it->second);
}

std::int64_t ResourceAsk::Count() const {
  const auto* whole = std::get_if<std::int64_t>(&limit);
  return whole == nullptr ? 0 : *whole;
}

bool ResourceAsk::Misplaced() const {
  const bool requested = !std::holds_alternative<std::monostate>(request);
  return Count() == 0 && (requested || !elsewhere.empty());
}

ResourceAsk AskFor(const PodSpec& spec, const std::string& resource) {
  ResourceAsk ask;
  for (std::size_t i = 0; i < spec.containers.size(); ++i) {
    const ContainerSpec& container = spec.containers[i];
    if (i == 0) {
      ask.limit = QuantityValue(container.limits, resource);
      ask.request = QuantityValue(container.requests, resource);
    } else if (const auto count = WholeOrZero(container.limits, resource); count > 0) {
      ask.elsewhere.push_back("container '" + container.name + "' (" + std::to_string(count) + ")");
    }
  }
  for (const ContainerSpec& container : spec.init_containers) {
    if (const auto count = WholeOrZero(container.limits, resource); count > 0) {
      ask.elsewhere.push_back("init container '" + container.name + "' (" + std::to_string(count) +
                              ")");
    }
  }
  return ask;
}

std::int64_t Reserved(const PodSpec& spec, const std::string& resource) {
  std::int64_t together = 0;
  for (const ContainerSpec& container : spec.containers) {
    together += WholeOrZero(container.limits, resource);
  }
  for (const ContainerSpec& container : spec.init_containers) {
    together = std::max(together, WholeOrZero(container.limits, resource));
  }
  return together;
}

std::int64_t MigSlices(const PodSpec& spec) {
  std::int64_t slices = 0;
  if (!spec.containers.empty()) {
    for (const auto& [key, text] : spec.containers[0].limits) {
      slices += IsMig(key) ? WholeOrZero(spec.containers[0].limits, key) : 0;
    }
  }
  return slices;
}

AssertedValue AllottedGpus(const PodSpec& spec, const std::string& resource) {
  const ResourceAsk ask = AskFor(spec, resource);
  if (std::holds_alternative<std::string>(ask.limit)) {
    return ask.limit;
  }
  return ask.Count() + (IsMig(resource) ? 0 : MigSlices(spec));
}

std::int64_t AllottedGpuCount(const PodSpec& spec, const std::string& resource) {
  const AssertedValue allotted = AllottedGpus(spec, resource);
  const auto* whole = std::get_if<std::int64_t>(&allotted);
  return whole == nullptr ? 0 : *whole;
}

DerivedGpuFlag KubeRayGpuFlag(const PodSpec& spec) {
  if (!spec.containers.empty()) {
    for (const auto& [key, text] : spec.containers[0].limits) {
      if (key.ends_with("gpu") || IsMig(key)) {
        return {key, QuantityValue(spec.containers[0].limits, key)};
      }
    }
  }
  return {};
}

const EnvVar* RayEnv(const PodSpec& spec, std::string_view name) {
  if (spec.containers.empty()) {
    return nullptr;
  }
  const auto& env = spec.containers[0].env;
  const auto it = std::find_if(env.rbegin(), env.rend(),
                               [&](const EnvVar& variable) { return variable.name == name; });
  return it == env.rend() ? nullptr : &*it;
}

}  // namespace dlc
