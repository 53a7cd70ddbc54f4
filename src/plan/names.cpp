#include "plan/names.hpp"

#include "core/error.hpp"
#include "network/activation.hpp"

#include <fmt/ranges.h>

#include <cmath>

namespace varve {
std::vector<FormatName> parse_formats(std::string const& list) {
  std::vector<FormatName> wanted;
  if (list == "auto") return wanted;
  for (std::size_t first = 0; first <= list.size();) {
    std::size_t const last = std::min(list.find(',', first), list.size());
    auto const name = list.substr(first, last - first);
    auto const found = std::ranges::find(all_formats, name, &FormatEntry::name);
    if (found == all_formats.end()) {
      fail<UsageError>("there is no format '{}'; there are: auto, or some of {}", name,
                       fmt::join(names_of(all_formats), ", "));
    }
    wanted.push_back(found->format);
    first = last + 1;
  }
  return wanted;
}

KernelName parse_kernel(std::string const& name) {
  auto const found = std::ranges::find(all_kernels, name, &KernelEntry::name);
  if (found != all_kernels.end() && found->can_be_asked_for) return found->kernel;
  fail<UsageError>("there is no kernel '{}'; there are: {}", name, fmt::join(names_of(all_kernels), ", "));
}

namespace {

double gibibytes(std::size_t bytes) { return static_cast<double>(bytes) / (1024.0 * 1024.0 * 1024.0); }

/// Decimal digits that give a number of GiB at least three significant digits.
int decimals(double number) {
  auto const leading_zeros = std::max(0, static_cast<int>(std::ceil(-std::log10(number))));
  return leading_zeros == 0 ? 3 : 2 + leading_zeros;
}

} // namespace

std::string in_gibibytes(std::size_t bytes) {
  if (bytes == 0) return "0 GiB";
  auto const number = gibibytes(bytes);
  return fmt::format("{:.{}f} GiB", number, decimals(number));
}

std::string memory_option_for(std::size_t bytes) {
  auto const number = gibibytes(bytes);
  double const unit = std::pow(10.0, -decimals(number));
  return fmt::format("{:.{}f}", (std::floor(number / unit) + 1.0) * unit, decimals(number));
}

void batch_exceeds_memory(std::size_t samples, std::size_t batch_bytes, std::size_t weight_bytes, std::size_t limit,
                          std::size_t most) {
  fail<ResourceError>(
      "a batch of {} samples needs {} beside {} of weights, but only {} may be used, enough for {} samples; {}",
      samples, in_gibibytes(batch_bytes), in_gibibytes(weight_bytes), in_gibibytes(limit), most,
      most == 0 ? raise_limit + std::string(" or take a device with more memory")
                : std::string("lower --batch or ") + raise_limit);
}

void layer_is_too_wide(std::size_t number, std::size_t num_inputs, std::size_t num_outputs) {
  fail<InputError>("layer {} has {} inputs and {} outputs, expected at most 2^31 - 1 of each", number, num_inputs,
                   num_outputs);
}

} // namespace varve
