// Sizes of the example that an exporter froze into the graph, made to follow the inputs.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "portwright/model.h"

namespace portwright {

struct Following {
  Model model;
  std::vector<std::string> changes;  // "Reshape 'view' to [0, -1, 4, 8] instead of [4, -1, 4, 8]"
};

// Rewrites constant targets of Reshape and Expand with 0, -1 or 1 where they have the size of the example (one for each
// symbol) in the place of its symbol, or where Model::literal_sizes lays the blame; declared shapes of outputs follow.
// nullopt when there is nothing that can be said in that way. At the example's size the result computes the same; that
// it is right at others is for the caller to show.
std::optional<Following> follow_sizes(const Model& model, const std::map<std::string, std::int64_t>& example);

}  // namespace portwright
