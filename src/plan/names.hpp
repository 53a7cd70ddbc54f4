#pragma once

#include <cstddef>
#include <span>
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
  char const* option; ///< name of the option
  char const* text;   ///< name in the text of a plan
};

/// The names of a kernel.
struct KernelEntry {
  KernelName kernel;
  char const* option;    ///< name of the option and in the text of a plan
  char const* label;     ///< prefix of the profiling labels of its launches
  bool can_be_asked_for; ///< the option accepts it
  bool reads_lists;      ///< reads live samples through their list; other kernels need them compacted
};

/// All formats, in the order in which the plan prefers them.
std::span<FormatEntry const> all_formats();

std::span<KernelEntry const> all_kernels();

/// The names of a format, or of a kernel.
FormatEntry const& entry_of(FormatName format);
KernelEntry const& entry_of(KernelName kernel);

/// The name of a format in options: "cones", "dense", "pattern_blocks", "staged_blocks",
/// "sliced_ell" or "csr".
std::string to_string(FormatName format);

/// The name of a kernel in options: "direct", "stationary", ...
std::string to_string(KernelName kernel);

/// The formats of a comma-separated list ("sliced_ell,csr"); empty for "auto". Throws UsageError that lists the names.
std::vector<FormatName> parse_formats(std::string const& list);

/// The kernel of this name. Throws UsageError that lists the kernels that can be asked for.
KernelName parse_kernel(std::string const& name);

// Errors whose sentences need {fmt}. They are here because nvcc, which compiles the callers, cannot compile {fmt}.

/// Throws ResourceError: the weights of the first `num_layers` layers need more bytes than the limit.
[[noreturn]] void weights_exceed_memory(std::size_t num_layers, std::size_t bytes, std::size_t limit);

/// Throws ResourceError: layer `number` needs more bytes to be encoded in the requested format than the limit.
[[noreturn]] void encoding_exceeds_memory(std::size_t number, std::string const& format, std::size_t bytes,
                                          std::size_t limit);

/// Throws ResourceError: two stream buffers of `bytes` each, the size of layer `number`, do not fit the limit.
[[noreturn]] void weights_exceed_buffers(std::size_t number, std::size_t bytes, std::size_t limit);

/// The memory that the smallest strips of a layer need, and the available memory, in bytes.
struct StripNeed {
  std::size_t layer = 0;
  std::size_t layer_bytes = 0;
  std::size_t weights = 0; ///< device memory for the weights of all layers if they are streamed in the smallest strips
  std::size_t batch = 0;   ///< device memory for the smallest batch
  std::size_t room = 0;    ///< device memory that may be used for weights
  bool has_weight_limit = false;
};

/// Throws ResourceError, naming sufficient limits: not even strips of a layer fit the device.
[[noreturn]] void strips_exceed_memory(StripNeed const& need);

/// Throws ResourceError: a batch of `samples` needs `batch_bytes`; at most `most` samples would fit.
[[noreturn]] void batch_exceeds_memory(std::size_t samples, std::size_t batch_bytes, std::size_t weight_bytes,
                                       std::size_t limit, std::size_t most);

/// Throws InputError: a layer has more inputs or outputs than 32-bit signed indices can number.
[[noreturn]] void layer_is_too_wide(std::size_t number, std::size_t num_inputs, std::size_t num_outputs);

/// Throws UsageError: the engine runs only on the backend `has`, but `asked` was requested.
[[noreturn]] void engine_lacks_backend(std::string const& engine, std::string const& has, std::string const& asked);

} // namespace varve
