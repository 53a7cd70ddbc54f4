#pragma once

#include <span>
#include <string>
#include <vector>

namespace varve {

/// The formats in which a layer may be stored on a device (formats/), in the order in which the plan prefers them.
enum class FormatName { cones, dense, pattern_blocks, staged_blocks, sliced_ell, csr };

/// The kernels (kernels/) that take samples through a step of the plan. `bits` and `counts` take only the first layer,
/// and only samples whose values are all equal.
enum class KernelName { direct, stationary, staged, fused, dense, cones, spread, few, bits, counts };

/// The names of a format.
struct FormatEntry {
  FormatName format;
  char const* option; ///< name in --formats
  char const* text;   ///< name in the text of a plan
};

/// The names of a kernel.
struct KernelEntry {
  KernelName kernel;
  char const* option;    ///< name in --kernel and in the text of a plan
  char const* label;     ///< beginning of the profiling labels of its launches
  bool can_be_asked_for; ///< --kernel accepts it
  bool reads_lists;      ///< reads live samples through their list; other kernels need them compacted
};

/// All formats, in the order in which the plan prefers them.
std::span<FormatEntry const> all_formats();

/// All kernels.
std::span<KernelEntry const> all_kernels();

/// The names of a format, or of a kernel.
FormatEntry const& entry_of(FormatName format);
KernelEntry const& entry_of(KernelName kernel);

/// The name of a format in --formats: "cones", "dense", "pattern_blocks", "staged_blocks",
/// "sliced_ell" or "csr".
std::string to_string(FormatName format);

/// The name of a kernel in --kernel: "direct", "stationary", ...
std::string to_string(KernelName kernel);

/// The formats of a comma-separated list ("sliced_ell,csr"); none for "auto". Throws UsageError that lists the names.
std::vector<FormatName> parse_formats(std::string const& list);

/// The kernel of this name. Throws UsageError that lists the kernels that can be asked for.
KernelName parse_kernel(std::string const& name);

} // namespace varve
