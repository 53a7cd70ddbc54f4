#include "receipts/inference_receipt.hpp"

#include "io/json_text.hpp"
#include "io/output_file.hpp"
#include "io/text_file.hpp"
#include "receipts/receipt_members.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <string_view>

namespace varve {
namespace {

/// A file of this kind without digests of samples.
nlohmann::ordered_json head_of(char const* kind, InferenceReceipt const& receipt) {
  return {{"kind", kind},
          {"version", kReceiptVersion},
          {"bound", bound_part(receipt)},
          {"digest", to_hex(receipt.digest)},
          {"made_by", receipt.made_by}};
}

/// Reads what head_of() wrote.
InferenceReceipt without_leaves(nlohmann::ordered_json const& json, std::string const& place) {
  ReceiptMembers const file(json, place);
  ReceiptMembers const bound(file.member("bound"), place);
  InferenceReceipt receipt;
  receipt.numerics = bound.numerics();
  receipt.network = bound.digest("network");
  receipt.precision = bound.text("precision");
  receipt.edge_order = bound.text("edge_order");
  receipt.reductions = bound.texts("reductions");
  receipt.first_sample = bound.number("first_sample") - 1;
  if (receipt.first_sample == std::numeric_limits<SampleIndex>::max())
    fail_at(place, "0 in first_sample", "a number from 1 on");
  receipt.num_samples = bound.number("samples");
  receipt.inputs = bound.digest("inputs");
  receipt.outputs = bound.digest("outputs");
  receipt.made_by = file.member("made_by");
  receipt.digest = file.digest("digest");
  return receipt;
}

/// A member of a JSON object: digests of all samples. The library for JSON takes longer for a long text than the
/// digests take.
std::string member_of(char const* name, std::vector<Digest> const& digests) {
  return fmt::format(",\n  \"{}\": \"{}\"", name, hex_of(digests));
}

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
  num_samples = leaves.size();
  inputs = root_of(leaves, &SampleLeaves::input);
  outputs = root_of(leaves, &SampleLeaves::output);
  digest = digest_of(*this);
}

nlohmann::ordered_json bound_part(InferenceReceipt const& receipt) {
  return {{"numerics", receipt.numerics},      {"network", to_hex(receipt.network)},
          {"precision", receipt.precision},    {"edge_order", receipt.edge_order},
          {"reductions", receipt.reductions},  {"first_sample", receipt.first_sample + 1},
          {"samples", receipt.num_samples},    {"inputs", to_hex(receipt.inputs)},
          {"outputs", to_hex(receipt.outputs)}};
}

Digest digest_of(InferenceReceipt const& receipt) { return sha256(json_text(bound_part(receipt))); }

void write_receipt(std::filesystem::path const& path, InferenceReceipt const& receipt) {
  auto text = json_text(head_of(kInferenceReceipt, receipt), 2);
  text.resize(text.size() - std::string_view("\n}").size());
  OutputFile output(path);
  output.write(text);
  output.write(member_of("input_leaves", digests_of(receipt.leaves, &SampleLeaves::input)));
  output.write(member_of("output_leaves", digests_of(receipt.leaves, &SampleLeaves::output)) + "\n}\n");
  output.commit();
}

InferenceReceipt read_receipt(std::filesystem::path const& path) {
  return inference_receipt_of(read_receipt_json(path, {kInferenceReceipt}), path.string());
}

InferenceReceipt inference_receipt_of(nlohmann::ordered_json const& json, std::string const& place) {
  auto receipt = without_leaves(json, place);
  ReceiptMembers const file(json, place);
  auto const inputs = file.digests("input_leaves", receipt.num_samples);
  auto const outputs = file.digests("output_leaves", receipt.num_samples);
  for (std::size_t sample = 0; sample < inputs.size(); ++sample)
    receipt.leaves.push_back({inputs[sample], outputs[sample]});
  return receipt;
}

SampleProof proof_of(InferenceReceipt const& receipt, std::size_t place) {
  SampleProof proof{receipt, place, receipt.leaves.at(place), {}, {}};
  proof.receipt.leaves.clear();
  proof.input_path = path_of(digests_of(receipt.leaves, &SampleLeaves::input), place);
  proof.output_path = path_of(digests_of(receipt.leaves, &SampleLeaves::output), place);
  return proof;
}

void write_proof(std::filesystem::path const& path, SampleProof const& proof) {
  auto file = head_of(kSampleProof, proof.receipt);
  file.update({{"sample", proof.receipt.first_sample + proof.place + 1},
               {"input", to_hex(proof.leaves.input)},
               {"output", to_hex(proof.leaves.output)},
               {"input_path", hex_of(proof.input_path)},
               {"output_path", hex_of(proof.output_path)}});
  OutputFile output(path);
  output.write(json_text(file, 2) + "\n");
  output.commit();
}

SampleProof proof_of(nlohmann::ordered_json const& json, std::string const& place) {
  ReceiptMembers const file(json, place);
  SampleProof proof;
  proof.receipt = without_leaves(json, place);
  auto const first = proof.receipt.first_sample;
  auto const count = proof.receipt.num_samples;
  auto const sample = file.number("sample");
  if (sample <= first || sample - first > count) fail_at(place, "another sample", "one of the receipt");
  proof.place = sample - first - 1;
  proof.leaves = {file.digest("input"), file.digest("output")};
  auto const length = path_length(proof.place, count);
  proof.input_path = file.digests("input_path", length);
  proof.output_path = file.digests("output_path", length);
  return proof;
}

std::vector<std::string> contradictions(SampleProof const& proof) {
  auto const& receipt = proof.receipt;
  std::vector<std::string> found;
  if (receipt.digest != digest_of(receipt)) found.emplace_back("its digest is not that of its bound part");
  if (root_by(proof.leaves.input, proof.place, receipt.num_samples, proof.input_path) != receipt.inputs)
    found.emplace_back("the path of its input leads to another root");
  if (root_by(proof.leaves.output, proof.place, receipt.num_samples, proof.output_path) != receipt.outputs)
    found.emplace_back("the path of its output leads to another root");
  return found;
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
