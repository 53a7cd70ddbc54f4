#include "apps/named_values.hpp"

#include "core/backend.hpp"
#include "core/error.hpp"
#include "distribute/batch_queue.hpp"
#include "engine/inference.hpp"
#include "network/optimizer.hpp"
#include "network/pattern_change.hpp"
#include "passes/edge_order.hpp"
#include "plan/names.hpp"
#include "training/rate_schedule.hpp"

#include <initializer_list>

namespace varve {
namespace {

/// Those of the names that this build takes: parse(name) throws UsageError for others.
template <class Parse>
std::vector<std::string> accepted(std::initializer_list<char const*> names, Parse const& parse) {
  std::vector<std::string> found;
  for (std::string const name : names) {
    try {
      static_cast<void>(parse(name));
      found.push_back(name);
    } catch (UsageError const&) {
      // not in this build, as kokkos-kernels
    }
  }
  return found;
}

std::vector<std::string> kernel_values() {
  std::vector<std::string> names;
  for (auto const& entry : all_kernels())
    if (entry.can_be_asked_for) names.emplace_back(entry.option);
  return names;
}

std::vector<std::string> format_values() {
  std::vector<std::string> names = {"auto"};
  for (auto const& entry : all_formats()) names.emplace_back(entry.option);
  return names;
}

std::vector<std::string> backend_values() {
  std::vector<std::string> names;
  for (auto const backend : compiled_backends()) names.push_back(to_string(backend));
  return names;
}

} // namespace

std::vector<std::string> named_values(std::string const& option) {
  if (option == "--backend") return backend_values();
  if (option == "--kernel") return kernel_values();
  if (option == "--formats") return format_values();
  if (option == "--engine") return accepted({"varve", "kokkos-kernels", "reference"}, parse_engine);
  if (option == "--edge-order") return accepted({"balanced", "ascending"}, parse_edge_order);
  if (option == "--schedule") return accepted({"dynamic", "static"}, parse_schedule);
  if (option == "--optimizer") return optimizer_names();
  if (option == "--pattern") return accepted({"keep", "set", "rigl"}, parse_pattern_kind);
  if (option == "--rate-schedule") return accepted({"constant", "step", "cosine"}, parse_rate_schedule);
  if (option == "--reductions")
    return accepted({"auto", "none", "merge_neurons", "fold_constants", "drop_unread", "saturation", "equal_samples"},
                    parse_reductions);
  if (option == "--document") return {"man", "bash"};
  return {};
}

} // namespace varve
