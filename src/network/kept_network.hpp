#pragma once

#include "network/network.hpp"

#include <cstddef>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

namespace varve {

/// A network that is read several times over: layers stay in memory up to a limit, others are read from the source
/// again each time. The source must outlive this object.
class KeptNetwork final : public NetworkSource {
public:
  /// `bytes`: most that kept layers take (12 per edge, 4 where all weights are equal, and 16 per output).
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
