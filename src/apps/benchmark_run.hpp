#pragma once

#include "apps/benchmark_options.hpp"
#include "engine/ceilings.hpp"

#include <nlohmann/json.hpp>

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace varve {

/// How an answer was judged before anything was timed.
struct AnswerCheck {
  bool is_right = false;
  std::string way;             ///< a sentence: what it was compared with, and what was equal
  std::size_t num_checked = 0; ///< what was compared: samples, or numbers of a product
};

/// One way of computing a case, on one backend, which is timed in turn with others.
class Contender {
public:
  /// `record_kind`: "inference". `its_work`: what tells it from others on the backend, such as "auto".
  Contender(std::string record_kind, Backend its_backend, std::string its_work)
      : kind(std::move(record_kind)), backend(its_backend), work(std::move(its_work)) {}
  virtual ~Contender() = default;
  Contender(Contender const&) = delete;
  Contender& operator=(Contender const&) = delete;

  /// Compares the answer with that of plain loops, and warms up.
  virtual AnswerCheck check() = 0;
  /// Computes once and keeps the seconds that it took.
  virtual void measure() = 0;
  /// A name of what is computed and a hash of the answer so far, which all contenders of this name must share.
  virtual std::optional<std::pair<std::string, std::uint64_t>> answer() const = 0;
  /// Adds the members of the record before its times: "setup", "samples" and what the kind has.
  virtual void describe(nlohmann::ordered_json& record) = 0;

  std::string const kind;
  Backend const backend;
  std::string const work;
  std::map<std::string, std::vector<double>> seconds; ///< of all runs, by the name in the record

  /// How many things, by the name of their rate, a run makes in the seconds of this name.
  struct Rate {
    std::string name;
    double count = 0.0;
    std::string seconds;
  };
  std::vector<Rate> rates; ///< the first is printed, with its times
};

using Field = std::vector<std::unique_ptr<Contender>>;

/// Measures cases one after the other, and prints and keeps their records. The contenders of a case are checked and
/// warmed up first and then measured in turn, so that other load on the machine slows all of them alike.
class BenchmarkRun {
public:
  /// Measures the ceilings of all backends. Throws what measure_ceilings() throws.
  explicit BenchmarkRun(BenchmarkOptions const& options);

  /// Measures a case; `about` says how its data come to be. A contender whose answer is wrong is not timed.
  void measure(std::string const& name, std::string const& about, Field field);

  /// False if some answer was wrong.
  bool is_all_right() const { return is_all_right_; }
  std::vector<std::string> const& lines() const { return lines_; }

private:
  void raise_ceilings();
  bool is_right(std::string const& name, Contender const& contender, AnswerCheck verdict,
                std::span<std::unique_ptr<Contender> const> before);
  nlohmann::ordered_json record_of(std::string const& name, std::string const& about, Contender& contender,
                                   AnswerCheck const& verdict) const;

  BenchmarkOptions const& options_;
  nlohmann::ordered_json machine_;
  std::map<Backend, Ceilings> ceilings_;
  std::vector<std::string> lines_;
  bool is_all_right_ = true;
};

/// Measures every contender in rounds, one run of each: `repeats` rounds at least, and until `seconds` have passed for
/// each contender, up to 1000 rounds.
void measure_in_turn(Field const& field, std::size_t repeats, double seconds);

/// Measure the cases of files or suites; the first throws UsageError if a case has fewer samples than were asked for.
void measure_inference(BenchmarkOptions const& options, BenchmarkRun& run);
void measure_training(BenchmarkOptions const& options, BenchmarkRun& run);
void measure_products(BenchmarkOptions const& options, BenchmarkRun& run);

} // namespace varve
