#pragma once

namespace varve {

/// What a team of DenseForward computes, and how the inputs reach it (ChunkPipeline).
template <int TeamOutputs, int ThreadOutputs, int ChunkInputs, int NumStages>
struct DenseTeam {
  static constexpr int team_outputs = TeamOutputs;     ///< outputs of a team
  static constexpr int thread_outputs = ThreadOutputs; ///< of which a thread holds so many
  static constexpr int chunk_inputs = ChunkInputs;     ///< inputs that travel together
  static constexpr int num_stages = NumStages; ///< chunks in scratch or on their way, where copies are asynchronous
};

} // namespace varve
