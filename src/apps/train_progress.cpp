#include "apps/train_progress.hpp"

#include "apps/command.hpp"

#include <fmt/format.h>

namespace varve {

TrainProgress::TrainProgress(std::size_t samples_per_epoch, std::uint64_t num_epochs, double num_taken)
    : samples_per_epoch_(samples_per_epoch),
      num_samples_(static_cast<double>(samples_per_epoch) * static_cast<double>(num_epochs)),
      num_before_(num_taken),
      is_terminal_(static_cast<bool>(terminal_progress(""))) {}

void TrainProgress::show(std::uint64_t epoch, std::size_t num_taken) {
  constexpr double interval = 0.2;
  if (!is_terminal_ || num_taken >= samples_per_epoch_) return;
  double const seconds = time_.seconds();
  if (seconds - last_seconds_ < interval) return;
  last_seconds_ = seconds;
  double const all_taken =
      static_cast<double>(epoch) * static_cast<double>(samples_per_epoch_) + static_cast<double>(num_taken);
  double const rate = (all_taken - num_before_) / seconds;
  // of one width, so that no character of the line before stays
  auto const what = fmt::format("epoch {:<4}{:>9.0f} samples/s, {:>9} left", epoch + 1, rate,
                                readable_seconds((num_samples_ - all_taken) / rate));
  terminal_progress(what)(num_taken, samples_per_epoch_);
  is_shown_ = true;
}

void TrainProgress::clear() {
  if (is_shown_) terminal_progress("")(1, 1); // a line that is complete removes itself
  is_shown_ = false;
}

} // namespace varve
