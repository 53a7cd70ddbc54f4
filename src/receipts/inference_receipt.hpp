#pragma once

#include "core/version.hpp"
#include "receipts/digests.hpp"

#include <nlohmann/json.hpp>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace varve {

/// What the files of such a receipt and of a proof call themselves.
inline constexpr char const* kInferenceReceipt = "varve inference receipt";
inline constexpr char const* kSampleProof = "varve sample proof";

/// What binds an inference to its inputs: anybody who has the network and the samples can compute some of them again,
/// anywhere, and compare (docs/audit.md). Runs that give the same bits give the same bound part.
struct InferenceReceipt {
  /// The bound part.
  int numerics = kNumerics;
  Digest network{};
  std::string precision;
  std::string edge_order;
  std::vector<std::string> reductions; ///< those that change sums, in the order of Reductions
  SampleIndex first_sample = 0;        ///< from 0
  std::uint64_t num_samples = 0;
  Digest inputs{};  ///< root over the inputs of all samples
  Digest outputs{}; ///< root over the last activations of all samples

  /// Not bound, or bound by the roots.
  std::vector<SampleLeaves> leaves; ///< by sample; none in a proof
  nlohmann::ordered_json made_by;   ///< program, version, date, backend; for readers alone
  Digest digest{};                  ///< of the bound part, as the file states it

  /// Computes number of samples, both roots and the digest from the leaves.
  void seal();
};

/// The bound part as JSON: keys in a fixed order. Two receipts with equal texts of it are receipts of the same work.
nlohmann::ordered_json bound_part(InferenceReceipt const& receipt);

/// SHA-256 of that text.
Digest digest_of(InferenceReceipt const& receipt);

/// Writes a receipt as JSON; the file appears whole or not at all. Throws as OutputFile does.
void write_receipt(std::filesystem::path const& path, InferenceReceipt const& receipt);

/// Reads a receipt. Throws InputError, naming the file, if it is none or of a later version.
InferenceReceipt read_receipt(std::filesystem::path const& path);

/// The same from the JSON of a file.
InferenceReceipt inference_receipt_of(nlohmann::ordered_json const& json, std::string const& place);

/// What contradicts itself in a receipt, so that somebody must have altered it: one sentence each.
std::vector<std::string> contradictions(InferenceReceipt const& receipt);

/// One sample of a receipt, which anybody can check against the bound part without the leaves of the others.
struct SampleProof {
  InferenceReceipt receipt; ///< without leaves
  std::size_t place = 0;    ///< of the sample, from 0
  SampleLeaves leaves;
  std::vector<Digest> input_path, output_path; ///< path_of() its leaves
};

/// The proof of the sample at this place of a receipt.
SampleProof proof_of(InferenceReceipt const& receipt, std::size_t place);

/// Writes a proof as JSON; the file appears whole or not at all. Throws as OutputFile does.
void write_proof(std::filesystem::path const& path, SampleProof const& proof);

/// Reads the JSON of such a file. Throws InputError "PLACE: ..." if it is something else.
SampleProof proof_of(nlohmann::ordered_json const& json, std::string const& place);

/// What contradicts itself in a proof: one sentence each.
std::vector<std::string> contradictions(SampleProof const& proof);

/// What differs between two receipts, one sentence each, the first sample that differs included; none if they are of
/// the same work.
std::vector<std::string> differences(InferenceReceipt const& left, InferenceReceipt const& right);

} // namespace varve
