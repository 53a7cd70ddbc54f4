#include "network/sample_batch.hpp"

#include "core/error.hpp"

#include <algorithm>
#include <bit>
#include <cstdint>
#include <utility>

namespace varve {

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
    auto const values = rows.values();
    return values.size() == 1 && std::bit_cast<std::uint64_t>(values[0]) == std::bit_cast<std::uint64_t>(first[0]);
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
  SampleSet samples;
  samples.first_sample = batch.first_sample();
  SparseMatrix& all = samples.matrix;
  all.num_rows = batch.num_samples();
  all.num_columns = batch.num_neurons();
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

} // namespace varve
