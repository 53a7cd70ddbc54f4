#include "io/stored_matrix.hpp"

#include "core/buffer_pool.hpp"
#include "core/error.hpp"
#include "core/host_threads.hpp"
#include "io/text_file.hpp"

#include <fmt/format.h>

#include <atomic>
#include <cmath>
#include <limits>
#include <utility>

namespace varve::container {
namespace {

constexpr std::size_t numbers_at_once = std::size_t{1} << 18U;

/// The bytes of numbers in another type that holds all of them, by all host threads.
template <class To, class From>
std::vector<char> bytes_as(std::vector<From> const& numbers) {
  std::vector<char> bytes(numbers.size() * sizeof(To));
  auto* const narrow = reinterpret_cast<To*>(bytes.data());
  for_each_on_host_threads((numbers.size() + numbers_at_once - 1) / numbers_at_once, [&](std::size_t part) {
    auto const last = std::min(numbers.size(), (part + 1) * numbers_at_once);
    for (auto number = part * numbers_at_once; number < last; ++number)
      narrow[number] = static_cast<To>(numbers[number]);
  });
  return bytes;
}

} // namespace

StoredMatrix::StoredMatrix(File& file, std::string const& name, std::uint64_t num_rows, std::uint64_t num_columns)
    : file_(&file),
      place_(fmt::format("{}: {}", file.path().string(), name)),
      num_rows_(num_rows),
      num_columns_(num_columns),
      pointers_(&file.list(name + ".pointers", {NumberType::u32, NumberType::u64}, num_rows + 1)),
      indices_(&file.array(name + ".indices", {NumberType::u16, NumberType::u32})) {
  if (indices_->shape.size() != 1) fail_at(place_, "indices of several dimensions", "a list");
  values_ = &file.list(name + ".values", {NumberType::f32, NumberType::f64}, num_entries(), true);
}

/// The pointers of the rows [first, last) and the one behind them.
std::vector<EdgeOffset> StoredMatrix::pointers(std::uint64_t first, std::uint64_t last) const {
  auto pointers = BufferPool<EdgeOffset>::of_process().take(last - first + 1);
  file_->read(*pointers_, first, std::span(pointers));
  if (first == 0 && pointers.front() != 0) fail_at(place_, fmt::format("the first pointer {}", pointers.front()), "0");
  if (last == num_rows_ && pointers.back() != num_entries())
    fail_at(place_, fmt::format("the last pointer {}", pointers.back()),
            fmt::format("{}, the number of entries", num_entries()));
  auto const bad = std::ranges::adjacent_find(pointers, std::ranges::greater());
  if (bad != pointers.end())
    fail_at(place_,
            fmt::format("the pointer {} after {} at row {}", *(bad + 1), *bad,
                        first + static_cast<std::uint64_t>(bad - pointers.begin())),
            "ascending numbers");
  if (pointers.back() > num_entries())
    fail_at(place_, fmt::format("the pointer {} at row {}", pointers.back(), last),
            fmt::format("no more than {}, the number of entries", num_entries()));
  return pointers;
}

std::vector<double> StoredMatrix::values(EdgeOffset first, std::size_t count) const {
  if (has_one_value()) return file_->read_all<double>(*values_);
  auto values = BufferPool<double>::of_process().take(count);
  file_->read(*values_, first, std::span(values));
  return values;
}

EdgeOffset StoredMatrix::count_entries(std::uint64_t first, std::uint64_t last) const {
  auto const begin = pointers(first, first).front();
  auto const end = pointers(last, last).front();
  if (begin > end)
    fail_at(place_, fmt::format("the pointer {} at row {}", end, last), fmt::format("{} or more", begin));
  return end - begin;
}

SparseMatrix StoredMatrix::rows(std::uint64_t first, std::uint64_t last) const {
  SparseMatrix matrix{last - first, num_columns_, pointers(first, last), {}, {}};
  auto const begin = matrix.row_pointers.front();
  for (auto& pointer : matrix.row_pointers) pointer -= begin;
  matrix.column_indices = BufferPool<NeuronIndex>::of_process().take(matrix.row_pointers.back());
  file_->read(*indices_, begin, std::span(matrix.column_indices));
  matrix.values = values(begin, matrix.num_entries());
  return matrix;
}

template <class Column>
bool StoredMatrix::read_ready_columns(EdgeOffset first, SampleMemory& memory, ReadySamples& samples) const {
  auto const count = samples.num_entries();
  auto const block = memory.take(capped_multiply(count, sizeof(Column)));
  if (!block) return false;
  std::span<Column> const columns(static_cast<Column*>(block.get()), count);
  RowCheck<Column> check(samples.row_pointers, num_columns_, columns);
  std::atomic<bool> are_right = true;
  file_->read<Column>(*indices_, first, columns, [&](std::span<Column> part) {
    if (!check.accepts(part)) are_right = false;
  });
  samples.columns = columns.data();
  samples.memory = block;
  return are_right && check.accepts_borders();
}

std::optional<ReadySamples> StoredMatrix::ready_rows(std::uint64_t first, std::uint64_t last,
                                                     SampleMemory& memory) const {
  ReadySamples samples;
  samples.num_neurons = num_columns_;
  samples.row_pointers = pointers(first, last);
  auto const begin = samples.row_pointers.front();
  for (auto& pointer : samples.row_pointers) pointer -= begin;
  bool const is_narrow = memory.is_narrow() && fit_narrow_columns(num_columns_);
  if (is_narrow && indices_->type != NumberType::u16) return std::nullopt;
  bool const are_read = is_narrow ? read_ready_columns<std::uint16_t>(begin, memory, samples)
                                  : read_ready_columns<NeuronIndex>(begin, memory, samples);
  if (!are_read) return std::nullopt;
  samples.values = values(begin, samples.num_entries());
  bool const are_finite = std::ranges::all_of(samples.values, [](double value) { return std::isfinite(value); });
  return are_finite ? std::optional(std::move(samples)) : std::nullopt;
}

template <class Narrow, class Wide>
NarrowMatrix::List NarrowMatrix::list_of(std::vector<Wide> const& numbers, bool are_narrow) {
  List list{are_narrow ? type_of<Narrow>() : type_of<Wide>(),
            are_narrow ? bytes_as<Narrow>(numbers) : bytes_as<Wide>(numbers),
            {}};
  list.hashes = hashes_of(bytes_of(list.bytes));
  return list;
}

NarrowMatrix::NarrowMatrix(SparseMatrix const& matrix)
    : pointers_(list_of<std::uint32_t>(matrix.row_pointers,
                                       matrix.num_entries() <= std::numeric_limits<std::uint32_t>::max())),
      values_(list_of<float>(matrix.values, fit_float(matrix.values))),
      indices_(list_of<std::uint16_t>(matrix.column_indices, fit_narrow_columns(matrix.num_columns))) {}

Digest NarrowMatrix::identity() const {
  Sha256 all;
  for (auto const* const list : {&pointers_, &indices_, &values_}) {
    all.add(fmt::format("{};", list->hashes.size()));
    all.add(bytes_of(list->hashes));
  }
  return all.finish();
}

void NarrowMatrix::add_to(Writer& writer, std::string const& name) {
  auto const add = [&](char const* part, List& list) {
    writer.add(name + part, list.type, {list.bytes.size() / size_of(list.type)}, bytes_of(list.bytes),
               std::move(list.hashes));
  };
  for (std::size_t const size : {8U, 4U}) { // the widest first, so that few need padding
    if (size_of(pointers_.type) == size) add(".pointers", pointers_);
    if (size_of(values_.type) == size) add(".values", values_);
  }
  add(".indices", indices_);
}

GrowingMatrix::GrowingMatrix(Writer& writer, std::string name, std::uint64_t num_columns)
    : writer_(writer),
      name_(std::move(name)),
      num_columns_(num_columns),
      pointers_(writer.folder(), writer.path()),
      indices_(writer.folder(), writer.path()) {
  std::uint64_t const first = 0;
  pointers_.append({reinterpret_cast<char const*>(&first), sizeof(first)});
}

void GrowingMatrix::append(SparseMatrix const& rows) {
  require_valid(rows, name_.c_str());
  if (rows.num_columns != num_columns_)
    fail_at(name_, fmt::format("rows of {} columns", rows.num_columns), fmt::format("{}", num_columns_));
  std::vector<std::uint64_t> pointers(rows.row_pointers.begin() + 1, rows.row_pointers.end());
  for (auto& pointer : pointers) pointer += num_entries_;
  pointers_.append(bytes_of(pointers));
  if (fit_narrow_columns(num_columns_)) {
    indices_.append(bytes_of(bytes_as<std::uint16_t>(rows.column_indices)));
  } else {
    indices_.append(bytes_of(rows.column_indices));
  }
  if (rows.num_entries() > 0) append_values(rows);
  num_rows_ += rows.num_rows;
  num_entries_ += rows.num_entries();
}

void GrowingMatrix::append_values(SparseMatrix const& rows) {
  auto const value = rows.values.front();
  bool const share_one = rows.values.size() == 1 ||
                         std::ranges::all_of(rows.values, [&](double other) { return same_bits(other, value); });
  if (num_entries_ == 0) shared_ = value;
  if (!values_ && share_one && same_bits(value, shared_)) return;
  if (!values_) write_out_shared(num_entries_);
  if (!are_doubles_ && !fit_float(rows.values)) widen();
  bool const has_all = rows.values.size() == rows.num_entries();
  append_narrow(has_all ? rows.values : std::vector<double>(rows.num_entries(), value));
}

void GrowingMatrix::append_narrow(std::vector<double> const& values) {
  values_->append(bytes_of(are_doubles_ ? bytes_as<double>(values) : bytes_as<float>(values)));
}

/// Gives each of the first `count` entries the value that they share.
void GrowingMatrix::write_out_shared(std::uint64_t count) {
  values_.emplace(writer_.folder(), writer_.path());
  are_doubles_ = !fit_float({&shared_, 1});
  std::vector<double> values(std::min<std::uint64_t>(count, numbers_at_once), shared_);
  for (; count > 0; count -= values.size()) {
    values.resize(std::min<std::uint64_t>(count, values.size()));
    append_narrow(values);
  }
}

/// Makes the floats so far doubles.
void GrowingMatrix::widen() {
  auto& floats = *values_;
  GrowingBytes doubles(writer_.folder(), writer_.path());
  floats.for_each_part([&](std::string_view part) {
    std::vector<float> values(part.size() / sizeof(float));
    std::ranges::copy(part, reinterpret_cast<char*>(values.data()));
    doubles.append(bytes_of(bytes_as<double>(values)));
  });
  floats = std::move(doubles);
  are_doubles_ = true;
}

void GrowingMatrix::finish() {
  writer_.add(name_ + ".pointers", NumberType::u64, pointers_);
  auto const add_values = [&] {
    if (!values_) return add_reals(writer_, name_ + ".values", std::vector<double>(num_entries_ > 0 ? 1 : 0, shared_));
    writer_.add(name_ + ".values", are_doubles_ ? NumberType::f64 : NumberType::f32, *values_);
  };
  add_values();
  writer_.add(name_ + ".indices", fit_narrow_columns(num_columns_) ? NumberType::u16 : NumberType::u32, indices_);
}

} // namespace varve::container
