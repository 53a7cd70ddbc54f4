#include "receipts/inference_receipt.hpp"

#include "core/error.hpp"
#include "io/json_text.hpp"
#include "io/output_file.hpp"
#include "io/text_file.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <climits>
#include <limits>
#include <string_view>
#include <utility>

namespace varve {
namespace {

constexpr char const* kind = "varve inference receipt";
constexpr int version = 1;
constexpr std::size_t digits_of_digest = 2 * std::tuple_size_v<Digest>;

/// The digests of all samples as one text.
std::string texts_of(std::vector<SampleLeaves> const& leaves, Digest SampleLeaves::*digest) {
  std::string text;
  text.reserve(leaves.size() * digits_of_digest);
  for (auto const& leaf : leaves) text += to_hex(leaf.*digest);
  return text;
}

/// Reads members of a JSON object; a message names the file.
class Members {
public:
  Members(nlohmann::ordered_json const& object, std::string place) : object_(object), place_(std::move(place)) {
    if (!object.is_object()) fail_at(place_, "no object", "the members of a receipt");
  }

  nlohmann::ordered_json const& member(std::string const& name) const {
    auto const found = object_.find(name);
    if (found == object_.end()) fail_at(place_, "no member " + name, "a receipt");
    return *found;
  }
  std::string text(std::string const& name) const {
    auto const& value = member(name);
    if (!value.is_string()) fail(name, "a text");
    return value.get<std::string>();
  }
  std::uint64_t number(std::string const& name) const {
    auto const& value = member(name);
    if (!value.is_number_unsigned()) fail(name, "a whole number from 0 on");
    return value.get<std::uint64_t>();
  }
  std::vector<Digest> digests(std::string const& name, std::size_t count) const {
    auto const digits = text(name);
    if (digits.size() / digits_of_digest != count || digits.size() % digits_of_digest != 0)
      fail(name, fmt::format("{} digests of {} hexadecimal digits", count, digits_of_digest));
    std::vector<Digest> digests(count);
    for (std::size_t place = 0; place < digits.size(); place += 2) {
      unsigned char byte = 0;
      auto const* const first = digits.data() + place;
      if (std::from_chars(first, first + 2, byte, 16).ptr != first + 2) fail(name, "hexadecimal digits");
      digests[place / digits_of_digest][place % digits_of_digest / 2] = byte;
    }
    return digests;
  }
  Digest digest(std::string const& name) const { return digests(name, 1).front(); }
  std::vector<std::string> texts(std::string const& name) const {
    std::vector<std::string> texts;
    auto const& list = member(name);
    if (!list.is_array()) fail(name, "a list");
    for (auto const& text : list) {
      if (!text.is_string()) fail(name, "a list of texts");
      texts.push_back(text.get<std::string>());
    }
    return texts;
  }

private:
  [[noreturn]] void fail(std::string const& name, std::string const& expected) const {
    fail_at(place_, fmt::format("{} in {}", member_text(object_, name), name), expected);
  }

