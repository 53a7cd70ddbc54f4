#include "engine/sentences.hpp"

#include "core/error.hpp"

#include <fmt/format.h>

namespace varve {
namespace {

double gibibytes(std::size_t bytes) { return static_cast<double>(bytes) / (1024.0 * 1024.0 * 1024.0); }

} // namespace

void weights_exceed_memory(std::size_t num_layers, std::size_t bytes, std::size_t limit) {
  throw ResourceError(
      fmt::format("the weights of the first {} layers need {:.3f} GiB, but only {:.3f} GiB may be used; "
                  "raise --memory-limit or take a device with more memory",
                  num_layers, gibibytes(bytes), gibibytes(limit)));
}

void batch_exceeds_memory(std::size_t samples, std::size_t batch_bytes, std::size_t weight_bytes, std::size_t limit,
                          std::size_t most) {
  throw ResourceError(fmt::format(
      "a batch of {} samples needs {:.3f} GiB beside {:.3f} GiB of weights, but only {:.3f} GiB "
      "may be used, enough for {} samples; {}",
      samples, gibibytes(batch_bytes), gibibytes(weight_bytes), gibibytes(limit), most,
      most == 0 ? "raise --memory-limit or take a device with more memory" : "lower --batch or raise --memory-limit"));
}

void layer_is_too_wide(std::size_t number, std::size_t num_inputs, std::size_t num_outputs) {
  throw InputError(fmt::format("layer {} has {} inputs and {} outputs, expected at most 2^31 - 1 of each", number,
                               num_inputs, num_outputs));
}

void engine_lacks_backend(std::string const& engine, std::string const& has, std::string const& asked) {
  throw UsageError(fmt::format("the engine {} runs on {} in this build, not on {}", engine, has, asked));
}

std::string describe_layers(std::size_t first, std::size_t last, std::string const& work, std::size_t num_launches) {
  return fmt::format("layers {}-{}: {}, {} launch{}", first, last, work, num_launches, num_launches == 1 ? "" : "es");
}

} // namespace varve
