#include "report/markup.h"

namespace portwright {

// Control characters are not allowed in XML at all, and never wanted in a page.
Markup::Markup(std::string_view plain) {
  for (const char c : plain) {
    if (c == '&')
      text_ += "&amp;";
    else if (c == '<')
      text_ += "&lt;";
    else if (c == '>')
      text_ += "&gt;";
    else if (c == '"')
      text_ += "&quot;";
    else if (c == '\'')
      text_ += "&#39;";
    else if (static_cast<unsigned char>(c) >= 0x20 || c == '\n' || c == '\t')
      text_ += c;
  }
}

Markup Markup::trusted(std::string text) {
  Markup markup;
  markup.text_ = std::move(text);
  return markup;
}

Markup& Markup::operator+=(const Markup& more) {
  text_ += more.text_;
  return *this;
}

Markup tag(std::string_view name, Attributes attributes, const Markup& content) {
  std::string out = "<" + std::string(name);
  for (const auto& [key, value] : attributes)
    if (!value.empty()) out += " " + std::string(key) + "=\"" + Markup(value).str() + "\"";
  return Markup::trusted(out + ">" + content.str() + "</" + std::string(name) + ">");
}

Markup tag(std::string_view name, const Markup& content) { return tag(name, {}, content); }

}  // namespace portwright
