#include "fuzz/target.hpp"

#include "receipts/inference_receipt.hpp"

namespace varve::fuzz {

/// A receipt of inference. What is accepted is written and read again as it is.
VARVE_FUZZ_TARGET(receipt) {
  auto const receipt = read_receipt(file_of(bytes, "receipt.json"));
  auto const again = scratch_folder() / "again.json";
  write_receipt(again, receipt);
  auto const read = read_receipt(again);
  require(differences(read, receipt).empty() && read.leaves == receipt.leaves, "the receipt differs when read again");
  require(contradictions(read) == contradictions(receipt), "the receipt contradicts itself otherwise when read again");
}

} // namespace varve::fuzz
