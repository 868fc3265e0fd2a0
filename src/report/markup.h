// HTML and XML that cannot be written wrongly: plain text becomes markup only by being escaped.
#pragma once

#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>

namespace portwright {

class Markup {
 public:
  Markup() = default;
  Markup(std::string_view plain);  // escaped
  Markup(const std::string& plain) : Markup(std::string_view(plain)) {}
  Markup(const char* plain) : Markup(std::string_view(plain)) {}
  static Markup trusted(std::string text);  // as it is: our own scripts and styles
  Markup& operator+=(const Markup& more);
  friend Markup operator+(Markup left, const Markup& right) { return left += right; }
  const std::string& str() const { return text_; }

 private:
  std::string text_;
};

using Attributes = std::initializer_list<std::pair<std::string_view, std::string_view>>;

// <name a="b">content</name>. Attributes with an empty value are left out.
Markup tag(std::string_view name, Attributes attributes, const Markup& content = {});
Markup tag(std::string_view name, const Markup& content);

}  // namespace portwright
