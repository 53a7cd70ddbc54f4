#include "network/loss.hpp"

#include "core/error.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace varve {

std::string to_string(Loss loss) { return loss == Loss::cross_entropy ? "cross-entropy" : "mean-square"; }

Loss parse_loss(std::string const& name) {
  for (auto const loss : {Loss::cross_entropy, Loss::mean_square})
    if (name == to_string(loss)) return loss;
  throw UsageError("there is no loss '" + name + "'; there are: cross-entropy, mean-square");
}

void require_fit(Answers const& answers, std::size_t num_samples, std::size_t num_outputs, Loss loss,
                 std::string const& place) {
  char const* const what = answers.are_labels() ? "labels" : "targets";
  if (answers.num_samples() != num_samples) {
    throw InputError(fmt::format("{}: found {} {} for {} samples, expected one each", place, answers.num_samples(),
                                 what, num_samples));
  }
  if (!answers.are_labels()) {
    if (loss == Loss::cross_entropy)
      throw UsageError(fmt::format("{} holds targets, but the loss cross-entropy needs labels", place));
    if (answers.values.num_columns != num_outputs) {
      throw InputError(fmt::format("{}: found targets of {} values, expected {}, the outputs of the network", place,
                                   answers.values.num_columns, num_outputs));
    }
    return;
  }
  auto const bad = std::ranges::find_if(answers.labels, [&](auto label) { return label >= num_outputs; });
  if (bad != answers.labels.end()) {
    throw InputError(fmt::format("{}: sample {} has the label {}, expected 0 to {}, the last output of the network",
                                 place, bad - answers.labels.begin() + 1, *bad, num_outputs - 1));
  }
}

} // namespace varve
