// The word that a mistyped one was probably meant to be.
#pragma once

#include <string>
#include <vector>

namespace portwright {

// The known word nearest to `word` (edits and swapped neighbours, or a beginning of it); empty when none is near.
std::string closest(const std::string& word, const std::vector<std::string>& known);

}  // namespace portwright
