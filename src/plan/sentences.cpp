#include "plan/sentences.hpp"

#include "core/error.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string>

namespace varve {
namespace {

constexpr char const* raise_limit = "raise --device-memory-limit (without a device of its own: --memory-limit)";

double gibibytes(std::size_t bytes) { return static_cast<double>(bytes) / (1024.0 * 1024.0 * 1024.0); }

/// Digits behind the point, so that a number of GiB has at least three significant digits.
int decimals(double number) {
  auto const leading_zeros = std::max(0, static_cast<int>(std::ceil(-std::log10(number))));
  return leading_zeros == 0 ? 3 : 2 + leading_zeros;
}

/// Bytes in the unit of the options that limit memory, with three significant digits: "1.234 GiB", "0.0000000931 GiB".
std::string in_gibibytes(std::size_t bytes) {
  if (bytes == 0) return "0 GiB";
  auto const number = gibibytes(bytes);
  return fmt::format("{:.{}f} GiB", number, decimals(number));
}

/// A number for an option that allows at least this many bytes: "1.235", rounded up.
std::string option_for(std::size_t bytes) {
  auto const number = gibibytes(bytes);
  double const unit = std::pow(10.0, -decimals(number));
  return fmt::format("{:.{}f}", (std::floor(number / unit) + 1.0) * unit, decimals(number));
}

} // namespace

void weights_exceed_memory(std::size_t num_layers, std::size_t bytes, std::size_t limit) {
  throw ResourceError(fmt::format("the weights of the first {} layers need {}, but only {} may be used; "
                                  "{} or take a device with more memory",
                                  num_layers, in_gibibytes(bytes), in_gibibytes(limit), raise_limit));
}

void encoding_exceeds_memory(std::size_t number, std::string const& format, std::size_t bytes, std::size_t limit) {
  throw ResourceError(
      fmt::format("layer {} needs {} of the host's memory in the format that was asked for, {}, but only {} "
                  "may be used; leave --formats and --kernel out, or raise --memory-limit to {}",
                  number, in_gibibytes(bytes), format, in_gibibytes(limit), option_for(bytes)));
}

void weights_exceed_buffers(std::size_t number, std::size_t bytes, std::size_t limit) {
  throw ResourceError(fmt::format(
      "the weights of layer {} need {}, and twice as much is needed to stream the weights of all layers to the "
      "device, but only {} may be used for weights; {} or --device-weight-limit, or take a device with more "
      "memory",
      number, in_gibibytes(bytes), in_gibibytes(limit), raise_limit));
}

void strips_exceed_memory(StripNeed const& need) {
  auto const remedy = need.has_weight_limit
                          ? fmt::format("--device-weight-limit {} within --device-memory-limit {}",
                                        option_for(need.weights), option_for(need.batch + need.weights))
                          : fmt::format("--device-memory-limit {}", option_for(need.batch + need.weights));
  throw ResourceError(fmt::format(
      "the weights of layer {} need {}; streamed in the smallest strips of outputs, weights need {} beside {} for the "
      "smallest batch, but only {} may be used for weights; {} suffices (without a device of its own: also "
      "--memory-limit of that size), or take a device with more memory",
      need.layer, in_gibibytes(need.layer_bytes), in_gibibytes(need.weights), in_gibibytes(need.batch),
      in_gibibytes(need.room), remedy));
}

void batch_exceeds_memory(std::size_t samples, std::size_t batch_bytes, std::size_t weight_bytes, std::size_t limit,
                          std::size_t most) {
  throw ResourceError(fmt::format("a batch of {} samples needs {} beside {} of weights, but only {} "
                                  "may be used, enough for {} samples; {}",
                                  samples, in_gibibytes(batch_bytes), in_gibibytes(weight_bytes), in_gibibytes(limit),
                                  most,
                                  most == 0 ? raise_limit + std::string(" or take a device with more memory")
                                            : std::string("lower --batch or ") + raise_limit));
}

void layer_is_too_wide(std::size_t number, std::size_t num_inputs, std::size_t num_outputs) {
  throw InputError(fmt::format("layer {} has {} inputs and {} outputs, expected at most 2^31 - 1 of each", number,
                               num_inputs, num_outputs));
}

void engine_lacks_backend(std::string const& engine, std::string const& has, std::string const& asked) {
  throw UsageError(fmt::format("the engine {} runs on {} in this build, not on {}", engine, has, asked));
}

} // namespace varve
