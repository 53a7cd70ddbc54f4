#pragma once

/// The types of CLI11 that headers of this folder name. Its own headers define objects, which take the compiler three
/// seconds in every file that includes them; only files that declare or read options do.
namespace CLI {

class App;
class Option;
class ParseError;
class Validator;

} // namespace CLI
