#include "study_on.hpp"

namespace varve::kernel_study {

std::unique_ptr<Study> study_cuda(Network const& network, SampleBatch const& samples) {
  return std::make_unique<StudyOn<Kokkos::Cuda>>(network, samples);
}

} // namespace varve::kernel_study
