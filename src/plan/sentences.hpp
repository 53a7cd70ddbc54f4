#pragma once

#include <cstddef>
#include <string>

/// Errors whose sentences need {fmt}. They are here because nvcc, which compiles the callers, cannot compile {fmt}.
namespace varve {

/// Throws ResourceError: the weights of the first `num_layers` layers need more bytes than may be used.
[[noreturn]] void weights_exceed_memory(std::size_t num_layers, std::size_t bytes, std::size_t limit);

/// Throws ResourceError: two stream buffers of `bytes` each, the size of layer `number`, do not fit the limit.
[[noreturn]] void weights_exceed_buffers(std::size_t number, std::size_t bytes, std::size_t limit);

/// Throws ResourceError: a batch of `samples` needs `batch_bytes`; at most `most` samples would fit.
[[noreturn]] void batch_exceeds_memory(std::size_t samples, std::size_t batch_bytes, std::size_t weight_bytes,
                                       std::size_t limit, std::size_t most);

/// Throws InputError: a layer has more inputs or outputs than 32-bit signed indices can count.
[[noreturn]] void layer_is_too_wide(std::size_t number, std::size_t num_inputs, std::size_t num_outputs);

/// Throws UsageError: the engine runs on the backend `has` only, but `asked` was asked for.
[[noreturn]] void engine_lacks_backend(std::string const& engine, std::string const& has, std::string const& asked);

} // namespace varve
