#include "distribute/shared_matrix.hpp"

#include "core/error.hpp"

#include <algorithm>
#include <string>

namespace varve {

SharedMatrix::SharedMatrix(Communicator const& ranks, std::filesystem::path const& path, std::uint64_t num_rows,
                           std::uint64_t num_columns, Precision precision)
    : ranks_(ranks) {
  std::string places;
  ranks_.together([&] {
    if (!ranks_.is_root()) return;
    writer_ = std::make_unique<DenseFileWriter>(path, num_rows, num_columns, precision);
    if (ranks_.size() > 1) places = writer_->place().to_bytes();
  });
  places = ranks_.broadcast(places);
  bool is_open = true;
  if (!ranks_.is_root()) {
    try {
      blocks_ = std::make_unique<DenseFileBlocks>(DensePlace::from_bytes(places));
    } catch (ResourceError const&) {
      is_open = false;
    }
  }
  is_open_everywhere_ = std::ranges::min(ranks_.gather_everywhere({std::uint64_t{is_open ? 1U : 0U}})) == 1;
}

void SharedMatrix::commit(std::uint64_t hash) {
  ranks_.together([&] {
    if (blocks_) blocks_->finish();
  });
  ranks_.together([&] {
    if (writer_) writer_->commit(hash);
  });
}

} // namespace varve
