#pragma once

#include <span>
#include <string>
#include <vector>

namespace varve {

/// How a layer may be stored on a device (formats/), in the order in which the plan prefers them.
enum class FormatName { cones, pattern_blocks, staged_blocks, sliced_ell, csr };

/// Which kernel (kernels/) takes samples through a step of the plan. The last two take the first layer only, and only
/// samples whose values are all equal.
enum class KernelName { direct, stationary, staged, fused, cones, spread, bits, counts };

/// What the plan, its options and its texts call a format.
struct FormatEntry {
  FormatName format;
  char const* option; ///< in --formats
  char const* text;   ///< in the text of a plan
};

/// What the plan, its options and its texts call a kernel.
struct KernelEntry {
  KernelName kernel;
  char const* option; ///< in --kernel and in the text of a plan
  char const* label;  ///< with which profiling labels of its launches begin
  bool can_be_asked_for;
  bool reads_lists; ///< finds live samples through their list; else they must be compacted first
};

/// All formats, in the order in which the plan prefers them.
std::span<FormatEntry const> all_formats();

/// All kernels.
std::span<KernelEntry const> all_kernels();

FormatEntry const& entry_of(FormatName format);
KernelEntry const& entry_of(KernelName kernel);

/// The name of a format in --formats: "cones", "pattern_blocks", "staged_blocks", "sliced_ell" or "csr".
std::string to_string(FormatName format);

/// The name of a kernel in --kernel: "direct", "stationary", ...
std::string to_string(KernelName kernel);

/// The formats of a comma-separated list ("sliced_ell,csr"); none for "auto". Throws UsageError that lists the names.
std::vector<FormatName> parse_formats(std::string const& list);

/// The kernel of this name. Throws UsageError that lists the kernels that can be asked for.
KernelName parse_kernel(std::string const& name);

} // namespace varve
