#include "training/history.hpp"

#include "core/error.hpp"
#include "io/input_files.hpp"
#include "io/output_file.hpp"
#include "io/text_file.hpp"

#include <fmt/format.h>

#include <sstream>
#include <utility>

namespace varve {

std::string History::head() const {
  std::string const columns = "epoch\tsteps\trate\tloss\taccuracy\tvalidation_loss\tvalidation_accuracy";
  return has_changes_ ? columns + "\tdropped_edges\treturned_edges" : columns;
}

std::string History::line_of(EpochResult const& result) const {
  auto line = fmt::format("{}\t{}\t{}\t{}\t{}\t", result.epoch, result.num_steps, result.rate, result.training.mean(),
                          result.training.accuracy());
  line += result.validation ? fmt::format("{}\t{}", result.validation->mean(), result.validation->accuracy()) : "\t";
  if (has_changes_) line += fmt::format("\t{}\t{}", result.pattern.dropped, result.pattern.returned);
  return line;
}

History::History(std::filesystem::path path, std::vector<EpochResult> const& epochs, std::uint64_t num_epochs,
                 bool has_changes)
    : path_(std::move(path)), has_changes_(has_changes) {
  if (epochs.size() < num_epochs) {
    read(num_epochs);
    return;
  }
  for (auto const& epoch : epochs) lines_.push_back(line_of(epoch));
  if (!lines_.empty()) write();
}

void History::read(std::uint64_t num_epochs) {
  num_missing_ = num_epochs;
  if (!std::filesystem::exists(path_)) return;
  std::istringstream file(read_text(path_));
  release_input(path_); // it is replaced after each epoch
  std::string line;
  if (!std::getline(file, line) || line != head()) {
    throw InputError(
        fmt::format("{}: line 1 is not the head of a history of varve train, to which the checkpoint's epochs "
                    "could be added",
                    path_.string()));
  }
  while (lines_.size() < num_epochs && std::getline(file, line)) lines_.push_back(line);
  num_missing_ = num_epochs - lines_.size();
}

void History::add(EpochResult const& result) {
  lines_.push_back(line_of(result));
  write();
}

void History::write() const {
  OutputFile file(path_);
  file.write(head() + "\n");
  for (auto const& line : lines_) file.write(line + "\n");
  file.commit();
}

} // namespace varve
