#include "io/sample_file.hpp"

#include "core/error.hpp"
#include "io/stored_matrix.hpp"
#include "io/text_file.hpp"

#include <limits>
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
    constexpr auto largest = std::numeric_limits<SampleIndex>::max(); // numbers count from 1, too
    if (capped_add(first_sample, num_samples) >= largest)
      fail<InputError>("{}: found {} as the number of the first of {} samples, expected no more than {}", place,
                       first_sample, num_samples, largest - 1 - num_samples);
    samples.emplace(file, "samples", num_samples, num_neurons);
    if (file.has("labels")) labels = &file.list("labels", {NumberType::u32}, num_samples);
    if (description.contains("targets")) {
      auto const width = container::count_in(description, "targets", place);
      if (width > std::numeric_limits<NeuronIndex>::max()) fail_at(place, fmt::format("{} targets", width), "fewer");
      targets.emplace(file, "targets", num_samples, width);
    }
    file.require_no_others();
  }

  /// Facts about the samples in these rows of a matrix.
  SampleFacts facts(container::StoredMatrix const& matrix, std::uint64_t first, std::uint64_t last) const {
    bool const is_whole = last - first == matrix.num_rows();
    return {last - first, matrix.num_columns(), is_whole ? matrix.num_entries() : matrix.count_entries(first, last),
            first_sample + first, matrix.has_one_value()};
  }

  container::StoredMatrix const& part(SamplePart wanted) const {
    if (wanted == SamplePart::samples) return *samples;
    if (targets) return *targets;
    fail<InputError>("{} has no targets, expected the arrays \"targets.*\" with the wanted outputs of each sample "
                     "(varve convert --targets adds them)",
                     file.path().string());
  }
};

class SampleFileReader final : public SampleReader {
public:
  SampleFileReader(fs::path const& path, OptionalSampleRange const& range, SamplePart part)
      : open_(path), matrix_(open_.part(part)) {
    auto const [first, last] = rows_within(path, open_.first_sample, matrix_.num_rows(), range);
    facts_ = open_.facts(matrix_, first, last);
    first_row_ = first;
  }

  void read_into(std::shared_ptr<SampleMemory> memory) override { memory_ = std::move(memory); }

  SampleBatch read(std::size_t first, std::size_t last) override {
    VARVE_REQUIRE(first <= last && last <= num_samples(), "samples outside the wanted range");
    auto const begin = first_row_ + first;
    auto const end = first_row_ + last;
    std::optional<ReadySamples> ready; // null where the rows have to be read otherwise, which says what is wrong
    if (memory_) container::fits_memory([&] { ready = matrix_.ready_rows(begin, end, *memory_); });
    if (ready) return {*std::move(ready), first_sample() + first};
    SampleSet samples;
    samples.first_sample = first_sample() + first;
    if (!container::fits_memory([&] { samples.matrix = matrix_.rows(begin, end); }))
      fail<ResourceError>("{} does not fit into memory", open_.file.path().string());
    require_valid(samples.matrix, matrix_.place().c_str());
    return samples;
  }

private:
  OpenSampleFile open_;
  container::StoredMatrix const& matrix_; ///< the samples or the targets, whichever are wanted
  std::uint64_t first_row_;               ///< the first wanted row of the matrix
  std::shared_ptr<SampleMemory> memory_;  ///< where samples go if they can; may be null
};

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

class SampleFileWriter final : public SampleWriter {
public:
  SampleFileWriter(fs::path const& path, std::size_t num_neurons)
      : file_(path, num_arrays, description_bytes), samples_(file_, "samples", num_neurons) {}

  void append(SampleSet const& batch) override {
    require_open();
    of_samples_.append(batch.first_sample, batch.num_samples());
    samples_.append(batch.matrix);
  }

  void append_labels(Labels const& batch) override {
    require_open();
    if (!labels_) labels_.emplace(file_.folder(), file_.path());
    of_labels_.append(batch.first_sample, batch.num_samples());
    labels_->append(container::bytes_of(batch.classes));
  }

  void append_targets(SampleSet const& batch) override {
    require_open();
    if (!targets_) targets_.emplace(file_, "targets", batch.num_neurons());
    of_targets_.append(batch.first_sample, batch.num_samples());
    targets_->append(batch.matrix);
  }

  void commit() override {
    require_open();
    VARVE_REQUIRE(!labels_ || of_labels_ == of_samples_, "each sample needs a label");
    VARVE_REQUIRE(!targets_ || of_targets_ == of_samples_, "each sample needs targets");
    nlohmann::ordered_json description = {{"kind", "samples"},
                                          {"version", 1},
                                          {"shape", {samples_.num_rows(), samples_.num_columns()}},
                                          {"first_sample", of_samples_.first}};
    samples_.finish();
    if (labels_) file_.add("labels", NumberType::u32, *labels_);
    if (targets_) {
      description["targets"] = targets_->num_columns();
      targets_->finish();
    }
    file_.commit(description);
    is_committed_ = true;
  }

private:
  static constexpr std::size_t num_arrays = 7;
  static constexpr std::size_t description_bytes = 256;

  void require_open() const { VARVE_REQUIRE(!is_committed_, "a sample file is written after its commit"); }

  container::Writer file_;
  container::GrowingMatrix samples_;
  std::optional<container::GrowingMatrix> targets_;
  std::optional<container::GrowingBytes> labels_;
  Sequence of_samples_, of_targets_, of_labels_;
  bool is_committed_ = false;
};

} // namespace

SampleFileHeader read_sample_header(fs::path const& path) {
  OpenSampleFile const open(path);
  std::optional<std::size_t> num_targets;
  if (open.targets) num_targets = open.targets->num_columns();
  return {open.facts(*open.samples, 0, open.samples->num_rows()), open.labels != nullptr, num_targets};
}

void require_width(fs::path const& path, std::size_t found, std::size_t expected, char const* ends, char const* what) {
  if (found == expected) return;
  fail<InputError>("{} holds {} of {} neurons, the network has {} {}", path.string(), what, found, expected, ends);
}

Labels read_sample_labels(fs::path const& path, OptionalSampleRange const& range) {
  OpenSampleFile const open(path);
  if (open.labels == nullptr)
    fail<InputError>("{} has no labels, expected an array \"labels\" with the class of each sample (varve convert "
                     "--labels adds one)",
                     path.string());
  auto const [first, last] = rows_within(path, open.first_sample, open.samples->num_rows(), range);
  Labels labels{std::vector<NeuronIndex>(last - first), open.first_sample + first};
  open.file.read(*open.labels, first, std::span(labels.classes));
  return labels;
}

std::unique_ptr<SampleReader> open_sample_file(fs::path const& path, OptionalSampleRange const& range,
                                               SamplePart part) {
  return std::make_unique<SampleFileReader>(path, range, part);
}

std::unique_ptr<SampleWriter> create_sample_file(fs::path const& path, std::size_t num_neurons) {
  return std::make_unique<SampleFileWriter>(path, num_neurons);
}

} // namespace varve
