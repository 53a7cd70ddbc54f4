#include "engine/sentences.hpp"

#include "core/error.hpp"
#include "engine/inference.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string>

namespace varve {
namespace {

constexpr char const* raise_limit = "raise --device-memory-limit (without a device of its own: --memory-limit)";

double gibibytes(std::size_t bytes) { return static_cast<double>(bytes) / (1024.0 * 1024.0 * 1024.0); }

/// "1.234 GiB", "0.0000000931 GiB": the unit of the options that limit memory, with three digits that say something.
std::string in_gibibytes(std::size_t bytes) {
  if (bytes == 0) return "0 GiB";
  auto const number = gibibytes(bytes);
  auto const leading_zeros = std::max(0, static_cast<int>(std::ceil(-std::log10(number))));
  return fmt::format("{:.{}f} GiB", number, leading_zeros == 0 ? 3 : 2 + leading_zeros);
}

} // namespace

void weights_exceed_memory(std::size_t num_layers, std::size_t bytes, std::size_t limit) {
  throw ResourceError(fmt::format("the weights of the first {} layers need {}, but only {} may be used; "
                                  "{} or take a device with more memory",
                                  num_layers, in_gibibytes(bytes), in_gibibytes(limit), raise_limit));
}

void weights_exceed_buffers(std::size_t number, std::size_t bytes, std::size_t limit) {
  throw ResourceError(fmt::format(
      "the weights of layer {} need {}, and twice as much is needed to stream the weights of all layers to the "
      "device, but only {} may be used for weights; {} or --device-weight-limit, or take a device with more "
      "memory",
      number, in_gibibytes(bytes), in_gibibytes(limit), raise_limit));
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

WeightTraffic& WeightTraffic::operator+=(WeightTraffic const& other) {
  wait_seconds += other.wait_seconds;
  copy_seconds += other.copy_seconds;
  make_seconds += other.make_seconds;
  copied_bytes += other.copied_bytes;
  return *this;
}

std::string describe(StreamSummary const& stream) {
  auto text = fmt::format("weights streamed: {} segments through {} buffers of {:.1f} MiB", stream.num_segments,
                          stream.num_buffers, 1024.0 * gibibytes(stream.buffer_bytes));
  if (stream.num_resident > 0) text += fmt::format("; {} of them stay on the device", stream.num_resident);
  if (stream.num_remade > 0)
    text += fmt::format("; {} are read and packed again each time, for the host cannot keep them", stream.num_remade);
  return text;
}

std::string describe(EdgeOrderReport const& order) {
  return fmt::format("edges of {} layer{} ordered against bank conflicts: {:.2f} wavefronts a step, {:.2f} if they "
                     "ascended; in {:.3f} s of all threads",
                     order.num_layers, order.num_layers == 1 ? "" : "s", order.chosen.wavefronts_per_step(),
                     order.ascending.wavefronts_per_step(), order.seconds);
}

bool LayerChoice::is_like(LayerChoice const& other) const {
  return kernel == other.kernel && format == other.format && index_bits == other.index_bits &&
         reads_bits == other.reads_bits && counts_entries == other.counts_entries;
}

void LayerChoice::append(LayerChoice const& next) {
  last_layer = next.last_layer;
  num_launches += next.num_launches;
  num_edges += next.num_edges;
  num_stored += next.num_stored;
  num_staged_inputs += next.num_staged_inputs;
  num_cones += next.num_cones;
}

std::string describe(LayerChoice const& choice) {
  std::string const layers = choice.first_layer == choice.last_layer
                                 ? fmt::format("layer {}", choice.first_layer)
                                 : fmt::format("layers {}-{}", choice.first_layer, choice.last_layer);
  return fmt::format("{}: {} kernel, {}, {}-bit indices, {} launch{}{}", layers, choice.kernel, choice.format,
                     choice.index_bits, choice.num_launches, choice.num_launches == 1 ? "" : "es",
                     choice.reads_bits       ? "; 0/1 samples as bits"
                     : choice.counts_entries ? "; entries of 0/1 samples counted"
                                             : "");
}

std::string explain(LayerChoice const& choice) {
  auto const per = [](EdgeOffset part, EdgeOffset whole) {
    return whole == 0 ? 0.0 : static_cast<double>(part) / static_cast<double>(whole);
  };
  double const stored = per(choice.num_stored, choice.num_edges);
  std::string why;
  if (choice.kernel == "cones") {
    why = fmt::format(
        "outputs depend on so few neurons, even over several layers, that {} groups of them are computed by "
        "themselves, {:.1f} layers in one pass over the activations",
        choice.num_cones,
        static_cast<double>(choice.last_layer - choice.first_layer + 1) / static_cast<double>(choice.num_launches));
  } else if (choice.format.starts_with("pattern")) {
    why = fmt::format("outputs share whole input lists: blocks of them store {:.2f} weights per edge, and read each "
                      "input once",
                      stored);
  } else if (choice.format.starts_with("staged")) {
    why = fmt::format("outputs share inputs, though not whole lists: an input brought into scratch serves {:.1f} edges",
                      per(choice.num_edges, choice.num_staged_inputs));
  } else if (choice.format.starts_with("sliced")) {
    why = fmt::format("outputs share few inputs; their degrees differ little: padding stores {:.2f} weights per edge",
                      stored);
  } else {
    why = "outputs share few inputs and differ much in degree: rows are stored without padding";
  }
  if (choice.kernel == "fused") {
    why += fmt::format("; tiles stay in team scratch for {:.1f} layers a launch",
                       static_cast<double>(choice.last_layer - choice.first_layer + 1) /
                           static_cast<double>(choice.num_launches));
  } else if (choice.kernel == "spread") {
    why += "; samples are few: the outputs of each layer are spread over the device";
  } else if (choice.kernel == "stationary") {
    why += "; weights stay in team scratch while the live samples pass by, found through their list";
  }
  if (choice.reads_bits) {
    why += "; samples whose values are all equal never become numbers: this layer adds up weights where their bits are "
           "set";
  }
  if (choice.counts_entries) {
    why += "; of samples whose values are all equal, this layer counts the entries that each output reads, for its "
           "weights and biases are all equal";
  }
  return why;
}

} // namespace varve
