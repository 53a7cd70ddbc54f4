#include "network/layer_memory.hpp"
#include "network/network.hpp"

#include "core/error.hpp"
#include "core/host_threads.hpp"
#include "engine/hand_made.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <string>
#include <thread>
#include <vector>

namespace varve {
namespace {

constexpr std::size_t depth = 40;
constexpr std::size_t bytes_of_layer = 4 * 4 + 8 + 5 * 8 + 8;
constexpr std::size_t unlimited = std::size_t(1) << 40U;

/// Layers of which each has a weight of its own; one of them may be broken. Counts how often each was read.
class BrokenSource final : public NetworkSource {
public:
  explicit BrokenSource(std::size_t broken = depth) : broken_(broken) {}

  std::string name() const override { return "counting"; }
  std::size_t num_layers() const override { return counts_.size(); }
  Layer layer(std::size_t number) const override {
    ++counts_[number];
    if (number == broken_) throw InputError("broken");
    return test::diagonal_layer(4, 1.0 + static_cast<double>(number), {0.0}, Activation::relu());
  }
  int count(std::size_t number) const { return counts_[number]; }
  std::size_t num_read() const {
    std::size_t read = 0;
    for (auto const& count : counts_) read += count > 0 ? 1 : 0;
    return read;
  }

private:
  std::size_t broken_;
  mutable std::vector<std::atomic<int>> counts_ = std::vector<std::atomic<int>>(depth);
};

double weight_of(Layer const& layer) { return layer.weights.values.at(0); }

/// Waits until so many layers are read, or for ten seconds.
void await(BrokenSource const& source, std::size_t num_read) {
  for (int wait = 0; wait < 10000 && source.num_read() < num_read; ++wait)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
}

LayersAhead::Findings nothing(Layer const&) { return {}; }

TEST(LayersAhead, AreReadAndStudiedOnce) {
  for (std::size_t const max_bytes : {std::size_t{0}, 3 * bytes_of_layer, unlimited}) {
    BrokenSource const source;
    LayersAhead layers(source, max_bytes, [](Layer const& layer) {
      return LayersAhead::Findings{static_cast<NeuronIndex>(weight_of(layer))};
    });
    for (std::size_t number = 0; number < depth; ++number) {
      auto const [layer, findings] = layers.next();
      EXPECT_EQ(weight_of(layer), 1.0 + static_cast<double>(number));
      EXPECT_EQ(findings, LayersAhead::Findings{static_cast<NeuronIndex>(number + 1)});
      EXPECT_EQ(source.count(number), 1);
    }
  }
}

TEST(LayersAhead, AreReadWithoutBeingAskedFor) {
  if (num_host_threads() == 1) return; // then none is, see the next test
  BrokenSource const source;
  LayersAhead layers(source, 0, nothing);
  layers.next();
  await(source, 2);
  EXPECT_EQ(source.num_read(), 2U);
}

TEST(LayersAhead, AreAsManyAsTheMemoryAndTheThreadsAllow) {
  auto const num_threads = num_host_threads();
  for (std::size_t const fit : {std::size_t{0}, std::size_t{1}, std::size_t{2}, unlimited / bytes_of_layer}) {
    BrokenSource const source;
    LayersAhead layers(source, fit * bytes_of_layer + bytes_of_layer - 1, nothing);
    auto const ahead = num_threads == 1 ? 0 : std::clamp<std::size_t>(fit, 1, num_threads);
    for (std::size_t number = 0; number < 5; ++number) {
      layers.next();
      auto const expected = std::min(depth, number + 1 + ahead);
      await(source, expected);
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
      EXPECT_EQ(source.num_read(), expected);
    }
  }
}

TEST(LayersAhead, ThatAreBrokenAreComplainedOfWhenTheyAreAskedFor) {
  BrokenSource const source(3);
  LayersAhead layers(source, unlimited, nothing);
  for (std::size_t number = 0; number < 3; ++number) layers.next();
  EXPECT_THROW(layers.next(), InputError);
  EXPECT_EQ(weight_of(layers.next().layer), 5.0);
}

/// Layers that end the reading before the third, as a signal does.
class InterruptedSource final : public NetworkSource {
public:
  std::string name() const override { return "interrupted"; }
  std::size_t num_layers() const override { return depth; }
  Layer layer(std::size_t number) const override { return source_.layer(number); }
  void before_layer() const override {
    EXPECT_EQ(std::this_thread::get_id(), owner_);
    if (++num_asked_ == 3) throw InputError("interrupted");
  }

private:
  BrokenSource source_;
  std::thread::id owner_ = std::this_thread::get_id();
  mutable int num_asked_ = 0;
};

TEST(LayersAhead, MayBeInterruptedByTheThreadThatAsksForThem) {
  InterruptedSource const source;
  RepresentableNetwork const checked(source, Precision::double_precision); // passes the question on
  LayersAhead layers(checked, unlimited, nothing);
  layers.next();
  layers.next();
  EXPECT_THROW(layers.next(), InputError);
  EXPECT_EQ(weight_of(layers.next().layer), 3.0);
}

} // namespace
} // namespace varve
