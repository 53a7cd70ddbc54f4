#include "io/sample_file.hpp"

#include "core/error.hpp"
#include "io/stored_matrix.hpp"
#include "io/text_file.hpp"

#include <fmt/format.h>

#include <limits>
#include <new>
#include <optional>
#include <stdexcept>
#include <utility>

namespace varve {
namespace {

namespace fs = std::filesystem;
using container::NumberType;

/// An open file whose description has been checked.
struct OpenSampleFile {
  container::File file;
  std::optional<container::StoredMatrix> samples;
  std::optional<container::StoredMatrix> targets;
  container::Array const* labels = nullptr;
  SampleIndex first_sample = 0;

  explicit OpenSampleFile(fs::path const& path) : file(path) {
    auto const place = path.string();
    file.require_kind("samples", {"shape", "first_sample", "targets"});
    auto const& description = file.description();
    auto const [num_samples, num_neurons] = container::shape_in(description, place);
    if (description.contains("first_sample")) first_sample = container::count_in(description, "first_sample", place);
    require_countable_numbers(num_samples, place);
    samples.emplace(file, "samples", num_samples, num_neurons);
    if (file.has("labels")) labels = &file.list("labels", {NumberType::u32}, num_samples);
    if (description.contains("targets")) {
      auto const width = container::count_in(description, "targets", place);
      if (width > std::numeric_limits<NeuronIndex>::max()) fail_at(place, fmt::format("{} targets", width), "fewer");
      targets.emplace(file, "targets", num_samples, width);
    }
    file.require_no_others();
  }

  container::StoredMatrix const& part(SamplePart wanted) const {
    if (wanted == SamplePart::samples) return *samples;
    if (targets) return *targets;
    throw InputError(fmt::format("{} has no targets, expected the arrays \"targets.*\" with the wanted outputs of each "
                                 "sample (varve convert --targets adds them)",
                                 file.path().string()));
  }

private:
  /// Throws InputError unless all sample numbers fit in 64 bits, counted from 0 and from 1.
  void require_countable_numbers(std::uint64_t num_samples, std::string const& place) const {
    constexpr auto largest = std::numeric_limits<SampleIndex>::max();
    if (capped_add(first_sample, num_samples) < largest) return;
    throw InputError(fmt::format("{}: found {} as the number of the first of {} samples, expected no more than {}",
                                 place, first_sample, num_samples, largest - 1 - num_samples));
  }
};

} // namespace

SampleFileHeader read_sample_header(fs::path const& path) {
  OpenSampleFile const open(path);
  std::optional<std::size_t> num_targets;
  if (open.targets) num_targets = open.targets->num_columns();
  return {open.samples->num_rows(), open.samples->num_columns(), open.samples->num_entries(),
          open.first_sample,        open.labels != nullptr,      num_targets};
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
  OpenSampleFile const open(path);
  if (open.labels == nullptr) {
    throw InputError(fmt::format("{} has no labels, expected an array \"labels\" with the class of each sample "
                                 "(varve convert --labels adds one)",
                                 path.string()));
  }
  auto const [first, last] = rows_within(path, open.first_sample, open.samples->num_rows(), range);
  Labels labels{std::vector<NeuronIndex>(last - first), open.first_sample + first};
  open.file.read(*open.labels, first, std::span(labels.classes));
  return labels;
}

struct SampleFileReader::Contents {
  OpenSampleFile open;
  container::StoredMatrix const& matrix; ///< the samples or the targets, whichever are wanted
  SampleRange rows;                      ///< wanted rows of the matrix
  EdgeOffset num_entries;

  Contents(fs::path const& path, OptionalSampleRange const& range, SamplePart part)
      : open(path),
        matrix(open.part(part)),
        rows(rows_within(path, open.first_sample, matrix.num_rows(), range)),
        num_entries(range ? matrix.count_entries(rows.first, rows.second) : matrix.num_entries()) {}
};

SampleFileReader::SampleFileReader(fs::path const& path, OptionalSampleRange const& range, SamplePart part)
    : contents_(std::make_unique<Contents>(path, range, part)) {}

SampleFileReader::~SampleFileReader() = default;

std::size_t SampleFileReader::num_samples() const { return contents_->rows.second - contents_->rows.first; }
std::size_t SampleFileReader::num_neurons() const { return contents_->matrix.num_columns(); }
EdgeOffset SampleFileReader::num_entries() const { return contents_->num_entries; }
SampleIndex SampleFileReader::first_sample() const { return contents_->open.first_sample + contents_->rows.first; }

bool SampleFileReader::has_one_value() const { return contents_->matrix.has_one_value(); }

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
  auto const begin = contents_->rows.first;
  try {
    return contents_->matrix.ready_rows(begin + first, begin + last, *memory_);
  } catch (std::bad_alloc const&) {
    return std::nullopt;
  } catch (std::length_error const&) {
    return std::nullopt;
  }
}

