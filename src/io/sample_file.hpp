#pragma once

#include "io/sample_reader.hpp"
#include "network/loss.hpp"
#include "network/sample_set.hpp"

#include <cstddef>
#include <filesystem>
#include <memory>
#include <optional>

namespace varve {

/// The header of a sample file: everything but the samples.
struct SampleFileHeader {
  std::size_t num_samples = 0;
  std::size_t num_neurons = 0;
  EdgeOffset num_entries = 0;
  SampleIndex first_sample = 0;
  bool has_labels = false;                ///< true if each sample has a class
  std::optional<std::size_t> num_targets; ///< width of the targets, if each sample has some
};

/// The matrices of a sample file, with one row per sample each: the inputs of a network, and the outputs that it is
/// trained to give.
enum class SamplePart { samples, targets };

/// Reads the header of a sample file (see FORMAT.md). Throws InputError, naming the file, if it is missing, broken or
/// not a sample file.
SampleFileHeader read_sample_header(std::filesystem::path const& path);

/// Throws InputError as read_sample_header does, or if the samples do not have `num_inputs` neurons.
void require_width(std::filesystem::path const& path, std::size_t num_inputs);

/// Throws InputError, naming the file, if its samples have `found` neurons instead of `expected`, which are the
/// network's `what`.
void require_width(std::filesystem::path const& path, std::size_t found, std::size_t expected,
                   char const* what = "inputs");

/// Reads the samples of a sample file, or only the part of it that holds a range. Throws InputError as
/// read_sample_header does, or if the content is malformed; UsageError if the file does not contain the range.
SampleSet read_sample_file(std::filesystem::path const& path, OptionalSampleRange const& range = std::nullopt);

/// Reads the classes of all samples of a sample file, or of a range. Throws as read_sample_file does, and InputError if
/// the file has no labels. The caller checks the classes (require_classes).
Labels read_sample_labels(std::filesystem::path const& path, OptionalSampleRange const& range = std::nullopt);

/// Reads the samples of a sample file, or their targets, or a range of them, part by part; the file stays open.
class SampleFileReader final : public SampleReader {
public:
  /// Throws as read_sample_file does, and InputError if the file has no targets but they are wanted.
  explicit SampleFileReader(std::filesystem::path const& path, OptionalSampleRange const& range = std::nullopt,
                            SamplePart part = SamplePart::samples);
  ~SampleFileReader() override;

  std::size_t num_samples() const override;
  std::size_t num_neurons() const override;
  EdgeOffset num_entries() const override;
  SampleIndex first_sample() const override;
  bool has_one_value() const override;
  SampleBatch read(std::size_t first, std::size_t last) override;
  void read_into(std::shared_ptr<SampleMemory> memory) override;

  /// Reads the samples [first, last) as read() does, into a set.
  SampleSet read_set(std::size_t first, std::size_t last);

private:
  std::optional<ReadySamples> read_ready(std::size_t first, std::size_t last);

  struct Contents;
  std::unique_ptr<Contents> contents_;
  std::shared_ptr<SampleMemory> memory_; ///< where samples go if they can; may be null
};

/// Writes a sample file, which appears whole or not at all. Throws as SampleFileWriter does.
void write_sample_file(std::filesystem::path const& path, SampleSet const& samples);

/// Writes a sample file batch by batch; the file appears on commit() or not at all. The bytes of a file of samples
/// alone do not depend on their division into batches. A file has labels or targets if any were appended, even an empty
/// batch; before commit() there must be as many as samples.
class SampleFileWriter final : public SampleWriter {
public:
  /// Throws UsageError or ResourceError as OutputFile does.
  SampleFileWriter(std::filesystem::path const& path, std::size_t num_neurons);
  ~SampleFileWriter() override;

  void append(SampleSet const& batch) override;
  void append_labels(Labels const& batch) override;
  void append_targets(SampleSet const& batch) override;
  void commit() override;

private:
  struct Contents;
  std::unique_ptr<Contents> contents_;
};

} // namespace varve
