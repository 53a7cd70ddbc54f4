#pragma once

#include "engine/panel.hpp"
#include "formats/csr.hpp"
#include "formats/sliced_ell.hpp"
#include "kernels/direct_forward.hpp"

#include <memory>
#include <string>
#include <utility>

namespace varve {

/// One or more consecutive layers on the device, in the format and with the kernel that the plan chose for them.
template <class ExecutionSpace, class Tile>
class Stretch {
public:
  virtual ~Stretch() = default;

  /// Takes the panel through the layers and stamps the live samples. Launches only.
  virtual void forward(ExecutionSpace const& space, Panel<ExecutionSpace, Tile>& panel) const = 0;

  virtual std::size_t bytes() const = 0;
};

/// One layer by the direct kernel, in any format that lists its edges.
template <class ExecutionSpace, class Tile, class Format>
class DirectStretch final : public Stretch<ExecutionSpace, Tile> {
public:
  explicit DirectStretch(Format layer) : layer_(std::move(layer)) {}

  void forward(ExecutionSpace const& space, Panel<ExecutionSpace, Tile>& panel) const override {
    direct_forward<ExecutionSpace, Tile>(space, layer_, panel.source(), panel.target(), panel.num_slots(),
                                         panel.max_slots(), panel.live_stamps(), panel.next_stamp());
    panel.advance(layer_.frame.num_outputs);
  }

  std::size_t bytes() const override { return layer_.bytes(); }

private:
  Format layer_;
};

} // namespace varve
