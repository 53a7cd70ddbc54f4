#include "io/sample_file.hpp"

#include "core/checked.hpp"
#include "core/error.hpp"
#include "io/binsparse.hpp"
#include "io/hdf5.hpp"
#include "io/hdf5_guard.hpp"
#include "io/hdf5_walk.hpp"
#include "io/line_error.hpp"
#include "io/plain_binsparse.hpp"
#include "io/sample_format.hpp"

#include <fmt/format.h>

#include <limits>
#include <new>
#include <optional>
#include <stdexcept>
#include <utility>

namespace varve {
namespace {

namespace fs = std::filesystem;

/// A matrix of an open file; the descriptor has been checked.
struct StoredMatrix {
  hdf5::Group group;
  binsparse::Descriptor descriptor;
};

/// An open file whose attributes have been read and checked; use and destroy it under the lock.
struct OpenSampleFile {
  hdf5::File file;
  StoredMatrix samples;
  std::optional<StoredMatrix> targets;
  std::optional<hdf5::Dataset> labels;
  SampleIndex first_sample = 0;
};

SampleIndex read_first_sample(hdf5::File const& file, std::string const& place) {
  if (H5Aexists(file.id(), "first_sample") == 0) return 0;
  return hdf5::read_count(file.id(), "first_sample", place);
}

/// Throws InputError unless all sample numbers fit in 64 bits, counted from 0 and from 1.
void require_countable_numbers(SampleIndex first_sample, std::uint64_t num_samples, std::string const& place) {
  constexpr auto largest = std::numeric_limits<SampleIndex>::max();
  if (capped_add(first_sample, num_samples) < largest) return;
  throw InputError(fmt::format("{}: found {} as the number of the first of {} samples, expected no more than {}", place,
                               first_sample, num_samples, largest - 1 - num_samples));
}

StoredMatrix open_stored_matrix(hdf5::File const& file, char const* name, std::string const& place) {
  StoredMatrix matrix;
  matrix.group = hdf5::open_group(file.id(), name, place);
  matrix.descriptor = binsparse::read_descriptor(matrix.group, fmt::format("{}: {}", place, name));
  return matrix;
}

/// Throws InputError unless there are as many of `what` as samples.
void require_one_per_sample(std::uint64_t found, std::uint64_t num_samples, char const* what,
                            std::string const& place) {
  if (found == num_samples) return;
  throw InputError(
      fmt::format("{}: found {} {} for {} samples, expected one for each", place, found, what, num_samples));
}

/// Opens the labels and targets of a file that has them.
void open_answers(OpenSampleFile& open, std::string const& place) {
  auto const num_samples = open.samples.descriptor.num_rows;
  if (hdf5::has_child(open.file.id(), "labels")) {
    open.labels = hdf5::open_dataset(open.file.id(), "labels", place);
    require_one_per_sample(hdf5::length_of(*open.labels, place + ": labels"), num_samples, "labels", place);
  }
  if (hdf5::has_child(open.file.id(), "targets")) {
    open.targets = open_stored_matrix(open.file, "targets", place);
    require_one_per_sample(open.targets->descriptor.num_rows, num_samples, "targets", place);
  }
}

/// Opens and checks a file. Call it under hdf5::guarded.
OpenSampleFile open_unguarded(fs::path const& path) {
  auto const place = path.string();
  OpenSampleFile open;
  open.file = hdf5::open_file(path);
  auto const format = hdf5::read_text(open.file.id(), "format", place);
  if (format != sample_format::name) {
    throw InputError(
        fmt::format("{}: found the format {}, expected \"{}\"", place, quote(format), sample_format::name));
  }
  auto const version = hdf5::read_count(open.file.id(), "version", place);
  if (version != sample_format::version) {
    throw InputError(
        fmt::format("{}: found version {} of the format, expected {}", place, version, sample_format::version));
  }
  open.first_sample = read_first_sample(open.file, place);
  open.samples = open_stored_matrix(open.file, "samples", place);
  require_countable_numbers(open.first_sample, open.samples.descriptor.num_rows, place);
  open_answers(open, place);
  return open;
}

OpenSampleFile open_sample_file(fs::path const& path) {
  return hdf5::guarded(path, structure_walk(path), [&] { return open_unguarded(path); });
}

} // namespace

void walk_sample_file(fs::path const& path) {
  auto const open = open_unguarded(path);
  auto const& [samples, descriptor] = open.samples;
  binsparse::require_arrays(samples, descriptor, path.string() + ": samples");
  if (open.targets)
    binsparse::require_arrays(open.targets->group, open.targets->descriptor, path.string() + ": targets");
}

bool is_sample_file(fs::path const& path) { return hdf5::has_signature(path) && !is_plain_binsparse(path); }

SampleFileHeader read_sample_header(fs::path const& path) {
  auto const lock = hdf5::lock();
  auto const open = open_sample_file(path);
  auto const& samples = open.samples.descriptor;
  std::optional<std::size_t> num_targets;
  if (open.targets) num_targets = open.targets->descriptor.num_columns;
  return {samples.num_rows,  samples.num_columns,     samples.num_entries,
          open.first_sample, open.labels.has_value(), num_targets};
}

void require_width(fs::path const& path, std::size_t num_inputs) {
  require_width(path, read_sample_header(path).num_neurons, num_inputs);
}

void require_width(fs::path const& path, std::size_t found, std::size_t expected, char const* what) {
  if (found == expected) return;
  throw InputError(
      fmt::format("{} holds samples of {} neurons, the network has {} {}", path.string(), found, expected, what));
}

SampleSet read_sample_file(fs::path const& path, OptionalSampleRange const& range) {
  SampleFileReader reader(path, range);
  return reader.read_set(0, reader.num_samples());
}

Labels read_sample_labels(fs::path const& path, OptionalSampleRange const& range) {
  auto const lock = hdf5::lock();
  auto const open = open_sample_file(path);
  if (!open.labels) {
    throw InputError(fmt::format("{} has no labels, expected a dataset \"labels\" with the class of each sample "
                                 "(varve convert --labels adds one)",
                                 path.string()));
  }
  auto const [first, last] = rows_within(path, open.first_sample, open.samples.descriptor.num_rows, range);
  return {hdf5::read_indices<NeuronIndex>(*open.labels, first, last - first, path.string() + ": labels"),
          open.first_sample + first};
}

struct SampleFileReader::Contents {
  fs::path path;
  std::string place;
  hdf5::File file;
  StoredMatrix matrix;          ///< the samples or the targets, whichever are wanted
  SampleIndex first_sample = 0; ///< number of the first sample of the file
  SampleRange rows;             ///< wanted rows of the matrix
  EdgeOffset num_entries = 0;
};

SampleFileReader::SampleFileReader(fs::path const& path, OptionalSampleRange const& range, SamplePart part) {
  auto const lock = hdf5::lock();
  auto open = open_sample_file(path);
  if (part == SamplePart::targets && !open.targets) {
    throw InputError(
        fmt::format("{} has no targets, expected a group \"targets\" with the wanted outputs of each sample "
                    "(varve convert --targets adds one)",
                    path.string()));
  }
  contents_ = std::make_unique<Contents>();
  contents_->path = path;
  contents_->place = path.string() + (part == SamplePart::samples ? ": samples" : ": targets");
  contents_->file = std::move(open.file);
  contents_->matrix = std::move(part == SamplePart::samples ? open.samples : *open.targets);
  contents_->first_sample = open.first_sample;
  auto const& [group, descriptor] = contents_->matrix;
  auto const rows = rows_within(path, open.first_sample, descriptor.num_rows, range);
  contents_->rows = rows;
  contents_->num_entries = range
                               ? binsparse::count_entries(group, descriptor, rows.first, rows.second, contents_->place)
                               : descriptor.num_entries;
}

SampleFileReader::~SampleFileReader() {
  auto const lock = hdf5::lock();
  contents_.reset();
}

std::size_t SampleFileReader::num_samples() const { return contents_->rows.second - contents_->rows.first; }
std::size_t SampleFileReader::num_neurons() const { return contents_->matrix.descriptor.num_columns; }
EdgeOffset SampleFileReader::num_entries() const { return contents_->num_entries; }
SampleIndex SampleFileReader::first_sample() const { return contents_->first_sample + contents_->rows.first; }

bool SampleFileReader::has_one_value() const { return contents_->matrix.descriptor.is_iso; }

void SampleFileReader::read_into(std::shared_ptr<SampleMemory> memory) { memory_ = std::move(memory); }

SampleBatch SampleFileReader::read(std::size_t first, std::size_t last) {
  VARVE_REQUIRE(first <= last && last <= num_samples(), "samples outside the wanted range");
  if (memory_) {
    if (auto ready = read_ready(first, last)) return {*std::move(ready), first_sample() + first};
  }
  return read_set(first, last);
}

/// The samples in memory_; nullopt where read_set() has to read them, or says what is wrong.
std::optional<ReadySamples> SampleFileReader::read_ready(std::size_t first, std::size_t last) {
  auto const lock = hdf5::lock();
  auto const begin = contents_->rows.first;
  try {
    return binsparse::read_ready_rows(contents_->matrix.group, contents_->matrix.descriptor, begin + first,
                                      begin + last, contents_->place, *memory_);
  } catch (std::bad_alloc const&) {
    return std::nullopt;
  } catch (std::length_error const&) {
    return std::nullopt;
  }
}

SampleSet SampleFileReader::read_set(std::size_t first, std::size_t last) {
  VARVE_REQUIRE(first <= last && last <= num_samples(), "samples outside the wanted range");
  auto const fail_memory = [&] {
    throw ResourceError(fmt::format("{} does not fit into memory", contents_->path.string()));
  };
  SampleSet samples;
  samples.first_sample = first_sample() + first;
  try {
    auto const lock = hdf5::lock();
    auto const begin = contents_->rows.first;
    samples.matrix = binsparse::read_rows(contents_->matrix.group, contents_->matrix.descriptor, begin + first,
                                          begin + last, contents_->place);
  } catch (std::bad_alloc const&) {
    fail_memory();
  } catch (std::length_error const&) {
    fail_memory();
  }
  require_valid(samples.matrix, contents_->place.c_str());
  return samples;
}

} // namespace varve
