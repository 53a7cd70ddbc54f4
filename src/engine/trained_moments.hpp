#pragma once

#include "engine/step_shares.hpp"
#include "engine/training_kernels.hpp"
#include "network/optimizer.hpp"

#include <functional>
#include <optional>
#include <utility>
#include <vector>

namespace varve {

/// Gathers moments of all ranks in rank order, as RankExchange::gather() or gather_on_root().
using GatherMoments = std::function<std::vector<double>(std::vector<double> const&)>;

/// The moments of the weights and biases that one rank owns, bundle by bundle, on a device. Edges are in training
/// order. A single rank owns all moments.
template <class Scalar>
class TrainedMoments {
public:
  template <class T>
  using Array = DeviceNumbers<T>;

  /// The kernels must outlive this object.
  TrainedMoments(TrainingKernels<Scalar> const& kernels, int num_moments, GradientParts const& parts, std::size_t rank)
      : kernels_(&kernels) {
    for (std::size_t bundle = 0; bundle < parts.bundles().size(); ++bundle) {
      auto const part = parts.part(bundle, rank);
      owned_.push_back({part, num_edges_, num_outputs_});
      num_edges_ += part.num_edges();
      num_outputs_ += part.num_outputs();
    }
    for (int moment = 0; moment < num_moments; ++moment) {
      weights_[moment] = new_zeros<Scalar>(kernels.memory(), "varve::moments", num_edges_);
      bias_[moment] = new_zeros<double>(kernels.memory(), "varve::bias_moments", num_outputs_);
    }
  }

  /// The moments of the owned part of a bundle; empty if the optimizer does not have this moment.
  Array<Scalar> of_weights(int moment, std::size_t bundle) const {
    if (weights_[moment].size() == 0) return {};
    auto const first = owned_[bundle].first_edge;
    return weights_[moment].part(first, first + owned_[bundle].part.num_edges());
  }
  Array<double> of_bias(int moment, std::size_t bundle) const {
    if (bias_[moment].size() == 0) return {};
    auto const first = owned_[bundle].first_output;
    return bias_[moment].part(first, first + owned_[bundle].part.num_outputs());
  }

  /// The first owned edge, in training order, and the first owned output with a moment that is not finite.
  std::optional<std::size_t> first_bad_edge(Stream const& stream) const {
    return first_bad([&](int moment, Owned const& owned, std::size_t bundle) {
      return std::pair(kernels_->first_bad(stream, of_weights(moment, bundle)), owned.part.first_edge);
    });
  }
  std::optional<std::size_t> first_bad_output(Stream const& stream) const {
    return first_bad([&](int moment, Owned const& owned, std::size_t bundle) {
      return std::pair(kernels_->first_bad_bias(stream, of_bias(moment, bundle)), owned.part.first_output);
    });
  }

  /// One moment of all weights, in training order, or of all biases, on the ranks to which `gather` returns numbers;
  /// other ranks get an empty list.
  std::vector<double> all_of_weights(int moment, GatherMoments const& gather) const {
    return gathered(gather, [&](std::size_t bundle) { return of_weights(moment, bundle); });
  }
  std::vector<double> all_of_bias(int moment, GatherMoments const& gather) const {
    return gathered(gather, [&](std::size_t bundle) { return of_bias(moment, bundle); });
  }

  /// Copies the owned ones of the moments of all weights, in training order, and of all biases.
  void take(int moment, std::vector<Scalar> const& weights, std::vector<double> const& bias) {
    std::vector<Scalar> own_weights;
    std::vector<double> own_bias;
    auto const append = [](auto& to, auto const& from, std::size_t first, std::size_t last) {
      to.insert(to.end(), from.begin() + static_cast<std::ptrdiff_t>(first),
                from.begin() + static_cast<std::ptrdiff_t>(last));
    };
    for (auto const& owned : owned_) {
      append(own_weights, weights, owned.part.first_edge, owned.part.last_edge);
      append(own_bias, bias, owned.part.first_output, owned.part.last_output);
    }
    weights_[moment] = {}; // memory of the old ones is freed before new ones are allocated
    bias_[moment] = {};
    weights_[moment] = new_copy(kernels_->memory(), "varve::moments", own_weights);
    bias_[moment] = new_copy(kernels_->memory(), "varve::bias_moments", own_bias);
  }

private:
  /// An owned part and the indices of its first moments.
  struct Owned {
    GradientPart part;
    std::size_t first_edge, first_output;
  };

  /// The least index with a bad moment. bad_of(moment, owned, bundle): the first bad moment of a part, and the part's
  /// first index.
  template <class BadOf>
  std::optional<std::size_t> first_bad(BadOf const& bad_of) const {
    std::optional<std::size_t> least;
    for (int moment = 0; moment < 2; ++moment) {
      for (std::size_t bundle = 0; bundle < owned_.size(); ++bundle) {
        auto const [found, first] = bad_of(moment, owned_[bundle], bundle);
        if (found && (!least || first + *found < *least)) least = first + *found;
      }
    }
    return least;
  }

  template <class MomentsOf>
  std::vector<double> gathered(GatherMoments const& gather, MomentsOf const& moments_of) const {
    std::vector<double> all;
    for (std::size_t bundle = 0; bundle < owned_.size(); ++bundle) {
      auto const own = download(kernels_->memory(), moments_of(bundle));
      auto const whole = gather(std::vector<double>(own.begin(), own.end()));
      all.insert(all.end(), whole.begin(), whole.end());
    }
    return all;
  }

  TrainingKernels<Scalar> const* kernels_;
  std::vector<Owned> owned_; ///< [bundle]
  std::size_t num_edges_ = 0, num_outputs_ = 0;
  Array<Scalar> weights_[2];
  Array<double> bias_[2];
};

} // namespace varve
