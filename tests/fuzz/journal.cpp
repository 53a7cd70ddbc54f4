#include "fuzz/target.hpp"

#include "distribute/batch_queue.hpp"
#include "distribute/record_store.hpp"
#include "distribute/run_batches.hpp"
#include "io/checksum.hpp"
#include "io/sample_file.hpp"

#include <algorithm>
#include <cstdint>
#include <cstring>

namespace varve::fuzz {
namespace {

constexpr std::string_view signature("varvelog", 8);
constexpr std::size_t max_records = 64;

void append_number(std::string& bytes, std::uint64_t number) {
  bytes.append(reinterpret_cast<char const*>(&number), sizeof(number));
}

/// A journal whose checksums are right, so that what its records hold is looked at: an input that does not begin as a
/// journal is a list of records, each behind a length of 2 bytes.
std::string with_checksums(std::string_view rest) {
  std::string bytes(signature);
  for (std::size_t number = 0; number < max_records && rest.size() >= sizeof(std::uint16_t); ++number) {
    std::uint16_t length = 0;
    std::memcpy(&length, rest.data(), sizeof(length));
    rest.remove_prefix(sizeof(length));
    auto const content = rest.substr(0, length);
    rest.remove_prefix(content.size());
    append_number(bytes, content.size());
    append_number(bytes, checksum(content, content.size() + 1));
    bytes.append(content);
  }
  return bytes;
}

} // namespace

/// A journal, taken up as `varve infer` does on one rank.
VARVE_FUZZ_TARGET(journal) {
  auto const path = file_of(bytes.starts_with(signature) ? std::string(bytes) : with_checksums(bytes), "run.journal");
  constexpr SampleIndex num_samples = 100;
  RecordStore journal(path, 0, 1);
  journal.resume({{"samples", num_samples}}, [](std::string_view record, std::string const& place) {
    return batch_of_bytes(record, place).samples;
  });
  left_over(num_samples, journal.ranges());
  for (std::size_t number = 0; number < journal.ranges().size(); ++number)
    batch_of_bytes(journal.read(number), "a batch");
  FinishedBatch batch;
  batch.samples = {90, 91};
  journal.begin({{"outputs", 4}});
  journal.add(batch.samples, to_bytes(batch));
  require(batch_of_bytes(journal.read(journal.ranges().size() - 1), "the batch added") == batch,
          "a batch that is added is not read again");
}

} // namespace varve::fuzz
