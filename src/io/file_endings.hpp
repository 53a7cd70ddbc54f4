#pragma once

#include <filesystem>
#include <string>

namespace varve {

/// The kind of content of an output; it decides which file name endings are refused. `lines` may be compressed, as the
/// ending says; `plain_lines` is never compressed.
enum class Content { network_or_samples, container, lines, plain_lines, json, journal };

/// Throws UsageError, which begins with `shown`, if the ending of a file name belongs to a format other than that of
/// the content, whether it is written in capitals or not. Unknown endings fit every content, and network_or_samples
/// takes all endings, because there they choose the format.
void require_fitting_ending(std::string const& shown, std::filesystem::path const& path, Content content);

} // namespace varve
