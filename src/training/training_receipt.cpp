#include "training/training_receipt.hpp"

#include "core/error.hpp"
#include "io/json_text.hpp"
#include "receipts/receipt_members.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <string_view>
#include <utility>

namespace varve {
namespace {

/// The leaf of a state: its step, the order of samples and the digests of all layers.
Digest leaf_of_state(TrainingState const& state) {
  Sha256 hash;
  auto const add = [&](void const* bytes, std::size_t size) { hash.add({static_cast<char const*>(bytes), size}); };
  hash.add(std::string_view("\0varve state 1\n", 15));
  add(&state.step, sizeof(state.step));
  add(state.order.data(), state.order.size());
  for (auto const* const layers : {&state.weights, &state.moments})
    for (auto const& layer : *layers) add(layer.data(), layer.size());
  return hash.finish();
}

Digest root_of_states(std::vector<TrainingState> const& states) {
  std::vector<Digest> leaves(states.size());
  std::ranges::transform(states, leaves.begin(), leaf_of_state);
  return root_of(std::move(leaves));
}

Digest result_of(TrainingReceipt const& receipt) {
  return receipt.states.empty() ? receipt.network : network_digest(receipt.states.back().weights);
}

Digest digest_of_bound(TrainingReceipt const& receipt) { return sha256(json_text(bound_part(receipt))); }

} // namespace

void TrainingReceipt::add_state(std::uint64_t step, Network const& present, OptimizerState const& moments) {
  if (!states.empty() && states.back().step == step) return;
  states.push_back({step, order, layer_digests(present), moment_digests(moments)});
}

TrainingReceipt begin_receipt(Digest const& network, SampleSet const& samples, Answers const& answers,
                              std::string const& recipe, std::uint64_t every) {
  TrainingReceipt receipt;
  receipt.network = network;
  receipt.inputs = root_of(input_digests(samples));
  receipt.answers = answers_digest(answers, samples.first_sample);
  receipt.recipe = parse_json(recipe, "recipe");
  receipt.every = every;
  return receipt;
}

nlohmann::ordered_json bound_part(TrainingReceipt const& receipt) {
  return {
      {"numerics", receipt.numerics},       {"network", to_hex(receipt.network)}, {"inputs", to_hex(receipt.inputs)},
      {"answers", to_hex(receipt.answers)}, {"recipe", receipt.recipe},           {"every", receipt.every},
      {"steps", receipt.num_steps()},       {"states", to_hex(receipt.root)},     {"result", to_hex(receipt.result)}};
}

std::string to_json(TrainingReceipt receipt) {
  receipt.root = root_of_states(receipt.states);
  receipt.result = result_of(receipt);
  auto states = nlohmann::ordered_json::array();
  for (auto const& state : receipt.states) {
    states.push_back({{"step", state.step},
                      {"order", to_hex(state.order)},
                      {"weights", hex_of(state.weights)},
                      {"moments", hex_of(state.moments)}});
  }
  return json_text({{"kind", kTrainingReceipt},
                    {"version", kReceiptVersion},
                    {"bound", bound_part(receipt)},
                    {"digest", to_hex(digest_of_bound(receipt))},
                    {"made_by", receipt.made_by},
                    {"layers", receipt.states.empty() ? 0 : receipt.states.back().weights.size()},
                    {"order", to_hex(receipt.order)},
                    {"states", std::move(states)}},
                   2) +
         "\n";
}

TrainingReceipt training_receipt_of(nlohmann::ordered_json const& json, std::string const& place) {
  ReceiptMembers const file(json, place);
  ReceiptMembers const bound(file.member("bound"), place);
  TrainingReceipt receipt;
  receipt.numerics = bound.numerics();
  receipt.network = bound.digest("network");
  receipt.inputs = bound.digest("inputs");
  receipt.answers = bound.digest("answers");
  receipt.recipe = bound.member("recipe");
  static_cast<void>(ReceiptMembers(receipt.recipe, place + ": recipe")); // an object
  receipt.every = bound.number("every");
  receipt.root = bound.digest("states");
  receipt.result = bound.digest("result");
  receipt.order = file.digest("order");
  receipt.made_by = file.member("made_by");
  receipt.digest = file.digest("digest");
  auto const num_layers = file.number("layers");
  for (auto const& object : file.member("states")) {
    ReceiptMembers const state(object, place);
    receipt.states.push_back({state.number("step"), state.digest("order"), state.digests("weights", num_layers),
                              state.digests("moments", num_layers)});
  }
  bool const ascends = std::ranges::adjacent_find(receipt.states, std::ranges::greater_equal(), &TrainingState::step) ==
                       receipt.states.end();
  if (!ascends || bound.number("steps") != receipt.num_steps())
    throw InputError(place + ": found states of other steps, expected them in order up to the last step");
  return receipt;
}

void resume(TrainingReceipt& receipt, std::string const& text, std::string const& checkpoint) {
  if (text.empty())
    throw InputError(checkpoint + " holds no receipt of the steps so far: it was written without --receipt; begin with "
                                  "another --checkpoint");
  auto found = training_receipt_of(parse_json(text, checkpoint, text.size()), checkpoint + ": receipt");
  bool const is_same = found.network == receipt.network && found.inputs == receipt.inputs &&
                       found.answers == receipt.answers && found.every == receipt.every;
  if (!is_same)
    fail<InputError>("{} holds the receipt of a training with other data, or a state every {} steps and not {}; "
                     "continue with the same, or name another --checkpoint",
                     checkpoint, found.every, receipt.every);
  receipt.order = found.order;
  receipt.states = std::move(found.states);
}

std::vector<std::string> contradictions(TrainingReceipt const& receipt) {
  std::vector<std::string> found;
  if (receipt.digest != digest_of_bound(receipt)) found.emplace_back("its digest is not that of its bound part");
  if (receipt.root != root_of_states(receipt.states)) found.emplace_back("its states have another root");
  if (receipt.result != result_of(receipt)) found.emplace_back("its result is not that of its last state");
  return found;
}

std::string difference(TrainingState const& left, TrainingState const& right) {
  if (left.order != right.order) return "order of the samples";
  for (auto const& [digests, name] :
       {std::pair(&TrainingState::weights, "weights"), std::pair(&TrainingState::moments, "moments")}) {
    auto const [one, other] = std::ranges::mismatch(left.*digests, right.*digests);
    if (one != (left.*digests).end()) return fmt::format("{} of layer {}", name, one - (left.*digests).begin());
    if (other != (right.*digests).end()) return "number of layers";
  }
  return {};
}

std::vector<std::string> differences(TrainingReceipt const& left, TrainingReceipt const& right) {
  std::vector<std::string> found;
  auto const one = bound_part(left);
  auto const other = bound_part(right);
  for (auto const& [name, value] : one.items()) {
    if (value == other[name]) continue;
    if (name != "recipe") {
      found.push_back(fmt::format("{}: {} and {}", name, value.dump(), other[name].dump()));
      continue;
    }
    for (auto const& [option, number] : value.items()) {
      if (other[name].contains(option) && other[name][option] == number) continue;
      found.push_back(fmt::format("{}: {} and {}", option, number.dump(), member_text(other[name], option)));
    }
  }
  if (left.every != right.every) return found;
  auto const num_both = std::min(left.states.size(), right.states.size());
  std::size_t first = 0;
  for (auto last = num_both; first < last;) { // states before `first` are equal, those from `last` on are not
    auto const middle = first + (last - first) / 2;
    bool const is_equal = left.states[middle].step == right.states[middle].step &&
                          difference(left.states[middle], right.states[middle]).empty();
    (is_equal ? first : last) = is_equal ? middle + 1 : middle;
  }
  if (first == num_both || left.states[first].step != right.states[first].step) return found;
  found.push_back(fmt::format("the first difference is in the steps {} to {}: other {}",
                              first == 0 ? 1 : left.states[first - 1].step + 1, left.states[first].step,
                              difference(left.states[first], right.states[first])));
  return found;
}

std::filesystem::path checkpoint_of_step(std::filesystem::path const& folder, std::uint64_t step) {
  return folder / fmt::format("step-{}.safetensors", step);
}

} // namespace varve
