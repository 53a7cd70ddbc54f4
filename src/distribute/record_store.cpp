#include "distribute/record_store.hpp"

#include "core/error.hpp"
#include "io/checksum.hpp"
#include "io/input_files.hpp"
#include "io/json_text.hpp"
#include "io/output_file.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <cstring>
#include <numeric>
#include <system_error>
#include <thread>
#include <utility>

namespace varve {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

constexpr int journal_version = 1;
constexpr std::string_view signature("varvelog", 8);

/// Precedes the content of a record: its length, and the checksum of length and content.
struct RecordHead {
  std::uint64_t length = 0;
  std::uint64_t sum = 0;
};

std::uint64_t sum_of(std::string_view content) { return checksum(content, content.size() + 1); }

fs::path journal_of_rank(fs::path const& path, int rank) {
  return rank == 0 ? path : fs::path(fmt::format("{}.{}", path.string(), rank));
}

/// The rank in a file name: 3 for FILE.3; nullopt for other names.
std::optional<int> rank_of_file(fs::path const& path, std::string const& file) {
  auto const begin = path.filename().string() + ".";
  int rank = 0;
  if (file.starts_with(begin)) std::from_chars(file.data() + begin.size(), file.data() + file.size(), rank);
  return rank > 0 && journal_of_rank(path, rank).filename() == file ? std::optional(rank) : std::nullopt;
}

/// The ranks beyond this job's whose files this rank reads: every num_ranks-th one.
std::vector<int> ranks_left(fs::path const& path, int rank, int num_ranks) {
  std::vector<int> ranks;
  std::error_code error;
  for (auto const& entry : fs::directory_iterator(path.has_parent_path() ? path.parent_path() : ".", error)) {
    auto const found = rank_of_file(path, entry.path().filename().string());
    if (found && *found >= num_ranks && *found % num_ranks == rank) ranks.push_back(*found);
  }
  std::ranges::sort(ranks);
  return ranks;
}

/// The first record of a journal's file: the description of its run.
Json head_of(RecordFile const& file) {
  if (file.num_records() == 0) return nullptr;
  auto head = parse_json(file.read(0), file.path().string());
  if (!head.is_object() || !head.contains("run") || !head["run"].is_object())
    varve::fail<InputError>("{} does not begin with the description of a run", file.path().string());
  if (head.contains("version") && head["version"] == journal_version) return head;
  varve::fail<InputError>("{} has version {} of the journal, expected {}", file.path().string(),
                          member_text(head, "version"), journal_version);
}

/// Throws InputError, naming the first difference, unless the head of a file holds all that `run` holds.
void require_same_run(Json const& head, Json const& run, fs::path const& file) {
  for (auto const& [name, value] : run.items()) {
    if (head.contains(name) && head[name] == value) continue;
    varve::fail<InputError>("{} is the journal of another run: {} is {} there and {} here", file.string(), name,
                            member_text(head, name), json_text(value));
  }
}

} // namespace

RecordFile::RecordFile(fs::path path, Purpose purpose)
    : path_(std::move(path)), is_temporary_(purpose == Purpose::temporary), is_durable_(purpose == Purpose::append) {
  open_file(purpose);
  if (is_temporary_) {
    write_at_end(signature);
    return;
  }
  keep_others_out();
  find_records();
  if (!is_durable_) return;
  if (ftruncate(file_.number(), static_cast<off_t>(end_)) != 0) fail("written", errno);
  if (end_ == 0) write_at_end(signature);
  sync_folder_of(path_); // makes sure that the name of a new file is on the disk, too
}

void RecordFile::fail(char const* what, int error) const {
  auto const name = is_temporary_
                        ? fmt::format("a temporary file for finished batches in the folder {}", path_.string())
                        : path_.string();
  varve::fail<ResourceError>("{} cannot be {}: {}", name, what, std::strerror(error));
}

void RecordFile::open_file(Purpose purpose) {
  if (purpose == Purpose::temporary) {
    file_ = open_temporary_file(path_);
    return;
  }
  int const access = purpose == Purpose::append ? O_RDWR | O_CREAT : O_RDONLY;
  file_ = Descriptor(open(path_.c_str(), access | O_CLOEXEC, 0666));
  if (file_.number() < 0) fail(purpose == Purpose::append ? "written" : "read", errno);
}