SampleSet SampleFileReader::read_set(std::size_t first, std::size_t last) {
  VARVE_REQUIRE(first <= last && last <= num_samples(), "samples outside the wanted range");
  auto const fail_memory = [&] {
    throw ResourceError(fmt::format("{} does not fit into memory", contents_->open.file.path().string()));
  };
  SampleSet samples;
  samples.first_sample = first_sample() + first;
  try {
    auto const begin = contents_->rows.first;
    samples.matrix = contents_->matrix.rows(begin + first, begin + last);
  } catch (std::bad_alloc const&) {
    fail_memory();
  } catch (std::length_error const&) {
    fail_memory();
  }
  require_valid(samples.matrix, contents_->matrix.place().c_str());
  return samples;
}

void write_sample_file(fs::path const& path, SampleSet const& samples) {
  SampleFileWriter writer(path, samples.num_neurons());
  writer.append(samples);
  writer.commit();
}

namespace {

/// Rows that follow each other without a gap, and the number of the first of them.
struct Sequence {
  SampleIndex first = 0;
  std::uint64_t count = 0;

  void append(SampleIndex next, std::uint64_t more) {
    if (count == 0) first = next;
    VARVE_REQUIRE(next == first + count, "batches of one sample file follow each other without a gap");
    count += more;
  }
  bool operator==(Sequence const&) const = default;
};

} // namespace

struct SampleFileWriter::Contents {
  static constexpr std::size_t num_arrays = 7;
  static constexpr std::size_t description_bytes = 256;

  container::Writer file;
  container::GrowingMatrix samples;
  std::optional<container::GrowingMatrix> targets;
  std::optional<container::GrowingBytes> labels;
  Sequence of_samples, of_targets, of_labels;

  Contents(fs::path const& path, std::size_t num_neurons)
      : file(path, num_arrays, description_bytes), samples(file, "samples", num_neurons) {}

  void finish() {
    VARVE_REQUIRE(!labels || of_labels == of_samples, "each sample needs a label");
    VARVE_REQUIRE(!targets || of_targets == of_samples, "each sample needs targets");
    nlohmann::ordered_json description = {{"kind", "samples"},
                                          {"version", 1},
                                          {"shape", {samples.num_rows(), samples.num_columns()}},
                                          {"first_sample", of_samples.first}};
    samples.finish();
    if (labels) file.add("labels", NumberType::u32, *labels);
    if (targets) {
      description["targets"] = targets->num_columns();
      targets->finish();
    }
    file.commit(description);
  }
};

SampleFileWriter::SampleFileWriter(fs::path const& path, std::size_t num_neurons)
    : contents_(std::make_unique<Contents>(path, num_neurons)) {}

SampleFileWriter::~SampleFileWriter() = default;

void SampleFileWriter::append(SampleSet const& batch) {
  VARVE_REQUIRE(contents_, "a sample file is written after its commit");
  contents_->of_samples.append(batch.first_sample, batch.num_samples());
  contents_->samples.append(batch.matrix);
}

void SampleFileWriter::append_labels(Labels const& batch) {
  VARVE_REQUIRE(contents_, "a sample file is written after its commit");
  auto& labels = contents_->labels;
  if (!labels) labels.emplace(contents_->file.folder(), contents_->file.path());
  contents_->of_labels.append(batch.first_sample, batch.num_samples());
  labels->append(container::bytes_of(batch.classes));
}

void SampleFileWriter::append_targets(SampleSet const& batch) {
  VARVE_REQUIRE(contents_, "a sample file is written after its commit");
  auto& targets = contents_->targets;
  if (!targets) targets.emplace(contents_->file, "targets", batch.num_neurons());
  contents_->of_targets.append(batch.first_sample, batch.num_samples());
  targets->append(batch.matrix);
}

void SampleFileWriter::commit() {
  VARVE_REQUIRE(contents_, "a sample file is committed twice");
  contents_->finish();
  contents_.reset();
}

} // namespace varve
