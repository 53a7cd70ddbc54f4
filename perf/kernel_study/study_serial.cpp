#include "study_on.hpp"

namespace varve::kernel_study {

std::unique_ptr<Study> study_serial(Network const& network, SampleBatch const& samples) {
  return std::make_unique<StudyOn<Kokkos::Serial>>(network, samples);
}

} // namespace varve::kernel_study
