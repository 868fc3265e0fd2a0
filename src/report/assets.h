// Files that the page carries with it. CMakeLists.txt turns them into assets.cc.
#pragma once

#include <string_view>

namespace portwright::assets {

extern const std::string_view page_css;
extern const std::string_view page_js;
extern const std::string_view chart_js;  // Chart.js, of the distribution's package libjs-chart.js

}  // namespace portwright::assets
