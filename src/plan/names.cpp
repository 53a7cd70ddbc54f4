#include "plan/names.hpp"

#include "core/error.hpp"

#include <fmt/format.h>

#include <cmath>

namespace varve {
namespace {

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

std::vector<FormatName> parse_formats(std::string const& list) {
  std::vector<FormatName> wanted;
  if (list == "auto") return wanted;
  for (std::size_t first = 0; first <= list.size();) {
    std::size_t const last = std::min(list.find(',', first), list.size());
    auto const name = list.substr(first, last - first);
    auto const found = std::ranges::find(all_formats, name, &FormatEntry::option);
    if (found == all_formats.end()) {
      throw UsageError("there is no format '" + name + "'; there are: auto, or some of " +
                       list_of(all_formats, [](auto const&) { return true; }));
    }
    wanted.push_back(found->format);
    first = last + 1;
  }
  return wanted;
}

KernelName parse_kernel(std::string const& name) {
  auto const found = std::ranges::find(all_kernels, name, &KernelEntry::option);
  if (found != all_kernels.end() && found->can_be_asked_for) return found->kernel;
  throw UsageError("there is no kernel '" + name + "'; there are: " +
                   list_of(all_kernels, [](KernelEntry const& entry) { return entry.can_be_asked_for; }));
}

namespace {

constexpr char const* raise_limit = "raise --memory device (without a device of its own: --memory host)";

double gibibytes(std::size_t bytes) { return static_cast<double>(bytes) / (1024.0 * 1024.0 * 1024.0); }

/// Decimal digits that give a number of GiB at least three significant digits.
int decimals(double number) {
  auto const leading_zeros = std::max(0, static_cast<int>(std::ceil(-std::log10(number))));
  return leading_zeros == 0 ? 3 : 2 + leading_zeros;
}

/// Bytes in the unit of the memory options, with three significant digits: "1.234 GiB", "0.0000000931 GiB".
std::string in_gibibytes(std::size_t bytes) {
  if (bytes == 0) return "0 GiB";
  auto const number = gibibytes(bytes);
  return fmt::format("{:.{}f} GiB", number, decimals(number));
}

/// The least option value that allows this many bytes, rounded up: "1.235".
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
                  "may be used; leave formats and kernel of --tuning out, or raise --memory host to {}",
                  number, in_gibibytes(bytes), format, in_gibibytes(limit), option_for(bytes)));
}

void weights_exceed_buffers(std::size_t number, std::size_t bytes, std::size_t limit) {
  throw ResourceError(fmt::format(
      "the weights of layer {} need {}, and twice as much is needed to stream the weights of all layers to the "
      "device, but only {} may be used for weights; {} or --memory weights, or take a device with more "
      "memory",
      number, in_gibibytes(bytes), in_gibibytes(limit), raise_limit));
}

void strips_exceed_memory(StripNeed const& need) {
  auto const remedy = need.has_weight_limit ? fmt::format("--memory device={1},weights={0}", option_for(need.weights),
                                                          option_for(need.batch + need.weights))
                                            : fmt::format("--memory device={}", option_for(need.batch + need.weights));
  throw ResourceError(fmt::format(
      "the weights of layer {} need {}; streamed in the smallest strips of outputs, weights need {} beside {} for the "
      "smallest batch, but only {} may be used for weights; {} suffices (without a device of its own: also "
      "--memory host of that size), or take a device with more memory",
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
