#pragma once

#include "apps/benchmark_cases.hpp"
#include "apps/benchmark_contender.hpp"
#include "apps/benchmark_options.hpp"
#include "apps/benchmark_record.hpp"

#include <nlohmann/json.hpp>

#include <map>
#include <memory>
#include <string>
#include <vector>

namespace varve {

/// Measures cases one after the other and collects their records. Within a case and a number of samples all contenders
/// (backends, reductions) are prepared, judged and warmed up first and then measured in turn, so that other load on the
/// machine slows all of them alike.
class BenchmarkRun {
public:
  /// Measures the ceilings of all backends. Throws what measure_ceilings() throws.
  explicit BenchmarkRun(BenchmarkOptions const& options);

  /// Prints and records a case. Throws UsageError if it has fewer samples than were asked for.
  void measure(BenchmarkCase const& one);

  /// False if some answer was wrong; such contenders are not timed.
  bool is_all_right() const { return is_all_right_; }

  std::vector<std::string> const& lines() const { return lines_; }
  nlohmann::ordered_json const& trace_events() const { return trace_events_; }
  RecordHead head_of(std::string const& case_name, std::string const& about) const;
  void add(nlohmann::ordered_json const& record);

private:
  using Field = std::vector<std::unique_ptr<BenchmarkContender>>;

  /// Contenders that were judged right and have run twice, with the verdicts on them.
  struct Group {
    Field field;
    std::vector<ContenderVerdict> verdicts;
  };

  Precision precision() const;

  /// Measures the ceilings again, since the machine may have been busy before, and keeps the best.
  void raise_ceilings();

  Setup setup_of(std::string const& backend, std::string const& reductions) const;
  Group enter(BenchmarkCase const& one, NetworkSource const& network, SampleBatch const& samples);
  bool agrees(BenchmarkContender const& contender, Field const& field);
  void measure_in_turn(Field& field) const;
  void report(BenchmarkCase const& one, NetworkSource const& network, SampleBatch const& samples, Group& group);

  BenchmarkOptions const& options_;
  nlohmann::ordered_json machine_;
  std::map<Backend, Ceilings> ceilings_;
  std::vector<std::string> lines_;
  nlohmann::ordered_json trace_events_ = nlohmann::ordered_json::array();
  std::size_t num_traced_ = 0;
  bool is_all_right_ = true;
};

} // namespace varve
