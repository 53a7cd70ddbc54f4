#include "network/sample_set.hpp"

#include "core/error.hpp"

#include <algorithm>
#include <bit>
#include <exception>
#include <utility>

namespace varve {

void append_rows(SampleSet& all, SampleSet const& part) {
  SparseMatrix& matrix = all.matrix;
  if (matrix.num_rows == 0) {
    all = part;
    return;
  }
  EdgeOffset const offset = matrix.num_entries();
  bool const shares_value = matrix.values.size() == 1 && offset != 1; // one for all entries, not of its only entry
  if (!shares_value || matrix.values != part.matrix.values) {
    if (shares_value) matrix.values.assign(offset, matrix.values.front());
    for (EdgeOffset entry = 0; entry < part.matrix.num_entries(); ++entry)
      matrix.values.push_back(part.matrix.value(entry));
  }
  for (std::size_t row = 1; row <= part.num_samples(); ++row)
    matrix.row_pointers.push_back(offset + part.matrix.row_pointers[row]);
  matrix.num_rows += part.num_samples();
  matrix.column_indices.insert(matrix.column_indices.end(), part.matrix.column_indices.begin(),
                               part.matrix.column_indices.end());
}

SampleBatch::SampleBatch(SampleSet samples) : num_samples_(samples.num_samples()), first_sample_(samples.first_sample) {
  rows_.push_back({std::make_shared<SampleSet const>(std::move(samples)), nullptr, 0, num_samples_});
}

SampleBatch::SampleBatch(ReadySamples samples, SampleIndex first_sample)
    : num_samples_(samples.num_samples()), first_sample_(first_sample) {
  rows_.push_back({nullptr, std::make_shared<ReadySamples const>(std::move(samples)), 0, num_samples_});
}

EdgeOffset SampleBatch::num_entries() const {
  EdgeOffset sum = 0;
  for (auto const& rows : rows_) sum += rows.num_entries();
  return sum;
}

bool SampleBatch::has_one_value() const {
  auto const first = rows_.front().values();
  return std::ranges::all_of(rows_, [&](SampleRows const& rows) {
    return rows.values().size() == 1 && same_bits(rows.values()[0], first[0]);
  });
}

SampleBatch SampleBatch::part(std::size_t first, std::size_t last) const {
  VARVE_REQUIRE(first <= last && last <= num_samples_, "samples outside their batch");
  SampleBatch part = *this;
  part.rows_.clear();
  part.num_samples_ = last - first;
  part.first_sample_ = first_sample_ + first;
  std::size_t begin = 0; // first row of `rows`, counted within this batch
  for (auto const& rows : rows_) {
    std::size_t const end = begin + rows.num_samples();
    std::size_t const from = std::max(first, begin);
    std::size_t const to = std::min(last, end);
    if (from < to) part.rows_.push_back({rows.set, rows.ready, rows.first + (from - begin), rows.first + (to - begin)});
    begin = end;
  }
  if (part.rows_.empty()) part.rows_.push_back({rows_.front().set, rows_.front().ready, 0, 0});
  return part;
}

void SampleBatch::append(SampleBatch const& next) {
  VARVE_REQUIRE(next.num_neurons() == num_neurons(), "samples of different widths in one batch");
  if (next.num_samples() == 0) return;
  if (num_samples_ == 0) rows_.clear();
  rows_.insert(rows_.end(), next.rows_.begin(), next.rows_.end());
  num_samples_ += next.num_samples_;
}

SampleBatch SampleBatch::numbered_from(SampleIndex first_sample) const {
  SampleBatch batch = *this;
  batch.first_sample_ = first_sample;
  return batch;
}

SampleSet to_set(SampleBatch const& batch) {
  SampleSet samples{{batch.num_samples(), batch.num_neurons(), {0}, {}, {}}, batch.first_sample()};
  SparseMatrix& all = samples.matrix;
  all.row_pointers.reserve(all.num_rows + 1);
  all.column_indices.reserve(batch.num_entries());
  bool const has_one_value = batch.has_one_value();
  if (has_one_value) all.values = {batch.rows().front().values()[0]};
  for (auto const& rows : batch.rows()) {
    EdgeOffset const offset = all.num_entries();
    for (auto const pointer : rows.row_pointers().subspan(rows.first + 1, rows.num_samples()))
      all.row_pointers.push_back(offset + (pointer - rows.first_entry()));
    auto const append_columns = [&](auto const* columns) {
      all.column_indices.insert(all.column_indices.end(), columns + rows.first_entry(), columns + rows.last_entry());
    };
    if (rows.num_entries() > 0) std::visit(append_columns, rows.columns());
    auto const values = rows.values();
    for (auto entry = rows.first_entry(); !has_one_value && entry < rows.last_entry(); ++entry)
      all.values.push_back(values.size() == 1 ? values[0] : values[entry]);
  }
  return samples;
}

std::uint64_t hash(SparseMatrix const& matrix, SampleIndex first_sample, Precision precision) {
  std::uint64_t sum = 0;
  for (std::size_t row = 0; row < matrix.num_rows; ++row) {
    for (EdgeOffset entry = matrix.row_pointers[row]; entry < matrix.row_pointers[row + 1]; ++entry) {
      double const value = matrix.value(entry);
      if (value == 0.0) continue;
      std::uint64_t const bits = precision == Precision::double_precision
                                     ? std::bit_cast<std::uint64_t>(value)
                                     : std::bit_cast<std::uint32_t>(static_cast<float>(value));
      sum += activation_fingerprint(first_sample + row, matrix.column_indices[entry], bits);
    }
  }
  return sum;
}

std::vector<NeuronIndex> largest(SparseMatrix const& activations) {
  std::vector<NeuronIndex> neurons(activations.num_rows, 0);
  for (std::size_t row = 0; row < activations.num_rows; ++row) {
    auto const columns = activations.row_columns(row);
    EdgeOffset const begin = activations.row_pointers[row];
    NeuronIndex first_absent = 0; // the lowest column without an entry; it stands for all zeros
    for (NeuronIndex const column : columns) first_absent += column == first_absent ? 1U : 0U;
    bool const has_absent = first_absent < activations.num_columns;
    double best = has_absent ? 0.0 : activations.value(begin);
    NeuronIndex neuron = has_absent ? first_absent : columns[0];
    for (std::size_t k = 0; k < columns.size(); ++k) {
      double const value = activations.value(begin + k);
      if (value > best || (value == best && columns[k] < neuron)) {
        best = value;
        neuron = columns[k];
      }
    }
    neurons[row] = neuron;
  }
  return neurons;
}

SampleMemory::SampleMemory(Source source, bool is_narrow) : source_(std::move(source)), is_narrow_(is_narrow) {}

SampleMemory::~SampleMemory() {
  for (auto const& block : free_) source_.free(block.address);
}

std::shared_ptr<void> SampleMemory::take(std::size_t bytes) {
  auto block = reuse(bytes);
  if (block.address == nullptr) block = allocate(bytes);
  if (block.address == nullptr) return nullptr;
  return {block.address, [memory = shared_from_this(), block](void*) { memory->give_back(block); }};
}

/// The smallest free block that is large enough. If all are too small, the largest of them is freed, because the new
/// block takes its place.
SampleMemory::Block SampleMemory::reuse(std::size_t bytes) {
  std::lock_guard const lock(guard_);
  if (free_.empty()) return {};
  std::ranges::sort(free_, {}, &Block::bytes);
  auto const found = std::ranges::lower_bound(free_, bytes, {}, &Block::bytes);
  if (found != free_.end()) {
    auto const block = *found;
    free_.erase(found);
    return block;
  }
  source_.free(free_.back().address);
  free_.pop_back();
  return {};
}

/// A sixteenth more than is asked for, because the next batch may have a few more entries.
SampleMemory::Block SampleMemory::allocate(std::size_t bytes) const {
  auto const wanted = std::max<std::size_t>(bytes + bytes / 16, 1);
  try {
    return {source_.allocate(wanted), wanted};
  } catch (std::exception const&) { // bad_alloc; Kokkos throws others as well
    return {};
  }
}

void SampleMemory::give_back(Block block) {
  std::lock_guard const lock(guard_);
  free_.push_back(block);
}

} // namespace varve
