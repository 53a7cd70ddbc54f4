#pragma once

#include "io/byte_stream.hpp"
#include "io/progress.hpp"
#include "io/sample_range.hpp"
#include "io/sample_reader.hpp"
#include "io/sample_writer.hpp"
#include "network/network.hpp"
#include "network/sample_set.hpp"

#include <cstddef>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace varve {

/// What the text files of the Graph Challenge do not say about their network.
struct ChallengeOptions {
  std::optional<std::size_t> neurons; ///< per layer
  std::optional<std::size_t> layers;
  std::optional<double> bias; ///< of every neuron
  std::optional<double> cap;  ///< of the clipped relu, positive
};

/// Opens a folder of layer files nN-lK.tsv[.gz|.xz|.zst], K from 1, or a folder whose sub-folder neuronN holds them.
/// What the options leave open is filled in: N if only one is present, all layers, the bias of the challenge for N,
/// cap 32. Lines are `input output weight`, from 1, in any order; layer(k) reads its file when it is asked for. Throws
/// InputError, naming the file, if a layer is missing or the folder holds none; UsageError if N or the bias must be
/// given, or an option makes no sense.
std::unique_ptr<NetworkSource> open_challenge_network(std::filesystem::path const& folder,
                                                      ChallengeOptions const& options = {});

/// True for nN-lK.tsv[.gz|.xz|.zst].
bool is_layer_file_name(std::string_view name);

/// The files that open_challenge_network reads, layer by layer. Throws as it does.
std::vector<std::filesystem::path> challenge_layer_files(std::filesystem::path const& folder,
                                                         ChallengeOptions const& options = {});

/// Reads samples from lines `image pixel value`, from 1, in any order; value 0 is no entry. Shape [samples, neurons]:
/// the range's samples; else `num_samples`; else as many as the largest image number (images without a pixel may follow
/// it unnoticed, and samples of a range that lie behind it are empty). Throws InputError with file and line.
SampleSet read_challenge_samples(std::filesystem::path const& path, std::size_t neurons,
                                 OptionalSampleRange const& range = std::nullopt,
                                 std::optional<std::size_t> num_samples = std::nullopt);

/// The same to be read part by part: in memory as a whole if that takes no more than `bytes`; else the file is read
/// twice, once now to count and once part by part, and its images must ascend. Throws as read_challenge_samples, and
/// InputError if they do not.
std::unique_ptr<SampleReader> open_challenge_samples(std::filesystem::path const& path, std::size_t neurons,
                                                     OptionalSampleRange const& range, std::size_t bytes);

/// Writes a folder of layer files with the given compression. Text holds neither bias nor cap, and only networks like
/// the challenge's: throws UsageError, naming the layer, unless all layers are square, of one width, with one bias
/// common to all and a clipped relu of one cap; and if the folder exists and is not empty.
void write_challenge_network(NetworkSource const& network, std::filesystem::path const& folder, Compression compression,
                             Progress const& progress = {});

/// Writes lines `image pixel value`, compressed as the ending of PATH says; image numbers count from the first batch's
/// first_sample.
class ChallengeSampleWriter final : public SampleWriter {
public:
  /// Throws as OutputFile does.
  explicit ChallengeSampleWriter(std::filesystem::path const& path);
  ~ChallengeSampleWriter() override;

  void append(SampleSet const& batch) override;
  void commit() override;

private:
  struct Contents;
  std::unique_ptr<Contents> contents_;
};

void write_challenge_samples(SampleSet const& samples, std::filesystem::path const& path);

} // namespace varve
