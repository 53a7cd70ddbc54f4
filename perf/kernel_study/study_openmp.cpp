#include "study_on.hpp"

namespace varve::kernel_study {

std::unique_ptr<Study> study_openmp(Network const& network, SampleBatch const& samples) {
  return std::make_unique<StudyOn<Kokkos::OpenMP>>(network, samples);
}

} // namespace varve::kernel_study