  nlohmann::ordered_json const& object_;
  std::string place_;
};

/// The first sample whose digests differ, as a sentence; empty if none does.
std::string first_difference(InferenceReceipt const& left, InferenceReceipt const& right, Digest SampleLeaves::*digest,
                             char const* what) {
  auto const [one, other] = std::ranges::mismatch(left.leaves, right.leaves, {}, digest, digest);
  if (one == left.leaves.end() || other == right.leaves.end()) return {};
  auto const equal = static_cast<SampleIndex>(one - left.leaves.begin());
  return fmt::format("sample {} is the first with another {}", left.first_sample + 1 + equal, what);
}

} // namespace

void InferenceReceipt::seal() {
  inputs = root_of(leaves, &SampleLeaves::input);
  outputs = root_of(leaves, &SampleLeaves::output);
  digest = digest_of(*this);
}

nlohmann::ordered_json bound_part(InferenceReceipt const& receipt) {
  return {{"numerics", receipt.numerics},      {"network", to_hex(receipt.network)},
          {"precision", receipt.precision},    {"edge_order", receipt.edge_order},
          {"reductions", receipt.reductions},  {"first_sample", receipt.first_sample + 1},
          {"samples", receipt.leaves.size()},  {"inputs", to_hex(receipt.inputs)},
          {"outputs", to_hex(receipt.outputs)}};
}

Digest digest_of(InferenceReceipt const& receipt) { return sha256(json_text(bound_part(receipt))); }

void write_receipt(std::filesystem::path const& path, InferenceReceipt const& receipt) {
  nlohmann::ordered_json const file = {{"kind", kind},
                                       {"version", version},
                                       {"bound", bound_part(receipt)},
                                       {"digest", to_hex(receipt.digest)},
                                       {"made_by", receipt.made_by},
                                       {"input_leaves", texts_of(receipt.leaves, &SampleLeaves::input)},
                                       {"output_leaves", texts_of(receipt.leaves, &SampleLeaves::output)}};
  OutputFile output(path);
  output.write(json_text(file, 2) + "\n");
  output.commit();
}

InferenceReceipt read_receipt(std::filesystem::path const& path) {
  auto const text = read_text(path);
  auto const json = parse_json(text, path.string(), text.size());
  if (json.is_discarded() || !json.is_object() || json.value("kind", nlohmann::ordered_json()) != kind)
    fail_at(path.string(), "another file", "a receipt of varve infer --receipt");
  Members const file(json, path.string());
  if (file.number("version") != version)
    fail_at(path.string(), fmt::format("version {} of receipts", file.number("version")), "version 1");
  Members const bound(file.member("bound"), path.string());
  InferenceReceipt receipt;
  receipt.numerics = static_cast<int>(std::min<std::uint64_t>(bound.number("numerics"), INT_MAX)); // another one
  receipt.network = bound.digest("network");
  receipt.precision = bound.text("precision");
  receipt.edge_order = bound.text("edge_order");
  receipt.reductions = bound.texts("reductions");
  receipt.first_sample = bound.number("first_sample") - 1;
  if (receipt.first_sample == std::numeric_limits<SampleIndex>::max())
    fail_at(path.string(), "0 in first_sample", "a number from 1 on");
  receipt.inputs = bound.digest("inputs");
  receipt.outputs = bound.digest("outputs");
  receipt.made_by = file.member("made_by");
  auto const count = bound.number("samples");
  auto const inputs = file.digests("input_leaves", count);
  auto const outputs = file.digests("output_leaves", count);
  for (std::size_t sample = 0; sample < count; ++sample) receipt.leaves.push_back({inputs[sample], outputs[sample]});
  receipt.digest = file.digest("digest");
  return receipt;
}

std::vector<std::string> contradictions(InferenceReceipt const& receipt) {
  std::vector<std::string> found;
  if (receipt.digest != digest_of(receipt)) found.emplace_back("its digest is not that of its bound part");
  if (receipt.inputs != root_of(receipt.leaves, &SampleLeaves::input))
    found.emplace_back("the digests of its inputs have another root");
  if (receipt.outputs != root_of(receipt.leaves, &SampleLeaves::output))
    found.emplace_back("the digests of its outputs have another root");
  return found;
}

std::vector<std::string> differences(InferenceReceipt const& left, InferenceReceipt const& right) {
  std::vector<std::string> found;
  auto const one = bound_part(left);
  auto const other = bound_part(right);
  for (auto const& [name, value] : one.items()) {
    if (value != other[name]) found.push_back(fmt::format("{}: {} and {}", name, value.dump(), other[name].dump()));
  }
  if (left.first_sample != right.first_sample) return found;
  for (auto const& sentence : {first_difference(left, right, &SampleLeaves::input, "input"),
                               first_difference(left, right, &SampleLeaves::output, "output")})
    if (!sentence.empty()) found.push_back(sentence);
  return found;
}

} // namespace varve
