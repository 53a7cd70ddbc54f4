#pragma once

#include "distribute/communicator.hpp"
#include "products/product_engine.hpp"

#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace varve {

/// A rank of the same machine, from the view of another one.
struct TilePeer {
  int rank = 0;
  std::string obstacle; ///< why its tiles are not copied; empty if they are
};

/// Lets the engines of all ranks of a machine copy tiles from each other (see ProductEngine::offer_tiles()), until it
/// is destroyed.
class TileSharing {
public:
  /// Collective, as is the destructor; before the first run of the engine, which must outlive this object.
  template <class Scalar>
  TileSharing(Communicator const& communicator, ProductEngine<Scalar>& engine)
      : communicator_(communicator), leave_([&engine] { engine.leave_peers(); }) {
    PeerOffer mine;
    communicator.together([&] { mine = engine.offer_tiles(); });
    auto const offers = exchange(mine);
    communicator.together([&] { set_peers(offers, engine.open_peers(offers)); });
  }
  ~TileSharing();
  TileSharing(TileSharing const&) = delete;
  TileSharing& operator=(TileSharing const&) = delete;

  /// The other ranks of this machine.
  std::vector<TilePeer> const& peers() const { return peers_; }

private:
  /// The offers of the other ranks of this machine, by rank.
  std::vector<std::optional<PeerOffer>> exchange(PeerOffer const& mine) const;
  void set_peers(std::vector<std::optional<PeerOffer>> const& offers, std::vector<std::string> const& obstacles);

  Communicator communicator_;
  std::function<void()> leave_;
  std::vector<TilePeer> peers_;
};

} // namespace varve
