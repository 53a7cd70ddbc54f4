#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <string>
#include <vector>

namespace varve {

/// The formats in which a layer may be stored on a device (formats/), in the order in which the plan prefers them.
enum class FormatName { cones, dense, pattern_blocks, staged_blocks, sliced_ell, csr };

/// The kernels (kernels/) of the steps of a plan. The last three compute only the first layer: `bits` and `counts` for
/// samples whose values are all equal, `entries` for samples with few entries.
enum class KernelName {
  direct,
  stationary,
  staged,
  fused,
  dense,
  cones,
  split_output,
  small_batch,
  bits,
  counts,
  entries
};

/// The names of a format.
struct FormatEntry {
  FormatName format;
  char const* name; ///< in options
  char const* text; ///< name in the text of a plan
};

/// All formats, in the order in which the plan prefers them.
inline constexpr std::array all_formats = {
    FormatEntry{FormatName::cones, "cones", "programs"},
    FormatEntry{FormatName::dense, "dense", "dense blocks"},
    FormatEntry{FormatName::pattern_blocks, "pattern_blocks", "pattern blocks"},
    FormatEntry{FormatName::staged_blocks, "staged_blocks", "staged blocks"},
    FormatEntry{FormatName::sliced_ell, "sliced_ell", "sliced ELL"},
    FormatEntry{FormatName::csr, "csr", "CSR"},
};

/// The names of a kernel.
struct KernelEntry {
  KernelName kernel;
  char const* name;      ///< in options and in the text of a plan
  char const* label;     ///< prefix of the profiling labels of its launches
  bool can_be_asked_for; ///< the option accepts it
  bool reads_lists;      ///< reads live samples through their list; other kernels need them compacted
};

/// All kernels, in the order of their enumerators.
inline constexpr std::array all_kernels = {
    KernelEntry{KernelName::direct, "direct", "varve::direct_forward", true, false},
    KernelEntry{KernelName::stationary, "stationary", "varve::stationary_forward", true, true},
    KernelEntry{KernelName::staged, "staged", "varve::staged_forward", true, true},
    KernelEntry{KernelName::fused, "fused", "varve::fused_forward", true, true},
    KernelEntry{KernelName::dense, "dense", "varve::dense_forward", true, false},
    KernelEntry{KernelName::cones, "cones", "varve::cone_forward", true, true},
    KernelEntry{KernelName::split_output, "split_output", "varve::split_output_forward", true, false},
    KernelEntry{KernelName::small_batch, "small_batch", "varve::small_batch_forward", true, false},
    KernelEntry{KernelName::bits, "bits", "varve::binary_forward", false, false},
    KernelEntry{KernelName::counts, "counts", "varve::counted_forward", false, false},
    KernelEntry{KernelName::entries, "entries", "varve::entry_forward", false, false},
};

/// The names of a format, or of a kernel.
constexpr FormatEntry const& entry_of(FormatName format) { return all_formats[static_cast<std::size_t>(format)]; }
constexpr KernelEntry const& entry_of(KernelName kernel) { return all_kernels[static_cast<std::size_t>(kernel)]; }
static_assert(std::ranges::all_of(all_formats, [](auto const& entry) { return &entry_of(entry.format) == &entry; }));
static_assert(std::ranges::all_of(all_kernels, [](auto const& entry) { return &entry_of(entry.kernel) == &entry; }));

/// The name of a format, or of a kernel, in options.
inline std::string to_string(FormatName format) { return entry_of(format).name; }
inline std::string to_string(KernelName kernel) { return entry_of(kernel).name; }

/// The formats of a comma-separated list ("sliced_ell,csr"); empty for "auto". Throws UsageError that lists the names.
std::vector<FormatName> parse_formats(std::string const& list);

/// The kernel of this name. Throws UsageError that lists the kernels that can be asked for.
KernelName parse_kernel(std::string const& name);

/// Bytes in the unit of the memory options, with three significant digits: "1.234 GiB", "0.0000000931 GiB".
std::string in_gibibytes(std::size_t bytes);

/// The least value of a memory option that allows this many bytes, rounded up: "1.235".
std::string memory_option_for(std::size_t bytes);

/// The remedy where a limit is too low, for messages.
inline constexpr char const* raise_limit = "raise --memory device (without a device of its own: --memory host)";

// Errors whose sentences need {fmt}. They are here because nvcc, which compiles some callers, cannot compile {fmt}.

/// Throws ResourceError: a batch of `samples` needs `batch_bytes`; at most `most` samples would fit.
[[noreturn]] void batch_exceeds_memory(std::size_t samples, std::size_t batch_bytes, std::size_t weight_bytes,
                                       std::size_t limit, std::size_t most);

/// Throws InputError: a layer has more inputs or outputs than 32-bit signed indices can number.
[[noreturn]] void layer_is_too_wide(std::size_t number, std::size_t num_inputs, std::size_t num_outputs);

} // namespace varve
