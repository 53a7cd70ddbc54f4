#include "fuzz/target.hpp"

#include "io/json_text.hpp"
#include "receipts/inference_receipt.hpp"
#include "receipts/receipt_members.hpp"
#include "training/training_receipt.hpp"

namespace varve::fuzz {
namespace {

void check(InferenceReceipt const& receipt) {
  auto const again = scratch_folder() / "again.json";
  write_receipt(again, receipt);
  auto const read = read_receipt(again);
  require(differences(read, receipt).empty() && read.leaves == receipt.leaves, "the receipt differs when read again");
  require(contradictions(read) == contradictions(receipt), "the receipt contradicts itself otherwise when read again");
}

void check(SampleProof const& proof) {
  auto const again = scratch_folder() / "again.json";
  write_proof(again, proof);
  auto const read = proof_of(read_receipt_json(again, {kSampleProof}), "again");
  require(read.leaves == proof.leaves && contradictions(read) == contradictions(proof),
          "the proof differs when read again");
}

void check(TrainingReceipt const& receipt) {
  auto const text = to_json(receipt);
  auto const read = training_receipt_of(parse_json(text, "again", text.size()), "again");
  require(contradictions(read).empty() && to_json(read) == text, "the receipt differs when read again");
  static_cast<void>(contradictions(receipt));
  static_cast<void>(differences(receipt, read));
}

} // namespace

/// A receipt of an inference or a training, or a proof. What is accepted is written and read again as it is.
VARVE_FUZZ_TARGET(receipt) {
  auto const path = file_of(bytes, "receipt.json");
  auto const json = read_receipt_json(path, {kInferenceReceipt, kTrainingReceipt, kSampleProof});
  if (json["kind"] == kTrainingReceipt) return check(training_receipt_of(json, path.string()));
  if (json["kind"] == kSampleProof) return check(proof_of(json, path.string()));
  check(inference_receipt_of(json, path.string()));
}

} // namespace varve::fuzz