/// Locks the file. Waits a moment, because a run whose launcher was killed may still be ending. File systems without
/// locks are accepted.
void RecordFile::keep_others_out() const {
  auto const deadline = std::chrono::steady_clock::now() + std::chrono::seconds(10);
  while (flock(file_.number(), LOCK_EX | LOCK_NB) != 0) {
    if (errno != EWOULDBLOCK && errno != EINTR) return;
    if (std::chrono::steady_clock::now() > deadline) {
      varve::fail<InputError>("{} is in use by another run", path_.string());
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
}

void RecordFile::find_records() {
  struct stat status {};
  if (fstat(file_.number(), &status) != 0) fail("read", errno);
  auto const size = static_cast<std::uint64_t>(status.st_size);
  std::array<char, signature.size()> begin{};
  auto const num_begin = read_at(file_.number(), 0, begin.data(), begin.size());
  if (num_begin < 0) fail("read", errno);
  if (!signature.starts_with(std::string_view(begin.data(), static_cast<std::size_t>(num_begin)))) {
    varve::fail<InputError>("{} is not a journal of Varve", path_.string());
  }
  if (size >= signature.size()) end_ = signature.size();
  while (end_ > 0) {
    auto const content = record_at(end_, size);
    if (!content) break;
    offsets_.push_back(end_);
    end_ += sizeof(RecordHead) + content->size();
  }
  num_discarded_ = size - end_;
}

/// The content of the record at an offset; nullopt if it does not end before `end` or has another checksum.
std::optional<std::string> RecordFile::record_at(std::uint64_t offset, std::uint64_t end) const {
  RecordHead head;
  if (end - offset < sizeof(head)) return std::nullopt;
  if (read_at(file_.number(), offset, reinterpret_cast<char*>(&head), sizeof(head)) < 0) fail("read", errno);
  if (head.length > end - offset - sizeof(head)) return std::nullopt;
  std::string content(head.length, '\0');
  if (read_at(file_.number(), offset + sizeof(head), content.data(), content.size()) < 0) fail("read", errno);
  return sum_of(content) == head.sum ? std::optional(std::move(content)) : std::nullopt;
}

std::string RecordFile::read(std::size_t number) const {
  auto content = record_at(offsets_.at(number), end_);
  if (content) return std::move(*content);
  varve::fail<InputError>("{}: record {} has changed since it was written", path_.string(), number);
}

void RecordFile::append(std::string_view content) {
  RecordHead const head{content.size(), sum_of(content)};
  std::string bytes(reinterpret_cast<char const*>(&head), sizeof(head));
  bytes.append(content);
  offsets_.push_back(end_);
  write_at_end(bytes);
}

void RecordFile::write_at_end(std::string_view bytes) {
  if (!write_at(file_.number(), end_, bytes)) fail("written", errno);
  if (is_durable_ && fsync(file_.number()) != 0) fail("written", errno);
  end_ += bytes.size();
}

RecordStore::RecordStore(fs::path const& folder) {
  files_.emplace_back(folder.empty() ? fs::path(".") : folder, RecordFile::Purpose::temporary);
}

RecordStore::RecordStore(fs::path const& journal, int rank, int num_ranks) {
  files_.emplace_back(journal_of_rank(journal, rank), RecordFile::Purpose::append);
  for (int const left : ranks_left(journal, rank, num_ranks))
    files_.emplace_back(journal_of_rank(journal, left), RecordFile::Purpose::read);
  for (auto const& file : files_) heads_.push_back(head_of(file));
}

Json RecordStore::found_run() const {
  auto const found = std::ranges::find_if(heads_, [](Json const& head) { return !head.is_null(); });
  return found == heads_.end() ? Json() : found->at("run");
}

void RecordStore::resume(Json const& run, RangeOf const& range_of) {
  run_ = run;
  for (std::size_t number = 0; number < heads_.size(); ++number) {
    auto const& file = files_[number];
    if (heads_[number].is_null()) continue;
    require_same_run(heads_[number]["run"], run, file.path());
    for (std::size_t record = 1; record < file.num_records(); ++record) {
      ranges_.push_back(range_of(file.read(record), fmt::format("{}: record {}", file.path().string(), record)));
      places_.push_back({number, record});
    }
  }
}

Json RecordStore::network() const {
  auto const found = std::ranges::find_if(heads_, [](Json const& head) { return head.contains("network"); });
  return found == heads_.end() ? Json() : found->at("network");
}

void RecordStore::begin(Json const& network) {
  if (files_.front().num_records() > 0) return;
  Json head = {{"version", journal_version}, {"run", run_}};
  if (!network.is_null()) head["network"] = network;
  files_.front().append(json_text(head));
}

void RecordStore::add(SampleRange range, std::string record) {
  if (files_.empty()) {
    in_memory_.push_back(std::move(record));
  } else {
    auto& file = files_.front();
    if (!heads_.empty()) {
      VARVE_REQUIRE(file.num_records() > 0, "a journal is written before it has begun");
      require_unchanged_inputs(); // otherwise a later run on the changed inputs would accept this record as its own
    }
    places_.push_back({0, file.num_records()});
    file.append(record);
  }
  ranges_.push_back(range);
}

std::string RecordStore::read(std::size_t number) const {
  if (files_.empty()) return in_memory_.at(number);
  auto const place = places_.at(number);
  return files_[place.file].read(place.record);
}

std::uint64_t RecordStore::num_discarded_bytes() const {
  return std::accumulate(files_.begin(), files_.end(), std::uint64_t{0},
                         [](std::uint64_t sum, RecordFile const& file) { return sum + file.num_discarded_bytes(); });
}

void for_each_in_order(Communicator const& communicator, RecordStore const& store,
                       std::function<void(std::string const& record)> const& consume) {
  auto const& ranges = store.ranges();
  std::vector<std::size_t> order(ranges.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::sort(order, {}, [&](std::size_t number) { return ranges[number]; });
  std::vector<std::uint64_t> keys;
  for (auto const number : order) keys.push_back(ranges[number].first);
  communicator.gather_in_order(
      keys, [&](std::size_t place) { return store.read(order[place]); }, consume);
}

} // namespace varve
