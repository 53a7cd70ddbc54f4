#include "io/file_endings.hpp"

#include "core/error.hpp"
#include "io/byte_stream.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <string_view>
#include <vector>

namespace varve {
namespace {

namespace fs = std::filesystem;

/// What an ending says of the format of a file.
enum class Format { unknown, container, lines, json, journal, compressed, other };

bool is_one_of(std::string_view ending, std::vector<std::string_view> const& endings) {
  return std::ranges::find(endings, ending) != endings.end();
}

Format format_of_ending(fs::path const& path) {
  auto ending = path.extension().string();
  std::ranges::transform(ending, ending.begin(), [](unsigned char letter) { return std::tolower(letter); });
  if (ending == ".safetensors") return Format::container;
  if (is_one_of(ending, {".tsv", ".txt", ".csv", ".tab"})) return Format::lines;
  if (is_one_of(ending, {".json", ".jsonl"})) return Format::json;
  if (ending == ".journal") return Format::journal;
  if (is_one_of(ending, {".gz", ".xz", ".zst", ".bz2", ".lz4", ".lzma", ".z", ".zip", ".7z", ".tar", ".tgz"}))
    return Format::compressed;
  if (is_one_of(ending, {".npy", ".npz", ".mtx", ".mat", ".onnx", ".h5", ".hdf5", ".hdf", ".he5", ".pt", ".pth",
                         ".parquet", ".arrow"}))
    return Format::other;
  if (is_one_of(ending, {".md", ".html", ".htm", ".xml", ".yaml", ".yml", ".toml", ".pdf", ".png", ".svg", ".jpg"}))
    return Format::other;
  return Format::unknown;
}

/// True if a name with this ending may hold `own`.
bool fits(fs::path const& path, Format own) {
  auto const format = format_of_ending(path);
  return format == Format::unknown || format == own;
}

/// True if lines of numbers may have this name: with the ending of a compression that is carried out, the ending before
/// that one counts.
bool fits_lines(fs::path const& path) {
  bool const is_compressed = compression_of_name(path) != Compression::none;
  return fits(is_compressed ? path.stem() : path, Format::lines);
}

} // namespace

void require_fitting_ending(std::string const& shown, fs::path const& path, Content content) {
  auto const require = [&](bool is_fitting, char const* what, char const* expected) {
    if (is_fitting) return;
    throw UsageError(fmt::format("{} has an ending of another format: {}, expected {}", shown, what, expected));
  };
  switch (content) {
  case Content::network_or_samples:
    return; // unknown endings are refused later
  case Content::container:
    return require(fits(path, Format::container), "safetensors are written", ".safetensors");
  case Content::lines:
    return require(fits_lines(path), "lines of numbers are written", ".tsv, .tsv.gz, .tsv.xz or .tsv.zst");
  case Content::plain_lines:
    return require(fits(path, Format::lines), "lines that are not compressed are written", ".tsv");
  case Content::json:
    return require(fits(path, Format::json), "JSON is written", ".json");
  case Content::journal:
    return require(fits(path, Format::journal), "a journal is written", ".journal");
  }
}

} // namespace varve
