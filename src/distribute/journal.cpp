#include "distribute/journal.hpp"

#include "core/error.hpp"
#include "distribute/journal_files.hpp"
#include "io/input_files.hpp"
#include "io/json_text.hpp"

#include <fmt/format.h>

#include <string>
#include <utility>

namespace varve {
namespace {

namespace fs = std::filesystem;

constexpr int journal_version = 1;

} // namespace

Journal::Journal(fs::path const& path, nlohmann::ordered_json run, int rank, int num_ranks) : run_(std::move(run)) {
  open_files(path, rank, num_ranks);
  for (std::size_t number = 0; number < files_.size(); ++number) {
    if (files_[number].num_records() == 0) continue;
    require_this_run(files_[number]);
    find_batches(number);
  }
}

void Journal::open_files(fs::path const& path, int rank, int num_ranks) {
  files_.emplace_back(journal_of_rank(path, rank), RecordFile::Purpose::append);
  for (auto const& left : journals_left(path, rank, num_ranks)) files_.emplace_back(left, RecordFile::Purpose::read);
}

void Journal::require_this_run(RecordFile const& file) {
  auto const head = parse_json(file.read(0), file.path().string());
  if (!head.is_object() || !head.contains("run") || !head["run"].is_object() || !head.contains("network")) {
    throw InputError(fmt::format("{} does not begin with the description of a run", file.path().string()));
  }
  if (!head.contains("version") || head["version"] != journal_version) {
    throw InputError(fmt::format("{} has version {} of the journal, expected {}", file.path().string(),
                                 member_text(head, "version"), journal_version));
  }
  require_same_run(head["run"], run_, file.path());
  network_ = head["network"];
}

void Journal::find_batches(std::size_t number) {
  auto const& file = files_[number];
  for (std::size_t record = 1; record < file.num_records(); ++record) {
    auto const place = fmt::format("{}: record {}", file.path().string(), record);
    ranges_.push_back(batch_of_bytes(file.read(record), place).samples);
    places_.push_back({number, record});
  }
}

void Journal::begin(nlohmann::ordered_json const& network) {
  if (files_.front().num_records() > 0) return;
  files_.front().append(json_text({{"version", journal_version}, {"run", run_}, {"network", network}}));
}

void Journal::add(FinishedBatch const& batch) {
  VARVE_REQUIRE(files_.front().num_records() > 0, "a journal is written before it has begun");
  require_unchanged_inputs(); // otherwise a later run on the changed inputs would accept this batch as its own
  places_.push_back({0, files_.front().num_records()});
  files_.front().append(to_bytes(batch));
  ranges_.push_back(batch.samples);
}

std::string Journal::read(std::size_t number) const {
  auto const place = places_.at(number);
  return files_[place.file].read(place.record);
}

std::uint64_t Journal::num_discarded_bytes() const {
  std::uint64_t bytes = 0;
  for (auto const& file : files_) bytes += file.num_discarded_bytes();
  return bytes;
}

} // namespace varve
