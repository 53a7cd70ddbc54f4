#include "distribute/batch_store.hpp"

#include "distribute/record_file.hpp"

#include <algorithm>
#include <numeric>
#include <stdexcept>

namespace varve {
namespace {

class MemoryStore final : public BatchStore {
public:
  void add(FinishedBatch const& batch) override {
    batches_.push_back(to_bytes(batch));
    ranges_.push_back(batch.samples);
  }

  std::string read(std::size_t number) const override { return batches_.at(number); }

private:
  std::vector<std::string> batches_;
};

class TemporaryStore final : public BatchStore {
public:
  explicit TemporaryStore(std::filesystem::path const& folder) : file_(folder, RecordFile::Purpose::temporary) {}

  void add(FinishedBatch const& batch) override {
    file_.append(to_bytes(batch));
    ranges_.push_back(batch.samples);
  }

  std::string read(std::size_t number) const override { return file_.read(number); }

private:
  RecordFile file_;
};

class NoStore final : public BatchStore {
public:
  void add(FinishedBatch const&) override {}
  std::string read(std::size_t) const override { throw std::logic_error("varve: a batch is read that nobody kept"); }
};

} // namespace

std::unique_ptr<BatchStore> store_nowhere() { return std::make_unique<NoStore>(); }

std::unique_ptr<BatchStore> store_in_memory() { return std::make_unique<MemoryStore>(); }

std::unique_ptr<BatchStore> store_in_temporary_file(std::filesystem::path const& folder) {
  return std::make_unique<TemporaryStore>(folder.empty() ? "." : folder);
}

void for_each_in_order(Communicator const& communicator, BatchStore const& store,
                       std::function<void(FinishedBatch const&)> const& consume) {
  auto const& ranges = store.ranges();
  std::vector<std::size_t> order(ranges.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::sort(order, {}, [&](std::size_t number) { return ranges[number]; });
  std::vector<std::uint64_t> first_samples;
  for (auto const number : order) first_samples.push_back(ranges[number].first);
  communicator.gather_in_order(
      first_samples, [&](std::size_t place) { return store.read(order[place]); },
      [&](std::string const& bytes) { consume(batch_of_bytes(bytes, "finished batches")); });
}

} // namespace varve
