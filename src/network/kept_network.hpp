#pragma once

#include "network/network.hpp"

#include <cstddef>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

namespace varve {

/// Caches the layers of a network that is read several times: layers are kept in memory up to a limit, the rest are
/// read from the source each time. The source must outlive this object.
class KeptNetwork final : public NetworkSource {
public:
  /// `bytes` is the limit for all kept layers. A layer takes 12 bytes per edge (4 if all its weights are equal) and up
  /// to 16 per output.
  KeptNetwork(NetworkSource const& source, std::size_t bytes);

  std::string name() const override { return source_.name(); }
  std::size_t num_layers() const override { return source_.num_layers(); }
  Layer layer(std::size_t number) const override;

private:
  NetworkSource const& source_;
  mutable std::mutex guard_;
  mutable std::size_t bytes_left_;
  mutable std::vector<std::optional<Layer>> layers_;
};

} // namespace varve
