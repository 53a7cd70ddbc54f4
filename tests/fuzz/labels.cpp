#include "fuzz/target.hpp"

#include "io/open.hpp"

namespace varve::fuzz {

/// Labels of five samples, in text or IDX; the first byte chooses whether there may be more. Those of some of the
/// samples are a part of those of all.
VARVE_FUZZ_TARGET(labels) {
  bool const may_be_more = !bytes.empty() && bytes.front() % 2 != 0;
  auto const path = file_of(bytes.substr(bytes.empty() ? 0 : 1), "labels");
  auto const all = open_labels(path, {0, 5}, may_be_more ? OtherSamples::ignored : OtherSamples::refused);
  require(all.num_samples() == 5, "there are other labels than those that were asked for");
  auto const first = all.classes.begin();
  require(open_labels(path, {1, 4}, OtherSamples::ignored) == Labels{{first + 1, first + 4}, 1},
          "a part of the labels differs");
}

} // namespace varve::fuzz
