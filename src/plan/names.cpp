#include "plan/names.hpp"

#include "core/error.hpp"

#include <algorithm>
#include <array>
#include <stdexcept>

namespace varve {
namespace {

constexpr std::array formats = {
    FormatEntry{FormatName::cones, "cones", "programs"},
    FormatEntry{FormatName::dense, "dense", "dense blocks"},
    FormatEntry{FormatName::pattern_blocks, "pattern_blocks", "pattern blocks"},
    FormatEntry{FormatName::staged_blocks, "staged_blocks", "staged blocks"},
    FormatEntry{FormatName::sliced_ell, "sliced_ell", "sliced ELL"},
    FormatEntry{FormatName::csr, "csr", "CSR"},
};

constexpr std::array kernels = {
    KernelEntry{KernelName::direct, "direct", "varve::direct_forward", true, false},
    KernelEntry{KernelName::stationary, "stationary", "varve::stationary_forward", true, true},
    KernelEntry{KernelName::staged, "staged", "varve::staged_forward", true, true},
    KernelEntry{KernelName::fused, "fused", "varve::fused_forward", true, true},
    KernelEntry{KernelName::dense, "dense", "varve::dense_forward", true, false},
    KernelEntry{KernelName::cones, "cones", "varve::cone_forward", true, true},
    KernelEntry{KernelName::spread, "spread", "varve::spread_forward", true, false},
    KernelEntry{KernelName::few, "few", "varve::few_forward", true, false},
    KernelEntry{KernelName::bits, "bits", "varve::binary_forward", false, false},
    KernelEntry{KernelName::counts, "counts", "varve::counted_forward", false, false},
};

/// The options of the entries that pass a test: "a, b, c".
template <class Entries, class Test>
std::string list_of(Entries const& entries, Test const& test) {
  std::string list;
  for (auto const& entry : entries) {
    if (test(entry)) list += (list.empty() ? "" : ", ") + std::string(entry.option);
  }
  return list;
}

} // namespace

std::span<FormatEntry const> all_formats() { return formats; }
std::span<KernelEntry const> all_kernels() { return kernels; }

FormatEntry const& entry_of(FormatName format) {
  auto const found = std::ranges::find(formats, format, &FormatEntry::format);
  if (found == formats.end()) throw std::logic_error("varve: unknown format");
  return *found;
}

KernelEntry const& entry_of(KernelName kernel) {
  auto const found = std::ranges::find(kernels, kernel, &KernelEntry::kernel);
  if (found == kernels.end()) throw std::logic_error("varve: unknown kernel");
  return *found;
}

std::string to_string(FormatName format) { return entry_of(format).option; }
std::string to_string(KernelName kernel) { return entry_of(kernel).option; }

std::vector<FormatName> parse_formats(std::string const& list) {
  std::vector<FormatName> wanted;
  if (list == "auto") return wanted;
  for (std::size_t first = 0; first <= list.size();) {
    std::size_t const last = std::min(list.find(',', first), list.size());
    auto const name = list.substr(first, last - first);
    auto const found =
        std::ranges::find(formats, name, [](FormatEntry const& entry) { return std::string(entry.option); });
    if (found == formats.end()) {
      throw UsageError("there is no format '" + name + "'; there are: auto, or some of " +
                       list_of(formats, [](auto const&) { return true; }));
    }
    wanted.push_back(found->format);
    first = last + 1;
  }
  return wanted;
}

KernelName parse_kernel(std::string const& name) {
  auto const found =
      std::ranges::find(kernels, name, [](KernelEntry const& entry) { return std::string(entry.option); });
  if (found != kernels.end() && found->can_be_asked_for) return found->kernel;
  throw UsageError("there is no kernel '" + name + "'; there are: " + list_of(kernels, [](KernelEntry const& entry) {
                     return entry.can_be_asked_for;
                   }));
}

} // namespace varve
