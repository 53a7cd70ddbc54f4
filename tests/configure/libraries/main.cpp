#include <CLI/CLI.hpp>
#include <fmt/chrono.h>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

/// Uses each of the libraries that Varve may fetch.
int main(int num_arguments, char** arguments) {
  CLI::App command_line("Tries the libraries out.");
  int number = 0;
  command_line.add_option("--number", number)->required();
  CLI11_PARSE(command_line, num_arguments, arguments);
  nlohmann::json const json = {{"number", number}};
  fmt::print("{} at {:%Y}\n", json.dump(), fmt::gmtime(0));
}
