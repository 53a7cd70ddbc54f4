#pragma once

#include <cstddef>
#include <string>

/// Errors whose sentences need {fmt}. They are here because nvcc, which compiles the callers, cannot compile {fmt}.
namespace varve {

/// Throws ResourceError: the weights of the first `num_layers` layers need more bytes than may be used.
[[noreturn]] void weights_exceed_memory(std::size_t num_layers, std::size_t bytes, std::size_t limit);

/// Throws ResourceError: layer `number` needs more bytes to be encoded in the format that was asked for than may be
/// used.
[[noreturn]] void encoding_exceeds_memory(std::size_t number, std::string const& format, std::size_t bytes,
                                          std::size_t limit);

/// Throws ResourceError: two stream buffers of `bytes` each, the size of layer `number`, do not fit the limit.
[[noreturn]] void weights_exceed_buffers(std::size_t number, std::size_t bytes, std::size_t limit);

/// The memory that the smallest strips of a layer need, and what there is, in bytes.
struct StripNeed {
  std::size_t layer = 0;
  std::size_t layer_bytes = 0;
  std::size_t weights = 0; ///< device memory for the weights of all layers if they are streamed in the smallest strips
  std::size_t batch = 0;   ///< device memory for the smallest batch
  std::size_t room = 0;    ///< device memory that may be used for weights
  bool has_weight_limit = false;
};

/// Throws ResourceError: not even strips of a layer fit the device. Says which limits suffice.
[[noreturn]] void strips_exceed_memory(StripNeed const& need);

/// Throws ResourceError: a batch of `samples` needs `batch_bytes`; at most `most` samples would fit.
[[noreturn]] void batch_exceeds_memory(std::size_t samples, std::size_t batch_bytes, std::size_t weight_bytes,
                                       std::size_t limit, std::size_t most);

/// Throws InputError: a layer has more inputs or outputs than 32-bit signed indices can count.
[[noreturn]] void layer_is_too_wide(std::size_t number, std::size_t num_inputs, std::size_t num_outputs);

/// Throws UsageError: the engine runs on the backend `has` only, but `asked` was asked for.
[[noreturn]] void engine_lacks_backend(std::string const& engine, std::string const& has, std::string const& asked);

} // namespace varve
